"""Range reads of local files through io_uring."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.errors import StorageError
from formatkit.forks import fork_safe, renew_after_fork
from formatkit.io.failures import storage_failures
from formatkit.io.uring.availability import why_unavailable
from formatkit.io.uring.conditions import ReadConditions
from formatkit.io.uring.files import UringFile
from formatkit.io.uring.layout import request_buffers, request_into, request_packed
from formatkit.io.uring.requests import Request
from formatkit.io.uring.ring import Ring
from formatkit.io.uring.ring_thread import RingThread

__all__ = ["UringReader"]


class UringReader:
    """One ring and its thread, for any number of files and callers.

    The ranges of a request are submitted together, and many requests are in flight at once. Memory is filled in place.
    A forked child that uses its parent's reader gets a ring of its own.

    Args:
        entries: The most reads in flight, a power of two.
        direct: Whether `read_ranges` reads past the page cache where the file system lets it.
        most_waiting: The most reads that wait for one in flight to complete; who brings more has to wait.
        ring_type: What to make the ring with.

    Raises:
        IoUringUnavailableError: This machine does not let us have a ring. `availability()` says the same.
    """

    def __init__(
        self, *, entries: int = 256, direct: bool = False, most_waiting: int = 4096, ring_type: type[Ring] = Ring
    ) -> None:
        self.direct = direct
        self._entries = entries
        self._most_waiting = most_waiting
        self._ring_type = ring_type
        self._closed = False
        self._lock = fork_safe(threading.Lock())
        self._thread: RingThread | None = self._start()
        renew_after_fork(self)

    def submit(
        self, file: int | UringFile, reads: Sequence[tuple[ByteRange, memoryview]], *, location: str
    ) -> Future[None]:
        """Fill memory with ranges of a file.

        Args:
            file: A descriptor that stays open until the future is done, or a file, which may be closed before.
            reads: Ranges, and writable memory of just their length. It is touched until the future is done.
            location: The file's name for errors.

        Returns:
            A future that fails with `CorruptFileError` if the file is shorter than a range, else with `StorageError`.
            Cancelling it leaves out what was not submitted yet.
        """
        return self._submit(request_into(file, location, reads))

    def submit_packed(
        self, file: int | UringFile, ranges: Sequence[ByteRange], room: memoryview, *, location: str
    ) -> Future[None]:
        """Like `submit`, into memory in which the ranges lie one behind the other."""
        return self._submit(request_packed(file, location, ranges, room))

    def fetch(self, file: UringFile, ranges: Sequence[ByteRange]) -> Future[list[pa.Buffer]]:
        """Read ranges into new memory; a buffer for each, in order."""
        return self._submit(request_buffers(file, ranges))

    def read_ranges(
        self, path: str | os.PathLike[str], ranges: Sequence[ByteRange], *, conditions: ReadConditions | None = None
    ) -> list[pa.Buffer]:
        """Open a file, look whether the conditions hold, read ranges, and wait for them.

        Raises:
            NotModifiedError: `if_none_match` or `if_modified_since` say that there is nothing new.
            PreconditionFailedError: The file is not, or not until the end of the read, the one that was meant.
        """
        with UringFile(path, direct=self.direct) as file, storage_failures(file.location, "read"):
            if conditions is not None:
                conditions.check(file.location, file.status())
            buffers = self.fetch(file, ranges).result()
            if conditions is not None and conditions.hold_while_reading:
                conditions.check_unchanged(file.location, file.status())
            return buffers

    @property
    def strays(self) -> int:
        """Completions that belonged to no read in flight, and were dropped."""
        return self._thread.strays if self._thread else 0

    def close(self, *, patience: float | None = None) -> None:
        """Refuse what waits, wait for what is in flight, end the thread. May be called twice.

        Args:
            patience: The most seconds to wait; as long as it takes if left out.
        """
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.close(patience)

    def __del__(self) -> None:
        # While the interpreter ends, other threads do not run any more, not even to give back a lock.
        thread = getattr(self, "_thread", None)
        if thread is not None and not sys.is_finalizing():
            thread.stop()

    def __enter__(self) -> UringReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, request: Request) -> Future[Any]:
        if request.left:
            self._ring_thread().submit(request)
        else:
            request.finish()
        return request.future

    def _start(self) -> RingThread:
        if sys.platform != "linux":
            raise why_unavailable(None)
        try:
            return RingThread(self._entries, self._most_waiting, self._ring_type)
        except OSError as error:
            raise why_unavailable(error) from error

    def _ring_thread(self) -> RingThread:
        with self._lock:
            if self._closed:
                raise StorageError("cannot read: the io_uring reader was closed")
            if self._thread is None:
                self._thread = self._start()
            return self._thread

    def after_fork(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.forget()
