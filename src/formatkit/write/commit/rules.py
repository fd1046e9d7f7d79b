"""What files a change may add to a table: those that its format version knows and that are there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path

from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from formatkit.errors import ConfigurationError, FileMissingError, UnsupportedError
from formatkit.io import LocalSource, RuntimeFileIO, current_runtime, local_path, open_source
from formatkit.io.failures import storage_failures
from formatkit.write.commit.change import Change
from formatkit.write.commit.records import delete_key, is_deletion_vector, referenced_data_file

__all__ = ["check_change", "check_files"]

_ENCRYPTION_KEY = "encryption.key-id"
_MAX_CHECKED_FILES = "formatkit.commit.max-checked-files"
_MAX_CHECKED_FILES_DEFAULT = 64


def check_change(metadata: TableMetadata, change: Change) -> None:
    """Refuse files that the table's format version does not know, or that are not what they are given as."""
    if _ENCRYPTION_KEY in metadata.properties:
        message = f"the table is encrypted ({_ENCRYPTION_KEY}), but manifests would be written in plain text"
        raise UnsupportedError(message)
    for file in change.added:
        if file.content != DataFileContent.DATA:
            raise ConfigurationError(f"{file.file_path} holds deletes but is given as a data file")
    for file in change.added_deletes:
        _check_delete(metadata, file)
    _check_specs(metadata, change)
    keys = Counter(delete_key(file) for file in (*change.added, *change.added_deletes))
    for (location, _), count in keys.items():
        if count > 1:
            raise ConfigurationError(f"{location} is added {count} times by one change")
    targets = Counter(referenced_data_file(file) for file in change.added_deletes if is_deletion_vector(file))
    for target, count in targets.items():
        if target is None or count > 1:
            raise ConfigurationError(f"{count} deletion vectors refer to {target}; each needs a data file of its own")


def check_files(change: Change, table: Table) -> None:
    """Look whether the files that a change adds are there, as somebody may have cleaned them up since.

    Local files are all looked for. Of others, each of which is a request to the storage, the oldest are, as many as the
    table's property `formatkit.commit.max-checked-files` says: 64 if it is not set, 0 for none.

    Raises:
        FileMissingError: One is not there.
    """
    added = dict.fromkeys(file.file_path for file in (*change.added, *change.added_deletes))
    local = {location: _path(location, table.io) for location in added}
    missing = [location for location, path in local.items() if path is not None and not Path(path).exists()]
    limit = _max_checked_files(table.metadata.properties)
    missing += _missing(islice((location for location, path in local.items() if path is None), limit), table.io)
    if missing:
        message = (
            f"cannot commit {missing[0]}: of {len(added)} files that the change adds, {len(missing)} are not there. "
            "The catalog was not asked and the table is as before. Write them again, and see that no cleaner deletes "
            "files of the table that are younger than its longest write"
        )
        raise FileMissingError(message, location=missing[0])


def _max_checked_files(properties: Mapping[str, str]) -> int:
    text = properties.get(_MAX_CHECKED_FILES, str(_MAX_CHECKED_FILES_DEFAULT))
    if not text.strip().isdecimal():
        message = f"property {_MAX_CHECKED_FILES!r} is {text!r}; it must be a whole number"
        raise ConfigurationError(message, property=_MAX_CHECKED_FILES)
    return int(text)


def _path(location: str, io: FileIO) -> str | None:
    """The path of a file that is read from the local disk; None if another storage has to be asked."""
    path = local_path(location)
    if path is None:
        return None
    with closing(open_source(location, io)) as source:
        return path if isinstance(source, LocalSource) else None


def _missing(locations: Iterable[str], io: FileIO) -> list[str]:
    runtime = current_runtime()
    routed = RuntimeFileIO.around(io, runtime)

    def exists(location: str) -> bool:
        with storage_failures(location, "look for"):
            return routed.new_input(location).exists()

    calls = [(each, runtime.submit(runtime.retried(partial(exists, each)))) for each in locations]
    return [location for location, call in calls if not call.result()]


def _check_delete(metadata: TableMetadata, file: DataFile) -> None:
    version = metadata.format_version
    if file.content == DataFileContent.DATA:
        raise ConfigurationError(f"{file.file_path} holds data but is given as a delete file")
    if version == 1:
        message = "tables of format version 1 cannot hold delete files; rewrite the data files, or upgrade the table"
        raise UnsupportedError(message)
    if version == 2 and is_deletion_vector(file):
        message = (
            "tables of format version 2 cannot hold deletion vectors; write position deletes, or upgrade the table"
        )
        raise UnsupportedError(message)
    if version >= 3 and file.content == DataFileContent.POSITION_DELETES and not is_deletion_vector(file):
        message = f"new position delete files are not allowed in format version {version}; write deletion vectors"
        raise UnsupportedError(message)


def _check_specs(metadata: TableMetadata, change: Change) -> None:
    specs = metadata.specs()
    for file in (*change.added, *change.added_deletes):
        spec = specs.get(file.spec_id)
        if spec is None:
            known = ", ".join(map(str, sorted(specs)))
            message = f"{file.file_path} has partition spec {file.spec_id}; the table has: {known}"
            raise ConfigurationError(message)
        if len(file.partition) != len(spec.fields):
            message = (
                f"{file.file_path} has {len(file.partition)} partition values; spec {spec.spec_id} has "
                f"{len(spec.fields)} fields"
            )
            raise ConfigurationError(message)
