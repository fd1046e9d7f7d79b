"""The attributes by which Iceberg keeps ids, and what ORC's types do not say, in the types of a file."""

from __future__ import annotations

import re

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
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.contract.variant import VariantType
from formatkit.formats.orc.tail import Kind, OrcType

__all__ = ["REQUIRED", "attributes_of", "is_variant", "primitive_type", "stored_id"]

_ID = "iceberg.id"
# pyarrow stores the metadata of its fields as attributes, and pyiceberg keeps ids in them under the name that it uses
# for Parquet.
_ID_OF_PYARROW = "PARQUET:field_id"
REQUIRED = "iceberg.required"
_LONG_TYPE = "iceberg.long-type"
_TIMESTAMP_UNIT = "iceberg.timestamp-unit"
_BINARY_TYPE = "iceberg.binary-type"
_LENGTH = "iceberg.length"
_STRUCT_TYPE = "iceberg.struct-type"
# The specification names no place for these, and other readers pass over attributes that they do not know.
_CRS = "iceberg.crs"
_ALGORITHM = "iceberg.algorithm"

_PLAIN: dict[Kind, IcebergType] = {
    Kind.BOOLEAN: BooleanType(),
    Kind.BYTE: IntegerType(),
    Kind.SHORT: IntegerType(),
    Kind.INT: IntegerType(),
    Kind.FLOAT: FloatType(),
    Kind.DOUBLE: DoubleType(),
    Kind.STRING: StringType(),
    Kind.VARCHAR: StringType(),
    Kind.CHAR: StringType(),
    Kind.DATE: DateType(),
}
_MAX_PRECISION = 38
_MAX_LENGTH = (1 << 31) - 1
_LENGTH_TEXT = re.compile("[0-9]{1,10}")

_EXTRA: dict[type[IcebergType], dict[str, str]] = {
    LongType: {_LONG_TYPE: "LONG"},
    TimeType: {_LONG_TYPE: "TIME"},
    TimestampType: {_TIMESTAMP_UNIT: "MICROS"},
    TimestamptzType: {_TIMESTAMP_UNIT: "MICROS"},
    TimestampNanoType: {_TIMESTAMP_UNIT: "NANOS"},
    TimestamptzNanoType: {_TIMESTAMP_UNIT: "NANOS"},
    BinaryType: {_BINARY_TYPE: "BINARY"},
    UUIDType: {_BINARY_TYPE: "UUID"},
    FixedType: {_BINARY_TYPE: "FIXED"},
    GeometryType: {_BINARY_TYPE: "GEOMETRY"},
    GeographyType: {_BINARY_TYPE: "GEOGRAPHY"},
    VariantType: {_STRUCT_TYPE: "VARIANT"},
}


def attributes_of(field: NestedField) -> dict[str, str]:
    """The attributes of a field when it is written."""
    attributes = {_ID: str(field.field_id), REQUIRED: str(field.required).lower()}
    attributes |= _EXTRA.get(type(field.field_type), {})
    match field.field_type:
        case FixedType() as fixed:
            attributes[_LENGTH] = str(len(fixed))
        case GeometryType(crs=crs):
            attributes[_CRS] = crs
        case GeographyType(crs=crs, algorithm=algorithm):
            attributes |= {_CRS: crs, _ALGORITHM: algorithm}
    return attributes


def stored_id(node: OrcType) -> str | None:
    """The id as it is stored, if there is one."""
    return node.attributes.get(_ID, node.attributes.get(_ID_OF_PYARROW))


def is_variant(node: OrcType) -> bool:
    """Whether a struct is the two parts of a variant."""
    return node.kind is Kind.STRUCT and _word(node, _STRUCT_TYPE) == "VARIANT"


def primitive_type(node: OrcType) -> IcebergType | None:
    """The Iceberg type of a leaf, or None if Iceberg has no such type."""
    match node.kind:
        case Kind.LONG:
            return TimeType() if _word(node, _LONG_TYPE) == "TIME" else LongType()
        case Kind.DECIMAL if 1 <= node.precision <= _MAX_PRECISION and node.scale <= node.precision:
            return DecimalType(node.precision, node.scale)
        case Kind.TIMESTAMP:
            return TimestampNanoType() if _is_nanos(node) else TimestampType()
        case Kind.TIMESTAMP_INSTANT:
            return TimestamptzNanoType() if _is_nanos(node) else TimestamptzType()
        case Kind.BINARY:
            return _binary_type(node)
        case Kind.GEOMETRY:
            return GeometryType(node.crs) if node.crs else GeometryType()
        case Kind.GEOGRAPHY:
            plain = GeographyType()
            return GeographyType(node.crs or plain.crs, node.algorithm or plain.algorithm)
    return _PLAIN.get(node.kind)


def _is_nanos(node: OrcType) -> bool:
    return _word(node, _TIMESTAMP_UNIT) == "NANOS"


def _binary_type(node: OrcType) -> IcebergType:
    match _word(node, _BINARY_TYPE):
        case "UUID":
            return UUIDType()
        case "FIXED":
            length = node.attributes.get(_LENGTH, "")
            if _LENGTH_TEXT.fullmatch(length) and 0 < int(length) <= _MAX_LENGTH:
                return FixedType(int(length))
        case "GEOMETRY":
            return GeometryType(node.attributes[_CRS]) if _CRS in node.attributes else GeometryType()
        case "GEOGRAPHY":
            stored = (node.attributes[key] for key in (_CRS, _ALGORITHM) if key in node.attributes)
            return GeographyType(*stored)
    return BinaryType()


def _word(node: OrcType, key: str) -> str:
    return node.attributes.get(key, "").upper()
