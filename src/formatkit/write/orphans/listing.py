"""Lists the files under a location, and deletes what was listed: the same file, by the same path, or nothing."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.errors import UnsupportedError
from formatkit.io import local_path
from formatkit.io.failures import storage_failures
from formatkit.io.wrapping import file_io_behind
from formatkit.write.orphans.folders import place

__all__ = ["StoredFile", "StoredFolder", "stored_folder"]

# What fsspec's file systems call the time of the last change.
_FSSPEC_TIMES = ("mtime", "LastModified", "updated", "last_modified")
# Listings of object stores are more precise than their answers about one object.
_PRECISION = timedelta(seconds=1)
_CHANGED = "it changed since it was listed"


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file that a storage listed.

    Attributes:
        location: Where it is, spelled like the location that was searched.
        size_bytes: Its length.
        modified: When it was last written; None if the storage does not say.
        path: Its path below the location that was searched, as the storage spells it.
        obstacle: Why it can be nothing but kept, such as a symbolic link; empty for ordinary files.
    """

    location: str
    size_bytes: int
    modified: datetime | None
    path: str
    obstacle: str = ""


class StoredFolder(ABC):
    """A folder of a storage.

    Args:
        location: Its location.
        root: Its path, as the storage spells it.

    Attributes:
        location: The location, without a slash at its end.
        place: The spelling of the location to compare.
        root: The path.
    """

    def __init__(self, location: str, root: str) -> None:
        self.location = location.rstrip("/")
        self.root = root.rstrip("/")
        self.place = place(location)

    @property
    def is_local(self) -> bool:
        """Whether its storage is the local file system."""
        return False

    @abstractmethod
    def files(self) -> Iterator[StoredFile]:
        """All files in it, at every depth; none if it does not exist."""

    @abstractmethod
    def read(self, file: StoredFile) -> bytes:
        """The contents of a file that was listed."""

    @abstractmethod
    def delete(self, file: StoredFile) -> str | None:
        """Delete a file if it still is the one that was listed; returns why not."""

    def _path(self, file: StoredFile) -> str:
        return f"{self.root}/{file.path}"

    def _file(self, path: str, size_bytes: int | None, modified: datetime | None) -> StoredFile:
        below = path.removeprefix(f"{self.root}/")
        strange = not path.startswith(f"{self.root}/") or not below or "" in below.split("/")
        return StoredFile(
            location=f"{self.location}/{below}",
            size_bytes=size_bytes or 0,
            modified=modified,
            path=below,
            obstacle="its path is not one of a file in a folder" if strange else "",
        )


def stored_folder(location: str, io: FileIO) -> StoredFolder:
    """A folder, through the file system object that pyiceberg's `FileIO` has for it.

    Raises:
        UnsupportedError: The `FileIO` is not one that lists files.
    """
    io = file_io_behind(io, location)
    with storage_failures(location, "list"):
        folder: StoredFolder
        if isinstance(io, PyArrowFileIO):
            scheme, authority, root = io.parse_location(location, io.properties)
            folder = _ArrowFolder(location, root, io.fs_by_scheme(scheme, authority))
        elif hasattr(io, "get_fs"):
            parts = urlsplit(location)
            filesystem = cast("Any", io).get_fs(parts.scheme or "file", parts.hostname)
            folder = _FsspecFolder(location, filesystem._strip_protocol(location), filesystem)  # noqa: SLF001
        else:
            raise UnsupportedError(
                f"{type(io).__name__} cannot list files; load the table with pyiceberg's PyArrowFileIO or FsspecFileIO "
                "(property py-io-impl)"
            )
        return (
            _LocalFolder(location, os.path.realpath(local_path(location) or folder.root)) if folder.is_local else folder
        )


