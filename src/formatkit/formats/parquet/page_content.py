"""Decompresses the pages of a column chunk, small ones into memory that is used again and again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from formatkit.formats.parquet.thrift import ThriftError, varint

__all__ = ["ROOM_BYTES", "PageContents", "UnsuitableError", "address"]

_MAX_CONTENT_BYTES = 2**31 - 1
_UNCOMPRESSED, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
_CODECS: dict[int, Literal["snappy", "gzip", "zstd"]] = {_SNAPPY: "snappy", _GZIP: "gzip", _ZSTD: "zstd"}

ROOM_BYTES = 512 * 1024
"""About what the cache next to a processor holds, which is how far decompressed bytes should get from it."""


class UnsuitableError(Exception):
    """The bytes are damaged, or in a form of which single values cannot be found."""


class PageContents:
    """The contents of pages of one chunk. Raises `UnsuitableError` for damaged ones.

    Args:
        codec: Parquet's number of it.
        longest: No content is longer.
    """

    def __init__(self, codec: int, longest: int) -> None:
        self._codec = codec
        self._longest = min(longest, _MAX_CONTENT_BYTES)
        # Decoders are not shared, because those of gzip keep a state.
        self._decoder = None if codec == _UNCOMPRESSED else pa.Codec(_CODECS[codec])

    @property
    def codec(self) -> int:
        return self._codec

    @staticmethod
    def can_decompress(codec: int) -> bool:
        """Whether the codec tells how long the content is, so that nobody sees memory that was never written."""
        return codec in _CODECS or codec == _UNCOMPRESSED

    def of(self, pages: Sequence[memoryview], lengths: Sequence[int], *, frames: bool) -> tuple[list[int], object]:
        """The addresses of the contents of pages, and what has to be held for them to be valid.

        They are valid only until the same thread asks for others, because the room of the thread may hold them.

        Args:
            pages: The pages as they are stored.
            lengths: How many bytes each of them should have when it is decompressed, at least one.
            frames: Whether each of them is known to be one zstd frame that says it has so many bytes.
        """
        if frames and sum(lengths) <= min(ROOM_BYTES, self._longest):
            return self._in_room(pages, lengths), None
        buffers = [self.one(page, length) for page, length in zip(pages, lengths, strict=True)]
        return [buffer.address for buffer in buffers], buffers

    def _in_room(self, frames: Sequence[memoryview], lengths: Sequence[int]) -> list[int]:
        """The same for zstd frames. Arrow's codec makes a context for each, which takes longer than many a page."""
        room, place, zstd, start = _tools.room.data, _tools.place, _tools.zstd, 0
        found = []
        try:
            for frame, length in zip(frames, lengths, strict=True):
                if zstd.stream_reader(frame).readinto(room[start : start + length]) != length:
                    raise UnsuitableError("a page has another length than its header says")
                found.append(place + start)
                start += length
        except zstandard.ZstdError as error:
            raise UnsuitableError("a page cannot be decompressed") from error
        return found

    def one(self, stored: memoryview, length: int) -> pa.Buffer:
        """The content of a page, which should have `length` bytes."""
        data = pa.py_buffer(stored)
        if self._decoder is None:
            if data.size != length:
                raise UnsuitableError("the page is not as long as its header says")
            return data
        if not 0 <= length <= self._longest or not self._may_hold(stored, length):
            raise UnsuitableError("the page has another length than its header says")
        try:
            return self._decoder.decompress(data, length)
        except OSError as error:
            raise UnsuitableError("the page cannot be decompressed") from error

    def _may_hold(self, stored: memoryview, length: int) -> bool:
        """Whether data say that they hold so many bytes; the rest of a longer buffer would not be written."""
        if self._codec == _ZSTD:
            return True
        try:
            said = varint(stored, 0)[0] if self._codec == _SNAPPY else int.from_bytes(stored[-4:], "little")
        except (IndexError, ThriftError):
            return False
        return said == length


def address(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array are in memory."""
    return pa.py_buffer(array).address  # type: ignore[arg-type]  # the stubs do not know that arrays are buffers


class _Tools(threading.local):
    """What is costly to make, and can be used by one thread at a time."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdDecompressor()
        self.room = np.empty(ROOM_BYTES, np.uint8)
        self.place = address(self.room)


_tools = _Tools()
