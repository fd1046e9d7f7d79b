"""Rows as JSON for other implementations, and back; the Java side spells values in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UUIDType,
)

from formatkit.tck.naive import Row

__all__ = ["from_json", "to_json"]


def to_json(schema: Schema, rows: Iterable[Row]) -> list[list[Any]]:
    """Rows by field id as lists of their fields."""
    return [_struct(schema.fields, row) for row in rows]


def from_json(schema: Schema, rows: Iterable[Sequence[Any]]) -> list[Row]:
    """Lists of fields as rows by field id."""
    return [_row(schema.fields, row) for row in rows]


def _struct(fields: Sequence[NestedField], row: Row) -> list[Any]:
    return [_encoded(row[field.field_id], field.field_type) for field in fields]


def _row(fields: Sequence[NestedField], values: Sequence[Any]) -> Row:
    return {field.field_id: _decoded(value, field.field_type) for field, value in zip(fields, values, strict=True)}


def _encoded(value: Any, iceberg_type: IcebergType) -> Any:
    if value is None:
        return None
    match iceberg_type:
        case StructType():
            return _struct(iceberg_type.fields, value)
        case ListType():
            return [_encoded(element, iceberg_type.element_type) for element in value]
        case MapType():
            return [
                (_encoded(key, iceberg_type.key_type), _encoded(item, iceberg_type.value_type)) for key, item in value
            ]
        case DecimalType():
            return f"{value:f}"
        case FloatType() | DoubleType():
            return repr(float(value)).replace("inf", "Infinity").replace("nan", "NaN")
        case UUIDType():
            return value.hex() if isinstance(value, bytes) else value.hex
        case BinaryType() | FixedType():
            return value.hex()
    return value


def _decoded(value: Any, iceberg_type: IcebergType) -> Any:
    if value is None:
        return None
    match iceberg_type:
        case StructType():
            return _row(iceberg_type.fields, value)
        case ListType():
            return [_decoded(element, iceberg_type.element_type) for element in value]
        case MapType():
            return [
                (_decoded(key, iceberg_type.key_type), _decoded(item, iceberg_type.value_type)) for key, item in value
            ]
        case DecimalType():
            return Decimal(value)
        case FloatType() | DoubleType():
            return float(value)
        case UUIDType() | BinaryType() | FixedType():
            return bytes.fromhex(value)
    return value