class _LocalFolder(StoredFolder):
    """A local folder. Links below it are never followed: neither when it is listed nor when files are deleted."""

    def files(self) -> Iterator[StoredFile]:
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with self._opened(folder) as descriptor, os.scandir(descriptor) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
                    for entry in found:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(path)
                        else:
                            yield self._listed(path, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue  # deleted meanwhile

    def read(self, file: StoredFile) -> bytes:
        folder, _, name = file.path.rpartition("/")
        with self._opened(folder) as descriptor:
            file_descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        with os.fdopen(file_descriptor, "rb") as stream:
            return stream.read()

    def delete(self, file: StoredFile) -> str | None:
        folder, _, name = file.path.rpartition("/")
        with self._opened(folder) as descriptor:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if self._listed(file.path, found) != file:
                return _CHANGED
            os.unlink(name, dir_fd=descriptor)
        return None

    @contextmanager
    def _opened(self, folder: str) -> Iterator[int]:
        """A descriptor of a folder, which was reached without following a link."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.root or "/", flags)
        try:
            for name in folder.split("/") if folder else ():
                outer, descriptor = descriptor, os.open(name, flags, dir_fd=descriptor)
                os.close(outer)
            yield descriptor
        finally:
            os.close(descriptor)

    def _listed(self, path: str, found: os.stat_result) -> StoredFile:
        obstacle = ""
        if stat.S_ISLNK(found.st_mode):
            obstacle = "it is a symbolic link"
        elif not stat.S_ISREG(found.st_mode):
            obstacle = "it is not an ordinary file"
        try:
            readable = path.encode().decode()
        except UnicodeEncodeError:
            readable, obstacle = os.fsencode(path).decode(errors="backslashreplace"), "its name is not UTF-8"
        return StoredFile(
            location=f"{self.location}/{readable}",
            size_bytes=found.st_size,
            modified=datetime.fromtimestamp(found.st_mtime, UTC),
            path=path,
            obstacle=obstacle,
        )


class _ArrowFolder(StoredFolder):
    def __init__(self, location: str, root: str, filesystem: FileSystem) -> None:
        super().__init__(location, root)
        self._filesystem = filesystem

    @property
    def is_local(self) -> bool:
        return isinstance(self._filesystem, LocalFileSystem)

    def files(self) -> Iterator[StoredFile]:
        selector = FileSelector(self.root, allow_not_found=True, recursive=True)
        for found in self._filesystem.get_file_info(selector):
            if found.type != FileType.Directory:
                yield self._file(found.path, found.size, _moment(found.mtime))

    def read(self, file: StoredFile) -> bytes:
        with self._filesystem.open_input_stream(self._path(file), compression=None) as stream:
            return stream.read()

    def delete(self, file: StoredFile) -> str | None:
        path = self._path(file)
        found = self._filesystem.get_file_info(path)
        if found.type == FileType.NotFound:
            raise FileNotFoundError(path)
        if found.path != path or found.type != FileType.File or _differ(file, found.size, _moment(found.mtime)):
            return _CHANGED
        self._filesystem.delete_file(path)
        return None


class _FsspecFolder(StoredFolder):
    def __init__(self, location: str, root: str, filesystem: Any) -> None:
        super().__init__(location, root)
        self._filesystem = filesystem

    @property
    def is_local(self) -> bool:
        protocol = self._filesystem.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def files(self) -> Iterator[StoredFile]:
        self._filesystem.invalidate_cache()
        for path, found in self._filesystem.find(self.root, detail=True).items():
            yield self._file(path, found.get("size"), _fsspec_moment(found))

    def read(self, file: StoredFile) -> bytes:
        return bytes(self._filesystem.cat_file(self._path(file)))

    def delete(self, file: StoredFile) -> str | None:
        path = self._path(file)
        self._filesystem.invalidate_cache(path.rpartition("/")[0])
        found = self._filesystem.info(path)
        if found["name"] != path or found["type"] != "file" or _differ(file, found["size"], _fsspec_moment(found)):
            return _CHANGED
        self._filesystem.rm_file(path)
        return None


def _differ(file: StoredFile, size_bytes: int | None, modified: datetime | None) -> bool:
    if file.modified is None or modified is None:
        return True
    return size_bytes != file.size_bytes or abs(modified - file.modified) > _PRECISION


def _fsspec_moment(found: dict[str, Any]) -> datetime | None:
    return _moment(next((found[key] for key in _FSSPEC_TIMES if key in found), None))


def _moment(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else cast("datetime", value)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
