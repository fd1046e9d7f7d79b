"""Values in JSON, as close to Iceberg's JSON for single values as names and all values allow.

Structs are objects by name, maps are lists of pairs, decimals and uuids are strings, bytes are hexadecimal. Dates,
times and timestamps are ISO 8601, or Iceberg's integer where that has no form for them: timestamps in nanoseconds,
years outside 1 to 9999. JSON has no word for NaN and the infinities, so they are strings.
"""

from __future__ import annotations

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
            return [[to_json(key, each), to_json(item, other)] for each, other in value]
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
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
            return [(from_json(key, each), from_json(item, other)) for each, other in value]
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
