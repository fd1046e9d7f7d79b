"""A source that remembers what it was told and what was read of it."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import BinaryIO, cast

import numpy as np

from formatkit.contract import ByteRange
from formatkit.io import MemorySource

__all__ = ["AnnouncedSource"]


class AnnouncedSource(MemorySource):
    """Bytes in memory, as if they were far away: codec libraries get no file of their own."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.announced: list[ByteRange] = []
        self.reads: list[ByteRange] = []
        self._announced = np.zeros(len(data), bool)
        self.times_read = np.zeros(len(data), np.int64)
        self.not_announced: list[ByteRange] = []

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        self.announced += ranges
        for one in ranges:
            self._announced[one.offset : one.end] = True

    def read(self, offset: int, length: int) -> memoryview:
        part = ByteRange(offset, length)
        self.reads.append(part)
        self.times_read[offset : part.end] += 1
        if not self._announced[offset : part.end].all():
            self.not_announced.append(part)
        return super().read(offset, length)

    def open(self) -> BinaryIO:
        return cast("BinaryIO", _File(self))

    def forget(self) -> None:
        """Begin to count anew."""
        self.reads.clear()
        self.not_announced.clear()
        self.times_read[:] = 0


class _File(io.RawIOBase):
    """A cursor over a source, for libraries that want one."""

    def __init__(self, source: AnnouncedSource) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size()}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._source.size() - self._position, 0)
        length = left if size is None or size < 0 else min(size, left)
        self._position += length
        return bytes(self._source.read(self._position - length, length))
