"""Removes rows by a filter: executors read the files that have some, and write the other rows of them anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from formatkit.contract.batch import Longs
from formatkit.contract.metadata_columns import FILE, POS
from formatkit.scan import FileTask, Scan
from formatkit.scan.buckets import DEFAULT_OPEN_COST, Bucket, BucketReader
from formatkit.spark.worker import work_in
from formatkit.spark.writing.task import TaskFiles, WriteTask, message
from formatkit.spark.writing.task_errors import noted_errors
from formatkit.write.operations.base import Base
from formatkit.write.operations.matches import positions_by_file, without_positions

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

__all__ = ["CopiedFiles", "CopyRows", "CopyWork", "copy_work"]

_BUCKET_BYTES = 128 << 20


@dataclass(frozen=True)
class CopiedFiles(TaskFiles):
    """What an attempt reports that wrote the rows anew which stay.

    Attributes:
        replaced: The files that had matching rows, and leave the table.
    """

    replaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class CopyWork:
    """Some whole files, as the scan that finds matching rows has them, and as the one that reads all rows has them."""

    matching: Bucket
    everything: Bucket


@dataclass
class CopyRows:
    """The function that `mapInArrow` runs: files in, one row with a pickled `CopiedFiles` out.

    Attributes:
        task: How to write the rows that stay.
        matching: Reads `_file` and `_pos` of the rows that go.
        everything: Reads all rows, with `_file` and `_pos` behind the other columns.
        counters: Where to count, if anybody looks.
        buckets: The pickled work, where tasks are told the numbers of theirs only.
        title: How plans call it.
    """

    task: WriteTask
    matching: BucketReader[pa.RecordBatch]
    everything: BucketReader[pa.RecordBatch]
    counters: Accumulator[dict[int, dict[str, int]]] | None = None
    buckets: tuple[bytes, ...] = field(default=(), repr=False)
    title: str = "formatkit copy"

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted_errors():
            for work in work_in(rows, self.buckets):
                yield message(self._copy(work), self.counters)

    def _copy(self, work: CopyWork) -> CopiedFiles:
        with self.matching.batches(work.matching) as batches:
            gone = dict(positions_by_file(batches))
        # A file without matching rows stays as it is; one that has no others is not read again.
        tasks = tuple(
            task
            for task in work.everything.tasks
            if task.location in gone and task.row_count != len(gone[task.location])
        )
        files = self.task.write(self._remaining(replace(work.everything, tasks=tasks), gone))
        return CopiedFiles(
            files.files, files.rows, files.bytes, files.attempt, files.partition, files.retried, tuple(gone)
        )

    def _remaining(self, bucket: Bucket, gone: dict[str, Longs]) -> Iterator[pa.RecordBatch]:
        width = len(self.everything.schema.fields) - 2
        with self.everything.batches(bucket) as batches:
            for batch in batches:
                if batch.num_rows:
                    keep = without_positions(gone[batch.column(width)[0].as_py()], batch.column(width + 1))
                    yield batch.select(range(width)).filter(pa.array(keep))


def copy_work(
    base: Base, parts: Scan[pa.RecordBatch], least: int
) -> tuple[list[CopyWork], BucketReader[pa.RecordBatch], BucketReader[pa.RecordBatch]]:
    """Work for executors, about as much in each piece, and the two readers that it is for.

    Args:
        base: The snapshot that is read.
        parts: A scan of `_file` and `_pos` of the rows that go.
        least: How many pieces there are at least, if there are as many files.
    """
    everything = base.scan((*base.stored_columns, FILE.name, POS.name))
    readers = parts.bucket_reader(threads=1), everything.bucket_reader(threads=1)
    matching, all_rows = _by_file(parts.tasks), _by_file(everything.tasks)
    weights = {
        location: sum(max(task.bytes_to_read, DEFAULT_OPEN_COST) for task in all_rows[location])
        for location in matching
    }
    count = max(1, min(len(weights), max(least, -(-sum(weights.values()) // _BUCKET_BYTES))))
    groups: list[list[str]] = [[] for _ in range(count)]
    sizes = [0] * count
    for location in sorted(weights, key=weights.__getitem__, reverse=True):
        lightest = sizes.index(min(sizes))
        groups[lightest].append(location)
        sizes[lightest] += weights[location]
    work = [
        CopyWork(
            _bucket(index, [task for each in group for task in matching[each]], readers[0].fingerprint),
            _bucket(index, [task for each in group for task in all_rows[each]], readers[1].fingerprint),
        )
        for index, group in enumerate(groups)
        if group
    ]
    return work, *readers


def _by_file(tasks: Iterable[FileTask]) -> dict[str, list[FileTask]]:
    found: dict[str, list[FileTask]] = {}
    for task in tasks:
        if not task.is_skipped:
            found.setdefault(task.location, []).append(task)
    return found


def _bucket(index: int, tasks: Sequence[FileTask], fingerprint: str) -> Bucket:
    size = sum(task.bytes_to_read for task in tasks)
    return Bucket(index=index, tasks=tuple(tasks), bytes=size, rows=None, fingerprint=fingerprint)
