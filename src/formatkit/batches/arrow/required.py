"""Nulls in required fields: refused where they stand for a value, hidden where a parent is null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import ListType, MapType, NestedField, StructType

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts, without_encoding
from formatkit.batches.arrow.variant import as_variant
from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError

__all__ = ["RequiredCheck", "without_hidden_nulls"]

RowOf = Callable[[int], int]


class RequiredCheck:
    """Checks batches, which are read by position."""

    def __init__(self, fields: Iterable[NestedField]) -> None:
        self._fields = [(position, field) for position, field in enumerate(fields) if _demands_values(field)]

    def __call__(self, batch: pa.RecordBatch, first_row: int) -> None:
        """Raises `InvalidDataError` for a null in a required field whose parent is not null."""
        for position, field in self._fields:
            _check(batch.column(position), field, field.name, lambda row: first_row + row)


def _demands_values(field: NestedField) -> bool:
    is_variant = isinstance(field.field_type, VariantType)
    return field.required or is_variant or any(map(_demands_values, child_fields(field.field_type)))


def _check(column: Any, field: NestedField, path: str, row_of: RowOf) -> None:
    column = without_encoding(column)
    if field.required and column.null_count:
        row = row_of(pc.index(column.is_null(), True).as_py())
        raise InvalidDataError(f"column {path!r} is required, but null in row {row} of the data", column=path, row=row)
    if isinstance(field.field_type, VariantType):
        as_variant(column, path)
        return
    children = [(i, child) for i, child in enumerate(child_fields(field.field_type)) if _demands_values(child)]
    if not children or len(column) == column.null_count:
        return
    if isinstance(field.field_type, StructType):
        _check_children(column, children, path, row_of)
        return
    if isinstance(field.field_type, ListType) and _is_complete_leaf(column.values, children[0][1]):
        return
    parts = list_parts(column)
    offsets = np.frombuffer(memoryview(parts.offsets), np.int32, parts.length + 1)

    def row_of_value(value: int) -> int:
        return row_of(int(np.searchsorted(offsets, value, "right")) - 1)

    if isinstance(field.field_type, MapType):
        _check_children(parts.values, children, path, row_of_value)
    else:
        _check(parts.values, children[0][1], f"{path}.element", row_of_value)


def _is_complete_leaf(values: Any, field: NestedField) -> bool:
    """Whether no null can be found among values, of which some may not even belong to the batch."""
    if isinstance(field.field_type, VariantType) or not field.field_type.is_primitive:
        return False
    # What is encoded may be null in its dictionary or its runs.
    is_encoded = pa.types.is_dictionary(values.type) or pa.types.is_run_end_encoded(values.type)
    return not is_encoded and values.null_count == 0


def _check_children(column: Any, children: list[tuple[int, NestedField]], path: str, row_of: RowOf) -> None:
    if column.null_count:
        present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        column = column.take(pa.array(present))
        outer, row_of = row_of, lambda row: outer(int(present[row]))
    for i, child in children:
        _check(column.field(i), child, f"{path}.{child.name}", row_of)


def without_hidden_nulls(batch: pa.RecordBatch, fields: Sequence[NestedField]) -> pa.RecordBatch:
    """The batch with no null in any required leaf; encoders refuse one even where a parent is null.

    The batch must have passed `RequiredCheck`, so that what the leaf holds instead is never looked at.
    """
    columns = [_filled(column, field) for column, field in zip(batch.columns, fields, strict=True)]
    if all(after is before for after, before in zip(columns, batch.columns, strict=True)):
        return batch
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _filled(column: Any, field: NestedField) -> Any:
    children = child_fields(field.field_type)
    if isinstance(field.field_type, VariantType):
        return _filled_variant(column, required=field.required)
    if not children:
        return _without_validity(column) if field.required and column.null_count else column
    if not any(map(_demands_values, children)):
        return column
    if isinstance(field.field_type, StructType):
        return _filled_struct(column, children)
    parts = list_parts(column)
    is_map = isinstance(field.field_type, MapType)
    values = _filled_struct(parts.values, children) if is_map else _filled(parts.values, children[0])
    return column if values is parts.values else build_list(column.type, parts, values)


def _filled_struct(column: Any, fields: Sequence[NestedField]) -> Any:
    before = [column.field(i) for i in range(len(fields))]
    after = [_filled(child, field) for child, field in zip(before, fields, strict=True)]
    unchanged = all(new is old for new, old in zip(after, before, strict=True))
    return column if unchanged else build_struct(column.type, after, column)


def _filled_variant(column: Any, *, required: bool) -> Any:
    before = [column.field(i) for i in range(column.type.num_fields)]
    after = [_without_validity(part) if part.null_count else part for part in before]
    if required and column.null_count:
        return pa.StructArray.from_arrays(after, fields=list(column.type))
    unchanged = all(new is old for new, old in zip(after, before, strict=True))
    return column if unchanged else build_struct(column.type, after, column)


def _without_validity(column: Any) -> Any:
    if isinstance(column, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(column.type, _without_validity(column.storage))
    return pa.Array.from_buffers(column.type, len(column), [None, *column.buffers()[1:]], 0, column.offset)
