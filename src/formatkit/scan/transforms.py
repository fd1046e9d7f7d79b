"""Turns ranges of partition values back into ranges of the values that were partitioned."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from formatkit.contract.truncation import truncated_upper

__all__ = ["source_range"]

_EPOCH = date(1970, 1, 1).toordinal()
_HOURS = 24
_UNITS_PER_HOUR: dict[type[IcebergType], int] = {
    TimestampType: 3_600_000_000,
    TimestamptzType: 3_600_000_000,
    TimestampNanoType: 3_600_000_000_000,
    TimestamptzNanoType: 3_600_000_000_000,
}


def source_range(transform: Transform[Any, Any], source: IcebergType, lower: Any, upper: Any) -> tuple[Any, Any]:
    """The least and greatest value whose transform lies in [lower, upper]; None where there is no such bound."""
    if lower is None or upper is None:
        return None, None
    if isinstance(transform, IdentityTransform):
        return lower, upper
    if isinstance(transform, TruncateTransform):
        return lower, _last_truncated(upper, transform.width, source)
    if isinstance(transform, YearTransform | MonthTransform | DayTransform | HourTransform):
        # Old writers rounded times before 1970 towards 1970, so such a partition may begin one step earlier.
        exact = lower > 0 or (isinstance(transform, DayTransform) and isinstance(source, DateType))
        first = _start(transform, source, lower if exact else lower - 1)
        after = _start(transform, source, upper + 1)
        return first, None if after is None else after - 1
    return None, None


def _start(transform: Transform[Any, Any], source: IcebergType, step: int) -> int | None:
    """The first day, microsecond or nanosecond of a year, month, day or hour that is counted from 1970."""
    hours_or_days = step
    try:
        if isinstance(transform, YearTransform):
            hours_or_days = date(1970 + step, 1, 1).toordinal() - _EPOCH
        elif isinstance(transform, MonthTransform):
            years, month = divmod(step, 12)
            hours_or_days = date(1970 + years, month + 1, 1).toordinal() - _EPOCH
    except (ValueError, OverflowError):
        return None
    if isinstance(source, DateType):
        return hours_or_days
    units = _UNITS_PER_HOUR.get(type(source))
    if units is None:
        return None
    return hours_or_days * units if isinstance(transform, HourTransform) else hours_or_days * _HOURS * units


def _last_truncated(value: Any, width: int, source: IcebergType) -> Any:
    """The greatest value that is truncated to `value`, or something above it."""
    if isinstance(source, IntegerType | LongType):
        return value + width - 1
    if isinstance(source, DecimalType):
        return value + Decimal(width - 1).scaleb(-source.scale)
    if len(value) < width:
        return value
    return truncated_upper(value + value[:1], width)
