"""Decodes Parquet's variant encoding, which may be damaged or hostile.

Every access is checked. An encoded value may refer to the same bytes many times over, which could unfold to any size;
here it may hold no more values than it has bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any, NoReturn
from uuid import UUID

from formatkit.contract.variant_encoding import ARRAY, OBJECT, SHORT_STRING, VERSION, Primitive
from formatkit.errors import InvalidDataError

__all__ = ["decode_variant", "field_names", "object_fields"]

Leaf = Callable[[Primitive, Any], Any]

_DAY_ZERO = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def python_value(kind: Primitive, value: Any) -> Any:
    """Python's own value for an internal one; a date or time that Python cannot hold stays an integer."""
    convert = _PYTHON_VALUES.get(kind)
    try:
        return value if convert is None else convert(value)
    except (OverflowError, ValueError):
        return value


def decode_variant(metadata: bytes, value: bytes, leaf: Leaf = python_value) -> Any:
    """The value as nested dicts and lists.

    Args:
        metadata: The names.
        value: The encoded value.
        leaf: What to make of a primitive, given its type and Iceberg's internal value: days, microseconds or
            nanoseconds as int, decimals as `Decimal`, uuid as bytes. By default Python's own value; timestamps in
            nanoseconds, for which Python has none, stay integers.

    Raises:
        InvalidDataError: The bytes are not a variant.
    """
    try:
        return _Decoder(field_names(metadata), value, leaf).value(0, len(value))
    except RecursionError:
        raise InvalidDataError("a variant is nested too deeply to be decoded") from None


@lru_cache(maxsize=128)
def field_names(metadata: bytes) -> tuple[str, ...]:
    """The names in some metadata, by their numbers. Rows of a column mostly share their metadata."""
    if not metadata or metadata[0] & 0x0F != VERSION:
        _damaged("its metadata is not of version 1")
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    start = 1 + width * (count + 2)
    if start > len(metadata):
        _damaged("its metadata is cut off")
    offsets = [_number(metadata, 1 + width * (number + 1), width) for number in range(count + 1)]
    names = []
    for begin, end in pairwise(offsets):
        if begin > end or start + end > len(metadata):
            _damaged("a name lies outside its metadata")
        names.append(_text(metadata[start + begin : start + end]))
    return tuple(names)


def object_fields(metadata: bytes, value: bytes) -> list[tuple[int, bytes]] | None:
    """The fields of an object as numbers of their names and encoded values; None if the value is no object."""
    if not value or value[0] & 0x03 != OBJECT:
        return None
    names = field_names(metadata)
    spans = list(_object_spans(value, 0, len(value)))
    # Values need not be in the order of the names, so where one begins another ends.
    starts = sorted({start for _, start, _ in spans})
    ends = dict(zip(starts, [*starts[1:], spans[0][2] if spans else 0], strict=True))
    if any(number >= len(names) for number, _, _ in spans):
        _damaged("an object uses a name that its metadata lacks")
    return [(number, value[start : ends[start]]) for number, start, _ in spans]


class _Decoder:
    def __init__(self, names: tuple[str, ...], data: bytes, leaf: Leaf) -> None:
        self._names = names
        self._data = data
        self._leaf = leaf
        self._left = len(data)

    def value(self, start: int, end: int) -> Any:
        """The value that begins at `start` and ends at `end` or before."""
        if start >= end or not self._left:
            _damaged("a value in it is cut off")
        self._left -= 1
        basic = self._data[start] & 0x03
        if basic == OBJECT:
            return self._object(start, end)
        if basic == ARRAY:
            return [self.value(*span) for span in _array_spans(self._data, start, end)]
        if basic == SHORT_STRING:
            length = self._data[start] >> 2
            return self._leaf(Primitive.STRING, _text(_part(self._data, start + 1, length, end)))
        return self._primitive(start, end)

    def _object(self, start: int, end: int) -> dict[str, Any]:
        fields = {}
        for number, begin, last in _object_spans(self._data, start, end):
            if number >= len(self._names):
                _damaged("an object uses a name that its metadata lacks")
            fields[self._names[number]] = self.value(begin, last)
        return fields

    def _primitive(self, start: int, end: int) -> Any:
        header = self._data[start] >> 2
        if header in _SIZED:
            length = _number(_part(self._data, start + 1, 4, end), 0, 4)
            content = _part(self._data, start + 5, length, end)
            kind = Primitive(header)
            return self._leaf(kind, _text(content) if kind is Primitive.STRING else content)
        if header not in _FIXED:
            _damaged(f"it holds a value of the type {header}, which is not known here")
        width, read = _FIXED[header]
        return self._leaf(Primitive(header), read(_part(self._data, start + 1, width, end)))


