"""The runtime that owns storage IO, apart from the threads that decode."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Literal, TypeVar, cast, get_args
from weakref import WeakSet, finalize

from formatkit.errors import ConfigurationError, IoUringUnavailableError, StorageError
from formatkit.forks import fork_safe, renew_after_fork
from formatkit.io.backends import RangeBackend, as_caching
from formatkit.io.budget import Budget
from formatkit.io.requests import Requests
from formatkit.io.retry import RetryPolicy
from formatkit.io.ring_requests import RingRequests
from formatkit.io.uring import UringReader
from formatkit.io.usage import IoUsage
from formatkit.io.workers import Call, Workers, on_worker_thread

__all__ = ["IoRuntime", "IoUringMode", "current_runtime", "default_runtime", "with_runtime"]

T = TypeVar("T")
IoUringMode = Literal["auto", "require", "off"]

DEFAULT_TIMEOUT_SECONDS = 120
_LEAST_BYTES = 1 << 20
_MOST_WAITING = 1 << 16
_PATIENCE_AT_EXIT = 2.0


class IoRuntime:
    """Does storage calls on threads of its own, so that those who decode only wait for what is not there yet.

    Usable by any number of threads and scans at once, and in the children of a fork, where it starts afresh.

    Args:
        threads: The most storage calls at once.
        most_bytes: The most bytes that are fetched ahead, or on their way, and not yet taken; of all files together.
        retry: What to do about failures that pass.
        io_uring: Whether local files that are not in memory are read through io_uring: where it is available, always
            (`IoUringUnavailableError` if it is not available), or never.
        executor: The caller's own threads to use. The runtime makes none then, and shuts none down. They must not be
            the threads that decode.
        timeout_seconds: How long the storage may be silent before a call fails with a retryable `StorageError`.
    """

    def __init__(
        self,
        *,
        threads: int = 8,
        most_bytes: int = 64 << 20,
        retry: RetryPolicy | None = None,
        io_uring: IoUringMode = "auto",
        executor: Executor | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        if threads < 1:
            raise ConfigurationError(f"an IO runtime needs one thread or more, not {threads}")
        if most_bytes < _LEAST_BYTES:
            raise ConfigurationError(f"an IO runtime needs room for {_LEAST_BYTES} bytes or more, not {most_bytes}")
        if io_uring not in get_args(IoUringMode):
            raise ConfigurationError(f"io_uring is one of {', '.join(get_args(IoUringMode))}, not {io_uring!r}")
        if not timeout_seconds > 0:
            raise ConfigurationError(f"an IO runtime waits for storage more than 0 seconds, not {timeout_seconds}")
        self.usage = IoUsage()
        self._timeout = timeout_seconds
        self._threads = threads
        self._most_bytes = most_bytes
        self._retry = retry or RetryPolicy()
        self._io_uring = io_uring
        self._ring_lock = fork_safe(threading.Lock())
        self._uring: UringReader | None = None
        self._no_ring: str | None = None
        self._closed = False
        self._begin(executor)
        if io_uring == "require":
            self._ring()
        _runtimes.add(self)
        renew_after_fork(self)

    def _begin(self, executor: Executor | None) -> None:
        self.workers = Workers(self._threads, executor, self._timeout)
        self.budget = Budget(self._most_bytes)
        # A runtime that nobody knows any more ends its threads.
        self._abandoned = finalize(self, self.workers.stop)
        self._abandoned.atexit = False

    def run(self, call: Callable[[], T], *, usage: IoUsage | None = None, timeout: float | None = None) -> T:
        """The result of a storage call, for which the caller waits.

        On a thread of a runtime the call is made right there, so that even one thread never waits for itself.

        Args:
            call: What to do.
            usage: Where the waiting is counted; the runtime's own figures if left out.
            timeout: How many seconds it may make no progress; as the runtime says if left out.
        """
        if on_worker_thread():
            return call()
        started = perf_counter()
        future = self.submit(call, timeout=timeout)
        try:
            return future.result()
        except CancelledError:
            raise StorageError("the IO runtime was closed") from None
        finally:
            (usage or self.usage).add(waited=perf_counter() - started)
            future.cancel()
            del future

    def submit(self, call: Callable[[], T], *, timeout: float | None = None) -> Future[T]:
        """Begin a storage call. It goes before everything that is read ahead."""
        begun = Call(call, timeout)
        if on_worker_thread():
            begun.perform()
        else:
            self.workers.put(begun, urgent=True)
        return begun

    def retried(self, call: Callable[[], T], usage: IoUsage | None = None) -> Callable[[], T]:
        """The same call, repeated as the policy says. It is meant for threads of the runtime, because it sleeps."""
        counters = usage or self.usage
        return lambda: self._retry.run(call, self.workers.pause, lambda: counters.add(retries=1))

    def requests_ahead(self, backend: RangeBackend, usage: IoUsage) -> Requests:
        """Whoever reads a file ahead: a ring if the file is local and there is one, else threads."""
        caching = as_caching(backend)
        ring = None if caching is None else self._ring()
        if caching is None or ring is None:
            return Requests(backend, self, usage)
        return RingRequests(caching, self, usage, ring)

    @property
    def io_uring(self) -> str:
        """Whether io_uring is used, and why."""
        if self._io_uring == "off":
            return "off: threads read local files"
        self._ring()
        if self._no_ring:
            return f"auto: threads read local files, because {self._no_ring}"
        return f"{self._io_uring}: reads ranges of local files ahead that are not in memory"

    def _ring(self) -> UringReader | None:
        with self._ring_lock:
            if self._io_uring != "off" and self._uring is None and self._no_ring is None and not self._closed:
                try:
                    self._uring = UringReader(most_waiting=_MOST_WAITING)
                except IoUringUnavailableError as error:
                    if self._io_uring == "require":
                        raise
                    self._no_ring = error.reason
                else:
                    finalize(self, self._uring.close).atexit = False
            return self._uring

    @property
    def threads(self) -> int:
        """The most storage calls at once."""
        return self._threads

    @property
    def timeout_seconds(self) -> float:
        """How long storage may be silent."""
        return self._timeout

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self, *, patience: float | None = None) -> None:
        """Cancel what has not begun, wait for what has, and end all threads.

        Args:
            patience: The most seconds to wait for what is under way; as long as it takes if left out.
        """
        self._closed = True
        self.workers.stop()
        self.workers.join(patience)
        if self._uring is not None:
            self._uring.close(patience=patience)

    def __enter__(self) -> IoRuntime:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def after_fork(self) -> None:
        """Start afresh in a child, which has neither the threads nor the requests of its parent."""
        self._abandoned.detach()
        self._begin(None)
        if self._closed:
            self.workers.stop()


_runtimes: WeakSet[IoRuntime] = WeakSet()
_chosen: ContextVar[IoRuntime | None] = ContextVar("formatkit_io_runtime", default=None)
_default: IoRuntime | None = None
_default_lock = fork_safe(threading.Lock())


def default_runtime() -> IoRuntime:
    """The runtime of this process, made when it is first asked for.

    `FORMATKIT_IO_THREADS`, `FORMATKIT_IO_BYTES`, `FORMATKIT_IO_URING` and `FORMATKIT_IO_TIMEOUT_SECONDS` in the
    environment set what `IoRuntime` calls `threads`, `most_bytes`, `io_uring` and `timeout_seconds`.
    """
    global _default  # noqa: PLW0603
    found = _default
    if found is None or found.closed:
        with _default_lock:
            if _default is None or _default.closed:
                _default = IoRuntime(
                    threads=_number("FORMATKIT_IO_THREADS", 8),
                    most_bytes=_number("FORMATKIT_IO_BYTES", 64 << 20),
                    io_uring=cast("IoUringMode", os.environ.get("FORMATKIT_IO_URING", "auto")),
                    timeout_seconds=_number("FORMATKIT_IO_TIMEOUT_SECONDS", DEFAULT_TIMEOUT_SECONDS),
                )
            found = _default
    return found


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise ConfigurationError(f"{variable} is {text!r} in the environment; it must be a whole number") from None


def current_runtime() -> IoRuntime:
    """The runtime of the innermost `with_runtime`, else the default one."""
    return _chosen.get() or default_runtime()


@contextmanager
def with_runtime(runtime: IoRuntime) -> Iterator[IoRuntime]:
    """Let everything that is opened inside the block do its IO on a runtime."""
    before = _chosen.set(runtime)
    try:
        yield runtime
    finally:
        _chosen.reset(before)


@atexit.register
def _at_exit() -> None:
    """Let no thread be in the middle of something when the interpreter goes away, if that takes no time."""
    for runtime in list(_runtimes):
        runtime.close(patience=_PATIENCE_AT_EXIT)
