"""Where in a file the buffers of a column are.

Lance tells that only together with everything else that it knows of a file, which takes longer than reading a few
columns. A file has a message of Protocol Buffers for each column: its pages, and where its own buffers are. A page says
the same of the buffers of the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from formatkit.contract.storage import ByteRange

__all__ = ["UnknownDescriptionError", "column_buffers"]


class UnknownDescriptionError(Exception):
    """A message is not what it was when this was written."""


class _Layout(NamedTuple):
    """The fields of a message: pages, if it has any, offsets and lengths of buffers, and how many are known."""

    pages: int
    offsets: int
    lengths: int
    known: int


_COLUMN = _Layout(pages=2, offsets=3, lengths=4, known=4)
_PAGE = _Layout(pages=0, offsets=1, lengths=2, known=5)


def column_buffers(description: memoryview) -> Iterator[ByteRange]:
    """The buffers of a column and of its pages, from the message about it."""
    return _buffers(description, _COLUMN)


def _buffers(message: memoryview, layout: _Layout) -> Iterator[ByteRange]:
    offsets: list[int] = []
    lengths: list[int] = []
    for number, value in _fields(message):
        if number > layout.known:
            raise UnknownDescriptionError(f"a message has a field {number}")
        if number in (layout.pages, layout.offsets, layout.lengths) and not isinstance(value, memoryview):
            raise UnknownDescriptionError(f"field {number} of a message is a number")
        if isinstance(value, memoryview):
            if number == layout.pages:
                yield from _buffers(value, _PAGE)
            elif number == layout.offsets:
                offsets += _varints(value)
            elif number == layout.lengths:
                lengths += _varints(value)
    if len(offsets) != len(lengths):
        raise UnknownDescriptionError(f"there are {len(offsets)} buffers with {len(lengths)} lengths")
    yield from map(ByteRange, offsets, lengths)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        value, place = _varint(message, place)
        match key & 7:
            case 0:
                yield key >> 3, value
            case 2 if place + value <= len(message):
                yield key >> 3, message[place : place + value]
                place += value
            case _:
                raise UnknownDescriptionError("a message has a field of another kind, or is too short")


def _varints(packed: memoryview) -> Iterator[int]:
    place = 0
    while place < len(packed):
        value, place = _varint(packed, place)
        yield value


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    """The number at `place`, and the place behind it."""
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise UnknownDescriptionError("a number is cut off")
