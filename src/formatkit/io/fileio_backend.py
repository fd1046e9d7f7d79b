"""Reads of a file behind any pyiceberg `FileIO`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyiceberg.io import InputFile

from formatkit.contract.storage import ByteRange
from formatkit.io.failures import closed_source, out_of_range, storage_failures
from formatkit.io.ranges import RangeRules

__all__ = ["FileIOBackend"]

_RULES = RangeRules(gap_bytes=1 << 20, part_bytes=8 << 20)


class _Opened:
    """A stream, and how many reads are under way on it."""

    __slots__ = ("positional", "stream", "users")

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.users = 0
        # A `PythonFile` is somebody's object with one cursor.
        self.positional = isinstance(stream, pa.NativeFile) and not isinstance(stream, pa.PythonFile)


class FileIOBackend:
    """An `InputFile`.

    Arrow's own files are read by position, so all reads share one. Other streams have one cursor each, so concurrent
    reads take one stream each.
    """

    rules = _RULES

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._first_opening = threading.Lock()
        self._usable: list[_Opened] = []
        self._knows_kind = False
        self._closed = False
        self._inherited: list[list[_Opened]] = []

    @property
    def location(self) -> str:
        return self._file.location

    def size(self) -> int:
        with storage_failures(self.location, "read"):
            return len(self._file)

    @property
    def prepared(self) -> bool:
        return self._knows_kind

    def prepare(self) -> None:
        if not self._knows_kind or self._closed:
            with storage_failures(self.location, "open"), self._stream():
                pass

    def read_into(self, wanted: ByteRange, room: memoryview) -> None:
        with storage_failures(self.location, "read", wanted), self._stream() as opened:
            stream = opened.stream.get_stream(*wanted) if opened.positional else opened.stream
            if not opened.positional:
                stream.seek(wanted.offset)
            filled = 0
            while filled < wanted.length:
                count = _read_some(stream, room[filled:])
                if not count:
                    raise out_of_range(self.location, *wanted, wanted.offset + filled)
                filled += count

    def local_path(self) -> str | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            unused = [opened for opened in self._usable if not opened.users]
            self._usable = []
        with storage_failures(self.location, "close"):
            for opened in unused:
                opened.stream.close()

    def after_fork(self) -> None:
        self._lock = threading.Lock()
        self._first_opening = threading.Lock()
        # What the parent opened shares connections with it, so it is neither used nor closed here.
        self._inherited.append(self._usable)
        self._usable = []
        self._knows_kind = False

    @contextmanager
    def _stream(self) -> Iterator[_Opened]:
        opened = self._usable_stream()
        try:
            yield opened
        except BaseException:
            # A stream that failed once may have any cursor or a dead connection.
            self._give_back(opened, failed=True)
            raise
        self._give_back(opened, failed=False)

    def _usable_stream(self) -> _Opened:
        opened = self._take()
        if opened is not None:
            return opened
        if self._knows_kind:
            return self._open()
        # Of several threads that come first, one opens; the others wait for what may suit them all.
        with self._first_opening:
            return self._take() or self._open()

    def _take(self) -> _Opened | None:
        with self._lock:
            if self._closed:
                raise closed_source(self.location)
            if not self._usable:
                return None
            opened = self._usable[-1] if self._usable[-1].positional else self._usable.pop()
            opened.users += 1
            return opened

    def _open(self) -> _Opened:
        opened = _Opened(self._file.open())
        opened.users = 1
        with self._lock:
            self._knows_kind = True
            if opened.positional and not self._closed:
                self._usable.append(opened)
        return opened

    def _give_back(self, opened: _Opened, *, failed: bool) -> None:
        with self._lock:
            opened.users -= 1
            if failed and opened in self._usable:
                self._usable.remove(opened)
            elif not failed and not opened.positional and not self._closed:
                self._usable.append(opened)
            is_last = not opened.users and opened not in self._usable
        if is_last:
            opened.stream.close()


def _read_some(stream: Any, room: memoryview) -> int:
    if hasattr(stream, "readinto"):
        return int(stream.readinto(room) or 0)
    data = stream.read(len(room))
    room[: len(data)] = data
    return len(data)
