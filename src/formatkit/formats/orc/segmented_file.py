"""A file that exists nowhere as a whole: parts of a stored file and bytes in memory, one after the other."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol, TypeAlias

from formatkit.contract.storage import ByteRange

__all__ = ["Segment", "SegmentedFile", "StoredBytes"]

Segment: TypeAlias = bytes | ByteRange
_ROOM_BYTES = 128 * 1024


class StoredBytes(Protocol):
    """The stored file: puts bytes of one of its ranges, from a place inside it on, where they are wanted."""

    def fill(self, part: ByteRange, start: int, room: memoryview) -> None: ...


class SegmentedFile:
    """What pyarrow needs of a file.

    pyarrow copies what a read returns before it reads again, so one piece of memory serves all reads. That matters:
    new memory for each of them would cost as much as a tenth of the decoding.

    Attributes:
        size: How many bytes it has.
        failure: What went wrong in the last read; pyarrow passes on only its text.
    """

    closed = False

    def __init__(self, segments: Sequence[Segment], stored: StoredBytes) -> None:
        self._segments = segments
        self._stored = stored
        lengths = (segment.length if isinstance(segment, ByteRange) else len(segment) for segment in segments)
        *self._starts, self.size = accumulate(lengths, initial=0)
        self._position = 0
        self._room = memoryview(b"")
        self.failure: Exception | None = None

    def read(self, length: int) -> memoryview:
        length = max(min(length, self.size - self._position), 0)
        if length > len(self._room):
            self._room = memoryview(bytearray(max(length, _ROOM_BYTES)))
        room = self._room[:length]
        self.read_into(room)
        return room

    def read_into(self, room: memoryview) -> None:
        """Fill all of `room`, which is no longer than what is left."""
        try:
            self._fill(room)
        except Exception as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        pass

    def _fill(self, room: memoryview) -> None:
        while room:
            index = bisect_right(self._starts, self._position) - 1
            segment = self._segments[index]
            start = self._position - self._starts[index]
            size = segment.length if isinstance(segment, ByteRange) else len(segment)
            count = min(size - start, len(room))
            if isinstance(segment, ByteRange):
                self._stored.fill(segment, start, room[:count])
            else:
                room[:count] = segment[start : start + count]
            room = room[count:]
            self._position += count
