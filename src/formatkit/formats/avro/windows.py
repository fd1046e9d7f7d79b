"""A part of a file, read from front to back in ranges that the source was told of at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from formatkit.contract.storage import ByteRange, ByteSource

__all__ = ["WINDOW_BYTES", "Windows"]

WINDOW_BYTES = 1024 * 1024
"""Large enough for few requests, and small enough to be in the processor's cache when it is decoded."""

_LEAST_BYTES = 16 * 1024


class _Held(NamedTuple):
    offset: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class Windows:
    """Reads whose offsets never decrease by more than the one before was long. No byte is asked for twice.

    Args:
        source: The file.
        head: Its first bytes, which were read before.
        start: Where reading begins.
        end: Where it ends, as far as that is known. What is read behind it was not announced.
    """

    def __init__(self, source: ByteSource, head: memoryview, start: int, end: int) -> None:
        self._source = source
        self._size = source.size()
        self._held: deque[_Held] = deque()
        self._next = start
        if start < len(head):
            self._held.append(_Held(0, head))
            self._next = len(head)
        self._announced = deque(_ranges(self._next, min(end, self._size)))
        source.prefetch(tuple(self._announced))

    def read(self, offset: int, length: int) -> memoryview:
        """`length` bytes, or as many as there are."""
        end = min(offset + length, self._size)
        while self._held and self._held[0].end <= offset:
            self._held.popleft()
        while self._next < end:
            self._fetch(end - self._next)
        parts = [held.data[max(0, offset - held.offset) : end - held.offset] for held in self._overlapping(end)]
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _overlapping(self, end: int) -> Iterator[_Held]:
        return (held for held in self._held if held.offset < end)

    def _fetch(self, needed: int) -> None:
        if self._announced:
            offset, length = self._announced.popleft()
        else:
            offset, length = self._next, min(max(needed, _LEAST_BYTES), self._size - self._next)
        self._held.append(_Held(offset, self._source.read(offset, length)))
        self._next = offset + length


def _ranges(start: int, end: int) -> Iterator[ByteRange]:
    for offset in range(start, end, WINDOW_BYTES):
        yield ByteRange(offset, min(WINDOW_BYTES, end - offset))
