"""What is known about where rows are: which bucket has them, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from formatkit.scan.spark_hash import can_hash, hash_partitions
from formatkit.scan.tasks import FileTask

if TYPE_CHECKING:
    from pyiceberg.table.sorting import SortOrder

__all__ = ["HashPartitioning", "SortColumn", "UnknownPartitioning", "hash_buckets", "hash_partitioning", "ordering_of"]


@dataclass(frozen=True, slots=True)
class HashPartitioning:
    """Each row is in the bucket that Spark's hash of these columns says, modulo the number of buckets."""

    columns: tuple[str, ...]
    count: int

    @property
    def is_hash(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"hash({', '.join(self.columns)}), {self.count} buckets"


@dataclass(frozen=True, slots=True)
class UnknownPartitioning:
    """A row may be in any bucket, and why that is."""

    reason: str

    @property
    def is_hash(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"unknown: {self.reason}"


@dataclass(frozen=True, slots=True)
class SortColumn:
    """One column that the rows of each bucket are sorted by."""

    name: str
    ascending: bool
    nulls_first: bool

    def __str__(self) -> str:
        return f"{self.name} {'asc' if self.ascending else 'desc'} nulls {'first' if self.nulls_first else 'last'}"


def hash_partitioning(
    columns: Sequence[str] | None, schema: Schema, tasks: Sequence[FileTask], count: int
) -> HashPartitioning | UnknownPartitioning:
    """Whether buckets can be made by hash so that it is true of every row.

    Args:
        columns: The keys; None for all columns by which every file is partitioned.
        schema: The columns of the output, which must have the keys.
        tasks: The files; the spec of each must have the keys as identity.
        count: How many buckets are wanted.
    """
    if columns is None:
        columns = [field.name for field in schema.fields if _obstacle(field.name, schema, tasks) is None]
        if not columns or not tasks:
            return UnknownPartitioning("no column of the output is an identity partition of every file")
    for name in columns:
        obstacle = _obstacle(name, schema, tasks)
        if obstacle is not None:
            return UnknownPartitioning(obstacle)
    return HashPartitioning(tuple(columns), count)


def _obstacle(name: str, schema: Schema, tasks: Sequence[FileTask]) -> str | None:
    """Why a column cannot be a key; None if it can."""
    field = _top_field(name, schema)
    if field is None:
        return f"{name} is not a column of the output"
    if not can_hash(field.field_type):
        return f"{name} is {field.field_type}, whose hash in Spark is not known"
    without = next((task for task in tasks if field.field_id not in task.partition_constants), None)
    if without is not None:
        return f"{name} is no identity partition of spec {without.spec_id}, which {without.location} was written with"
    return None


def hash_buckets(partitioning: HashPartitioning, schema: Schema, tasks: Sequence[FileTask]) -> list[list[FileTask]]:
    """The tasks of each bucket, in their order."""
    fields = [field for name in partitioning.columns if (field := _top_field(name, schema)) is not None]
    ids = [field.field_id for field in fields]
    positions: dict[tuple[Any, ...], list[int]] = {}
    for position, task in enumerate(tasks):
        positions.setdefault(tuple([task.partition_constants[id_] for id_ in ids]), []).append(position)
    buckets: list[list[int]] = [[] for _ in range(partitioning.count)]
    indices = hash_partitions(list(positions), [field.field_type for field in fields], partitioning.count)
    for index, found in zip(indices, positions.values(), strict=True):
        buckets[index] += found
    return [[tasks[position] for position in sorted(bucket)] for bucket in buckets]


def ordering_of(
    buckets: Sequence[Sequence[FileTask]], sort_orders: Mapping[int, SortOrder], schema: Schema
) -> tuple[SortColumn, ...]:
    """By what the rows of every bucket are sorted; empty if nothing is known.

    Files are sorted each for itself, so a bucket is sorted only if all of it comes from one file.
    """
    if any(task.location != bucket[0].location for bucket in buckets for task in bucket):
        return ()
    ids = {task.sort_order_id for bucket in buckets for task in bucket}
    order = sort_orders.get(next(iter(ids)) or 0) if len(ids) == 1 else None
    if order is None:
        return ()
    from pyiceberg.table.sorting import NullOrder, SortDirection

    columns: list[SortColumn] = []
    for key in order.fields:
        field = next((each for each in schema.fields if each.field_id == key.source_id), None)
        if field is None or not isinstance(key.transform, IdentityTransform) or not can_hash(field.field_type):
            break
        columns.append(
            SortColumn(field.name, key.direction is SortDirection.ASC, key.null_order is NullOrder.NULLS_FIRST)
        )
    return tuple(columns)


def _top_field(name: str, schema: Schema) -> NestedField | None:
    return next((field for field in schema.fields if field.name == name), None)
