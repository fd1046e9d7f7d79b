"""Decompresses the pages of a column chunk, and has what compiled code needs to do it by itself."""

from __future__ import annotations

import threading
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.compiled.loading import kernels
from formatkit.batches.compiled.zstd import thread_zstd
from formatkit.formats.parquet.rooms import Room
from formatkit.formats.parquet.thrift import ThriftError, varint

__all__ = ["KERNELS", "Content", "PageContents", "PageTools", "UnsuitableError", "address", "thread_tools"]

KERNELS = "formatkit.formats.parquet.kernels"

_MAX_CONTENT_BYTES = 2**31 - 1
_UNCOMPRESSED, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
_CODECS: dict[int, Literal["snappy", "gzip", "zstd"]] = {_SNAPPY: "snappy", _GZIP: "gzip", _ZSTD: "zstd"}

_ROOM_BYTES = 256 * 1024
_INDICES_SLACK = 64
_MOST_ROOM_BYTES = 4 * 1024 * 1024
"""Longer pages are decompressed before compiled code sees them."""


class UnsuitableError(Exception):
    """The bytes are in a form that compiled code does not know; pyarrow decodes them."""


class Content(NamedTuple):
    """Bytes that are where they are as long as `memory` is held."""

    address: int
    size: int
    memory: object


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

    def one(self, stored: memoryview, length: int) -> Content:
        """The content of a page, which should have `length` bytes."""
        data = pa.py_buffer(stored)
        if self._decoder is None:
            if data.size != length:
                raise UnsuitableError("the page is not as long as its header says")
            return Content(data.address, length, data)
        if not 0 <= length <= self._longest or not self._may_hold(stored, length):
            raise UnsuitableError("the page has another length than its header says")
        try:
            found = self._frame(data, length) or self._decoder.decompress(data, length)
        except OSError as error:
            raise UnsuitableError("the page cannot be decompressed") from error
        return Content(found.address, length, found)

    def _frame(self, data: pa.Buffer, length: int) -> Room | None:
        """The content of a zstd frame that tells its length. Arrow's codec makes a context and new memory for each."""
        zstd = thread_zstd()
        if self._codec != _ZSTD or not zstd.function or not 0 < length <= _MOST_ROOM_BYTES:
            return None
        room, start = Room(length), data.address
        found = kernels(KERNELS).decompress_frame(*zstd, start, start + data.size, room.address, length)
        return room if found == length else None

    def _may_hold(self, stored: memoryview, length: int) -> bool:
        """Whether data say that they hold so many bytes; the rest of a longer buffer would not be written."""
        if self._codec == _ZSTD:
            return True
        try:
            said = varint(stored, 0)[0] if self._codec == _SNAPPY else int.from_bytes(stored[-4:], "little")
        except (IndexError, ThriftError):
            return False
        return said == length


class PageTools:
    """What compiled code decompresses with, for one thread: the tools of `gather`."""

    def __init__(self) -> None:
        self._zstd = thread_zstd()
        self._room = Room(_ROOM_BYTES)
        self._numbers = np.zeros(4, np.int64)
        self.address = address(self._numbers)
        self._indices = Room(_ROOM_BYTES)
        self._set_room()

    def can_decompress(self, length: int) -> bool:
        """Whether this works for zstd frames of so many bytes."""
        return bool(self._zstd.function) and length <= _MOST_ROOM_BYTES

    def with_room(self, longest: int) -> int:
        """Have room for pages of so many bytes; returns the address of the tools."""
        if longest > len(self._room):
            self._room = Room(longest)
            self._set_room()
        return self.address

    def indices(self, count: int) -> int:
        """The address of room for so many indices, and some more."""
        size = 4 * count + _INDICES_SLACK
        if size > len(self._indices):
            self._indices = Room(size)
        return self._indices.address

    def _set_room(self) -> None:
        self._numbers[:] = *self._zstd, len(self._room), self._room.address


def address(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array are in memory."""
    return pa.py_buffer(array.data).address


_thread = threading.local()


def thread_tools() -> PageTools:
    """Those of this thread."""
    try:
        tools: PageTools = _thread.tools
    except AttributeError:
        tools = _thread.tools = PageTools()
    return tools
