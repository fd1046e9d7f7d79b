"""What ranges of an `InputFile` are read through."""

from __future__ import annotations

import errno
import sys
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.io import InputFile

from formatkit.contract.storage import ByteRange

__all__ = ["OpenedStream", "open_stream"]


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
        self._stream.seek(wanted.offset)
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
        if wanted.offset >= self._file.size():
            return 0
        return _fill(self._file.get_stream(*wanted), room)

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
        try:
            data = self._filesystem.cat_file(self._location, start=wanted.offset, end=wanted.end)
        except OSError as error:
            if error.errno == errno.EINVAL and wanted.offset >= self._filesystem.info(self._location)["size"]:
                return 0
            raise
        room[: len(data)] = data
        return len(data)

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
    filled = 0
    while filled < len(room):
        count = _read_some(stream, room[filled:])
        if not count:
            break
        filled += count
    return filled


def _read_some(stream: Any, room: memoryview) -> int:
    if hasattr(stream, "readinto"):
        return int(stream.readinto(room) or 0)
    data = stream.read(len(room))
    room[: len(data)] = data
    return len(data)
