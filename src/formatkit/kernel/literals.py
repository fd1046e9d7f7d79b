"""Turns the literals of a filter into values of the column that they are compared with."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

from pyiceberg.expressions.literals import (
    AboveMax,
    BelowMin,
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    FixedLiteral,
    FloatLiteral,
    Literal,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.kernel.intervals import (
    Bracket,
    bracket_decimal,
    bracket_double,
    bracket_float,
    bracket_integer,
    round_to_float,
)

__all__ = ["INTEGER_RANGES", "NANOS", "LiteralError", "bracket_literal", "comparable"]

NANOS: dict[type[IcebergType], int] = {
    DateType: 86_400_000_000_000,
    TimeType: 1_000,
    TimestampType: 1_000,
    TimestamptzType: 1_000,
    TimestampNanoType: 1,
    TimestamptzNanoType: 1,
}
"""How many nanoseconds one unit of a type's internal value is."""

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
INTEGER_RANGES: dict[type[IcebergType], tuple[int, int]] = {
    IntegerType: _INT,
    DateType: _INT,
    LongType: _LONG,
    TimeType: _LONG,
    TimestampType: _LONG,
    TimestamptzType: _LONG,
    TimestampNanoType: _LONG,
    TimestamptzNanoType: _LONG,
}
"""The least and the greatest internal value of the types that are stored as integers."""

_ZONED = (TimestamptzType, TimestamptzNanoType)
_EXPONENT_LIMIT = 400
# A double has 1,075 digits at most. Arithmetic on a million of them takes minutes.
_MAX_DIGITS = 2_000
_CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_TIME = re.compile(_CLOCK)
_TIMESTAMP = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[T ]{_CLOCK}(Z|[+-]\d{{2}}:\d{{2}})?)?")


class LiteralError(Exception):
    """What to write instead of a literal that does not fit its column. Never leaves the binder."""


def comparable(type_: IcebergType) -> bool:
    """Whether values of the type have an order that filters may use."""
    return type(type_) in _CONVERSIONS


def bracket_literal(type_: IcebergType, literal: Literal[Any]) -> Bracket:
    """The literal among the values of a type. Raises `LiteralError` if it is of another kind."""
    return _CONVERSIONS[type(type_)](type_, literal)


def _boolean(_: IcebergType, literal: Literal[Any]) -> Bracket:
    if isinstance(literal, BooleanLiteral):
        return Bracket.at(literal.value)
    if isinstance(literal, StringLiteral) and literal.value.lower() in ("true", "false"):
        return Bracket.at(literal.value.lower() == "true")
    raise LiteralError("use true or false")


def _integer(type_: IcebergType, literal: Literal[Any]) -> Bracket:
    low, high = INTEGER_RANGES[type(type_)]
    if isinstance(literal, AboveMax):
        return Bracket(high, None)
    if isinstance(literal, BelowMin):
        return Bracket(None, low)
    number = _number(literal)
    return bracket_integer(Fraction(number) if isinstance(number, Decimal) else number, low, high)


def _decimal(type_: DecimalType, literal: Literal[Any]) -> Bracket:
    number = _number(literal)
    if isinstance(number, float) and math.isfinite(number):
        # The shortest digits that mean this float are what was typed; its binary expansion is not.
        number = Decimal(repr(number))
    return bracket_decimal(number, type_.precision, type_.scale)


def _double(_: IcebergType, literal: Literal[Any]) -> Bracket:
    return bracket_double(_number(literal))


def _float(_: IcebergType, literal: Literal[Any]) -> Bracket:
    if isinstance(literal, AboveMax):
        return bracket_float(math.ldexp(1.0, 128))
    if isinstance(literal, BelowMin):
        return bracket_float(-math.ldexp(1.0, 128))
    double = bracket_double(_number(literal))
    if not double.exact:
        return bracket_float(min(double.floor, double.ceil, key=abs))
    # The literal takes the column's type: 0.1 means the float 0.1, which is not the double 0.1.
    nearest = round_to_float(double.floor)
    return bracket_float(double.floor) if math.isinf(nearest) else Bracket.at(nearest)


def _number(literal: Literal[Any]) -> int | float | Decimal:
    number: int | float | Decimal
    if isinstance(literal, StringLiteral):
        number = _parse_number(literal.value)
    elif isinstance(literal, LongLiteral | DecimalLiteral | DoubleLiteral | FloatLiteral):
        number = literal.value
    else:
        raise LiteralError("use a number")
    if number != number:
        raise LiteralError("NaN equals nothing; use `is nan` or `is not nan`")
    if isinstance(number, Decimal) and number.is_finite() and len(number.as_tuple().digits) > _MAX_DIGITS:
        raise LiteralError(f"use a number of at most {_MAX_DIGITS:,} digits")
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > _EXPONENT_LIMIT:
        raise LiteralError(f"use a number with an exponent between {-_EXPONENT_LIMIT} and {_EXPONENT_LIMIT}")
    return number


