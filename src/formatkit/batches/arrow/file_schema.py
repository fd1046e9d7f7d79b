"""Schemas of files that describe themselves in Arrow's terms: read as Iceberg's, and written with ids.

Ids are field metadata at every level, under the key that Arrow's Parquet reader and pyiceberg use
(``PARQUET:field_id``); ``iceberg.id``, which Arrow's ORC reader produces, is understood too. What Arrow has no type for
is a column annotated with the name that other Arrow libraries use: ``geoarrow.wkb`` and ``arrow.parquet.variant``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.forms import is_list_like
from formatkit.batches.arrow.types import ArrowType, arrow_field
from formatkit.contract.fields import check_schema, too_deep
from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError

__all__ = ["FileSchema", "arrow_schema_with_ids", "file_schema", "without_unknown"]

_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")
_EXTENSION_NAME, _EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_WKB, _VARIANT = b"geoarrow.wkb", b"arrow.parquet.variant"
_DEFAULT_CRS = "OGC:CRS84"
_LARGEST_ID = 2**31 - 1
_LARGEST_PRECISION = 38

is_type = pa.types


@dataclass(frozen=True)
class FileSchema:
    """A file's schema as Iceberg sees it, and by id why some columns cannot be read."""

    schema: Schema
    unreadable: Mapping[int, str]


def file_schema(arrow: pa.Schema, location: str) -> FileSchema:
    """What a file with this Arrow schema holds (clauses R1 and R2).

    Raises:
        CorruptFileError: An id is no number, or stands for several columns.
        UnsupportedError: The schema has too many levels.
    """
    translation = _Translation(location)
    try:
        fields = translation.fields(arrow)
    except RecursionError:
        raise too_deep(location) from None
    check_schema(StructType(*fields), location)
    doubled = sorted(field_id for field_id, count in translation.ids.items() if count > 1)
    if doubled:
        raise CorruptFileError(f"{location}: stores the field ids {doubled} for several columns", location=location)
    try:
        schema = Schema(*fields)
    except ValueError as error:
        message = f"{location}: the names of its columns are ambiguous: {error}"
        raise CorruptFileError(message, location=location) from error
    return FileSchema(schema, translation.unreadable)


class _Translation:
    """Goes through the fields of one schema and remembers what must be told about them."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._without_id = 0
        self.ids: Counter[int] = Counter()
        self.unreadable: dict[int, str] = {}

    def fields(self, fields: Iterable[Any]) -> list[NestedField]:
        seen: Counter[str] = Counter()
        found = []
        for field in fields:
            seen[field.name] += 1
            # A schema cannot hold a name twice; the id still finds the column.
            count = seen[field.name]
            found.append(self._field(field, field.name if count == 1 else f"{field.name}#{count}"))
        return found

    def _field(self, field: Any, name: str) -> NestedField:
        field_id = self._id(field)
        kind = self._type(field)
        if kind is None:
            self.unreadable[field_id] = f"the Arrow type {field.type} has no Iceberg type"
            kind = UnknownType()
        required = not field.nullable and not isinstance(kind, UnknownType)
        return NestedField(field_id, name, kind, required=required)

    def _id(self, field: Any) -> int:
        metadata = field.metadata or {}
        text = next((metadata[key] for key in _ID_KEYS if key in metadata), b"-1")
        try:
            field_id = int(text)
        except ValueError:
            field_id = _LARGEST_ID + 1
        if field_id > _LARGEST_ID:
            message = f"{self._location}: the field {field.name!r} has the id {text!r}, which cannot be one"
            raise CorruptFileError(message, location=self._location)
        if field_id < 0:
            self._without_id -= 1
            field_id = self._without_id
        self.ids[field_id] += 1
        return field_id

    def _type(self, field: Any) -> IcebergType | None:
        arrow = field.type
        while is_type.is_dictionary(arrow) or is_type.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        if isinstance(arrow, pa.UuidType):
            return UUIDType()
        annotated = _annotated_type(field.with_type(arrow))
        if annotated is not None:
            return annotated
        if isinstance(arrow, pa.BaseExtensionType):
            return self._type(field.with_type(arrow.storage_type))
        if is_type.is_struct(arrow):
            return StructType(*self.fields(arrow.field(i) for i in range(arrow.num_fields)))
        if is_type.is_map(arrow):
            key, value = self._field(arrow.key_field, "key"), self._field(arrow.item_field, "value")
            return MapType(key.field_id, key.field_type, value.field_id, value.field_type, value.required)
        if is_list_like(arrow):
            element = self._field(arrow.value_field, "element")
            return ListType(element.field_id, element.field_type, element.required)
        return next((make(arrow) for holds, make in _FLAT if holds(arrow)), None)


def _annotated_type(field: Any) -> IcebergType | None:
    """The type that an extension stands for, whether or not a library has registered the extension."""
    storage, metadata = field.type, field.metadata or {}
    name, description = metadata.get(_EXTENSION_NAME), metadata.get(_EXTENSION_METADATA, b"")
    if isinstance(storage, pa.ExtensionType):
        name, description = storage.extension_name.encode(), storage.__arrow_ext_serialize__()
        storage = storage.storage_type
    if name == _WKB and _is_binary(storage):
        return _geo_type(description)
    if name == _VARIANT and is_type.is_struct(storage):
        parts = {storage.field(i).name: storage.field(i).type for i in range(storage.num_fields)}
        return VariantType() if list(parts) == ["metadata", "value"] and all(map(_is_binary, parts.values())) else None
    return None


def _geo_type(description: bytes) -> IcebergType | None:
    try:
        facts = json.loads(description or b"{}")
        crs, edges = facts.get("crs") or _DEFAULT_CRS, facts.get("edges", "planar")
        return GeometryType(crs) if edges == "planar" else GeographyType(crs, edges)
    except (AttributeError, TypeError, ValueError):
        # A reference system that is spelled out has no name here; the column is then what it is stored as.
        return None


def _is_binary(arrow: ArrowType) -> bool:
    return is_type.is_binary(arrow) or is_type.is_large_binary(arrow) or is_type.is_binary_view(arrow)


def _is_text(arrow: ArrowType) -> bool:
    return is_type.is_string(arrow) or is_type.is_large_string(arrow) or is_type.is_string_view(arrow)


def _fits(bits: int) -> Callable[[ArrowType], bool]:
    """Whether every value of an integer type fits a signed one of so many bits."""
    return lambda arrow: is_type.is_integer(arrow) and arrow.bit_width + is_type.is_unsigned_integer(arrow) <= bits


def _is_storable_decimal(arrow: ArrowType) -> bool:
    return is_type.is_decimal(arrow) and 0 <= arrow.scale <= arrow.precision <= _LARGEST_PRECISION


def _timestamp(arrow: ArrowType) -> IcebergType:
    # Any zone will do: Arrow stores the moment in UTC and the zone is how to show it.
    if arrow.tz is None:
        return TimestampNanoType() if arrow.unit == "ns" else TimestampType()
    return TimestamptzNanoType() if arrow.unit == "ns" else TimestamptzType()


_FLAT: tuple[tuple[Callable[[ArrowType], bool], Callable[[ArrowType], IcebergType]], ...] = (
    (is_type.is_null, lambda _: UnknownType()),
    (is_type.is_boolean, lambda _: BooleanType()),
    (_fits(32), lambda _: IntegerType()),
    (_fits(64), lambda _: LongType()),
    (is_type.is_uint64, lambda _: DecimalType(20, 0)),
    (is_type.is_float64, lambda _: DoubleType()),
    (is_type.is_floating, lambda _: FloatType()),
    (_is_storable_decimal, lambda arrow: DecimalType(arrow.precision, arrow.scale)),
    (is_type.is_date, lambda _: DateType()),
    (is_type.is_time, lambda _: TimeType()),
    (is_type.is_timestamp, _timestamp),
    (_is_text, lambda _: StringType()),
    (is_type.is_fixed_size_binary, lambda arrow: FixedType(arrow.byte_width)),
    (_is_binary, lambda _: BinaryType()),
)
"""In this order: which flat types hold only values of which Iceberg type.

