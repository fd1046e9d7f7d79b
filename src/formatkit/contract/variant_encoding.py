"""Encodes values in Parquet's variant encoding: names of object fields in the metadata, everything else in the value.

`formatkit.contract.variant_decoding` is the way back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate
from typing import Any
from uuid import UUID

from formatkit.errors import InvalidDataError

__all__ = [
    "NULL_VALUE",
    "Primitive",
    "array_value",
    "binary_value",
    "encode_variant",
    "metadata_of",
    "object_value",
    "primitive_header",
    "string_value",
]

PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
"""The basic types, in the lowest two bits of a value."""

MAX_SHORT_STRING = 63
VERSION = 1
SORTED_NAMES = 0x10

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_MAX_DECIMAL_DIGITS = 38


class Primitive(IntEnum):
    """The types of values that are neither object nor array, by their number in the encoding."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMPTZ = 12
    TIMESTAMP = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME = 17
    TIMESTAMPTZ_NS = 18
    TIMESTAMP_NS = 19
    UUID = 20


def primitive_header(kind: Primitive) -> int:
    """The first byte of a primitive value."""
    return kind << 2 | PRIMITIVE


NULL_VALUE = bytes([primitive_header(Primitive.NULL)])

_INTEGERS = ((Primitive.INT8, 1), (Primitive.INT16, 2), (Primitive.INT32, 4), (Primitive.INT64, 8))
_DECIMALS = ((Primitive.DECIMAL4, 4, 9), (Primitive.DECIMAL8, 8, 18), (Primitive.DECIMAL16, 16, _MAX_DECIMAL_DIGITS))


def encode_variant(value: Any) -> tuple[bytes, bytes]:
    """Metadata and value of a Python value.

    Mappings become objects, other sequences arrays. Integers take the smallest type that holds them, beyond 64 bits a
    decimal; floats are doubles. A datetime is a timestamp in microseconds, with a zone if it is aware.

    Raises:
        InvalidDataError: The encoding has no such value.
    """
    try:
        names = sorted({name.encode() for name in _names(value)})
        return metadata_of(names), _Encoder({name: number for number, name in enumerate(names)}).value(value)
    except (AttributeError, UnicodeError, RecursionError) as error:
        message = f"a value of type {type(value).__name__} cannot be a variant: {error}"
        raise InvalidDataError(message) from error


def metadata_of(names: Sequence[bytes]) -> bytes:
    """The metadata for these names, which are unique and in ascending order."""
    offsets = list(accumulate(map(len, names), initial=0))
    width = _width(max(len(names), offsets[-1]))
    header = VERSION | (SORTED_NAMES if names else 0) | (width - 1) << 6
    return b"".join((bytes([header]), _numbers((len(names), *offsets), width), *names))


def object_value(numbers: tuple[int, ...], values: Sequence[bytes]) -> bytes:
    """An object of encoded values. The numbers are those of their names, whose order they have."""
    names, header = _object_names(numbers)
    offsets = list(accumulate(map(len, values), initial=0))
    width = _width(offsets[-1])
    return b"".join((bytes([header | (width - 1) << 2]), names, _numbers(offsets, width), *values))


@lru_cache(maxsize=256)
def _object_names(numbers: tuple[int, ...]) -> tuple[bytes, int]:
    """How many fields there are and which; and the first byte but for the width of offsets. Objects are much alike."""
    width = _width(max(numbers, default=0))
    header = ((len(numbers) > 0xFF) << 4 | (width - 1) << 2) << 2 | OBJECT
    return _count(len(numbers)) + _numbers(numbers, width), header


def array_value(elements: Sequence[bytes]) -> bytes:
    """An array of encoded values."""
    offsets = list(accumulate(map(len, elements), initial=0))
    width = _width(offsets[-1])
    header = ((len(elements) > 0xFF) << 2 | width - 1) << 2 | ARRAY
    return b"".join((bytes([header]), _count(len(elements)), _numbers(offsets, width), *elements))


def string_value(text: bytes) -> bytes:
    """A string, given in UTF-8."""
    if len(text) <= MAX_SHORT_STRING:
        return bytes([len(text) << 2 | SHORT_STRING]) + text
    return struct.pack("<BI", primitive_header(Primitive.STRING), len(text)) + text


