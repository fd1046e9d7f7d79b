"""Finding fields: those directly below a field, and those anywhere in a schema."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.errors import ColumnNotFoundError

__all__ = ["child_fields", "field_path"]


def child_fields(kind: IcebergType) -> tuple[NestedField, ...]:
    """A struct's fields, a list's element, a map's key and value; nothing for leaves."""
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return (kind.key_field, kind.value_field)
    return ()


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
