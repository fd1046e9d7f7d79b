"""What files a table of some format version may hold."""

from __future__ import annotations

from collections import Counter

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table.metadata import TableMetadata

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.write.commit.change import Change
from formatkit.write.commit.records import delete_key, is_deletion_vector, referenced_data_file

__all__ = ["check_change"]

_ENCRYPTION_KEY = "encryption.key-id"


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
