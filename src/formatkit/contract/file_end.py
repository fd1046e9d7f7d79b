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
    """Where the end of a file of this length is: some more than it says, because checksums are for whole blocks."""
    start = max(size - END_BYTES, 0) // END_BYTES * END_BYTES
    return (ByteRange(start, size - start),)


class FileEnd:
    """A source whose end was read; what is before it is read as it is asked for.

    Attributes:
        start: Where the end begins.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        (end,) = end_of(source.size())
        self.start = end.offset
        self._end = source.read(*end)

    @property
    def location(self) -> str:
        return self._source.location

    def size(self) -> int:
        return self._source.size()

    def read(self, offset: int, length: int) -> memoryview:
        behind = offset + length - self.start
        if behind <= 0 or behind > len(self._end):
            return self._source.read(offset, length)
        if offset >= self.start:
            return self._end[offset - self.start : behind]
        before = self._source.read(offset, self.start - offset)
        return memoryview(b"".join((before, self._end[:behind])))
