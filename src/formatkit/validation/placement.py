"""Compares the partition and the sort order that a data file claims with its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.forms import without_encoding
from formatkit.batches.arrow.types import Column
from formatkit.contract.fields import field_path
from formatkit.contract.values import internal_value
from formatkit.errors import ColumnNotFoundError, InvalidDataError, UnsupportedError
from formatkit.validation.findings import Findings
from formatkit.write.partition.transforms import compile_transform

if TYPE_CHECKING:
    from formatkit.validation.files import Watcher

__all__ = ["partition_watchers", "sort_watcher"]

_TIMES = (YearTransform, MonthTransform, DayTransform, HourTransform)


def partition_watchers(file: DataFile, spec: PartitionSpec, schema: Schema, findings: Findings) -> list[Watcher]:
    """What looks at each batch of a file for rows that are not of the file's partition."""
    found = [
        _partition_watcher(file, field, file.partition[position], schema, findings)
        for position, field in enumerate(spec.fields)
        if not isinstance(field.transform, VoidTransform | UnknownTransform) and field.source_id in schema.field_ids
    ]
    return [each for each in found if each is not None]


def _partition_watcher(
    file: DataFile, field: PartitionField, value: Any, schema: Schema, findings: Findings
) -> Watcher | None:
    try:
        _, source = field_path(schema, field.source_id)
        said = internal_value(field.transform.result_type(source.field_type), value)
        transform = compile_transform(field.transform, source.field_type)
    except (ColumnNotFoundError, UnsupportedError):
        return None
    except InvalidDataError as error:
        findings.add("partition-invalid", file.file_path, said=f"{field.name} = {value!r}", found=error)
        return None
    is_found = False

    def watch(stored: Schema, batch: pa.RecordBatch, start: int) -> None:
        nonlocal is_found
        if is_found or field.source_id not in stored.field_ids:
            return
        path, _ = field_path(stored, field.source_id)
        column = _numbers(transform(without_encoding(column_finder(path)(batch))))
        wrong = [each for each in pc.unique(column).to_pylist() if not _is_same(said, each, field.transform)]
        if wrong:
            is_found = True
            found = f"{wrong[0]!r}, in rows {start} to {start + batch.num_rows - 1}"
            findings.add("partition-value", file.file_path, said=f"{field.name} = {said!r}", found=found)

    return watch


def _is_same(said: Any, found: Any, transform: Transform[Any, Any]) -> bool:
    if said == found or (said != said and found != found):
        return True
    if said is None or found is None:
        return False
    # Old writers rounded times before 1970 towards 1970, and readers allow for it.
    return isinstance(transform, _TIMES) and said <= 0 and found == said - 1


def _numbers(column: Column) -> Column:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column.view(f"int{column.type.bit_width}") if pa.types.is_temporal(column.type) else column


def sort_watcher(file: DataFile, order: SortOrder, schema: Schema, findings: Findings) -> Watcher | None:
    """What looks whether the rows of a file are sorted; None if that cannot be told."""
    try:
        keys = [_sort_key(field, schema) for field in order.fields]
    except (ColumnNotFoundError, UnsupportedError):
        return None
    last: pa.Table | None = None
    is_found = False

    def watch(stored: Schema, batch: pa.RecordBatch, start: int) -> None:
        nonlocal last, is_found
        if is_found or any(field.source_id not in stored.field_ids for field in order.fields):
            return
        columns = [column for key in keys for column in key(stored, batch)]
        table = pa.table([column for column, _ in columns], names=[str(i) for i in range(len(columns))])
        whole = table if last is None else pa.concat_tables([last, table])
        indices = pc.sort_indices(whole, sort_keys=[(str(i), way) for i, (_, way) in enumerate(columns)])
        if not whole.take(indices).equals(whole):
            is_found = True
            found = f"rows {start} to {start + batch.num_rows - 1} are in another order"
            findings.add("sort-order", file.file_path, said=f"sort order {order.order_id}: {order}", found=found)
        last = table.slice(table.num_rows - 1)

    return watch


_SortKeys = Callable[[Schema, pa.RecordBatch], Sequence[tuple[Column, Any]]]


def _sort_key(field: SortField, schema: Schema) -> _SortKeys:
    _, source = field_path(schema, field.source_id)
    transform = compile_transform(field.transform, source.field_type)
    way = "ascending" if field.direction == SortDirection.ASC else "descending"
    # True is the greater one.
    nulls = "descending" if field.null_order == NullOrder.NULLS_FIRST else "ascending"

    def keys(stored: Schema, batch: pa.RecordBatch) -> Sequence[tuple[Column, Any]]:
        path, _ = field_path(stored, field.source_id)
        column = _numbers(transform(without_encoding(column_finder(path)(batch))))
        found: list[tuple[Column, Any]] = [(column.is_null(), nulls)]
        if pa.types.is_floating(column.type):
            nan: Any = pc.fill_null(pc.is_nan(column), pa.scalar(False))
            found.append((nan, way))
            column = pc.if_else(nan, 0.0, column)
        return [*found, (column, way)]

    return keys
