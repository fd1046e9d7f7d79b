"""Where a number lies among the values that a column's type can hold."""

from __future__ import annotations

import math
import struct
import sys
from ctypes import c_float
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

__all__ = ["Bracket", "bracket_decimal", "bracket_double", "bracket_float", "bracket_integer", "round_to_float"]

_FLOAT_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


@dataclass(frozen=True)
class Bracket:
    """The nearest values of a type on both sides of a number; None where there is none on that side."""

    floor: Any
    ceil: Any

    @property
    def exact(self) -> bool:
        """Whether the type holds the number itself."""
        return self.floor is not None and self.ceil is not None and bool(self.floor == self.ceil)

    @classmethod
    def at(cls, value: Any) -> Bracket:
        return cls(value, value)


def bracket_integer(value: int | Fraction | float, low: int, high: int) -> Bracket:
    """Among the integers from `low` to `high`; infinities are beyond both."""
    if value > high:
        return Bracket(high, None)
    if value < low:
        return Bracket(None, low)
    return Bracket(math.floor(value), math.ceil(value))


def bracket_decimal(value: int | Fraction | Decimal | float, precision: int, scale: int) -> Bracket:
    """Among the decimals of one precision and scale."""
    limit = 10**precision - 1
    number = value if isinstance(value, float) and math.isinf(value) else Fraction(value) * 10**scale
    unscaled = bracket_integer(number, -limit, limit)
    return Bracket(_scaled(unscaled.floor, scale), _scaled(unscaled.ceil, scale))


def _scaled(unscaled: int | None, scale: int) -> Decimal | None:
    if unscaled is None:
        return None
    # Built from digits, because arithmetic would round to the 28 digits of the default context.
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def bracket_double(value: int | Fraction | Decimal | float) -> Bracket:
    """The nearest double; a finite number beyond the largest double lies between it and infinity."""
    try:
        rounded = float(value)
    except OverflowError:
        rounded = math.inf if value > 0 else -math.inf
    if math.isinf(rounded) and not (isinstance(value, float) and math.isinf(value)):
        return _beyond(rounded, sys.float_info.max)
    return Bracket.at(rounded)


def bracket_float(value: float) -> Bracket:
    """The floats on both sides of a double."""
    nearest = round_to_float(value)
    if math.isinf(nearest) and not math.isinf(value):
        return _beyond(nearest, _FLOAT_MAX)
    if nearest == value:
        return Bracket.at(nearest)
    return Bracket(nearest, _next_float(nearest)) if nearest < value else Bracket(-_next_float(-nearest), nearest)


def round_to_float(value: float) -> float:
    """The float nearest to a double; infinite where the double is too large."""
    return c_float(value).value


def _beyond(infinity: float, largest: float) -> Bracket:
    return Bracket(largest, infinity) if infinity > 0 else Bracket(infinity, -largest)


def _next_float(value: float) -> float:
    """The smallest float above `value`."""
    if value == 0.0:
        bits = 1
    else:
        bits = struct.unpack("<i", struct.pack("<f", value))[0]
        bits += 1 if value > 0 else -1
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])
