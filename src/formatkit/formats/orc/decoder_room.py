"""The memory in which a file is laid out that the decoder reads."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["DecoderRoom"]

_FIRST_BYTES = 1 << 20


class DecoderRoom:
    """Serves one file after the other: what is decoded holds no part of it, and new memory takes its time.

    Attributes:
        end: Where the next bytes go.
    """

    def __init__(self) -> None:
        self.end = 0
        self._buffer = pa.allocate_buffer(0)
        self._view = memoryview(bytearray())

    def clear(self) -> None:
        self.end = 0

    def put(self, content: bytes | memoryview) -> None:
        """Add bytes at the end."""
        self.extend(len(content))[:] = content

    def extend(self, length: int) -> memoryview:
        """Make the file longer, by bytes that are still to be filled in."""
        start, self.end = self.end, self.end + length
        if self.end > len(self._view):
            self._grow(start)
        return self._view[start : self.end]

    def content(self, start: int, end: int) -> memoryview:
        return self._view[start:end]

    @property
    def address(self) -> int:
        """Where its first byte is, until it is made longer."""
        return self._buffer.address

    def file(self) -> pa.BufferReader:
        return pa.BufferReader(self._buffer.slice(0, self.end))

    def _grow(self, filled: int) -> None:
        buffer = pa.allocate_buffer(max(2 * self.end, _FIRST_BYTES))
        view = memoryview(buffer).cast("B")
        view[:filled] = self._view[:filled]
        self._buffer, self._view = buffer, view
