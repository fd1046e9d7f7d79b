"""The one Arrow form in which batches of an Iceberg schema are handed out."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

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

from formatkit.contract.variant import VariantType
from formatkit.errors import UnsupportedError

__all__ = ["ArrowType", "Column", "Mask", "arrow_field", "arrow_schema", "arrow_type", "storage_type"]

# Arrow's stubs have a class for each data type, and kernels typed for some of them. Here any type may come.
ArrowType: TypeAlias = Any
Column: TypeAlias = Any
Mask: TypeAlias = Any

_MAX_FIXED_BYTES = 2**31 - 1
_MAX_SCALE = 38

_FLAT_TYPES: dict[type[IcebergType], ArrowType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", "UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", "UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.uuid(),
    UnknownType: pa.null(),
    GeometryType: pa.binary(),
    GeographyType: pa.binary(),
    # A plain struct, not an extension type: nothing has to be registered, and every consumer of Arrow can take it.
    VariantType: pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    ),
}


def arrow_type(iceberg_type: IcebergType) -> ArrowType:
    """The canonical Arrow type. It never depends on data: small offsets, no dictionary, no metadata."""
    match iceberg_type:
        case StructType():
            return pa.struct([arrow_field(field) for field in iceberg_type.fields])
        case ListType():
            return pa.list_(arrow_field(iceberg_type.element_field))
        case MapType():
            return pa.map_(arrow_field(iceberg_type.key_field), arrow_field(iceberg_type.value_field))
        case DecimalType() if abs(iceberg_type.scale) <= _MAX_SCALE:
            return pa.decimal128(iceberg_type.precision, iceberg_type.scale)
        case FixedType(root=length) if 0 <= length <= _MAX_FIXED_BYTES:
            return pa.binary(length)
    flat = _FLAT_TYPES.get(type(iceberg_type))
    if flat is None:
        message = f"the Iceberg type {iceberg_type} has no Arrow form"
        raise UnsupportedError(message)
    return flat


def storage_type(iceberg_type: IcebergType) -> ArrowType:
    """The canonical type as Arrow's kernels take it: uuid without its extension type."""
    return pa.binary(16) if isinstance(iceberg_type, UUIDType) else arrow_type(iceberg_type)


def arrow_field(field: NestedField) -> pa.Field[Any]:
    """The canonical Arrow field, without ids: a batch always travels with its Iceberg schema."""
    # All that `unknown` can be is null, required or not, and Arrow insists on it.
    nullable = not field.required or isinstance(field.field_type, UnknownType)
    return pa.field(field.name, arrow_type(field.field_type), nullable=nullable)


def arrow_schema(schema: Schema, dictionary_ids: AbstractSet[int] = frozenset()) -> pa.Schema:
    """The canonical Arrow schema.

    Top-level string and binary columns whose ids are in `dictionary_ids` are in dictionary form with int32 indices.
    """
    return pa.schema(
        [
            arrow_field(field).with_type(pa.dictionary(pa.int32(), arrow_type(field.field_type)))
            if field.field_id in dictionary_ids and isinstance(field.field_type, StringType | BinaryType)
            else arrow_field(field)
            for field in schema.fields
        ]
    )
