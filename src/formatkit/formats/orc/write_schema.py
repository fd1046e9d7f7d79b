"""What of a table's schema an ORC file stores, and in which Arrow types the encoder takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts
from formatkit.batches.arrow.types import ArrowType, Column, arrow_schema
from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.attributes import attributes_of

__all__ = ["StoredColumn", "StoredSchema", "encoder_column", "stored_schema"]


@dataclass(frozen=True)
class StoredColumn:
    """A leaf of the file: its field, its dotted name in the table, and the types of the file that hold it."""

    field: NestedField
    name: str
    type_ids: range


@dataclass(frozen=True)
class StoredSchema:
    """The stored part of a schema.

    Attributes:
        schema: Without `unknown` columns.
        arrow: The same for the encoder, attributes as field metadata.
        leaves: The leaf columns in the order of the file.
    """

    schema: Schema
    arrow: pa.Schema
    leaves: tuple[StoredColumn, ...]


def stored_schema(schema: Schema) -> StoredSchema:
    """Decide what a file stores of `schema`; raises `UnsupportedError` if ORC cannot hold it."""
    stored = Schema(*_stored_fields(schema.fields, "the schema"))
    fields = zip(arrow_schema(stored), stored.fields, strict=True)
    leaves = [
        StoredColumn(field, schema.find_column_name(field.field_id) or field.name, type_ids)
        for field, type_ids in _numbered(stored.fields, 1)
        if isinstance(field.field_type, PrimitiveType)
    ]
    return StoredSchema(stored, pa.schema([_encoder_field(*pair) for pair in fields]), tuple(leaves))


def _stored_fields(fields: Iterable[NestedField], parent: str) -> list[NestedField]:
    stored = [_stored(field) for field in fields if not isinstance(field.field_type, UnknownType)]
    if not stored:
        raise UnsupportedError(f"{parent} has no column that ORC can store; it needs at least one of a known type")
    return stored


def _stored(field: NestedField) -> NestedField:
    return NestedField(field.field_id, field.name, _stored_type(field), required=field.required)


def _stored_type(field: NestedField) -> IcebergType:
    kind = field.field_type
    if isinstance(kind, ListType | MapType):
        for inner in child_fields(kind):
            if isinstance(inner.field_type, UnknownType):
                message = f"the {inner.name}s of {field.name!r} have the type unknown, which ORC cannot store there"
                raise UnsupportedError(message)
    match kind:
        case StructType():
            return StructType(*_stored_fields(kind.fields, f"struct {field.name!r}"))
        case ListType():
            element = _stored(kind.element_field)
            return ListType(kind.element_id, element.field_type, kind.element_required)
        case MapType():
            key, value = _stored(kind.key_field), _stored(kind.value_field)
            return MapType(kind.key_id, key.field_type, kind.value_id, value.field_type, kind.value_required)
    return kind


def _numbered(fields: Iterable[NestedField], first: int) -> Iterator[tuple[NestedField, range]]:
    """The fields at all levels with the numbers of their types, which go depth first."""
    for field in fields:
        last = first + _types_below(field)
        yield field, range(first, last + 1)
        yield from _numbered(child_fields(field.field_type), first + 1)
        first = last + 1


def _types_below(field: NestedField) -> int:
    if isinstance(field.field_type, VariantType):
        return 2
    return sum(1 + _types_below(child) for child in child_fields(field.field_type))


def _encoder_field(arrow: pa.Field[Any], field: NestedField) -> pa.Field[Any]:
    kind = _encoder_type(arrow.type, field.field_type)
    return pa.field(arrow.name, kind, arrow.nullable, metadata=dict(attributes_of(field)))


def _encoder_type(arrow: ArrowType, kind: IcebergType) -> ArrowType:
    match kind:
        case StructType():
            return pa.struct([_encoder_field(arrow.field(i), field) for i, field in enumerate(kind.fields)])
        case ListType():
            return pa.list_(_encoder_field(arrow.value_field, kind.element_field))
        case MapType():
            key = _encoder_field(arrow.key_field, kind.key_field)
            return pa.map_(key, _encoder_field(arrow.item_field, kind.value_field))
        case TimeType():
            return pa.int64()
        case UUIDType():
            return pa.binary(16)
    return arrow


def encoder_column(column: Column, field: NestedField) -> Column:
    """A canonical column as the encoder takes it: it knows neither times nor extension types, nor slices of structs."""
    column = _stored_column(column, field)
    if isinstance(field.field_type, PrimitiveType) and not isinstance(field.field_type, VariantType):
        return column
    # It takes nulls from the wrong rows where a nested column, or one inside of it, begins in the midst of a buffer.
    return pa.concat_arrays([column]) if _is_sliced(column) else column


def _is_sliced(column: Column) -> bool:
    if column.offset:
        return True
    if isinstance(column, pa.StructArray):
        return any(_is_sliced(column.field(i)) for i in range(column.type.num_fields))
    return isinstance(column, pa.ListArray | pa.MapArray) and _is_sliced(column.values)


def _stored_column(column: Column, field: NestedField) -> Column:
    match field.field_type:
        case TimeType():
            return column.view(pa.int64())
        case UUIDType():
            return column.storage
        case StructType(fields=fields):
            return _stored_struct(column, fields)
        case ListType(element_field=element):
            parts = list_parts(column)
            values = _stored_column(parts.values, element)
            if values is parts.values:
                return column
            return build_list(pa.list_(column.type.value_field.with_type(values.type)), parts, values)
        case MapType() as kind:
            parts = list_parts(column)
            entries = _stored_struct(parts.values, child_fields(kind))
            if entries is parts.values:
                return column
            return build_list(pa.map_(entries.type.field(0), entries.type.field(1)), parts, entries)
    return column


def _stored_struct(column: Column, fields: Sequence[NestedField]) -> Column:
    before = [column.field(i) for i in range(len(fields))]
    # What is below nulls of a struct inside a struct it stores too, unless it is null itself.
    below = column.flatten() if column.null_count else before
    after = [_stored_column(*pair) for pair in zip(below, fields, strict=True)]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return column
    kinds = [column.type.field(i).with_type(child.type) for i, child in enumerate(after)]
    return build_struct(pa.struct(kinds), after, column)
