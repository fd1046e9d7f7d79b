"""Reads of a file behind any pyiceberg `FileIO`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.io import InputFile

from formatkit.contract.storage import ByteRange
from formatkit.errors import FormatkitError, StorageError
from formatkit.forks import fork_safe, keep_for_ever
from formatkit.io.failures import closed_source, out_of_range, storage_failures
from formatkit.io.fileio_streams import OpenedStream, open_stream
from formatkit.io.ranges import RangeRules

__all__ = ["FileIOBackend"]

_RULES = RangeRules(gap_bytes=1 << 20, part_bytes=8 << 20)


class FileIOBackend:
    """An `InputFile`.

    Where ranges are read by position, all reads share one stream. Others have one cursor each, so concurrent reads take
    one stream each.
    """

    rules = _RULES

    def __init__(self, file: InputFile, timeout: float | None = None) -> None:
        self._file = file
        self.timeout = timeout
        self._lock = fork_safe(threading.Lock())
        self._first_opening = fork_safe(threading.Lock())
        self._usable: list[OpenedStream] = []
        self._knows_kind = False
        self._closed = False

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
            filled = opened.read_into(wanted, room)
            if filled < wanted.length:
                raise self._too_short(wanted, filled)

    def _too_short(self, wanted: ByteRange, filled: int) -> FormatkitError:
        size = len(self._file)
        if wanted.end > size:
            return out_of_range(self.location, *wanted, size)
        message = (
            f"cannot read {wanted.length} bytes from offset {wanted.offset} of {self.location}: the storage ended "
            f"after {filled} of them, though it says that the file has {size} bytes"
        )
        return StorageError(message, location=self.location, range=wanted, retryable=True)

    def local_path(self) -> str | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._closed = True
            unused = [opened for opened in self._usable if not opened.users]
            self._usable = []
        with storage_failures(self.location, "close"):
            for opened in unused:
                opened.close()

    def after_fork(self) -> None:
        # What the parent opened shares connections with it, so it is neither used nor closed here.
        keep_for_ever(self._usable)
        self._usable = []
        self._knows_kind = False

    @contextmanager
    def _stream(self) -> Iterator[OpenedStream]:
        opened = self._usable_stream()
        try:
            yield opened
        except BaseException:
            # A stream that failed once may have any cursor or a dead connection.
            self._give_back(opened, failed=True)
            raise
        self._give_back(opened, failed=False)

    def _usable_stream(self) -> OpenedStream:
        opened = self._take()
        if opened is not None:
            return opened
        if self._knows_kind:
            return self._open()
        # Of several threads that come first, one opens; the others wait for what may suit them all.
        with self._first_opening:
            return self._take() or self._open()

    def _take(self) -> OpenedStream | None:
        with self._lock:
            if self._closed:
                raise closed_source(self.location)
            if not self._usable:
                return None
            opened = self._usable[-1] if self._usable[-1].shared else self._usable.pop()
            opened.users += 1
            return opened

    def _open(self) -> OpenedStream:
        opened = open_stream(self._file)
        opened.users = 1
        with self._lock:
            self._knows_kind = True
            if opened.shared and not self._closed:
                self._usable.append(opened)
        return opened

    def _give_back(self, opened: OpenedStream, *, failed: bool) -> None:
        with self._lock:
            opened.users -= 1
            if failed and opened in self._usable:
                self._usable.remove(opened)
            elif not failed and not opened.shared and not self._closed:
                self._usable.append(opened)
            is_last = not opened.users and opened not in self._usable
        if is_last:
            opened.close()
