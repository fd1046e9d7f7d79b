"""Which Spark type stands for each Iceberg type, and how columns get there.

Spark takes few of Arrow's types back from Python, and matches columns by position. What it takes is decided here by
the schema alone; a column whose form is Spark's already is passed on untouched.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal

import pyarrow as pa
import pyspark
import pyspark.sql.types as st
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
from pyspark.sql.pandas.types import to_arrow_schema

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, UnsupportedError

__all__ = ["Nanoseconds", "as_arrow", "spark_arrow_schema", "spark_schema"]

Nanoseconds = Literal["error", "floor", "integer"]
"""What becomes of timestamps in nanoseconds, which Spark lacks: nothing, timestamps in microseconds, or numbers."""

_FLAT_TYPES: dict[type[IcebergType], st.DataType] = {
    BooleanType: st.BooleanType(),
    IntegerType: st.IntegerType(),
    LongType: st.LongType(),
    FloatType: st.FloatType(),
    DoubleType: st.DoubleType(),
    DateType: st.DateType(),
    TimestampType: st.TimestampNTZType(),
    TimestamptzType: st.TimestampType(),
    StringType: st.StringType(),
    UUIDType: st.StringType(),
    BinaryType: st.BinaryType(),
    FixedType: st.BinaryType(),
    GeometryType: st.BinaryType(),
    GeographyType: st.BinaryType(),
    UnknownType: st.NullType(),
}
_MICROSECONDS: dict[type[IcebergType], st.DataType] = {
    TimestampNanoType: st.TimestampNTZType(),
    TimestamptzNanoType: st.TimestampType(),
}
_TIME_DIGITS = 6
# Before 4.2 that was the default, and the parameter had another name.
_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def spark_schema(schema: Schema, nanoseconds: Nanoseconds = "error") -> st.StructType:
    """The columns as Spark has them; descriptions become comments.

    Args:
        schema: Columns of Iceberg.
        nanoseconds: What becomes of `timestamp_ns` and `timestamptz_ns`: ``"error"`` refuses them, ``"floor"`` makes
            timestamps of them that lack the last three digits, ``"integer"`` makes nanoseconds since 1970.

    Raises:
        UnsupportedError: Spark has no type for a column.
    """
    if nanoseconds not in ("error", "floor", "integer"):
        raise ConfigurationError(f'nanoseconds must be "error", "floor" or "integer", not {nanoseconds!r}')
    return _struct(schema.fields, nanoseconds, ())


def spark_arrow_schema(schema: Schema, nanoseconds: Nanoseconds = "error") -> pa.Schema:
    """The one Arrow form in which Spark takes these columns, whichever way they come."""
    return as_arrow(spark_schema(schema, nanoseconds))


def as_arrow(schema: st.StructType) -> pa.Schema:
    """The Arrow form of columns of Spark, whose timestamps are in UTC."""
    return to_arrow_schema(schema, **_IN_UTC)


def _struct(
    fields: Sequence[NestedField], nanoseconds: Nanoseconds, path: tuple[str, ...], *, optional: bool = False
) -> st.StructType:
    return st.StructType([_field(field, nanoseconds, path, optional) for field in fields])


def _field(
    field: NestedField, nanoseconds: Nanoseconds, parents: tuple[str, ...], parent_optional: bool
) -> st.StructField:
    # All that `unknown` can be is null, required or not. Fields of a struct that may be null may be null in Spark: its
    # own `toArrow` fails if they claim more.
    nullable = parent_optional or not field.required or isinstance(field.field_type, UnknownType)
    kind = _type(field, nanoseconds, parents, nullable)
    return st.StructField(field.name, kind, nullable, {"comment": field.doc} if field.doc else None)


def _type(field: NestedField, nanoseconds: Nanoseconds, parents: tuple[str, ...], nullable: bool) -> st.DataType:
    path = (*parents, field.name)
    match field.field_type:
        case StructType():
            return _struct(field.field_type.fields, nanoseconds, path, optional=nullable)
        case ListType():
            element = _field(field.field_type.element_field, nanoseconds, path, False)
            return st.ArrayType(element.dataType, element.nullable)
        case MapType():
            key = _field(field.field_type.key_field, nanoseconds, path, False)
            value = _field(field.field_type.value_field, nanoseconds, path, False)
            return st.MapType(key.dataType, value.dataType, value.nullable)
    return _flat_type(field.field_type, nanoseconds, path)


def _flat_type(iceberg_type: IcebergType, nanoseconds: Nanoseconds, path: tuple[str, ...]) -> st.DataType:
    match iceberg_type:
        case DecimalType():
            return st.DecimalType(iceberg_type.precision, iceberg_type.scale)
        case TimeType():
            return _newer_type("TimeType", "4.1", iceberg_type, path, _TIME_DIGITS)
        case VariantType():
            return _newer_type("VariantType", "4.0", iceberg_type, path)
        case TimestampNanoType() | TimestamptzNanoType():
            return _nanosecond_type(iceberg_type, nanoseconds, path)
    flat = _FLAT_TYPES.get(type(iceberg_type))
    if flat is None:
        raise UnsupportedError(f"column {'.'.join(path)!r} is {iceberg_type}, for which Spark has no type")
    return flat


def _newer_type(name: str, since: str, iceberg_type: IcebergType, path: tuple[str, ...], *of: int) -> st.DataType:
    """A type that older versions of Spark lack."""
    kind = getattr(st, name, None)
    if kind is None:
        found = f"column {'.'.join(path)!r} is {iceberg_type}, which Spark has from {since} on"
        raise UnsupportedError(f"{found}, and this is PySpark {pyspark.__version__}; leave it out with select=")
    made: st.DataType = kind(*of)
    return made


def _nanosecond_type(iceberg_type: IcebergType, nanoseconds: Nanoseconds, path: tuple[str, ...]) -> st.DataType:
    if nanoseconds == "error":
        message = (
            f"column {'.'.join(path)!r} is {iceberg_type}, and Spark's timestamps have microseconds only; read it with "
            'nanoseconds="floor" to cut the rest off, with nanoseconds="integer" as the number of nanoseconds since '
            "1970, or leave it out with select="
        )
        raise UnsupportedError(message)
    return st.LongType() if nanoseconds == "integer" else _MICROSECONDS[type(iceberg_type)]
