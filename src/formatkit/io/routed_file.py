"""A file object for codec libraries, whose reads are those of its source."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.errors import ConfigurationError

if TYPE_CHECKING:
    from formatkit.io.routed import RoutedSource

__all__ = ["RoutedFile"]


class RoutedFile(io.RawIOBase):
    """A cursor over a source.

    Small reads of what was not announced fetch some more, which the next ones find here.

    Args:
        source: Where the bytes come from.
        block_bytes: How much such reads fetch.
    """

    def __init__(self, source: RoutedSource, block_bytes: int) -> None:
        super().__init__()
        self._source = source
        self._block_bytes = block_bytes
        self._block = ByteRange(0, 0)
        self._block_data = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ConfigurationError(
                f"a position counts from {io.SEEK_SET}, {io.SEEK_CUR} or {io.SEEK_END}, not {whence}"
            )
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position}.get(whence)
        position = (self._source.size() if origin is None else origin) + offset
        if position < 0:
            raise ConfigurationError(f"{self._source.location} has no position {position}")
        self._position = position
        return position

    def size(self) -> int:
        return self._source.size()

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(self._view(size))

    def read_buffer(self, size: int | None = -1, /) -> pa.Buffer:
        """Like `read`, without a copy; pyarrow prefers it."""
        return pa.py_buffer(self._view(size))

    def readinto(self, room: Any, /) -> int:
        target = memoryview(room).cast("B")
        found = self._view(len(target))
        target[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._block, self._block_data = ByteRange(0, 0), memoryview(b"")
        super().close()

    def _view(self, size: int | None) -> memoryview:
        if self.closed:
            raise ValueError("I/O operation on a closed file")
        left = max(0, self._source.size() - self._position)
        wanted = ByteRange(self._position, left if size is None or size < 0 else min(size, left))
        found = self._found(wanted) if wanted.length else memoryview(b"")
        self._position = wanted.end
        return found

    def _found(self, wanted: ByteRange) -> memoryview:
        if wanted.offset < self._block.offset or wanted.end > self._block.end:
            if wanted.length >= self._block_bytes:
                return self._source.read(*wanted)
            found = self._source.at_hand(wanted)
            self._source.usage.add_asked(wanted.length)
            if found is not None:
                return found
            block = ByteRange(wanted.offset, min(self._block_bytes, self._source.size() - wanted.offset))
            self._block_data = self._source.fetch(block)
            self._block = block
        else:
            self._source.usage.add_asked(wanted.length)
        start = wanted.offset - self._block.offset
        return self._block_data[start : start + wanted.length]
