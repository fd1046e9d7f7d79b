"""Statistics of a column in several parts of a file as one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, NamedTuple

from formatkit.formats.orc.protobuf import Message, encode, encode_field, zigzag

__all__ = ["merge_statistics"]

_COUNT, _HAS_NULL = 1, 10
_FIXED_64 = 1
_LARGEST = (1 << 63) - 1


def merge_statistics(parts: Sequence[bytes]) -> bytes:
    """One message for several. What cannot be said of the whole is left out."""
    messages = [Message(part) for part in parts]
    fields: list[tuple[int, int | bytes]] = [(_COUNT, sum(one.integer(_COUNT) for one in messages))]
    for number, rules in _RULES.items():
        if any(number in one for one in messages):
            with_values = [Message(one.content(number)) for one in messages if one.integer(_COUNT)]
            fields.append((number, b"".join(_merged(with_values, *rule) for rule in rules.items())))
    return encode([*fields, (_HAS_NULL, max(one.integer(_HAS_NULL) for one in messages))])


class _Rule(NamedTuple):
    """How a field is read, made of two, and written; it is left out if one of the parts has none."""

    read: Callable[[Message, int], Any]
    choose: Callable[[Any, Any], Any]
    write: Callable[[int, Any], bytes]


def _merged(parts: Sequence[Message], number: int, rule: _Rule) -> bytes:
    values = [rule.read(part, number) for part in parts]
    if not values or None in values:
        return b""
    return rule.write(number, reduce(rule.choose, values))


def _content(message: Message, number: int) -> bytes | None:
    return message.content(number) if number in message else None


def _decimal(message: Message, number: int) -> Decimal | None:
    text = message.text(number)
    return None if text is None else Decimal(text)


def _first_integer(message: Message, number: int) -> int | None:
    return next(iter(message.integers(number)), None)


def _sum(one: Any, other: Any) -> Any:
    return one + other


def _write_signed(number: int, value: int) -> bytes:
    # A sum may be too large, which ORC tells by leaving it out.
    return encode_field(number, zigzag(value)) if abs(value) <= _LARGEST + (value < 0) else b""


def _write_double(number: int, value: float) -> bytes:
    return bytes((number << 3 | _FIXED_64,)) + struct.pack("<d", value)


def _write_decimal(number: int, value: Decimal) -> bytes:
    return encode_field(number, f"{value:f}".encode())


def _bounds(
    read: Callable[[Message, int], Any], write: Callable[[int, Any], bytes], first: int = 1
) -> dict[int, _Rule]:
    return {first: _Rule(read, min, write), first + 1: _Rule(read, max, write)}


_SIGNED_SUM = _Rule(Message.signed, _sum, _write_signed)
_RULES: dict[int, dict[int, _Rule]] = {
    2: {**_bounds(Message.signed, _write_signed), 3: _SIGNED_SUM},
    3: {**_bounds(Message.double, _write_double), 3: _Rule(Message.double, _sum, _write_double)},
    4: {**_bounds(_content, encode_field), 3: _SIGNED_SUM},
    5: {1: _Rule(_first_integer, _sum, encode_field)},
    6: _bounds(_decimal, _write_decimal),
    7: _bounds(Message.signed, _write_signed),
    8: {1: _SIGNED_SUM},
    9: _bounds(Message.signed, _write_signed, first=3),
    12: {**_bounds(_first_integer, encode_field), 3: _Rule(_first_integer, _sum, encode_field)},
}
"""By the number of a kind of statistics, then by that of a field in it."""
