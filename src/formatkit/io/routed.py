"""The source that every storage is read through: it fetches ahead what is announced, and never calls storage itself."""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import BinaryIO, TypeVar, cast
from weakref import finalize

from formatkit.contract.storage import ByteRange
from formatkit.errors import FormatkitError, StorageError
from formatkit.forks import fork_safe, renew_after_fork
from formatkit.io.backends import RangeBackend, as_caching
from formatkit.io.failures import closed_source, out_of_range
from formatkit.io.fetching import ReadAhead
from formatkit.io.ranges import inside
from formatkit.io.requests import Requests, new_room
from formatkit.io.routed_file import RoutedFile
from formatkit.io.runtime import IoRuntime, current_runtime
from formatkit.io.usage import IoUsage
from formatkit.io.workers import on_worker_thread

__all__ = ["RoutedSource"]

T = TypeVar("T")


class RoutedSource:
    """A file whose storage is only touched by a runtime.

    The one thing that the calling thread does itself is to take bytes of a local file out of the memory of the
    operating system, which never waits.

    Args:
        backend: The file.
        size: Its length, if it is known; the storage is not asked then.
        runtime: Where storage calls run; the current runtime if left out.

    Attributes:
        usage: What was asked of the storage for this file.
    """

    def __init__(self, backend: RangeBackend, *, size: int | None = None, runtime: IoRuntime | None = None) -> None:
        self._runtime = runtime or current_runtime()
        self.usage = IoUsage(self._runtime.usage)
        self._backend = backend
        self._cache = as_caching(backend)
        self._size = size
        self._lock = fork_safe(threading.Lock())
        self._closed = False
        self._files: list[BinaryIO] = []
        self._ahead: ReadAhead | None = None
        self._abandoned: finalize[[], RoutedSource] | None = None
        self._unannounced: list[ByteRange] = []
        self._announcing: Future[None] | None = None
        self._requests = Requests(backend, self._runtime, self.usage)
        renew_after_fork(self)

    @property
    def location(self) -> str:
        return self._backend.location

    def size(self) -> int:
        if self._size is None and self._announcing is not None:
            self._wait_for_announcing()
        if self._size is None:
            at_once = self._cache is not None and self._cache.prepare_at_once()
            self._size = self._backend.size() if at_once else self._run(self._backend.size)
        return self._size

    def read(self, offset: int, length: int) -> memoryview:
        if self._closed:
            raise closed_source(self.location)
        size = self.size() if self._size is None else self._size
        if offset < 0 or length < 0 or offset + length > size:
            raise out_of_range(self.location, offset, length, size)
        self.usage.add_asked(length)
        wanted = ByteRange(offset, length)
        found = self.at_hand(wanted)
        return self.fetch(wanted) if found is None else found

    def at_hand(self, wanted: ByteRange) -> memoryview | None:
        """A range that was announced or that the operating system has in memory; None if it must be fetched now."""
        if not wanted.length:
            return memoryview(b"")
        if self._announcing is not None:
            self._wait_for_announcing()
        if self._ahead is None and self._cache is None and self._is_small:
            self._reader_ahead().announce([ByteRange(0, self.size())])
        if self._ahead is not None:
            found = self._ahead.take(wanted)
            if found is not None:
                return found.toreadonly()
        if self._cache is not None:
            room = new_room(wanted.length)
            if self._is_prepared() and self._cache.read_cached(wanted.offset, room) == wanted.length:
                return room.toreadonly()
        return None

    def fetch(self, wanted: ByteRange) -> memoryview:
        """A range, asked of the storage while the caller waits."""
        room = new_room(wanted.length)
        self._requests.fetch([(wanted, room)])
        return room.toreadonly()

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        if self._closed or not ranges:
            return
        with self._lock:
            self._unannounced += ranges
        knows_size = self._size is not None or self._cache is not None
        if self._announcing is None and knows_size and self._is_prepared():
            self._announce()
        else:
            # The size must be asked for, or the file opened, and neither may be done here. One thread does it: all that
            # fetch something of the file would wait for it, and leave none for other files.
            with suppress(StorageError):
                self._announcing = self._runtime.submit(self._prepare_and_announce, timeout=self._backend.timeout)

    def open(self) -> BinaryIO:
        if self._announcing is not None:
            self._wait_for_announcing()
        if self._closed or not self._is_prepared():
            self._run(self._backend.prepare)
        if self._cache is not None and (self._ahead is None or not self._ahead.busy):
            file = self._cache.open()
        else:
            file = cast("BinaryIO", RoutedFile(self, self._backend.rules.gap_bytes))
        with self._lock:
            if not self._closed:
                self._files = [one for one in self._files if not one.closed]
                self._files.append(file)
                return file
        file.close()
        raise closed_source(self.location)

    @property
    def runtime(self) -> IoRuntime:
        """Where its storage calls run."""
        return self._runtime

    def would_wait(self, ranges: Sequence[ByteRange]) -> bool:
        """Whether reads have to wait for storage: not where the operating system has a local file in memory.

        To be asked on a thread of the runtime, because the file must be opened for that.
        """
        if self._cache is None:
            return True
        if not self._cache.prepared:
            self._run(self._cache.prepare)
        return not self._cache.is_cached(ranges)

    def local_path(self) -> str | None:
        return self._backend.local_path()

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self.usage.settle()
        if self._abandoned is not None:
            self._abandoned.detach()
        if self._ahead is not None:
            self._ahead.close()
        for file in self._files:
            file.close()
        if self._cache is not None or not self._backend.prepared or self._runtime.closed:
            self._backend.close()
        else:
            self._runtime.run(self._backend.close, usage=self.usage, timeout=self._backend.timeout)

    def after_fork(self) -> None:
        """Forget what the parent had under way: it goes on there, and is read anew here."""
        if self._abandoned is not None:
            self._abandoned.detach()
        self._ahead = self._abandoned = self._announcing = None
        self._backend.after_fork()

    def _is_prepared(self) -> bool:
        return self._backend.prepared or (self._cache is not None and self._cache.prepare_at_once())

    @property
    def _is_small(self) -> bool:
        """Whether all of a distant file costs about what any part of it does. It is fetched once and kept then."""
        return self._cache is None and self.size() <= self._backend.rules.gap_bytes

    def _run(self, call: Callable[[], T]) -> T:
        if self._closed:
            raise closed_source(self.location)
        retried = self._runtime.retried(call, self.usage)
        return self._runtime.run(retried, usage=self.usage, timeout=self._backend.timeout)

    def _prepare_and_announce(self) -> None:
        self.size()
        self._backend.prepare()
        self._announce()

    def _announce(self) -> None:
        size = self.size()
        with self._lock:
            ranges, self._unannounced = inside(self._unannounced, size), []
        if not ranges:
            return
        if self._is_small:
            ranges = [ByteRange(0, size)]
        if self._cache is not None:
            if self._cache.is_cached(ranges):
                return
            if any(not isinstance(file, RoutedFile) and not file.closed for file in self._files):
                # They read by themselves, so all that helps them is in the memory of the operating system.
                with suppress(StorageError):
                    self._runtime.submit(partial(self._cache.advise, ranges))
                return
        self._reader_ahead().announce(ranges)

    def _reader_ahead(self) -> ReadAhead:
        with self._lock:
            if self._ahead is None:
                requests = self._runtime.requests_ahead(self._backend, self.usage)
                self._ahead = ReadAhead(self._backend, requests, self._runtime.budget, keep=self._is_small)
                # A source that nobody knows any more holds nothing. The thread that notices may hold any lock.
                self._abandoned = finalize(self, partial(start_new_thread, self._ahead.close, ()))
                self._abandoned.atexit = False
                if self._closed:
                    self._ahead.close()
            return self._ahead

    def _wait_for_announcing(self) -> None:
        if on_worker_thread():
            return
        announcing, self._announcing = self._announcing, None
        if announcing is not None:
            # What went wrong there goes wrong again, and is reported, where the bytes are asked for.
            with self.usage.waiting(), suppress(FormatkitError, CancelledError):
                announcing.result()
