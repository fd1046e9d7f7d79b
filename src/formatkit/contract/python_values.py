"""Iceberg's internal values as Python's own, for checks and for people."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType, TimeType, UUIDType

__all__ = ["python_value"]

_DAY_ZERO = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def python_value(iceberg_type: IcebergType, internal: Any) -> Any:
    """A value of a leaf that is not null: date, time, datetime (aware for timestamptz), Decimal, UUID, bytes, str.

    Where Python has none it stays Iceberg's integer: timestamp_ns always, and a date or timestamp outside the years 1
    to 9999.
    """
    convert = _CONVERTERS.get(type(iceberg_type))
    if convert is None:
        return internal
    try:
        return convert(internal)
    except (OverflowError, ValueError):
        return internal


def _time(micros: int) -> time:
    seconds, micro = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micro)


_CONVERTERS: dict[type[IcebergType], Callable[[Any], Any]] = {
    DateType: lambda days: _DAY_ZERO + timedelta(days),
    TimeType: _time,
    TimestampType: lambda micros: _EPOCH + timedelta(microseconds=micros),
    TimestamptzType: lambda micros: _EPOCH_UTC + timedelta(microseconds=micros),
    UUIDType: lambda content: UUID(bytes=content),
}