def _object_spans(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """For each field of an object: its name's number, where its value begins, and where all values end."""
    header = data[start] >> 2
    offset_width, id_width, count_width = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header & 0x10 else 1
    count = _number(_part(data, start + 1, count_width, end), 0, count_width)
    ids = start + 1 + count_width
    offsets = ids + id_width * count
    values = offsets + offset_width * (count + 1)
    last = _last(data, values, offset_width, end)
    for place in range(count):
        begin = values + _number(data, offsets + offset_width * place, offset_width)
        if begin >= last:
            _damaged("a field of an object is cut off")
        yield _number(data, ids + id_width * place, id_width), begin, last


def _array_spans(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where each element of an array begins, and where all of them end."""
    header = data[start] >> 2
    width, count_width = (header & 3) + 1, 4 if header & 4 else 1
    count = _number(_part(data, start + 1, count_width, end), 0, count_width)
    offsets = start + 1 + count_width
    values = offsets + width * (count + 1)
    last = _last(data, values, width, end)
    for place in range(count):
        yield values + _number(data, offsets + width * place, width), last


def _last(data: bytes, values: int, width: int, end: int) -> int:
    """Where the values behind a list of offsets end, which the last offset says."""
    if values > end:
        _damaged("a list of offsets is cut off")
    last = values + _number(data, values - width, width)
    if last > end:
        _damaged("its values are cut off")
    return last


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        _damaged("a number is cut off")
    return int.from_bytes(data[at : at + width], "little")


def _part(data: bytes, at: int, length: int, end: int) -> bytes:
    if at + length > end:
        _damaged("a value in it is cut off")
    return data[at : at + length]


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        _damaged("a string in it is not UTF-8")


def _damaged(reason: str) -> NoReturn:
    raise InvalidDataError(f"a variant cannot be decoded: {reason}")


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _decimal(data: bytes) -> Decimal:
    unscaled = _signed(data[1:])
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -data[0]))


def _time(micros: int) -> time:
    if not 0 <= micros < 86_400_000_000:
        raise ValueError(micros)
    return (_EPOCH + timedelta(microseconds=micros)).time()


_FIXED: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    Primitive.NULL: (0, lambda _: None),
    Primitive.TRUE: (0, lambda _: True),
    Primitive.FALSE: (0, lambda _: False),
    Primitive.INT8: (1, _signed),
    Primitive.INT16: (2, _signed),
    Primitive.INT32: (4, _signed),
    Primitive.INT64: (8, _signed),
    Primitive.DOUBLE: (8, lambda data: struct.unpack("<d", data)[0]),
    Primitive.DECIMAL4: (5, _decimal),
    Primitive.DECIMAL8: (9, _decimal),
    Primitive.DECIMAL16: (17, _decimal),
    Primitive.DATE: (4, _signed),
    Primitive.TIMESTAMPTZ: (8, _signed),
    Primitive.TIMESTAMP: (8, _signed),
    Primitive.FLOAT: (4, lambda data: struct.unpack("<f", data)[0]),
    Primitive.TIME: (8, _signed),
    Primitive.TIMESTAMPTZ_NS: (8, _signed),
    Primitive.TIMESTAMP_NS: (8, _signed),
    Primitive.UUID: (16, bytes),
}
"""The types whose values all have one length: that length, and how to read them."""

_SIZED = frozenset({Primitive.BINARY, Primitive.STRING})
"""The types whose values begin with their length."""

_PYTHON_VALUES: dict[Primitive, Callable[[Any], Any]] = {
    Primitive.DATE: lambda days: _DAY_ZERO + timedelta(days),
    Primitive.TIME: _time,
    Primitive.TIMESTAMP: lambda micros: _EPOCH + timedelta(microseconds=micros),
    Primitive.TIMESTAMPTZ: lambda micros: _EPOCH_UTC + timedelta(microseconds=micros),
    Primitive.UUID: lambda data: UUID(bytes=data),
}
