"""The wire format of Protocol Buffers, as far as ORC's metadata needs it: no schemas, no groups, every length checked.

A message is read into its fields by number. Writing goes the other way, field by field, so that a message can be copied
with some of its fields exchanged.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

__all__ = ["Message", "ProtobufError", "encode", "encode_field", "encode_varint", "field_values", "integers", "zigzag"]

Data: TypeAlias = bytes | memoryview
Value: TypeAlias = int | bytes

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_UNSIGNED_64 = (1 << 64) - 1
_SHORT_VARINTS = tuple(bytes((value,)) for value in range(0x80))


class ProtobufError(ValueError):
    """The bytes are not a message."""


class Message:
    """The fields of one message; a field that is not there has its default."""

    def __init__(self, data: Data) -> None:
        self._fields: dict[int, list[Value]] = {}
        for number, value in field_values(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def integer(self, number: int, default: int = 0) -> int:
        """An unsigned integer or an enumeration; the last one counts."""
        value = self._fields[number][-1] if number in self._fields else default
        if not isinstance(value, int):
            raise ProtobufError(f"field {number} is no integer")
        return value

    def signed(self, number: int) -> int | None:
        """A zigzag-coded integer."""
        if number not in self._fields:
            return None
        value = self.integer(number)
        return (value >> 1) ^ -(value & 1)

    def double(self, number: int) -> float | None:
        if number not in self._fields:
            return None
        value = self.content(number)
        if len(value) != struct.calcsize("<d"):
            raise ProtobufError(f"field {number} is no double")
        return float(struct.unpack("<d", value)[0])

    def content(self, number: int) -> bytes:
        """A string of bytes or an embedded message, still encoded."""
        contents = self.contents(number)
        return contents[-1] if contents else b""

    def contents(self, number: int) -> list[bytes]:
        """The same for a repeated field."""
        values = self._fields.get(number, [])
        if any(isinstance(value, int) for value in values):
            raise ProtobufError(f"field {number} is an integer")
        return [value for value in values if isinstance(value, bytes)]

    def text(self, number: int) -> str | None:
        return _text(self.content(number)) if number in self._fields else None

    def texts(self, number: int) -> list[str]:
        return [_text(value) for value in self.contents(number)]

    def messages(self, number: int) -> list[Message]:
        return [Message(value) for value in self.contents(number)]

    def integers(self, number: int) -> list[int]:
        """A repeated integer, packed or not."""
        found: list[int] = []
        for value in self._fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
            else:
                found.extend(_packed(value))
        return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"{value[:40]!r} is no UTF-8 text") from error


def field_values(data: Data) -> list[tuple[int, Value]]:
    """Number and value of each field in stored order. Values other than integers are bytes, still encoded."""
    data = bytes(data)
    found: list[tuple[int, Value]] = []
    position, end = 0, len(data)
    while position < end:
        key = data[position]
        position += 1
        # Most integers of metadata are short; a call for each of them would take longer than everything else.
        if key > 0x7F:
            key, position = _varint(data, position - 1)
        kind = key & 7
        if key < 8:
            raise ProtobufError(f"a field without a number at byte {position}")
        if kind in (_VARINT, _LENGTH):
            value = data[position] if position < end else 0x80
            position += 1
            if value > 0x7F:
                value, position = _varint(data, position - 1)
            if kind == _VARINT:
                found.append((key >> 3, value))
                continue
        elif kind in (_FIXED64, _FIXED32):
            value = 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {kind} at byte {position}")
        if position + value > end:
            raise ProtobufError(f"field {key >> 3} claims {value} bytes, {end - position} are left")
        found.append((key >> 3, data[position : position + value]))
        position += value
    return found


def integers(data: Data) -> dict[int, int]:
    """The unsigned integers of a message by the numbers of their fields; the last of each counts."""
    return {number: value for number, value in field_values(data) if isinstance(value, int)}


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in data[position : position + _MAX_VARINT_BYTES]:
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UNSIGNED_64, position
        shift += 7
    raise ProtobufError(f"an integer at byte {position} has no end")


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def encode(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """A message of these fields."""
    return b"".join(encode_field(number, value) for number, value in fields)


def encode_field(number: int, value: int | bytes) -> bytes:
    """One field: an unsigned integer, or bytes with their length before them."""
    if isinstance(value, int):
        return encode_varint(number << 3 | _VARINT) + encode_varint(value)
    return encode_varint(number << 3 | _LENGTH) + encode_varint(len(value)) + value


def zigzag(value: int) -> int:
    """A signed integer as the unsigned one that stands for it."""
    return (value << 1) ^ (value >> 63)


def encode_varint(value: int) -> bytes:
    """An unsigned integer as such."""
    if value < len(_SHORT_VARINTS):
        return _SHORT_VARINTS[value]
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
