"""The one Polars form in which batches of an Iceberg schema are handed out."""

from __future__ import annotations

import polars as pl
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

__all__ = ["NANOS_PER_MICRO", "polars_schema", "polars_type"]

NANOS_PER_MICRO = 1000
"""Times are microseconds for Iceberg and nanoseconds for Polars."""

_FLAT_TYPES: dict[type[IcebergType], pl.DataType] = {
    BooleanType: pl.Boolean(),
    IntegerType: pl.Int32(),
    LongType: pl.Int64(),
    FloatType: pl.Float32(),
    DoubleType: pl.Float64(),
    DateType: pl.Date(),
    TimeType: pl.Time(),
    TimestampType: pl.Datetime("us"),
    TimestamptzType: pl.Datetime("us", "UTC"),
    TimestampNanoType: pl.Datetime("ns"),
    TimestamptzNanoType: pl.Datetime("ns", "UTC"),
    StringType: pl.String(),
    BinaryType: pl.Binary(),
    FixedType: pl.Binary(),
    UUIDType: pl.Binary(),
    UnknownType: pl.Null(),
    GeometryType: pl.Binary(),
    GeographyType: pl.Binary(),
    VariantType: pl.Struct({"metadata": pl.Binary(), "value": pl.Binary()}),
}


def polars_type(iceberg_type: IcebergType) -> pl.DataType:
    """The canonical Polars type. It never depends on data.

    Maps are lists of structs: the type `Map` is younger than all else here, and its Python form is a dictionary, which
    cannot hold what Iceberg's maps may.
    """
    match iceberg_type:
        case StructType():
            return pl.Struct({field.name: polars_type(field.field_type) for field in iceberg_type.fields})
        case ListType():
            return pl.List(polars_type(iceberg_type.element_type))
        case MapType():
            entry = {"key": polars_type(iceberg_type.key_type), "value": polars_type(iceberg_type.value_type)}
            return pl.List(pl.Struct(entry))
        case DecimalType():
            return pl.Decimal(iceberg_type.precision, iceberg_type.scale)
    flat = _FLAT_TYPES.get(type(iceberg_type))
    if flat is None:
        message = f"the Iceberg type {iceberg_type} has no Polars form"
        raise UnsupportedError(message)
    return flat


def polars_schema(schema: Schema) -> pl.Schema:
    """The canonical Polars schema."""
    return pl.Schema({field.name: polars_type(field.field_type) for field in schema.fields})
