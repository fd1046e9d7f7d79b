"""The types of an ORC file as an Iceberg schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, MapType, NestedField, StructType, UnknownType

from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.attributes import REQUIRED, is_variant, primitive_type, stored_id
from formatkit.formats.orc.remembering import remembered
from formatkit.formats.orc.tail import Kind, OrcType, parse_types

__all__ = ["Column", "FileSchema", "file_schema"]

_MAX_DEPTH = 100
_MAX_ID_DIGITS = 18
_ROW = "value"
"""The column of rows that are no structs."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One field of the file at any level, and where its values are.

    Attributes:
        field: The field as the file's Iceberg schema shows it.
        type_id: Its number among the types, by which streams and statistics are kept.
        type: How it is stored.
        children: The fields of a struct, the element of a list, the key and the value of a map, a variant's parts; the
            tag of a union, stored under the number of the union, and its branches.
        repeated: Whether a row may hold several values, or none in a branch of a union, so that statistics say nothing
            about rows.
        reason: Why the values cannot be read, if they cannot.
    """

    field: NestedField
    type_id: int
    type: OrcType
    children: tuple[Column, ...] = ()
    repeated: bool = False
    reason: str | None = None

    def walk(self) -> Iterator[Column]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, kw_only=True)
class FileSchema:
    """The columns of a file, the same as Iceberg's schema, and why some cannot be read, by id."""

    columns: tuple[Column, ...]
    schema: Schema
    unreadable: Mapping[int, str]


@remembered
def file_schema(stored_types: tuple[bytes, ...], location: str) -> FileSchema:
    """Turn the tree of types into columns."""
    types = parse_types(stored_types, location)
    columns = _Translation(types, _field_ids(types), location).columns()
    nodes = [node for column in columns for node in _fields(column)]
    try:
        schema = Schema(*(column.field for column in columns))
    except ValueError as error:
        message = f"{location}: a column has the name of a list's element or a map's key or value: {error}"
        raise UnsupportedError(message, location=location) from None
    unreadable = {node.field.field_id: node.reason for node in nodes if node.reason is not None}
    return FileSchema(columns=columns, schema=schema, unreadable=unreadable)


def _fields(column: Column) -> Iterator[Column]:
    """The column and those below it that are fields of the schema, which the parts of a variant are not."""
    yield column
    if not isinstance(column.field.field_type, VariantType):
        for child in column.children:
            yield from _fields(child)


def _field_ids(types: Sequence[OrcType]) -> Mapping[int, int]:
    """Ids by the numbers of types; none if one is stored twice or is no number: nobody knows then what they mean."""
    nodes = enumerate(types[1:], 1)
    stored = {number: field_id for number, node in nodes if (field_id := stored_id(node)) is not None}
    if not all(field_id.isascii() and field_id.isdigit() for field_id in stored.values()):
        return {}
    ids = {number: int(field_id[:_MAX_ID_DIGITS]) for number, field_id in stored.items()}
    is_sound = len(set(ids.values())) == len(ids) and max(ids.values(), default=0) < 1 << 31
    return ids if is_sound else {}


class _NotIcebergError(Exception):
    """The type has no place in an Iceberg schema."""


