"""Sources that watch how a file is read, and sources that get in the way."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from formatkit.contract import ByteRange
from formatkit.errors import StorageError
from formatkit.forks import fork_safe
from formatkit.io import MemorySource

__all__ = ["CountingSource", "FailingSource", "SlowSource"]


class CountingSource(MemorySource):
    """Remembers what was read, and which file objects are still open.

    Attributes:
        reads: All ranges that were read, through `read` and through file objects alike.
        closed: Whether `close` was called.
    """

    def __init__(self, data: bytes, *, location: str = "memory:checked") -> None:
        super().__init__(data, location=location)
        self.reads: list[ByteRange] = []
        self.closed = False
        self._handles: set[_Handle] = set()
        self._lock = fork_safe(threading.Lock())

    @property
    def bytes_read(self) -> int:
        return sum(read.length for read in self.reads)

    @property
    def open_handles(self) -> int:
        """How many file objects were opened and not closed."""
        return sum(not handle.closed for handle in self._handles)

    def read(self, offset: int, length: int) -> memoryview:
        self.before_read()
        found = super().read(offset, length)
        with self._lock:
            self.reads.append(ByteRange(offset, length))
        return found

    def before_read(self) -> None:
        """What happens before any bytes are handed out; here nothing does."""

    def open(self) -> BinaryIO:
        super().read(0, 0)  # a source that was closed hands out nothing
        handle = _Handle(self)
        self._handles.add(handle)
        return cast("BinaryIO", handle)

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        """Advice that is not taken."""

    def close(self) -> None:
        self.closed = True
        super().close()


class FailingSource(CountingSource):
    """Storage that goes away after a number of reads; 0 means at once."""

    def __init__(self, data: bytes, *, after: int) -> None:
        super().__init__(data)
        self._left = after

    def before_read(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise StorageError(f"cannot read {self.location}: the storage went away", location=self.location)


class SlowSource(CountingSource):
    """Storage that takes its time, so that threads which read at once do meet."""

    def __init__(self, data: bytes, *, seconds: float) -> None:
        super().__init__(data)
        self._seconds = seconds

    def before_read(self) -> None:
        time.sleep(self._seconds)


class _Handle(io.RawIOBase):
    """A file object whose reads are its source's."""

    def __init__(self, source: CountingSource) -> None:
        super().__init__()
        self._source = source
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._source.size()}[whence]
        self._place = max(start + offset, 0)
        return self._place

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._source.size() - self._place)
        if length <= 0:
            return 0
        buffer[:length] = self._source.read(self._place, length)
        self._place += length
        return length
