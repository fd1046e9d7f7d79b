"""Which Iceberg type a flat Avro type has."""

from __future__ import annotations

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.formats.avro.avro_types import AvroType

__all__ = ["primitive_type", "unit_in_micros"]

_PLAIN: dict[str, PrimitiveType] = {
    "null": UnknownType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
}
_LOGICAL: dict[tuple[str, str | None], PrimitiveType] = {
    ("int", "date"): DateType(),
    ("int", "time-millis"): TimeType(),
    ("long", "time-micros"): TimeType(),
    ("long", "local-timestamp-millis"): TimestampType(),
    ("long", "local-timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-nanos"): TimestampNanoType(),
    ("string", "uuid"): UUIDType(),
}
_MOMENTS: dict[tuple[str, str | None], tuple[PrimitiveType, PrimitiveType]] = {
    ("long", "timestamp-millis"): (TimestampType(), TimestamptzType()),
    ("long", "timestamp-micros"): (TimestampType(), TimestamptzType()),
    ("long", "timestamp-nanos"): (TimestampNanoType(), TimestamptzNanoType()),
}
_MILLIS = frozenset({("int", "time-millis"), ("long", "timestamp-millis"), ("long", "local-timestamp-millis")})
_MAX_PRECISION = 38


def primitive_type(stored: AvroType, *, has_id: bool) -> PrimitiveType | None:
    """The Iceberg type, if there is one. A logical type that is not known or does not fit its base is ignored.

    `has_id` tells whether the column was written for Iceberg, where a property says what Avro's word means.
    """
    place = (stored.kind, stored.logical)
    if place in _MOMENTS:
        # Iceberg takes an absent property for false. Avro alone calls a timestamp a moment in UTC, and so do those who
        # write without ids.
        return _MOMENTS[place][stored.properties.get("adjust-to-utc", not has_id) is True]
    if place in _LOGICAL:
        return _LOGICAL[place]
    if stored.logical == "decimal" and stored.kind in ("bytes", "fixed"):
        return _decimal(stored)
    return _fixed(stored) if stored.kind == "fixed" else _PLAIN.get(stored.kind)


def unit_in_micros(stored: AvroType) -> int:
    """How many of Iceberg's units one stored unit is: times and timestamps in milliseconds are widened."""
    return 1000 if (stored.kind, stored.logical) in _MILLIS else 1


def _decimal(stored: AvroType) -> PrimitiveType | None:
    precision, scale = stored.properties.get("precision"), stored.properties.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0):
        return _fixed(stored) if stored.kind == "fixed" else BinaryType()
    return DecimalType(precision, scale) if precision <= _MAX_PRECISION else None


def _fixed(stored: AvroType) -> PrimitiveType | None:
    if stored.logical == "uuid" and stored.size == 16:
        return UUIDType()
    return FixedType(stored.size) if stored.size else None
