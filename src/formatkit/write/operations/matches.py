"""Which rows an operation removes: whole files where the metadata says so, else positions in files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from formatkit.contract.batch import Booleans, Longs
from formatkit.contract.metadata_columns import DELETED, FILE, POS
from formatkit.scan import FileTask, Scan
from formatkit.write.operations.base import Base, BaseFiles, whole_files

__all__ = [
    "FileMatches",
    "Matches",
    "deleted_positions",
    "files_with_matches",
    "find_matches",
    "matches_in_files",
    "partition_order",
    "positions_by_file",
    "without_positions",
]


@dataclass(frozen=True, kw_only=True)
class FileMatches:
    """Rows of one data file, by their ascending positions; they are not deleted yet."""

    file: FileTask
    positions: Longs

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the file, so that none of them was deleted before."""
        return self.file.row_count == len(self.positions)


@dataclass(frozen=True, kw_only=True)
class Matches:
    """The rows that match a filter.

    Attributes:
        whole: Files of which every row that is left matches, as their metadata says. They were not opened.
        parts: The other files that have matching rows. They are read while this is consumed, one after the other, and
            files of one partition come together.
    """

    whole: tuple[FileTask, ...]
    parts: Generator[FileMatches, None, None]


def find_matches(base: Base, where: BooleanExpression) -> Matches:
    """The rows that match a bound filter. Nothing is read before `parts` is consumed."""
    whole, parts = files_with_matches(base, where)
    return Matches(whole=whole, parts=matches_in_files(parts))


def files_with_matches(base: Base, where: BooleanExpression) -> tuple[tuple[FileTask, ...], Scan[pa.RecordBatch]]:
    """The files of which every row matches, as their metadata says, and a scan of `_file` and `_pos` of the others."""
    scan = base.scan((FILE.name, POS.name), where)
    whole = tuple(whole_files(filter(_is_whole, scan.tasks)))
    return whole, scan.of_tasks(task for task in scan.tasks if not _is_whole(task))


def _is_whole(task: FileTask) -> bool:
    """Whether metadata says that all rows match, and it need not be verified."""
    return task.residual is AlwaysTrue() and task.verification is None


def matches_in_files(
    scan: Scan[pa.RecordBatch], choose: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
) -> Generator[FileMatches, None, None]:
    """The rows of a scan, file by file.

    Args:
        scan: A scan of `_file` and `_pos`, unless `choose` is given.
        choose: From a batch of the scan to one of `_file` and `_pos` of the rows that are meant.
    """
    tasks = sorted(scan.tasks, key=partition_order)
    files = {task.location: task for task in whole_files(tasks)}
    with scan.of_tasks(tasks).to_batches() as batches:
        for location, positions in positions_by_file(map(choose, batches) if choose else batches):
            yield FileMatches(file=files[location], positions=positions)


def partition_order(task: FileTask) -> tuple[int, str]:
    """Equal for files of one partition; in text, because 0.0 equals -0.0 and NaN not even itself."""
    return task.spec_id, repr(task.partition)


def deleted_positions(base: BaseFiles, locations: Collection[str]) -> dict[str, Longs]:
    """For each of some data files, the ascending positions of the rows that are deleted already."""
    if not locations:
        return {}
    files = base.scan_files((FILE.name, POS.name, DELETED.name))
    with files.scan(locations).to_batches() as batches:
        marked = (batch.filter(batch.column(2)) for batch in batches)
        found = dict(positions_by_file(marked))
    return {location: found.get(location, np.empty(0, np.int64)) for location in locations}


def without_positions(positions: Longs, batch_positions: Any) -> Booleans:
    """Which rows of a batch stay, given the ascending positions of its rows and of those that go."""
    own = batch_positions.to_numpy()
    start, end = np.searchsorted(positions, (own[0], own[-1] + 1)) if len(own) else (0, 0)
    keep: Booleans = ~np.isin(own, positions[start:end], assume_unique=True)
    return keep


def positions_by_file(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Longs]]:
    """Joins the positions of each file, whose batches follow one another."""
    current: str | None = None
    waiting: list[Longs] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        location = batch.column(0)[0].as_py()
        if location != current and current is not None:
            yield current, np.concatenate(waiting)
            waiting = []
        current = location
        waiting.append(batch.column(1).to_numpy())
    if current is not None:
        yield current, np.concatenate(waiting)
