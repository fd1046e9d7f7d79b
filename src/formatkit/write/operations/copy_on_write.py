"""Removes rows by writing the other rows of their files anew."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

import pyarrow as pa

from formatkit.contract.metadata_columns import FILE, POS
from formatkit.write.operations.base import BaseFiles
from formatkit.write.operations.matches import FileMatches, Matches, without_positions
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Removal

__all__ = ["rewrite_without"]

_MOST_POSITIONS = 1 << 20
_MOST_FILES = 64
"""How many files are read side by side, at most: enough for all threads, few enough to keep their positions."""


def rewrite_without(base: BaseFiles, matches: Matches, output: Output) -> Removal:
    """Write the rows that do not match, of all files that have matching ones."""
    removal = Removal()
    removal.remove_files(matches.whole)
    remaining = _remaining(base, matches.parts, removal)
    with output.data_writer(base.stored_schema) as writer, closing(remaining):
        for batch in remaining:
            writer.write(batch)
        removal.added += writer.close()
    return removal


def _remaining(
    base: BaseFiles, parts: Iterable[FileMatches], removal: Removal
) -> Generator[pa.RecordBatch, None, None]:
    files = base.scan_files((*base.stored_columns, FILE.name, POS.name))
    width = len(files.schema.fields) - 2
    for group in _groups(_counted(parts, removal)):
        with files.scan(group).to_batches() as batches:
            for batch in batches:
                if batch.num_rows:
                    location, positions = batch.column(width)[0].as_py(), batch.column(width + 1)
                    keep = without_positions(group[location].positions, positions)
                    yield batch.select(range(width)).filter(pa.array(keep))


def _counted(parts: Iterable[FileMatches], removal: Removal) -> Iterator[FileMatches]:
    """The files of which rows are left; all of them are removed."""
    for part in parts:
        removal.remove_files([part.file], rows=len(part.positions))
        if not part.is_whole:
            yield part


def _groups(parts: Iterable[FileMatches]) -> Iterator[dict[str, FileMatches]]:
    waiting: dict[str, FileMatches] = {}
    for part in parts:
        waiting[part.file.location] = part
        if len(waiting) == _MOST_FILES or sum(len(each.positions) for each in waiting.values()) >= _MOST_POSITIONS:
            yield waiting
            waiting = {}
    if waiting:
        yield waiting
