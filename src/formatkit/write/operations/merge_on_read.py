"""Removes rows by files that say which rows are deleted; the data files stay."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from formatkit.contract.batch import Longs
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.puffin import DeletionVector
from formatkit.scan import FileTask
from formatkit.write.commit import DeleteKey
from formatkit.write.operations.base import BaseFiles
from formatkit.write.operations.matches import FileMatches, Matches, deleted_positions, partition_order
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Removal

__all__ = ["mark_deleted", "refuse_version_1"]

_FIRST_VERSION_WITH_DELETES = 2
_FIRST_VERSION_WITH_VECTORS = 3
_GRANULARITY = "write.delete.granularity"
_MOST_POSITIONS = 1 << 22
"""Of one position-delete file of a partition: they are all in memory while it is written."""


def refuse_version_1(base: BaseFiles) -> None:
    """Raise `UnsupportedError` if the table cannot have delete files."""
    if base.metadata.format_version < _FIRST_VERSION_WITH_DELETES:
        message = (
            "tables of format version 1 have no delete files, so rows cannot be deleted by merge-on-read; use "
            'mode="copy-on-write", or upgrade the table to version 2'
        )
        raise UnsupportedError(message)


def mark_deleted(base: BaseFiles, matches: Matches, output: Output) -> Removal:
    """Write deletes for the rows that match: position-delete files, or in version 3 deletion vectors."""
    removal = Removal()
    removal.remove_files(matches.whole)
    if base.metadata.format_version < _FIRST_VERSION_WITH_VECTORS:
        _write_position_deletes(_parts(matches, removal), output, removal)
    else:
        _write_vectors(base, _parts(matches, removal), output, removal)
    return removal


def _parts(matches: Matches, removal: Removal) -> Iterator[FileMatches]:
    """The files of which rows are left."""
    for part in matches.parts:
        if part.is_whole:
            removal.remove_files([part.file])
        else:
            removal.rows += len(part.positions)
            yield part


def _write_position_deletes(parts: Iterator[FileMatches], output: Output, removal: Removal) -> None:
    for positions, file in _delete_files(parts, _most_positions(output)):
        removal.added_deletes.append(output.write_position_deletes(positions, file))
        removal.referenced.update(positions)


def _most_positions(output: Output) -> int:
    granularity = output.properties.get(_GRANULARITY, "partition")
    if granularity not in ("file", "partition"):
        message = f'the property {_GRANULARITY!r} is {granularity!r}; it must be "file" or "partition"'
        raise ConfigurationError(message, property=_GRANULARITY)
    return _MOST_POSITIONS if granularity == "partition" else 0


def _delete_files(parts: Iterator[FileMatches], most_positions: int) -> Iterator[tuple[dict[str, Longs], FileTask]]:
    """What goes into which delete file: the positions by data file, and one of the data files."""
    for _, of_partition in groupby(parts, key=lambda part: partition_order(part.file)):
        waiting: dict[str, Longs] = {}
        rows = 0
        for part in of_partition:
            waiting[part.file.location] = part.positions
            rows += len(part.positions)
            if rows >= most_positions:
                yield waiting, part.file
                waiting, rows = {}, 0
        if waiting:
            yield waiting, part.file


def _write_vectors(base: BaseFiles, parts: Iterator[FileMatches], output: Output, removal: Removal) -> None:
    vectors: dict[str, DeletionVector] = {}
    files: dict[str, FileTask] = {}
    for part in parts:
        files[part.file.location] = part.file
        vectors[part.file.location] = DeletionVector.from_positions(part.positions)
    with_deletes = [location for location, file in files.items() if file.deletes]
    for location, positions in deleted_positions(base, with_deletes).items():
        vectors[location] |= DeletionVector.from_positions(positions)
        removal.removed_deletes.update(_replaced(files[location]))
    for location in [each for each in vectors if vectors[each].cardinality == files[each].row_count]:
        removal.remove_files([files[location]], rows=0)
        del vectors[location], files[location]
    if vectors:
        removal.added_deletes += output.write_deletion_vectors(vectors, files)


def _replaced(file: FileTask) -> Iterator[DeleteKey]:
    """What is about the file alone, so that a new vector of the file takes its place."""
    for each in file.deletes:
        if each.referenced_data_file is not None:
            yield each.location, each.content_offset
