"""A source that remembers what it was told and what was read of it."""

from __future__ import annotations

from collections.abc import Sequence

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

    def forget(self) -> None:
        """Begin to count anew."""
        self.reads.clear()
        self.not_announced.clear()
        self.times_read[:] = 0
