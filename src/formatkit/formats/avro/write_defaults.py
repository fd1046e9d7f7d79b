"""Iceberg's default values as Avro schemas spell them."""

from __future__ import annotations

import math
from decimal import Context
from typing import Any

from pyiceberg.types import DecimalType, NestedField, PrimitiveType

from formatkit.contract.values import internal_value

__all__ = ["avro_default", "decimal_bytes"]

_EXACT = Context(prec=76)


def avro_default(field: NestedField) -> Any:
    """The field's initial default as JSON, or None where it has none or JSON cannot say it (NaN, nested values)."""
    kind = field.field_type
    if field.initial_default is None or not isinstance(kind, PrimitiveType):
        return None
    value = internal_value(kind, field.initial_default)
    if isinstance(kind, DecimalType):
        unscaled = int(value.scaleb(kind.scale, _EXACT))
        value = unscaled.to_bytes(decimal_bytes(kind.precision), "big", signed=True)
    if isinstance(value, bytes):
        # Avro spells bytes as text in which each character stands for the byte of the same number.
        return value.decode("latin-1")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def decimal_bytes(precision: int) -> int:
    """The fewest bytes that hold every number of so many digits, and its sign."""
    most: int = 10**precision - 1
    return most.bit_length() // 8 + 1
