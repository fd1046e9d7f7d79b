"""The fields directly below a field, whatever kind of nesting it is."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

__all__ = ["child_fields"]


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
