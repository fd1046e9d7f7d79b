"""What ranges of an `InputFile` are read through."""

from __future__ import annotations

import errno
import sys
from time import sleep
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.io import InputFile

from formatkit.contract.storage import ByteRange
from formatkit.io.workers import progress

__all__ = ["OpenedStream", "StreamError", "open_stream"]

_MAX_POLLS = 200
_POLL_SECONDS = 0.01
_MARKS = (0x5A, 0xA5)


class StreamError(OSError):
    """A stream does not do what streams do."""


class OpenedStream(Protocol):
    """Something open.

    Attributes:
        shared: Whether several reads may be under way on it at once.
        users: How many are.
    """

    shared: bool
    users: int

    def read_into(self, wanted: ByteRange, room: memoryview) -> int:
        """Fill the room from its beginning, and tell with how many bytes: fewer if the file ends before."""
        ...

    def close(self) -> None: ...


def open_stream(file: InputFile) -> OpenedStream:
    """Open a file in the way that costs fewest requests."""
    fsspec = _async_fsspec(file)
    if fsspec is not None:
        return _Ranges(fsspec, file.location)
    stream = file.open()
    # A `PythonFile` is somebody's object with one cursor.
    if isinstance(stream, pa.NativeFile) and not isinstance(stream, pa.PythonFile):
        return _ArrowFile(stream)
    return _Cursor(stream)


class _Cursor:
    """A stream that is at one place at a time."""

    shared = False

    def __init__(self, stream: Any) -> None:
        self.users = 0
        self._stream = stream

    def read_into(self, wanted: ByteRange, room: memoryview) -> int:
        position = self._stream.seek(wanted.offset)
        # Some streams say nothing, and some have no `tell`.
        if isinstance(position, int) and position != wanted.offset:
            raise StreamError(f"it went to offset {position} instead of {wanted.offset}")
        return _fill(self._stream, room)

    def close(self) -> None:
        self._stream.close()


class _ArrowFile:
    """A file of Arrow's, which is read by position."""

    shared = True

    def __init__(self, file: pa.NativeFile) -> None:
        self.users = 0
        self._file = file

    def read_into(self, wanted: ByteRange, room: memoryview) -> int:
        if not room or wanted.offset >= self._file.size():
            return 0
        for mark in _MARKS:
            # Arrow's S3 client says that it read all bytes it asked for, also if the answer ended before.
            room[-1] = mark
            filled = _fill(self._file.get_stream(*wanted), room)
            if filled < len(room) or room[-1] != mark:
                return filled
        raise StreamError(errno.EIO, "the answer was shorter than what was asked for")

    def close(self) -> None:
        self._file.close()


class _Ranges:
    """A file of an fsspec that asks for ranges. Its streams would ask for the length, and for more than they are."""

    shared = True

    def __init__(self, filesystem: Any, location: str) -> None:
        self.users = 0
        self._filesystem = filesystem
        self._location = location

    def read_into(self, wanted: ByteRange, room: memoryview) -> int:
        filled = 0
        while filled < wanted.length:
            data = self._range(wanted.offset + filled, wanted.end)
            if not data:
                break
            filled += _put(data, room[filled:])
            progress()
        return filled

    def _range(self, start: int, end: int) -> bytes:
        try:
            data: bytes = self._filesystem.cat_file(self._location, start=start, end=end)
        except OSError as error:
            if error.errno == errno.EINVAL and start >= self._filesystem.info(self._location)["size"]:
                return b""
            raise
        return data

    def close(self) -> None:
        pass


def _async_fsspec(file: InputFile) -> Any:
    """The file system of a file of pyiceberg's, if it is one of those whose `cat_file` is a request of its own."""
    library = sys.modules.get("pyiceberg.io.fsspec")
    if library is None or type(file) is not library.FsspecInputFile:
        return None
    filesystem = getattr(file, "_fs", None)
    return filesystem if getattr(filesystem, "async_impl", False) else None


def _fill(stream: Any, room: memoryview) -> int:
    filled = nothing = 0
    while filled < len(room):
        count = _read_some(stream, room[filled:])
        if count is None:
            nothing += 1
            if nothing == _MAX_POLLS:
                raise StreamError(errno.EAGAIN, "the stream has nothing yet and does not wait for more")
            sleep(_POLL_SECONDS)
            continue
        if not count:
            break
        nothing = 0
        filled += count
        progress()
    return filled


def _read_some(stream: Any, room: memoryview) -> int | None:
    """Some bytes of a stream, as many as it likes to give; 0 at its end, None if it does not wait for any."""
    if not hasattr(stream, "readinto"):
        data = stream.read(len(room))
        return None if data is None else _put(data, room)
    count = stream.readinto(room)
    if count is None:
        return None
    if not 0 <= count <= len(room):
        raise StreamError(f"it read {count} bytes, where {len(room)} were asked for")
    return int(count)


def _put(data: Any, room: memoryview) -> int:
    view = memoryview(data).cast("B")
    if len(view) > len(room):
        # Nobody can tell whether they are those that were asked for, and some more, or all bytes of the file.
        raise StreamError(f"it gave {len(view)} bytes, where {len(room)} were asked for; it does not honour ranges")
    room[: len(view)] = view
    return len(view)
