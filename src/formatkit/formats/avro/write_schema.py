"""What of a table's schema an Avro file stores, and the Avro schema that says so, as Java's writers spell it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

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

from formatkit.contract.legal_names import legal_name
from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError
from formatkit.formats.avro.write_defaults import avro_default, decimal_bytes

__all__ = ["avro_schema", "stored_schema"]

AvroType: TypeAlias = "str | dict[str, Any] | list[Any]"

_ROOT_NAME = "table"
_LEAVES: dict[type[IcebergType], AvroType] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    GeometryType: "bytes",
    GeographyType: "bytes",
    UnknownType: "null",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
}


def stored_schema(schema: Schema) -> Schema:
    """The schema without columns of type `unknown`, unless they are all that a struct has.

    Raises:
        UnsupportedError: Avro cannot hold it.
    """
    return Schema(*_stored_fields(schema.fields))


def avro_schema(stored: Schema) -> dict[str, Any]:
    """The Avro schema of a `stored_schema`, with ids at every level."""
    return _Translation().record(_ROOT_NAME, stored.fields)


def _stored_fields(fields: Sequence[NestedField]) -> list[NestedField]:
    known = [field for field in fields if not isinstance(field.field_type, UnknownType)]
    kept = known or fields
    return [field.model_copy(update={"field_type": _stored_type(field.field_type, field.name)}) for field in kept]


def _stored_type(kind: IcebergType, name: str) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*_stored_fields(kind.fields))
        case ListType():
            return ListType(kind.element_id, _stored_type(kind.element_type, name), kind.element_required)
        case MapType():
            if isinstance(kind.key_type, UnknownType):
                raise UnsupportedError(f"the keys of {name!r} have the type unknown, and keys cannot be null")
            key, value = _stored_type(kind.key_type, name), _stored_type(kind.value_type, name)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return kind


class _Translation:
    """One schema. Avro wants every named type spelled out where it comes first, and its name alone from then on."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def record(self, name: str, fields: Iterable[NestedField]) -> dict[str, Any]:
        taken: set[str] = set()
        return {"type": "record", "name": name, "fields": [self._field(field, taken) for field in fields]}

    def _field(self, field: NestedField, taken: set[str]) -> dict[str, Any]:
        name = legal_name(field.name) or "_"
        while name in taken:
            name += "_"
        taken.add(name)
        default = avro_default(field)
        avro: dict[str, Any] = {"name": name, "type": self._type_of(field, null_first=default is None)}
        if field.doc is not None:
            avro["doc"] = field.doc
        if default is not None or not field.required:
            avro["default"] = default
        if name != field.name:
            avro["iceberg-field-name"] = field.name
        return {**avro, "field-id": field.field_id}

    def _type_of(self, field: NestedField, *, null_first: bool = True) -> AvroType:
        avro = self._type(field.field_type, field.field_id)
        if field.required or avro == "null":
            return avro
        # The default of a union is a value of its first branch.
        return ["null", avro] if null_first else [avro, "null"]

    def _type(self, kind: IcebergType, owner_id: int) -> AvroType:
        match kind:
            case StructType():
                return self.record(f"r{owner_id}", kind.fields)
            case ListType():
                return {"type": "array", "items": self._type_of(kind.element_field), "element-id": kind.element_id}
            case MapType():
                return self._map(kind)
            case VariantType():
                fields = [{"name": name, "type": "bytes"} for name in ("metadata", "value")]
                return {"type": "record", "name": f"r{owner_id}", "fields": fields, "logicalType": "variant"}
            case DecimalType():
                digits = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
                return self._fixed(f"decimal_{kind.precision}_{kind.scale}", decimal_bytes(kind.precision), digits)
            case UUIDType():
                return self._fixed("uuid_fixed", 16, {"logicalType": "uuid"})
            case FixedType():
                return self._fixed(f"fixed_{len(kind)}", len(kind), {})
        if type(kind) not in _LEAVES:
            raise UnsupportedError(f"the Iceberg type {kind} cannot be stored in Avro")
        return _LEAVES[type(kind)]

    def _map(self, kind: MapType) -> AvroType:
        if isinstance(kind.key_type, StringType):
            values = self._type_of(kind.value_field)
            return {"type": "map", "values": values, "key-id": kind.key_id, "value-id": kind.value_id}
        entry = self.record(f"k{kind.key_id}_v{kind.value_id}", (kind.key_field, kind.value_field))
        return {"type": "array", "items": entry, "logicalType": "map"}

    def _fixed(self, name: str, size: int, annotation: dict[str, Any]) -> AvroType:
        if name in self._named:
            return name
        self._named.add(name)
        return {"type": "fixed", "name": name, "size": size, **annotation}