Times in nanoseconds count as `time`, because some writers have no other; a value that is not a whole number of
microseconds is then refused when it is read.
"""


def without_unknown(schema: Schema) -> Schema:
    """What of a schema is stored: all but struct fields of type `unknown` (clause W6)."""
    return Schema(*_known_fields(schema.fields))


def _known_fields(fields: Iterable[NestedField]) -> list[NestedField]:
    return [
        field.model_copy(update={"field_type": _known_type(field.field_type)})
        for field in fields
        if not isinstance(field.field_type, UnknownType)
    ]


def _known_type(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*_known_fields(kind.fields))
        case ListType():
            return ListType(kind.element_id, _known_type(kind.element_type), kind.element_required)
        case MapType():
            key, value = _known_type(kind.key_type), _known_type(kind.value_type)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return kind


def arrow_schema_with_ids(schema: Schema) -> pa.Schema:
    """The canonical Arrow schema with an id in every field's metadata and the annotations that `file_schema` reads."""
    return pa.schema([_with_ids(field) for field in schema.fields])


def _with_ids(field: NestedField) -> Any:
    metadata: dict[Any, Any] = {_ID_KEYS[0]: str(field.field_id).encode(), **_annotation(field.field_type)}
    return arrow_field(field).with_type(_type_with_ids(field)).with_metadata(metadata)


def _type_with_ids(field: NestedField) -> ArrowType:
    match field.field_type:
        case StructType(fields=fields):
            return pa.struct([_with_ids(child) for child in fields])
        case ListType(element_field=element):
            return pa.list_(_with_ids(element))
        case MapType(key_field=key, value_field=value):
            return pa.map_(_with_ids(key), _with_ids(value))
    return arrow_field(field).type


def _annotation(kind: IcebergType) -> dict[bytes, bytes]:
    match kind:
        case GeographyType():
            return _extension(_WKB, {"crs": kind.crs, "edges": kind.algorithm})
        case GeometryType():
            return _extension(_WKB, {"crs": kind.crs})
        case VariantType():
            return {_EXTENSION_NAME: _VARIANT, _EXTENSION_METADATA: b""}
    return {}


def _extension(name: bytes, description: dict[str, str]) -> dict[bytes, bytes]:
    return {_EXTENSION_NAME: name, _EXTENSION_METADATA: json.dumps(description).encode()}
