"""Reads of a local file, by position and without a shared cursor."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.errors import StorageError
from formatkit.forks import fork_safe
from formatkit.io.cached_open import open_if_cached
from formatkit.io.failures import closed_source, out_of_range, storage_failures
from formatkit.io.ranges import RangeRules
from formatkit.io.workers import progress

__all__ = ["LocalBackend"]

_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_RULES = RangeRules(gap_bytes=16 << 10, part_bytes=4 << 20)
_SAMPLES = 8


class LocalBackend:
    """A local file, opened at the first read.

    Args:
        path: The path on disk.
        location: How the caller spelled it.
    """

    rules = _RULES
    timeout: float | None = None

    def __init__(self, path: str, location: str) -> None:
        self.location = location
        self._path = path
        self._lock = fork_safe(threading.Lock())
        self._descriptor: int | None = None
        self._reads = 0
        self._closed = False
        self._tells_what_is_cached = _NO_WAIT is not None

    def size(self) -> int:
        with storage_failures(self.location, "read"):
            if self._descriptor is None:
                return self._checked_size()
            descriptor = self.acquire()
            try:
                return os.fstat(descriptor).st_size
            finally:
                self.release()

    @property
    def prepared(self) -> bool:
        return self._descriptor is not None

    def prepare(self) -> None:
        self.acquire()
        self.release()

    def prepare_at_once(self) -> bool:
        with self._lock:
            if self._descriptor is None and not self._closed:
                self._descriptor = open_if_cached(self._path)
            return self._descriptor is not None

    def read_into(self, wanted: ByteRange, room: memoryview) -> None:
        filled = 0
        descriptor = self.acquire()
        try:
            with storage_failures(self.location, "read", wanted):
                # The kernel returns at most about 2 GiB at a time.
                while filled < wanted.length:
                    count = os.preadv(descriptor, [room[filled:]], wanted.offset + filled)
                    if not count:
                        raise out_of_range(self.location, *wanted, os.fstat(descriptor).st_size)
                    filled += count
                    progress()
        finally:
            self.release()

    def read_cached(self, offset: int, room: memoryview) -> int:
        descriptor = self._acquire_if_prepared()
        if descriptor is None:
            return 0
        try:
            return self._cached_bytes(descriptor, offset, room)
        finally:
            self.release()

    def is_cached(self, ranges: Sequence[ByteRange]) -> bool:
        sample = ranges[:: max(1, len(ranges) // _SAMPLES)]
        # Of each in turn the first and the last byte, because neighbours are loaded together; of a single one both.
        places = [one.offset for one in sample[::2]] + [one.end - 1 for one in sample[1::2] or sample]
        room = bytearray(1)
        descriptor = self._acquire_if_prepared()
        if descriptor is None:
            return not self._tells_what_is_cached
        try:
            cached = all(self._cached_bytes(descriptor, place, room) for place in places)
            return cached or not self._tells_what_is_cached
        finally:
            self.release()

    def _acquire_if_prepared(self) -> int | None:
        with self._lock:
            if self._descriptor is None or self._closed or not self._tells_what_is_cached:
                return None
            self._reads += 1
            return self._descriptor

    def _cached_bytes(self, descriptor: int, offset: int, room: memoryview | bytearray) -> int:
        try:
            return os.preadv(descriptor, [room], offset, cast("int", _NO_WAIT))
        except BlockingIOError:
            return 0
        except OSError as error:
            # Some file systems, such as tmpfs, do not tell. Other errors show again in the read that follows.
            self._tells_what_is_cached = error.errno not in (errno.EOPNOTSUPP, errno.EINVAL)
            return 0

    def advise(self, ranges: Sequence[ByteRange]) -> None:
        descriptor = self.acquire()
        try:
            for one in ranges:
                os.posix_fadvise(descriptor, one.offset, one.length, os.POSIX_FADV_WILLNEED)
        finally:
            self.release()

    def open(self) -> BinaryIO:
        with storage_failures(self.location, "open"):
            return cast("BinaryIO", pa.OSFile(self._path, "rb"))

    def local_path(self) -> str | None:
        return self._path

    # A descriptor that is closed under a running read could already belong to another file, so the last one out closes.
    def acquire(self) -> int:
        with self._lock:
            if self._closed:
                raise closed_source(self.location)
            if self._descriptor is None:
                with storage_failures(self.location, "open"):
                    self._checked_size()
                    self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            self._reads += 1
            return self._descriptor

    def release(self) -> None:
        with self._lock:
            self._reads -= 1
            if self._closed:
                self._close_descriptor_if_idle()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._close_descriptor_if_idle()

    __del__ = close

    def after_fork(self) -> None:
        self._reads = 0

    def _close_descriptor_if_idle(self) -> None:
        if self._descriptor is not None and self._reads == 0:
            os.close(self._descriptor)
            self._descriptor = None

    def _checked_size(self) -> int:
        status = Path(self._path).stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no ordinary file"
            raise StorageError(f"cannot read {self.location}: it is {kind}", location=self.location)
        return status.st_size
