"""What of a table's schema an ORC file stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
)

from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError

__all__ = ["StoredColumn", "StoredSchema", "stored_schema"]


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
        leaves: The leaf columns in the order of the file.
    """

    schema: Schema
    leaves: tuple[StoredColumn, ...]


def stored_schema(schema: Schema) -> StoredSchema:
    """Decide what a file stores of `schema`; raises `UnsupportedError` if ORC cannot hold it."""
    stored = Schema(*_stored_fields(schema.fields, "the schema"))
    leaves = [
        StoredColumn(field, schema.find_column_name(field.field_id) or field.name, type_ids)
        for field, type_ids in _numbered(stored.fields, 1)
        if isinstance(field.field_type, PrimitiveType)
    ]
    return StoredSchema(stored, tuple(leaves))


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
