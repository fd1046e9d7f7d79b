"""Values in JSON, as Iceberg's spec writes single values where it can.

It cannot everywhere: structs are objects by name instead of by id, and dates and timestamps are ISO 8601 only within
the years 1 to 9999. Outside of them, and for nanoseconds, they are Iceberg's integers. JSON has no word for NaN and the
infinities, so they are strings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.contract.variant import Variant, VariantType

__all__ = ["from_json", "to_json"]


def to_json(kind: IcebergType, value: Any) -> Any:
    """What `json.dumps` takes, for a value as `ArrowBatch.rows` hands it out."""
    if value is None:
        return None
    match kind:
        case StructType(fields=fields):
            return {field.name: to_json(field.field_type, child) for field, child in zip(fields, value, strict=True)}
        case ListType(element_type=element):
            return [to_json(element, each) for each in value]
        case MapType(key_type=key, value_type=item):
            keys, items = [each for each, _ in value], [each for _, each in value]
            return {"keys": [to_json(key, each) for each in keys], "values": [to_json(item, each) for each in items]}
    match value:
        case float():
            return value if math.isfinite(value) else json.dumps(value)
        case date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            return value.hex()
        case Variant():
            return [value.metadata.hex(), value.value.hex()]
    return value


def from_json(kind: IcebergType, value: Any) -> Any:
    """A value that `column_of` takes; raises one of Python's errors for JSON that is none of the type."""
    if value is None:
        return None
    match kind:
        case StructType(fields=fields):
            return tuple(from_json(field.field_type, value[field.name]) for field in fields)
        case ListType(element_type=element):
            return [from_json(element, each) for each in value]
        case MapType(key_type=key, value_type=item):
            pairs = zip(value["keys"], value["values"], strict=True)
            return [(from_json(key, each), from_json(item, other)) for each, other in pairs]
    parse = _PARSERS.get(type(kind))
    return parse(value) if parse is not None and not isinstance(value, int) else value


def _variant(parts: list[str]) -> Variant:
    metadata, value = map(bytes.fromhex, parts)
    return Variant(metadata, value)


_PARSERS: dict[type[IcebergType], Callable[[Any], Any]] = {
    FloatType: float,
    DoubleType: float,
    DecimalType: Decimal,
    DateType: date.fromisoformat,
    TimeType: time.fromisoformat,
    TimestampType: datetime.fromisoformat,
    TimestamptzType: datetime.fromisoformat,
    UUIDType: UUID,
    FixedType: bytes.fromhex,
    BinaryType: bytes.fromhex,
    GeometryType: bytes.fromhex,
    GeographyType: bytes.fromhex,
    VariantType: _variant,
}
