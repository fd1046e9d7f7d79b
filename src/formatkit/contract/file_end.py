"""The end of a file, where most formats say what is in it: read at once instead of in many small pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from formatkit.contract.storage import ByteRange, ByteSource

__all__ = ["FileEnd", "ReadableBytes", "end_of"]

END_BYTES = 64 << 10


class ReadableBytes(Protocol):
    """What is needed of a source to read from it."""

    @property
    def location(self) -> str: ...

    def size(self) -> int: ...

    def read(self, offset: int, length: int) -> memoryview: ...


def end_of(size: int) -> Sequence[ByteRange]:
    """Where the end of a file of this length is."""
    length = min(size, END_BYTES)
    return (ByteRange(size - length, length),)


class FileEnd:
    """A source whose end was read; what is before it is read as it is asked for."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        (end,) = end_of(source.size())
        self._start = end.offset
        self._end = source.read(*end)

    @property
    def location(self) -> str:
        return self._source.location

    def size(self) -> int:
        return self._source.size()

    def read(self, offset: int, length: int) -> memoryview:
        behind = offset + length - self._start
        if behind <= 0 or behind > len(self._end):
            return self._source.read(offset, length)
        if offset >= self._start:
            return self._end[offset - self._start : behind]
        before = self._source.read(offset, self._start - offset)
        return memoryview(b"".join((before, self._end[:behind])))
