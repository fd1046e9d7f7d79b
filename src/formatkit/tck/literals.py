"""Python's own values as Iceberg's internal ones: days, microseconds, nanoseconds, bytes, decimals."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

__all__ = ["internal", "unscaled"]

_DECIMALS = Context(prec=76)
_EPOCH = date(1970, 1, 1).toordinal()
_FRACTION = re.compile(r"\.(\d+)")
_FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def internal(value: Any, iceberg_type: IcebergType) -> Any:
    """The value as Iceberg holds it for this type. Numbers for dates and times are taken to be internal already."""
    if value is None:
        return None
    convert = _CONVERSIONS.get(type(iceberg_type))
    if isinstance(iceberg_type, DecimalType):
        return _DECIMALS.quantize(Decimal(value), Decimal(1).scaleb(-iceberg_type.scale))
    return value if convert is None else convert(value)


def unscaled(number: int, scale: int) -> Decimal:
    """The decimal with these digits, whatever their number."""
    return Decimal(number).scaleb(-scale, context=_DECIMALS)


def _days(value: Any) -> int:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    return value if isinstance(value, int) else int(value.toordinal()) - _EPOCH


def _time_micros(value: Any) -> int:
    if isinstance(value, str):
        value = time.fromisoformat(value)
    if isinstance(value, int):
        return value
    return int(((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond)


def _nanos(value: Any) -> int:
    if isinstance(value, int):
        return value
    fraction = "0"
    if isinstance(value, str):
        if found := _FRACTION.search(value):
            fraction = found.group(1)
        value = datetime.fromisoformat(_FRACTION.sub("", value))
        nanos = int(fraction.ljust(9, "0"))
    else:
        nanos = value.microsecond * 1000
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    seconds = (value.toordinal() - _EPOCH) * 86_400 + value.hour * 3600 + value.minute * 60 + value.second
    return int(seconds) * 1_000_000_000 + nanos


def _micros(value: Any) -> int:
    return value if isinstance(value, int) else _nanos(value) // 1000


def _single(value: Any) -> float:
    """Rounded to 32 bits, unless it lies outside what 32 bits can hold and is best compared as it is."""
    number = float(value)
    return struct.unpack("<f", struct.pack("<f", number))[0] if abs(number) <= _FLOAT_MAX else number


def _uuid(value: Any) -> bytes:
    return value if isinstance(value, bytes) else UUID(str(value)).bytes


_CONVERSIONS: dict[type[IcebergType], Callable[[Any], Any]] = {
    DateType: _days,
    TimeType: _time_micros,
    TimestampType: _micros,
    TimestamptzType: _micros,
    TimestampNanoType: _nanos,
    TimestamptzNanoType: _nanos,
    FloatType: _single,
    DoubleType: float,
    UUIDType: _uuid,
}
