"""Finding fields: those directly below a field, and those anywhere in a schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, StructType

from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, UnsupportedError

__all__ = [
    "MAX_SCHEMA_DEPTH",
    "check_schema",
    "check_stored_depth",
    "child_fields",
    "field_path",
    "key_paths",
    "too_deep",
]

MAX_SCHEMA_DEPTH = 100
"""How many levels of fields a schema may have. pyiceberg and Arrow walk schemas recursively, with several frames of
Python's stack, 1,000 by default, for each level."""

_MAX_PRECISION = 38
_MAX_FIXED = 2**31 - 1


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


def check_schema(schema: Schema | StructType, location: str | None = None) -> None:
    """Refuse a schema with too many levels or too wide a type; `location` is the file that it comes from."""
    for level, field in _levels(schema):
        if level > MAX_SCHEMA_DEPTH:
            raise too_deep(location)
        if _is_too_wide(field.field_type):
            message = f"column {field.name!r} is {field.field_type}, which no value can have"
            raise UnsupportedError(f"{location}: {message}" if location else message, location=location)


def check_stored_depth(schema: Schema, *, limit: int, of_list: int, of_map: int) -> None:
    """Refuse to write a schema that has more levels in a file than its format, or its readers, allow.

    Args:
        schema: What is to be written.
        limit: How many levels a file can have.
        of_list: How many of them a list takes.
        of_map: How many of them a map takes.
    """
    for level, field in _levels(schema, of_list, of_map):
        # A variant is a struct there.
        if level + isinstance(field.field_type, VariantType) > limit:
            message = f"the schema has more levels than the {limit} that files of this format can have"
            raise UnsupportedError(message)


def _levels(schema: Schema | StructType, of_list: int = 1, of_map: int = 1) -> Iterator[tuple[int, NestedField]]:
    """All fields with the levels on which they are, without recursion."""
    waiting = [(1, field) for field in schema.fields]
    while waiting:
        level, field = waiting.pop()
        yield level, field
        kind = field.field_type
        step = of_list if isinstance(kind, ListType) else of_map if isinstance(kind, MapType) else 1
        waiting += ((level + step, child) for child in child_fields(kind))


def _is_too_wide(kind: IcebergType) -> bool:
    if isinstance(kind, DecimalType):
        return not (0 < kind.precision <= _MAX_PRECISION and 0 <= kind.scale <= kind.precision)
    return isinstance(kind, FixedType) and not 0 < len(kind) <= _MAX_FIXED


def too_deep(location: str | None = None) -> UnsupportedError:
    """The error for a schema with too many levels."""
    message = f"the schema has fields inside of fields on more than {MAX_SCHEMA_DEPTH} levels, the most that are read"
    if location is None:
        return UnsupportedError(message)
    return UnsupportedError(f"{location}: {message}", location=location)


def field_path(schema: Schema, field_id: int) -> tuple[tuple[int, ...], NestedField]:
    """The positions that lead to a field, which may lie in structs but not in lists or maps, and the field itself."""
    found = _search(schema.fields, field_id)
    if found is None:
        raise ColumnNotFoundError(f"id {field_id}", (f"{field.name} (id {field.field_id})" for field in schema.fields))
    return found


def _search(fields: Sequence[NestedField], field_id: int) -> tuple[tuple[int, ...], NestedField] | None:
    for position, field in enumerate(fields):
        if field.field_id == field_id:
            return (position,), field
        if isinstance(field.field_type, StructType) and (found := _search(field.field_type.fields, field_id)):
            return (position, *found[0]), found[1]
    return None


def key_paths(schema: Schema) -> list[tuple[tuple[int, ...], NestedField]]:
    """The leaves of a schema whose rows are compared, each with the positions that lead to it.

    Raises:
        UnsupportedError: A column is a list, a map or a variant, whose values are not compared.
    """
    return list(_leaves(schema.as_struct(), ()))


def _leaves(struct: StructType, parents: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], NestedField]]:
    for position, field in enumerate(struct.fields):
        path = (*parents, position)
        if isinstance(field.field_type, ListType | MapType | VariantType):
            message = f"rows cannot be compared by column {field.name!r}, which is {field.field_type}"
            raise UnsupportedError(message)
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, path)
        else:
            yield path, field
