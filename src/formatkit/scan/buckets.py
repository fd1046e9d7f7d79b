"""Buckets: the tasks of a scan in parts that can be read anywhere, each for itself."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, overload

from pyiceberg.schema import Schema

from formatkit.errors import ConfigurationError, printable
from formatkit.kernel.names import find_column
from formatkit.scan.bucket_reader import BucketReader
from formatkit.scan.collector import collector_paused
from formatkit.scan.partitioning import (
    HashPartitioning,
    SortColumn,
    UnknownPartitioning,
    hash_buckets,
    hash_partitioning,
    ordering_of,
)
from formatkit.scan.splits import cut_tasks, join_parts
from formatkit.scan.tasks import DELETION_VECTORS, FileTask
from formatkit.scan.wording import number, size

if TYPE_CHECKING:
    from pyiceberg.table.sorting import SortOrder

__all__ = [
    "DEFAULT_OPEN_COST",
    "Bucket",
    "BucketReader",
    "Buckets",
    "HashPartitioning",
    "SortColumn",
    "UnknownPartitioning",
    "make_buckets",
]

DEFAULT_OPEN_COST = 4 << 20
_LEAST_PART = 1 << 20
_MOST_PART = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A part of the work of a scan. Small, and survives pickling.

    Attributes:
        index: Its place among the buckets.
        tasks: What to read, in the order of the output.
        bytes: The length of that, as stored.
        rows: About how many rows that is, before filters and deletes; None if a file does not say.
        fingerprint: Tells the scan.
    """

    index: int
    tasks: tuple[FileTask, ...]
    bytes: int
    rows: int | None
    fingerprint: str


class Buckets(Sequence[Bucket]):
    """All buckets of a scan: every row is in exactly one of them.

    Attributes:
        partitioning: What decides where a row is.
        ordering: By what the rows of each bucket are sorted; empty if nothing is known.
    """

    def __init__(
        self,
        buckets: Iterable[Bucket],
        partitioning: HashPartitioning | UnknownPartitioning,
        ordering: tuple[SortColumn, ...] = (),
    ) -> None:
        self._buckets = tuple(buckets)
        self.partitioning = partitioning
        self.ordering = ordering

    @overload
    def __getitem__(self, index: int) -> Bucket: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Bucket]: ...
    def __getitem__(self, index: int | slice) -> Bucket | Sequence[Bucket]:
        return self._buckets[index]

    def __len__(self) -> int:
        return len(self._buckets)

    def __iter__(self) -> Iterator[Bucket]:
        return iter(self._buckets)

    @property
    def bytes(self) -> int:
        """The length of everything that is read, as stored."""
        return sum(bucket.bytes for bucket in self)

    @property
    def rows(self) -> int | None:
        """About how many rows there are, before filters and deletes; None if a file does not say."""
        rows = [bucket.rows for bucket in self]
        return None if None in rows else sum(filter(None, rows))

    @property
    def file_count(self) -> int:
        """How many data files are read."""
        return len({task.location for bucket in self for task in bucket.tasks})

    def explain(self) -> str:
        """What is in the buckets, in words."""
        sizes = [bucket.bytes for bucket in self]
        lines = [
            f"{'buckets':<10} buckets:[{len(self)}] file_count:[{self.file_count}]",
            f"{'balance':<10} {size(max(sizes))} in the largest, {size(median(sizes))} in the median bucket",
            f"{'partitions':<10} {self.partitioning}",
            f"{'order':<10} {', '.join(map(str, self.ordering)) or 'unknown'}",
        ]
        return "\n".join(map(printable, lines))

    def __repr__(self) -> str:
        return f"<{number(len(self), 'bucket')} of {number(self.file_count, 'file')}: {self.partitioning}>"


@collector_paused()
def make_buckets(
    tasks: Sequence[FileTask],
    target: int,
    *,
    schema: Schema,
    table_schema: Schema,
    splittable: Container[str],
    fingerprint: str,
    sort_orders: Mapping[int, SortOrder],
    by: Sequence[str] | None = None,
    open_cost: int = DEFAULT_OPEN_COST,
    split_bytes: int | None = None,
) -> Buckets:
    """Put tasks into buckets; the arguments are those of `Scan.buckets`, and what the scan knows."""
    for name, value, least in (("target", target, 1), ("open_cost", open_cost, 0), ("split_bytes", split_bytes, 1)):
        if value is not None and value < least:
            raise ConfigurationError(f"{name} must be at least {least}, not {value}")
    partitioning: HashPartitioning | UnknownPartitioning = UnknownPartitioning("rows are spread by the size of files")
    for name in by if by is not None and by != "hash" else ():
        find_column(table_schema, name)
    if by is not None:
        partitioning = hash_partitioning(None if by == "hash" else by, schema, tasks, target)
    contents: Sequence[Sequence[FileTask]]
    if target == 1:
        contents = [tasks]
    elif isinstance(partitioning, HashPartitioning):
        contents = hash_buckets(partitioning, schema, join_parts(tasks))
    else:
        contents = _balance(_cut(tasks, target, splittable, split_bytes), target, open_cost)
    return Buckets(
        (_bucket(index, content, fingerprint) for index, content in enumerate(contents)),
        partitioning,
        ordering_of(contents, sort_orders, schema),
    )


def _cut(
    tasks: Sequence[FileTask], target: int, splittable: Container[str], split_bytes: int | None
) -> Sequence[FileTask]:
    files = join_parts(tasks)
    share = sum(task.bytes_to_read for task in files) // target
    return cut_tasks(files, splittable, split_bytes or max(_LEAST_PART, min(_MOST_PART, share)))


def _balance(tasks: Sequence[FileTask], target: int, open_cost: int) -> list[list[FileTask]]:
    """Groups of tasks of about the same weight: the heaviest first, each to the lightest group."""
    count = min(target, len(tasks)) or 1
    weights = [_weight(task, open_cost) for task in tasks]
    groups: list[list[int]] = [[] for _ in range(count)]
    lightest = [(0, index) for index in range(count)]
    for position in sorted(range(len(tasks)), key=weights.__getitem__, reverse=True):
        weight, index = lightest[0]
        groups[index].append(position)
        heapq.heapreplace(lightest, (weight + weights[position], index))
    return [join_parts([tasks[position] for position in group]) for group in sorted(map(sorted, groups))]


def _weight(task: FileTask, open_cost: int) -> int:
    weight = task.bytes_to_read
    for each in task.deletes:
        weight += (each.content_size or 0) if each.kind == DELETION_VECTORS else each.size_bytes
    return max(weight, open_cost, 1)


def _bucket(index: int, tasks: Sequence[FileTask], fingerprint: str) -> Bucket:
    return Bucket(
        index=index,
        # Where a part could be cut further is of no use to who reads it; a single offset is not worth a copy.
        tasks=tuple([replace(task, split_offsets=()) if len(task.split_offsets) > 1 else task for task in tasks]),
        bytes=sum([task.bytes_to_read for task in tasks]),
        rows=_rows(tasks),
        fingerprint=fingerprint,
    )


def _rows(tasks: Sequence[FileTask]) -> int | None:
    rows = 0
    for task in tasks:
        if task.row_count is None or task.row_count < 0:
            return None
        share = 1.0 if task.split is None or not task.size_bytes else task.split.length / task.size_bytes
        rows += round(task.row_count * share)
    return rows
