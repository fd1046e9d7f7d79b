"""What of a table's schema a Parquet file stores: under which names, in which Arrow types, with which ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    UnknownType,
)

from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract.legal_names import legal_name
from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError
from formatkit.formats.parquet.elements import Kind
from formatkit.formats.parquet.thrift import Field, binary, i8, i32, nested
from formatkit.formats.parquet.types import DEFAULT_CRS, GEOGRAPHY_ALGORITHMS

__all__ = ["Leaf", "StoredSchema", "stored_schema"]

_SPHERICAL = GEOGRAPHY_ALGORITHMS[0]
_VARIANT_VERSION = 1


@dataclass(frozen=True)
class Leaf:
    """A column chunk of the file: its field's id, its dotted name in the table and its path in the file.

    A variant has two of them.
    """

    field_id: int
    name: str
    path: str
    type: PrimitiveType


@dataclass(frozen=True)
class StoredSchema:
    """The stored part of a schema.

    Attributes:
        schema: Without `unknown` columns, names fit for Parquet.
        arrow: The same for the encoder: ids as field metadata, geometry types annotated.
        leaves: The column chunks in the order of the file.
        annotations: By field id, the logical types that the encoder does not know and the footer must be given.
    """

    schema: Schema
    arrow: pa.Schema
    leaves: tuple[Leaf, ...]
    annotations: Mapping[int, Field]

    @property
    def columns(self) -> dict[int, list[int]]:
        """The numbers of the column chunks by field id."""
        numbers: dict[int, list[int]] = {}
        for number, leaf in enumerate(self.leaves):
            numbers.setdefault(leaf.field_id, []).append(number)
        return numbers

    @property
    def has_geometry(self) -> bool:
        return any(isinstance(leaf.type, (GeometryType, GeographyType)) for leaf in self.leaves)


def stored_schema(schema: Schema) -> StoredSchema:
    """Decide what a file stores of `schema`; raises `UnsupportedError` if Parquet cannot hold it."""
    fields = _stored_fields(schema.fields, "the schema")
    stored = Schema(*fields)
    arrow = pa.schema([_encoder_field(*pair) for pair in zip(arrow_schema(stored), fields, strict=True)])
    leaves = [
        Leaf(leaf.field_id, schema.find_column_name(leaf.field_id) or path, path, leaf.field_type)
        for field in fields
        for leaf, path in _leaves(field, field.name)
        if isinstance(leaf.field_type, PrimitiveType)
    ]
    annotations = {leaf.field_id: annotation for leaf in leaves if (annotation := _annotation(leaf.type))}
    return StoredSchema(stored, arrow, tuple(leaves), annotations)


def _stored_fields(fields: Iterable[NestedField], parent: str) -> list[NestedField]:
    stored: list[NestedField] = []
    taken: set[str] = set()
    for field in fields:
        if isinstance(field.field_type, UnknownType):
            continue
        name = legal_name(field.name)
        while name in taken:
            name += "_"
        taken.add(name)
        stored.append(_renamed(field, name))
    if not stored:
        raise UnsupportedError(f"{parent} has no column that Parquet can store; it needs at least one of a known type")
    return stored


def _renamed(field: NestedField, name: str) -> NestedField:
    return NestedField(field.field_id, name, _stored_type(field), required=field.required)


def _stored_type(field: NestedField) -> IcebergType:
    kind = field.field_type
    if isinstance(kind, StructType):
        return StructType(*_stored_fields(kind.fields, f"struct {field.name!r}"))
    if isinstance(kind, ListType):
        element = _stored_inner(kind.element_field, f"the elements of {field.name!r}")
        return ListType(kind.element_id, element.field_type, kind.element_required)
    if isinstance(kind, MapType):
        key = _stored_inner(kind.key_field, f"the keys of {field.name!r}")
        value = _stored_inner(kind.value_field, f"the values of {field.name!r}")
        return MapType(kind.key_id, key.field_type, kind.value_id, value.field_type, kind.value_required)
    return kind


def _stored_inner(field: NestedField, what: str) -> NestedField:
    if isinstance(field.field_type, UnknownType):
        raise UnsupportedError(f"{what} have the type unknown, which Parquet can store neither as elements nor in maps")
    return _renamed(field, field.name)


def _encoder_field(arrow: Any, field: NestedField) -> Any:
    return pa.field(
        arrow.name,
        _encoder_type(arrow.type, field.field_type),
        arrow.nullable,
        metadata={b"PARQUET:field_id": str(field.field_id).encode()},
    )


def _encoder_type(arrow: Any, kind: IcebergType) -> Any:
    if isinstance(kind, StructType):
        return pa.struct([_encoder_field(arrow.field(i), field) for i, field in enumerate(kind.fields)])
    if isinstance(kind, ListType):
        return pa.list_(_encoder_field(arrow.value_field, kind.element_field))
    if isinstance(kind, MapType):
        key = _encoder_field(arrow.key_field, kind.key_field)
        return pa.map_(key, _encoder_field(arrow.item_field, kind.value_field))
    if isinstance(kind, GeometryType):
        return WellKnownBinaryType({"crs": kind.crs})
    if isinstance(kind, GeographyType):
        # The encoder knows no other edges; the footer is given the right ones.
        return WellKnownBinaryType({"crs": kind.crs, "edges": _SPHERICAL})
    return arrow


def _annotation(kind: PrimitiveType) -> Field | None:
    """The member of the union `LogicalType` for a type that the encoder cannot annotate."""
    if isinstance(kind, VariantType):
        return nested(Kind.VARIANT.value, i8(1, _VARIANT_VERSION))
    if isinstance(kind, GeographyType) and kind.algorithm != _SPHERICAL:
        algorithm = GEOGRAPHY_ALGORITHMS.index(kind.algorithm)
        crs = () if kind.crs == DEFAULT_CRS else (binary(1, kind.crs.encode()),)
        return nested(Kind.GEOGRAPHY.value, *crs, i32(2, algorithm))
    return None


class WellKnownBinaryType(pa.ExtensionType):
    """Tells the Parquet encoder to annotate a binary column as geometry or geography."""

    def __init__(self, description: dict[str, str]) -> None:
        self._description = json.dumps(description)
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._description.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> WellKnownBinaryType:
        return cls(json.loads(serialized))


def _leaves(field: NestedField, path: str) -> Iterator[tuple[NestedField, str]]:
    kind = field.field_type
    if isinstance(kind, StructType):
        for child in kind.fields:
            yield from _leaves(child, f"{path}.{child.name}")
    elif isinstance(kind, ListType):
        yield from _leaves(kind.element_field, f"{path}.list.element")
    elif isinstance(kind, MapType):
        yield from _leaves(kind.key_field, f"{path}.key_value.key")
        yield from _leaves(kind.value_field, f"{path}.key_value.value")
    elif isinstance(kind, VariantType):
        yield field, f"{path}.metadata"
        yield field, f"{path}.value"
    else:
        yield field, path
