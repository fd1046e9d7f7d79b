"""Finds the files under a table's location that nothing refers to, and deletes them if asked to."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from pyiceberg.io import FileIO
from pyiceberg.table import StaticTable, Table

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.io import current_runtime, local_path, open_source
from formatkit.write.orphans.listing import StoredFile, list_files
from formatkit.write.orphans.places import is_inside, path_of, place
from formatkit.write.orphans.reachable import referenced_locations

__all__ = ["OrphanReport", "clean_orphans"]

_METADATA_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, kw_only=True)
class OrphanReport:
    """What was found.

    Attributes:
        orphans: The files to which nothing refers and which are old enough, by location.
        too_young: How many more there are that may belong to a commit which is still under way.
        searched: How many files were looked at.
        deleted: How many of the orphans were deleted; none in a dry run.
        failures: Why the others were not, by location.
    """

    orphans: tuple[StoredFile, ...]
    too_young: int
    searched: int
    deleted: int = 0
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """The size of all orphans."""
        return sum(file.size_bytes for file in self.orphans)


def clean_orphans(
    table: Table,
    *,
    older_than: timedelta | datetime = timedelta(days=3),
    dry_run: bool = True,
    location: str | None = None,
) -> OrphanReport:
    """Find files under the table's location that no snapshot, metadata file or statistics refers to.

    Such files are left by processes that were killed, by engines that do not clean up, and by snapshots that were
    expired. The table is refreshed after the files were listed, so that what is committed meanwhile is not taken for an
    orphan; what is not committed yet is protected by its age alone.

    Args:
        table: A table of a catalog.
        older_than: The least age of files that count, or the moment before which they must have been written. Should be
            longer than the longest write to the table.
        dry_run: Whether to leave everything as it is.
        location: Where to look instead of the table's location, such as the value of `write.data.path`.

    Raises:
        ConfigurationError: Other tables store files there too, or it cannot be told which files are the table's.
        UnsupportedError: The table has no catalog, or its storage cannot list files.
    """
    if not dry_run and isinstance(table, StaticTable):
        raise UnsupportedError(
            "a metadata file does not tell whether the table has gone on since; load the table from its catalog to "
            "delete what it does not refer to"
        )
    root = _checked_root(table.location() if location is None else location)
    before = _moment_before(older_than)
    listed = {place(file.location): file for file in list_files(root, table.io)}
    if not isinstance(table, StaticTable):
        table.refresh()
    referenced = {place(each) for each in referenced_locations(table)}
    _check_listing(listed.keys(), referenced, table, root)
    strays = {spelled: file for spelled, file in listed.items() if not _belongs(spelled, referenced)}
    _check_ambiguity(strays, referenced)
    _check_other_tables(strays.values(), table)
    orphans = [file for file in strays.values() if file.modified is not None and file.modified < before]
    orphans.sort(key=lambda file: file.location)
    failures = {} if dry_run else _delete(orphans, table.io)
    return OrphanReport(
        orphans=tuple(orphans),
        too_young=len(strays) - len(orphans),
        searched=len(listed),
        deleted=0 if dry_run else len(orphans) - len(failures),
        failures=failures,
    )


def _moment_before(older_than: timedelta | datetime) -> datetime:
    if isinstance(older_than, timedelta):
        if older_than < timedelta(0):
            raise ConfigurationError(f"older_than must not be negative, but is {older_than}")
        return datetime.now(UTC) - older_than
    if older_than.tzinfo is None:
        raise ConfigurationError("older_than needs a time zone: datetime.now(UTC) - timedelta(days=3)")
    return older_than


def _checked_root(location: str) -> str:
    path = local_path(location)
    folder = path if path is not None else urlsplit(location).path
    if not folder.strip("/"):
        raise ConfigurationError(f"{location} is a whole storage, not the folder of one table; give the table's folder")
    return location


def _check_listing(listed: Iterable[str], referenced: set[str], table: Table, root: str) -> None:
    """If not even the table's own files are recognised, no others can be told from them."""
    expected = {each for each in referenced if is_inside(each, place(root))}
    if expected and expected.isdisjoint(listed):
        raise ConfigurationError(
            f"none of the {len(expected)} files that {'.'.join(table.name())} has under {root} was found there, so it "
            "cannot be told which files are its own"
        )


def _belongs(spelled: str, referenced: set[str]) -> bool:
    if spelled in referenced:
        return True
    folder, slash, name = spelled.rpartition("/")
    # Hadoop's checksums lie beside their files; its catalogs name the newest metadata in a file of its own.
    if name.startswith(".") and name.endswith(".crc"):
        return f"{folder}{slash}{name[1:-4]}" in referenced or name == ".version-hint.text.crc"
    return name == "version-hint.text"


def _check_ambiguity(strays: Iterable[str], referenced: set[str]) -> None:
    """A file that is the table's but for its scheme or host may be the table's."""
    by_path = {path_of(each): each for each in referenced}
    for stray in strays:
        if path_of(stray) in by_path:
            raise ConfigurationError(
                f"{stray} was found and the table refers to {by_path[path_of(stray)]}: it cannot be told whether they "
                "are one file. Give the location in the spelling that the table's files have"
            )


def _check_other_tables(strays: Iterable[StoredFile], table: Table) -> None:
    for file in strays:
        if file.location.endswith(_METADATA_ENDINGS):
            found = _table_uuid(file.location, table.io)
            if found is not None and found != str(table.metadata.table_uuid):
                raise ConfigurationError(
                    f"another table has its metadata at {file.location}; files of several tables in one place cannot "
                    "be told apart. Give a location that only this table uses"
                )


def _table_uuid(location: str, io: FileIO) -> str | None:
    """Whose metadata it is; None if the file is damaged, as killed writers leave it."""
    with closing(open_source(location, io)) as source:
        data = bytes(source.read(0, source.size()))
    try:
        content = json.loads(gzip.decompress(data) if data.startswith(_GZIP) else data)
    except (ValueError, OSError, EOFError):
        return None
    return content.get("table-uuid") if isinstance(content, dict) else None


def _delete(orphans: list[StoredFile], io: FileIO) -> dict[str, str]:
    """Delete files; returns why some could not be."""
    runtime = current_runtime()
    calls = [runtime.submit(partial(_delete_one, file, io)) for file in orphans]
    try:
        return {file.location: problem for file, call in zip(orphans, calls, strict=True) if (problem := call.result())}
    finally:
        for call in calls:
            call.cancel()


def _delete_one(file: StoredFile, io: FileIO) -> str | None:
    try:
        io.delete(file.location)
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - one file that cannot be deleted must not keep the others
        return f"{type(error).__name__}: {error}"
    return None
