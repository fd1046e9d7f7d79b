"""Sorts rows by a table's sort order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.types import Column
from formatkit.contract.fields import field_path
from formatkit.errors import UnsupportedError
from formatkit.write.float_bits import ordered_float_bits
from formatkit.write.partition import compile_transform

__all__ = ["Sorter", "is_sortable", "sorted_ids"]


class Sorter:
    """Sorts batches of a schema; equal rows stay in their order.

    Floats are in the order of Iceberg: −0.0 before 0.0, NaN after everything else.

    Raises:
        UnsupportedError: The order has a transform that is not known, or the schema lacks one of its columns.
    """

    def __init__(self, order: SortOrder, schema: Schema) -> None:
        self._keys = [_key(field, schema) for field in order.fields]

    def sort(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns: list[Column] = []
        directions: list[Any] = []
        for values_of, ascending, nulls_first in self._keys:
            values = values_of(batch)
            if values.null_count:
                columns.append(values.is_null())
                directions.append("descending" if nulls_first else "ascending")
            columns.append(values)
            directions.append("ascending" if ascending else "descending")
        names = [str(position) for position in range(len(columns))]
        table = pa.Table.from_arrays(columns, names)
        indices = pc.sort_indices(table, sort_keys=list(zip(names, directions, strict=True)))
        return batch.take(indices)


def is_sortable(order: SortOrder, schema: Schema) -> bool:
    """Whether the schema has the columns of an order, of types that its transforms are defined for."""
    return all(
        field.source_id in schema.field_ids and field.transform.can_transform(schema.find_type(field.source_id))
        for field in order.fields
    )


def sorted_ids(order: SortOrder) -> frozenset[int]:
    """The columns of which the order says something, so that bounds of files are worth keeping."""
    return frozenset(field.source_id for field in order.fields if field.transform.preserves_order)


def _key(field: SortField, schema: Schema) -> tuple[Callable[[pa.RecordBatch], Column], bool, bool]:
    if field.source_id not in schema.field_ids:
        raise UnsupportedError(
            f"rows cannot be sorted by the column with the id {field.source_id}, which the schema does not have"
        )
    path, source = field_path(schema, field.source_id)
    find, transform = column_finder(path), compile_transform(field.transform, source.field_type)
    ascending = field.direction == SortDirection.ASC
    return lambda batch: _sortable(transform(find(batch))), ascending, field.null_order == NullOrder.NULLS_FIRST


def _sortable(column: Column) -> Column:
    return ordered_float_bits(column) if pa.types.is_floating(column.type) else column
