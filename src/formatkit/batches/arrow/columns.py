"""Finding a column of a batch by its field id, through structs."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from formatkit.batches.arrow.forms import child_of, without_encoding
from formatkit.batches.arrow.types import Column
from formatkit.errors import ColumnNotFoundError, InvalidDataError

__all__ = ["column_finder", "field_path"]


def field_path(schema: Schema, field_id: int) -> tuple[tuple[int, ...], NestedField]:
    """The positions that lead to a field, which may lie in structs but not in lists or maps, and the field itself."""
    found = _search(schema.as_struct(), field_id)
    if found is None:
        raise ColumnNotFoundError(f"id {field_id}", (f"{field.name} (id {field.field_id})" for field in schema.fields))
    return found


def _search(struct: StructType, field_id: int) -> tuple[tuple[int, ...], NestedField] | None:
    for position, field in enumerate(struct.fields):
        if field.field_id == field_id:
            return (position,), field
        if isinstance(field.field_type, StructType) and (found := _search(field.field_type, field_id)):
            return (position, *found[0]), found[1]
    return None


def column_finder(path: tuple[int, ...]) -> Callable[[pa.RecordBatch], Column]:
    """How to get the column at this path out of a batch: null wherever one of its parents is null."""
    top, *below = path

    def find(batch: pa.RecordBatch) -> Column:
        column = batch.column(top)
        for position in below:
            column = without_encoding(column)
            if not isinstance(column, pa.StructArray):
                message = f"column {batch.schema.field(top).name!r} holds {column.type} where its schema has a struct"
                raise InvalidDataError(message)
            column = child_of(column, position)
        return column

    return find
