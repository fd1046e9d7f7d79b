"""From batches as Spark hands them to Python to batches that the writers take, which are strict about types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType, UUIDType

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts, without_encoding
from formatkit.batches.arrow.types import Column
from formatkit.errors import InvalidDataError

__all__ = ["from_spark"]

_UUID_TEXT = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"
_UUID_BYTES = 16
_Convert = Callable[[Column], Column]


def from_spark(schema: Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Compile the way from Spark's batches: moments get the label UTC, which is what they are in; text becomes uuid.

    Args:
        schema: The table's; columns are found in it by their names.
    """
    kinds = {field.name: field.field_type for field in schema.fields}
    compiled: dict[pa.Schema, list[_Convert | None]] = {}

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        converts = compiled.get(batch.schema)
        if converts is None:
            converts = [_convert(column.type, kinds.get(column.name), column.name) for column in batch.schema]
            compiled[batch.schema] = converts
        if not any(converts):
            return batch
        columns = [
            column if each is None else each(column) for each, column in zip(converts, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    return convert


def _convert(arrow: Any, wanted: IcebergType | None, name: str) -> _Convert | None:
    """How to change a column, or None if the writers take it as it is, or refuse it in words of their own."""
    if pa.types.is_timestamp(arrow) and arrow.tz not in (None, "UTC"):
        # Whatever zone the session has, Spark sends moments in UTC.
        return lambda column: column.cast(pa.timestamp(arrow.unit, "UTC"))
    if isinstance(wanted, UUIDType) and pa.types.is_string(arrow):
        return lambda column: _uuids(column, name)
    if pa.types.is_struct(arrow):
        return _struct(arrow, wanted, name)
    if pa.types.is_map(arrow):
        return _map(arrow, wanted, name)
    if pa.types.is_list(arrow):
        return _list(arrow, wanted, name)
    return None


def _struct(arrow: Any, wanted: IcebergType | None, name: str) -> _Convert | None:
    kinds = {field.name: field.field_type for field in wanted.fields} if isinstance(wanted, StructType) else {}
    fields = [arrow.field(i) for i in range(arrow.num_fields)]
    converts = [_convert(field.type, kinds.get(field.name), f"{name}.{field.name}") for field in fields]
    if not any(converts):
        return None

    def convert(column: Column) -> Column:
        children = [_apply(each, column.field(i)) for i, each in enumerate(converts)]
        target = pa.struct([field.with_type(child.type) for field, child in zip(fields, children, strict=True)])
        return build_struct(target, children, column)

    return convert


def _list(arrow: Any, wanted: IcebergType | None, name: str) -> _Convert | None:
    kind = wanted.element_type if isinstance(wanted, ListType) else None
    element = _convert(arrow.value_type, kind, f"{name}.element")
    if element is None:
        return None

    def convert(column: Column) -> Column:
        parts = list_parts(column)
        values = element(parts.values)
        return build_list(pa.list_(arrow.value_field.with_type(values.type)), parts, values)

    return convert


def _map(arrow: Any, wanted: IcebergType | None, name: str) -> _Convert | None:
    kinds = (wanted.key_type, wanted.value_type) if isinstance(wanted, MapType) else (None, None)
    converts = [
        _convert(arrow.key_type, kinds[0], f"{name}.key"),
        _convert(arrow.item_type, kinds[1], f"{name}.value"),
    ]
    if not any(converts):
        return None

    def convert(column: Column) -> Column:
        parts = list_parts(column)
        children = [_apply(each, parts.values.field(i)) for i, each in enumerate(converts)]
        key = arrow.key_field.with_type(children[0].type)
        item = arrow.item_field.with_type(children[1].type)
        entries = build_struct(pa.struct([key, item]), children, parts.values)
        return build_list(pa.map_(key, item), parts, entries)

    return convert


def _apply(convert: _Convert | None, column: Column) -> Column:
    return column if convert is None else convert(column)


def _uuids(column: Column, name: str) -> Column:
    """The sixteen bytes of each text; anything but the form with hyphens is refused."""
    text = without_encoding(column)
    fits: Column = pc.match_substring_regex(text, _UUID_TEXT)
    if pc.all(fits, min_count=0).as_py() is False:
        wrong = text.filter(pc.invert(fits))[0].as_py()
        message = f"column {name!r} is uuid, and {wrong!r} is none; write f79c3e09-677c-4bbd-a479-3f349cb785e7 and such"
        raise InvalidDataError(message)
    digits = pc.replace_substring(text, "-", "")
    values = [None if each is None else bytes.fromhex(each) for each in digits.to_pylist()]
    return pa.array(values, pa.binary(_UUID_BYTES))