class _Translation:
    """One pass over the tree of types."""

    def __init__(self, types: Sequence[OrcType], ids: Mapping[int, int], location: str) -> None:
        self._types = types
        self._ids = ids
        self._location = location
        self._without_id = 0
        self._path: tuple[str, ...] = ()
        self._names: set[str] = set()

    def columns(self) -> tuple[Column, ...]:
        """The fields of the rows; rows that are no structs are one column."""
        if self._types[0].kind is Kind.STRUCT:
            return self._fields(self._types[0], repeated=False, depth=0)
        return (self._column(_ROW, 0, repeated=False, depth=1),)

    def _fields(self, node: OrcType, *, repeated: bool, depth: int) -> tuple[Column, ...]:
        return tuple(
            self._column(self._free_name(name), subtype, repeated=repeated, depth=depth + 1)
            for name, subtype in zip(node.names, node.subtypes, strict=True)
        )

    def _free_name(self, name: str) -> str:
        """The name, with a number if another column has it: a schema cannot hold a name twice, dots included."""
        names = chain((name,), (f"{name}#{number}" for number in count(2)))
        return next(free for free in names if ".".join((*self._path, free)) not in self._names)

    def _column(self, name: str, type_id: int, *, repeated: bool, depth: int, key: bool = False) -> Column:
        if depth > _MAX_DEPTH:
            message = f"{self._location}: its types are nested more than {_MAX_DEPTH} levels deep"
            raise UnsupportedError(message, location=self._location)
        node = self._types[type_id]
        field_id = self._field_id(type_id)
        reason, path = None, self._path
        self._path = (*path, name)
        self._names.add(".".join(self._path))
        try:
            kind, children = self._content(type_id, repeated, depth)
        except _NotIcebergError as error:
            kind, children, reason = UnknownType(), (), str(error)
        self._path = path
        required = key or node.attributes.get(REQUIRED, "").lower() == "true"
        return Column(
            field=NestedField(field_id, name, kind, required=required and reason is None),
            type_id=type_id,
            type=node,
            children=children,
            repeated=repeated,
            reason=reason,
        )

    def _field_id(self, type_id: int) -> int:
        if type_id in self._ids:
            return self._ids[type_id]
        self._without_id -= 1
        return self._without_id

    def _content(self, type_id: int, repeated: bool, depth: int) -> tuple[IcebergType, tuple[Column, ...]]:
        node = self._types[type_id]
        match node.kind:
            case Kind.STRUCT if is_variant(node):
                return self._variant(node, depth)
            case Kind.STRUCT:
                return self._struct(node, repeated, depth)
            case Kind.UNION:
                return self._union(type_id, depth)
            case Kind.LIST:
                element = self._inner("element", node.subtypes[0], depth)
                field = element.field
                return ListType(field.field_id, field.field_type, element_required=field.required), (element,)
            case Kind.MAP:
                key = self._inner("key", node.subtypes[0], depth, key=True)
                value = self._inner("value", node.subtypes[1], depth)
                kind = MapType(
                    key.field.field_id,
                    key.field.field_type,
                    value.field.field_id,
                    value.field.field_type,
                    value_required=value.field.required,
                )
                return kind, (key, value)
        if (primitive := primitive_type(node)) is None:
            raise _NotIcebergError(f"{_spelled(node)} has no Iceberg type")
        return primitive, ()

    def _struct(self, node: OrcType, repeated: bool, depth: int) -> tuple[IcebergType, tuple[Column, ...]]:
        children = self._fields(node, repeated=repeated, depth=depth)
        if all(child.reason for child in children):
            reasons = (f"{child.field.name}: {child.reason}" for child in children)
            raise _NotIcebergError("; ".join(reasons) or "the struct has no fields")
        return StructType(*(child.field for child in children)), children

    def _union(self, type_id: int, depth: int) -> tuple[IcebergType, tuple[Column, ...]]:
        """Which branch it is, and one optional field for each branch."""
        name = self._free_name("tag")
        self._without_id -= 1
        tag = Column(
            field=NestedField(self._without_id, name, IntegerType(), required=True),
            type_id=type_id,
            type=OrcType(kind=Kind.BYTE),
            repeated=True,
        )
        self._names.add(".".join((*self._path, name)))
        branches = (
            self._column(self._free_name(f"field{place}"), subtype, repeated=True, depth=depth + 1)
            for place, subtype in enumerate(self._types[type_id].subtypes)
        )
        optional = (replace(one, field=one.field.model_copy(update={"required": False})) for one in branches)
        children = (tag, *optional)
        return StructType(*(child.field for child in children)), children

    def _inner(self, name: str, type_id: int, depth: int, *, key: bool = False) -> Column:
        column = self._column(name, type_id, repeated=True, depth=depth + 1, key=key)
        if column.reason is not None:
            raise _NotIcebergError(f"its {name}s are unreadable: {column.reason}")
        return column

    def _variant(self, node: OrcType, depth: int) -> tuple[IcebergType, tuple[Column, ...]]:
        parts = self._fields(node, repeated=True, depth=depth)
        if [(part.field.name, part.type.kind) for part in parts] != [("metadata", Kind.BINARY), ("value", Kind.BINARY)]:
            raise _NotIcebergError("a variant needs the binary fields metadata and value and no others")
        return VariantType(), parts


def _spelled(node: OrcType) -> str:
    if node.kind is Kind.DECIMAL:
        return f"DECIMAL({node.precision}, {node.scale})"
    return node.kind.name
