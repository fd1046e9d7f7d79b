"""Thrift's compact protocol, as far as Parquet's metadata needs it: structs become dictionaries by field number.

The bytes come from files that may be damaged or hostile. Every value takes at least one byte, numbers have at most 64
bits, and nesting is limited: decoding ends in time proportional to the length of the input, or with `ThriftError`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Field",
    "ThriftError",
    "binaries",
    "binary",
    "decode_struct",
    "encode",
    "encode_part",
    "find_field",
    "i8",
    "i32",
    "i32s",
    "i64",
    "list_of",
    "nested",
    "varint",
    "without_fields",
]

Bytes = bytes | memoryview

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

_MAX_SHIFT = 63
_MAX_DEPTH = 32
_LONG_LIST = 15


class ThriftError(ValueError):
    """The bytes are not what the protocol allows."""


def decode_struct(data: Bytes, at: int = 0, *, after: int = 0) -> tuple[dict[int, Any], int]:
    """Decode one struct.

    Args:
        data: The bytes.
        at: Where the struct begins.
        after: To begin in the middle of a struct: the number of the field before `at`.

    Returns:
        The values by field number, and where the struct ends.
    """
    try:
        return _struct(data, at, after, _MAX_DEPTH)
    except (IndexError, struct.error):
        message = f"the struct at byte {at} is cut off after {len(data)} bytes"
        raise ThriftError(message) from None


def find_field(data: bytes, wanted: int) -> Field:
    """A field of the struct at the head of `data`, as it stands there. The fields behind it are not decoded."""
    at = number = 0
    try:
        while header := data[at]:
            number, at = (number + (header >> 4), at + 1) if header >> 4 else _zigzag(data, at + 1)
            start, kind = at, header & 0x0F
            if kind not in (_TRUE, _FALSE):
                _, at = _value(data, at, kind, _MAX_DEPTH)
            if number == wanted:
                return Field(number, kind, data[start:at])
    except (IndexError, struct.error):
        pass
    message = f"field {wanted} is missing or cut off"
    raise ThriftError(message)


Fields: TypeAlias = "Mapping[int, Fields]"
"""Fields by their numbers: those to be left out have none of their own, others are structs or lists of these."""


def without_fields(data: bytes, unwanted: Fields) -> bytes:
    """The struct at the head of `data` without some of its fields, at any depth. Other fields keep their bytes."""
    try:
        return _copied(data, 0, unwanted)[0]
    except (IndexError, struct.error):
        message = f"a struct is cut off after {len(data)} bytes"
        raise ThriftError(message) from None


def _copied(data: bytes, at: int, unwanted: Fields) -> tuple[bytes, int]:
    kept: list[Field] = []
    number = 0
    while header := data[at]:
        number, at = (number + (header >> 4), at + 1) if header >> 4 else _zigzag(data, at + 1)
        start, kind, inner = at, header & 0x0F, unwanted.get(number)
        if kind in (_TRUE, _FALSE):
            value = b""
        elif inner and kind == _STRUCT:
            value, at = _copied(data, at, inner)
        elif inner and kind == _LIST and data[at] & 0x0F == _STRUCT:
            long = data[at] >> 4 == _LONG_LIST
            count, at = varint(data, at + 1) if long else (data[at] >> 4, at + 1)
            items = [data[start:at]]
            for _ in range(count):
                item, at = _copied(data, at, inner)
                items.append(item)
            value = b"".join(items)
        else:
            _, at = _value(data, at, kind, _MAX_DEPTH)
            value = data[start:at]
        if inner is None or inner:
            kept.append(Field(number, kind, value))
    return encode(*kept), at + 1


def _struct(data: Bytes, at: int, number: int, depth: int) -> tuple[dict[int, Any], int]:
    if not depth:
        raise ThriftError("structs are nested too deeply")
    fields: dict[int, Any] = {}
    while header := data[at]:
        at += 1
        if header >> 4:
            number += header >> 4
        else:
            number, at = _zigzag(data, at)
        kind = header & 0x0F
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: Bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 6 | 5 | 4:
            return _zigzag(data, at)
        case 8:
            length, at = varint(data, at)
            if at + length > len(data):
                raise IndexError
            return data[at : at + length], at + length
        case 12:
            return _struct(data, at, 0, depth - 1)
        case 9 | 10:
            return _list(data, at, depth)
        case 1 | 2:
            return data[at] == _TRUE, at + 1
        case 3:
            return int.from_bytes(data[at : at + 1], "little", signed=True), at + 1
        case 7:
            return struct.unpack_from("<d", data, at)[0], at + 8
    message = f"no value can have the type {kind}"
    raise ThriftError(message)


def _list(data: Bytes, at: int, depth: int) -> tuple[list[Any], int]:
    header = data[at]
    count, at = (header >> 4, at + 1) if header >> 4 != _LONG_LIST else varint(data, at + 1)
    if not depth or count > len(data) - at:
        message = f"a list of {count} values cannot be stored in {len(data) - at} bytes"
        raise ThriftError(message)
    kind = header & 0x0F
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, depth - 1)
        values.append(value)
    return values, at


def varint(data: Bytes, at: int) -> tuple[int, int]:
    """An unsigned number, and where it ends."""
    number = data[at]
    at += 1
    if number < 0x80:
        return number, at
    number &= 0x7F
    shift = 7
    while shift <= _MAX_SHIFT:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ThriftError("a number has more than 64 bits")


def _zigzag(data: Bytes, at: int) -> tuple[int, int]:
    number, at = varint(data, at)
    return (number >> 1) ^ -(number & 1), at


class Field(NamedTuple):
    """One field of a struct, its value already encoded."""

    number: int
    kind: int
    value: bytes


def i8(number: int, value: int) -> Field:
    """A number of 8 bits."""
    return Field(number, _BYTE, value.to_bytes(1, "little", signed=True))


def i32(number: int, value: int) -> Field:
    """A number of 32 bits."""
    return Field(number, _I32, _varint_bytes(_zigzagged(value)))


def i64(number: int, value: int) -> Field:
    """A number of 64 bits."""
    return Field(number, _I64, _varint_bytes(_zigzagged(value)))


def binary(number: int, value: bytes) -> Field:
    """A byte string, or a string in UTF-8."""
    return Field(number, _BINARY, _varint_bytes(len(value)) + value)


def nested(number: int, *fields: Field) -> Field:
    """A field that is a struct."""
    return Field(number, _STRUCT, encode(*fields))


def list_of(number: int, values: Iterable[bytes]) -> Field:
    """A list of encoded structs."""
    return _list_field(number, _STRUCT, values)


def i32s(number: int, values: Iterable[int]) -> Field:
    """A list of numbers."""
    return _list_field(number, _I32, (_varint_bytes(_zigzagged(value)) for value in values))


def binaries(number: int, values: Iterable[bytes]) -> Field:
    """A list of byte strings."""
    return _list_field(number, _BINARY, (_varint_bytes(len(value)) + value for value in values))


def _list_field(number: int, kind: int, values: Iterable[bytes]) -> Field:
    items = list(values)
    if len(items) < _LONG_LIST:
        header = bytes([len(items) << 4 | kind])
    else:
        header = bytes([_LONG_LIST << 4 | kind]) + _varint_bytes(len(items))
    return Field(number, _LIST, header + b"".join(items))


def encode(*fields: Field) -> bytes:
    """A struct of fields in ascending order of their numbers."""
    return encode_part(*fields) + b"\0"


def encode_part(*fields: Field, after: int = 0) -> bytes:
    """Fields as they stand within a struct, behind the field number `after`."""
    parts: list[bytes] = []
    for number, kind, value in fields:
        step = number - after
        # Numbers of a damaged struct may descend.
        short = 0 < step < 16
        header = bytes([step << 4 | kind]) if short else bytes([kind]) + _varint_bytes(_zigzagged(number))
        parts += header, value
        after = number
    return b"".join(parts)


def _zigzagged(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _varint_bytes(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
