"""The schema of an Avro file as an Iceberg schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, ListType, MapType, NestedField, StructType, UnknownType

from formatkit.contract.fields import MAX_SCHEMA_DEPTH, too_deep
from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError
from formatkit.formats.avro.avro_types import AvroField, AvroType
from formatkit.formats.avro.failures import corrupt
from formatkit.formats.avro.logical_types import primitive_type

__all__ = ["Column", "FileSchema", "file_columns", "file_schema"]

_WIDEST_FIXED = 64 * 1024 * 1024
_MOST_COLUMNS = 30_000
_STRING = AvroType(kind="string")
_INT = AvroType(kind="int")


@dataclass(frozen=True, kw_only=True)
class Column:
    """One field of the file at any level, and how its values are stored.

    Attributes:
        field: The field as the file's Iceberg schema shows it.
        declared: The type that the file declares, which may be a union with null.
        stored: The type of values that are not null.
        null_branch: Which branch of the union is null; None if there is no such union.
        children: The fields of a struct, the element of a list, the key and the value of a map; of a union of several
            types, the number of the branch and then the branches that are not null.
        reason: Why the values cannot be read, if they cannot.
    """

    field: NestedField
    declared: AvroType
    stored: AvroType
    null_branch: int | None = None
    children: tuple[Column, ...] = ()
    reason: str | None = None

    def walk(self) -> Iterator[Column]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, kw_only=True)
class FileSchema:
    """The columns of a file: as trees that know how values are stored, and as a schema.

    Attributes:
        root: The record of which each row is one.
        columns: The top-level columns, one for each field of the record.
        schema: The same as Iceberg's schema.
        unreadable: Why a column cannot be read, by its id.
    """

    root: AvroType
    columns: tuple[Column, ...]
    schema: Schema
    unreadable: Mapping[int, str]


def file_schema(root: AvroType, location: str, types: Mapping[int, IcebergType] | None = None) -> FileSchema:
    """Turn the type of the rows into columns.

    `types` are the types by id that the file notes beside the schema; they tell geometry from other binary columns.
    Rows that are no records are a column `value`. Ids that are stored twice identify nothing: such a file has none.
    """
    if root.kind != "record":
        # A record is encoded as its fields, one after the other.
        root = AvroType(kind="record", fields=(AvroField(name="value", type=root, properties={}),))
    columns = file_columns(root, location, types)
    nodes = [node for column in columns for node in column.walk()]
    if len({node.field.field_id for node in nodes}) < len(nodes):
        columns = file_columns(root, location, has_ids=False)
        nodes = [node for column in columns for node in column.walk()]
    try:
        schema = Schema(*(column.field for column in columns))
    except ValueError as error:
        raise corrupt(location, f"the column names of the file are ambiguous: {error}") from None
    unreadable = {node.field.field_id: node.reason for node in nodes if node.reason is not None}
    return FileSchema(root=root, columns=columns, schema=schema, unreadable=unreadable)


def file_columns(
    root: AvroType,
    location: str,
    types: Mapping[int, IcebergType] | None = None,
    *,
    pairs_as_maps: bool = True,
    has_ids: bool = True,
) -> tuple[Column, ...]:
    """The columns alone, whose ids need not be unique.

    Unless `pairs_as_maps`, a map that is stored as an array of records is a list of structs, which may be null. Unless
    `has_ids`, stored ids are ignored.
    """
    if root.kind != "record":
        message = f"{location}: each of its rows is one value of type {root.kind}, not a record with named fields"
        raise UnsupportedError(message, location=location)
    # A few records that name each other twice make more columns than any memory holds, most often in unions.
    for unions in (True, False):
        try:
            _check_size(root, location, unions=unions)
            return _Translation(types or {}, pairs_as_maps=pairs_as_maps, has_ids=has_ids, unions=unions).fields(root)
        except RecursionError:
            raise too_deep(location) from None
        except _TooManyColumnsError:
            pass
    raise corrupt(location, f"its schema has more than {_MOST_COLUMNS} columns, nested ones included")


_Content = tuple[IcebergType, tuple[Column, ...]]


class _NotIcebergError(Exception):
    """The type has no place in an Iceberg schema."""


class _TooManyColumnsError(Exception):
    """The schema is larger than anyone could mean."""


def _check_size(root: AvroType, location: str, *, unions: bool) -> None:
    """Count columns and levels before any column is made, with one look at each record.

    Unless `unions`, those of several types are one column each.
    """
    columns: dict[AvroType, int] = {}
    levels: dict[AvroType, int] = {}

    def measure(kind: AvroType) -> None:
        if kind in columns:
            return
        columns[kind] = levels[kind] = 0  # what a record that holds itself finds
        inside = (*kind.inner, *(each.type for each in kind.fields))
        for each in inside:
            measure(each)
        # The entries of a map that is stored as an array are no level of their own.
        levels[kind] = (kind.kind != "union" and kind.logical != "map") + max(
            (levels[each] for each in inside), default=0
        )
        counted = inside if unions or not _is_choice(kind) else ()
        columns[kind] = 1 + sum(columns[each] for each in counted)

    measure(root)
    # The rows are records themselves.
    if levels[root] - 1 > MAX_SCHEMA_DEPTH:
        raise too_deep(location)
    if columns[root] > _MOST_COLUMNS:
        raise _TooManyColumnsError


class _Translation:
    def __init__(self, types: Mapping[int, IcebergType], *, pairs_as_maps: bool, has_ids: bool, unions: bool) -> None:
        self._types = types
        self._pairs_as_maps = pairs_as_maps
        self._has_ids = has_ids
        self._unions = unions
        self._without_id = 0
        self._columns = 0
        self._open_records: list[AvroType] = []

    def fields(self, record: AvroType) -> tuple[Column, ...]:
        seen: Counter[str] = Counter()
        columns = []
        for each in record.fields:
            name = _original_name(each)
            seen[name] += 1
            if (count := seen[name]) > 1:
                # A schema cannot hold a name twice; the id still finds the column.
                name = f"{name}#{count}"
            columns.append(self._column(name, each.type, each.properties.get("field-id")))
        return tuple(columns)

    def _column(self, name: str, declared: AvroType, stored_id: Any) -> Column:
        """A column, or one of type unknown that says why there is none."""
        self._columns += 1
        if self._columns > _MOST_COLUMNS:
            raise _TooManyColumnsError
        field_id = _field_id(stored_id) if self._has_ids else None
        stored, null_branch, reason = declared, None, None
        try:
            stored, null_branch = _option(declared)
            kind, children = self._content(stored, field_id)
        except _NotIcebergError as error:
            kind, children, reason = UnknownType(), (), str(error)
        if field_id is None:
            self._without_id -= 1
            field_id = self._without_id
        required = null_branch is None and not isinstance(kind, UnknownType)
        return Column(
            field=NestedField(field_id, name, kind, required=required),
            declared=declared,
            stored=stored,
            null_branch=null_branch,
            children=children,
            reason=reason,
        )

    def _content(self, stored: AvroType, field_id: int | None) -> _Content:
        match stored.kind:
            case "record" if stored.logical == "variant" and _is_variant(stored):
                return VariantType(), ()
            case "record":
                return self._struct(stored)
            case "union":
                return self._choice(stored)
            case "array" if stored.logical == "map" and self._pairs_as_maps and _is_entry(stored.inner[0]):
                return self._pairs(stored)
            case "array":
                return self._list(stored)
            case "map":
                return self._map(stored)
        primitive = primitive_type(stored, has_id=field_id is not None)
        if primitive is None:
            raise _NotIcebergError(_without_type(stored))
        if stored.size > _WIDEST_FIXED:
            raise _NotIcebergError(f"a fixed of {stored.size} bytes is wider than the {_WIDEST_FIXED} that can be read")
        if isinstance(primitive, BinaryType) and field_id is not None and field_id in self._types:
            return self._types[field_id], ()
        return primitive, ()

    def _struct(self, record: AvroType) -> _Content:
        children = self._inside(record, lambda: self.fields(record))
        if not children:
            # There is nothing in it, as in the partition of a manifest whose table has none.
            return UnknownType(), ()
        if all(child.reason for child in children):
            raise _NotIcebergError("; ".join(f"{child.field.name}: {child.reason}" for child in children))
        return StructType(*(child.field for child in children)), children

    def _choice(self, union: AvroType) -> _Content:
        """A union of several types: which branch it is, and one optional field for each branch that is not null."""
        if not self._unions:
            raise _NotIcebergError(f"the branches of its unions make more than {_MOST_COLUMNS} columns")
        branches = [branch for branch in union.inner if branch.kind != "null"]
        if any(branch.kind == "union" for branch in branches):
            raise _NotIcebergError("a union holds another union, which Avro does not allow")
        tag = self._column("tag", _INT, None)
        fields = [self._column(f"field{place}", branch, None) for place, branch in enumerate(branches)]
        children = (
            tag,
            *(replace(each, field=each.field.model_copy(update={"required": False})) for each in fields),
        )
        return StructType(*(child.field for child in children)), children

    def _inside(self, record: AvroType, translate: Callable[[], tuple[Column, ...]]) -> tuple[Column, ...]:
        if any(outer is record for outer in self._open_records):
            raise _NotIcebergError(f"the record {record.properties['name']!r} holds itself")
        self._open_records.append(record)
        try:
            return translate()
        finally:
            self._open_records.pop()

    def _list(self, array: AvroType) -> _Content:
        element = self._column("element", array.inner[0], array.properties.get("element-id"))
        if element.reason is not None:
            raise _NotIcebergError(f"its elements are unreadable: {element.reason}")
        field = element.field
        kind = ListType(element_id=field.field_id, element=field.field_type, element_required=field.required)
        return kind, (element,)

    def _map(self, mapping: AvroType) -> _Content:
        key = self._column("key", _STRING, mapping.properties.get("key-id"))
        value = self._column("value", mapping.inner[0], mapping.properties.get("value-id"))
        return self._map_of(key, value)

    def _pairs(self, array: AvroType) -> _Content:
        """A map stored as an array of records with a key and a value."""
        entry = array.inner[0]
        key, value = self._inside(entry, lambda: self.fields(entry))
        return self._map_of(key, value)

    def _map_of(self, key: Column, value: Column) -> _Content:
        if reason := key.reason or value.reason:
            raise _NotIcebergError(f"its keys or values are unreadable: {reason}")
        if isinstance(key.field.field_type, UnknownType):
            raise _NotIcebergError("the keys of a map are always null")
        kind = MapType(
            key_id=key.field.field_id,
            key_type=key.field.field_type,
            value_id=value.field.field_id,
            value_type=value.field.field_type,
            value_required=value.field.required,
        )
        return kind, (key, value)


def _option(declared: AvroType) -> tuple[AvroType, int | None]:
    """The type of values, and which branch is null if it is a union with null."""
    if declared.kind != "union":
        return declared, None
    branches = declared.inner
    nulls = [index for index, branch in enumerate(branches) if branch.kind == "null"]
    values = [branch for branch in branches if branch.kind != "null"]
    if len(nulls) > 1 or not branches:
        kinds = ", ".join(branch.kind for branch in branches)
        raise _NotIcebergError(f"a union of ({kinds}), which Avro does not allow")
    if not values:
        return branches[0], None
    return values[0] if len(values) == 1 else declared, nulls[0] if nulls else None


def _is_choice(kind: AvroType) -> bool:
    """Whether it is a union of several types, null not counted."""
    return kind.kind == "union" and sum(branch.kind != "null" for branch in kind.inner) > 1


def _without_type(stored: AvroType) -> str:
    if stored.logical == "decimal" and stored.kind in ("bytes", "fixed"):
        return f"Iceberg has no decimal of {stored.properties['precision']} digits, but of 38 at most"
    return f"Iceberg has no fixed of {stored.size} bytes"


def _field_id(stored: Any) -> int | None:
    """The id, a JSON number or a string of digits; what is neither counts as absent."""
    if isinstance(stored, str) and stored.isascii() and stored.isdecimal():
        stored = int(stored)
    return stored if isinstance(stored, int) and not isinstance(stored, bool) and 0 <= stored < 2**31 else None


def _original_name(field: AvroField) -> str:
    original = field.properties.get("iceberg-field-name")
    return original if isinstance(original, str) else field.name


def _is_entry(items: AvroType) -> bool:
    return items.kind == "record" and [each.name for each in items.fields] == ["key", "value"]


def _is_variant(record: AvroType) -> bool:
    return [(each.name, each.type.kind) for each in record.fields] == [("metadata", "bytes"), ("value", "bytes")]