def _parse_number(text: str) -> float | Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise LiteralError("use a number") from None
    return number if number.is_finite() else float(number)


def _instant(type_: IcebergType, literal: Literal[Any]) -> Bracket:
    """Dates and timestamps, all of them exact in nanoseconds since the epoch."""
    unit = NANOS[type(type_)]
    if isinstance(literal, DateLiteral):
        nanos = literal.value * NANOS[DateType]
    elif isinstance(literal, TimestampLiteral):
        nanos = literal.value * NANOS[TimestampType]
    elif isinstance(literal, StringLiteral):
        nanos = _timestamp_nanos(literal.value, zoned=isinstance(type_, _ZONED))
    elif isinstance(literal, LongLiteral | AboveMax | BelowMin):
        return _integer(type_, literal)
    else:
        raise LiteralError("use a date, a datetime or ISO 8601 text")
    return bracket_integer(Fraction(nanos, unit), *INTEGER_RANGES[type(type_)])


def _timestamp_nanos(text: str, *, zoned: bool) -> int:
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        raise LiteralError("use ISO 8601 text such as '2020-01-31' or '2020-01-31T23:59:59.5'")
    day, hour, minute, second, fraction, zone = found.groups()
    if zoned and zone is None:
        raise LiteralError(f"add a time zone, such as '{day}T{hour or '00'}:{minute or '00'}:{second or '00'}+00:00'")
    if zone is not None and not zoned:
        raise LiteralError("leave out the time zone: the column has none")
    try:
        nanos = (date.fromisoformat(day) - date(1970, 1, 1)).days * NANOS[DateType]
    except ValueError:
        raise LiteralError("there is no such day") from None
    if hour is not None:
        nanos += _clock_nanos(hour, minute, second, fraction)
    if zone not in (None, "Z"):
        offset = _clock_nanos(zone[1:3], zone[4:6], None, None)
        nanos += offset if zone[0] == "-" else -offset
    return nanos


def _clock_nanos(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise LiteralError("there is no such time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def _time(type_: IcebergType, literal: Literal[Any]) -> Bracket:
    if isinstance(literal, TimeLiteral):
        return Bracket.at(literal.value)
    if isinstance(literal, LongLiteral | AboveMax | BelowMin):
        return _integer(type_, literal)
    if isinstance(literal, StringLiteral) and (found := _TIME.fullmatch(literal.value.strip())):
        return bracket_integer(Fraction(_clock_nanos(*found.groups()), NANOS[TimeType]), *INTEGER_RANGES[TimeType])
    raise LiteralError("use a time or text such as '23:59:59.5'")


def _string(_: IcebergType, literal: Literal[Any]) -> Bracket:
    if isinstance(literal, StringLiteral):
        return Bracket.at(literal.value)
    raise LiteralError("use text in single quotes")


def _uuid(_: IcebergType, literal: Literal[Any]) -> Bracket:
    if isinstance(literal, StringLiteral):
        try:
            return Bracket.at(UUID(literal.value).bytes)
        except ValueError:
            raise LiteralError("use a UUID") from None
    return _bytes(literal, 16)


def _fixed(type_: FixedType, literal: Literal[Any]) -> Bracket:
    return _bytes(literal, len(type_))


def _binary(_: IcebergType, literal: Literal[Any]) -> Bracket:
    return _bytes(literal, None)


def _bytes(literal: Literal[Any], length: int | None) -> Bracket:
    if isinstance(literal, BinaryLiteral | FixedLiteral | UUIDLiteral) and length in (None, len(literal.value)):
        return Bracket.at(bytes(literal.value))
    raise LiteralError("use bytes" if length is None else f"use {length} bytes")


_CONVERSIONS: dict[type[IcebergType], Callable[[Any, Literal[Any]], Bracket]] = {
    BooleanType: _boolean,
    IntegerType: _integer,
    LongType: _integer,
    FloatType: _float,
    DoubleType: _double,
    DecimalType: _decimal,
    DateType: _instant,
    TimeType: _time,
    TimestampType: _instant,
    TimestamptzType: _instant,
    TimestampNanoType: _instant,
    TimestamptzNanoType: _instant,
    StringType: _string,
    UUIDType: _uuid,
    FixedType: _fixed,
    BinaryType: _binary,
}
