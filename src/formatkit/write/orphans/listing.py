"""Lists the files under a location, whatever storage pyiceberg's `FileIO` reaches it through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.errors import UnsupportedError
from formatkit.io import local_path
from formatkit.io.failures import storage_failures

__all__ = ["StoredFile", "list_files"]

# What fsspec's file systems call the time of the last change.
_FSSPEC_TIMES = ("mtime", "LastModified", "updated", "last_modified")


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file that a storage listed.

    Attributes:
        location: Where it is, spelled like the location that was searched.
        size_bytes: Its length.
        modified: When it was last written; None if the storage does not say.
    """

    location: str
    size_bytes: int
    modified: datetime | None


def list_files(location: str, io: FileIO) -> Iterator[StoredFile]:
    """All files under a location, at every depth; none if it does not exist."""
    with storage_failures(location, "list"):
        if isinstance(io, PyArrowFileIO):
            yield from _list_by_arrow(location, io)
        elif hasattr(io, "get_fs"):
            yield from _list_by_fsspec(location, cast("Any", io))
        else:
            raise UnsupportedError(
                f"{type(io).__name__} cannot list files; load the table with pyiceberg's PyArrowFileIO or FsspecFileIO "
                "(property py-io-impl)"
            )


def _list_by_arrow(location: str, io: PyArrowFileIO) -> Iterator[StoredFile]:
    scheme, authority, root = io.parse_location(location, io.properties)
    filesystem = io.fs_by_scheme(scheme, authority)
    spelled = _Spelling(location, local_path(location) if scheme == "file" else root)
    for found in filesystem.get_file_info(FileSelector(spelled.root, allow_not_found=True, recursive=True)):
        if found.type == FileType.File:
            yield StoredFile(
                location=spelled.location(found.path), size_bytes=found.size or 0, modified=_moment(found.mtime)
            )


def _list_by_fsspec(location: str, io: Any) -> Iterator[StoredFile]:
    parts = urlsplit(location)
    filesystem = io.get_fs(parts.scheme or "file", parts.hostname)
    spelled = _Spelling(location, filesystem._strip_protocol(location))  # noqa: SLF001 - fsspec's paths begin so
    for path, found in filesystem.find(spelled.root, detail=True).items():
        modified = next(
            (found[key] for key in ("mtime", "LastModified", "updated", "last_modified") if key in found), None
        )
        yield StoredFile(location=spelled.location(path), size_bytes=found.get("size") or 0, modified=_moment(modified))


class _Spelling:
    """Turns the paths of a file system into locations that begin like the one that was searched."""

    def __init__(self, location: str, root: str | None) -> None:
        self._location = location.rstrip("/")
        self.root = (root or "").rstrip("/")

    def location(self, path: str) -> str:
        return f"{self._location}/{path[len(self.root) :].lstrip('/')}"


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else cast("datetime", value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