def binary_value(content: bytes) -> bytes:
    """A byte string."""
    return struct.pack("<BI", primitive_header(Primitive.BINARY), len(content)) + content


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, child in value.items():
            yield name
            yield from _names(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _names(child)


class _Encoder:
    def __init__(self, numbers: Mapping[bytes, int]) -> None:
        self._numbers = numbers

    def value(self, value: Any) -> bytes:
        if isinstance(value, Mapping):
            fields = {self._numbers[name.encode()]: child for name, child in value.items()}
            numbers = tuple(sorted(fields))
            return object_value(numbers, [self.value(fields[number]) for number in numbers])
        if isinstance(value, list | tuple):
            return array_value([self.value(element) for element in value])
        return _primitive(value)


def _primitive(value: Any) -> bytes:
    if value is None:
        return NULL_VALUE
    if isinstance(value, bool):
        return bytes([primitive_header(Primitive.TRUE if value else Primitive.FALSE)])
    for kind, encode in _PYTHON_TYPES:
        if isinstance(value, kind):
            return encode(value)
    message = f"a value of type {type(value).__name__} cannot be a variant; encode it as one of the types that can"
    raise InvalidDataError(message)


def _integer(value: int) -> bytes:
    for kind, width in _INTEGERS:
        if -(1 << (8 * width - 1)) <= value < 1 << (8 * width - 1):
            return bytes([primitive_header(kind)]) + value.to_bytes(width, "little", signed=True)
    return _decimal(Decimal(value))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidDataError(f"{value} cannot be a variant: no decimal has this value")
    scale = max(-exponent, 0)
    unscaled: int = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
    precision = len(str(abs(unscaled)))
    for kind, width, most in _DECIMALS:
        if precision <= most and scale <= _MAX_DECIMAL_DIGITS:
            return bytes([primitive_header(kind), scale]) + unscaled.to_bytes(width, "little", signed=True)
    raise InvalidDataError(f"{value} cannot be a variant: it has more than {_MAX_DECIMAL_DIGITS} digits")


def _float(value: float) -> bytes:
    return struct.pack("<Bd", primitive_header(Primitive.DOUBLE), value)


def _timestamp(value: datetime) -> bytes:
    kind = Primitive.TIMESTAMP if value.tzinfo is None else Primitive.TIMESTAMPTZ
    naive = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return struct.pack("<Bq", primitive_header(kind), (naive - _EPOCH) // _MICROSECOND)


def _date(value: date) -> bytes:
    return struct.pack("<Bi", primitive_header(Primitive.DATE), (value - _EPOCH.date()).days)


def _time(value: time) -> bytes:
    since_midnight = datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH
    return struct.pack("<Bq", primitive_header(Primitive.TIME), since_midnight // _MICROSECOND)


def _uuid(value: UUID) -> bytes:
    return bytes([primitive_header(Primitive.UUID)]) + value.bytes


_PYTHON_TYPES: tuple[tuple[type | tuple[type, ...], Callable[[Any], bytes]], ...] = (
    (int, _integer),
    (float, _float),
    (str, lambda text: string_value(text.encode())),
    (Decimal, _decimal),
    ((bytes, bytearray, memoryview), lambda content: binary_value(bytes(content))),
    (datetime, _timestamp),
    (date, _date),
    (time, _time),
    (UUID, _uuid),
)
"""In the order of tests: a datetime is a date, too."""


def _width(largest: int) -> int:
    """How many bytes a number takes, at least one."""
    if largest <= 0xFF:
        return 1
    width = (largest.bit_length() + 7) // 8
    if width > 4:
        raise InvalidDataError(f"a variant cannot hold {largest} bytes; the encoding ends at 4 GiB")
    return width


def _numbers(numbers: Iterable[int], width: int) -> bytes:
    return bytes(numbers) if width == 1 else b"".join(number.to_bytes(width, "little") for number in numbers)


def _count(elements: int) -> bytes:
    return bytes([elements]) if elements <= 0xFF else struct.pack("<I", elements)
