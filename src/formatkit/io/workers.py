"""Threads that do storage calls: those that somebody waits for before those that read ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from contextlib import suppress
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from formatkit.errors import StorageError

__all__ = ["Call", "Workers", "on_worker_thread"]

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_numbers = count(1)
_here = threading.local()


def on_worker_thread() -> bool:
    """Whether the calling thread is one that does storage calls."""
    return getattr(_here, "working", False)


class Call(Future[T]):
    """A storage call and its outcome. A cancelled one lets go of everything that it was about."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work: Callable[[], T] | None = work
        self.taken = False
        self.urgent = False

    def cancel(self) -> bool:
        cancelled = super().cancel()
        if cancelled:
            self._work = None
        return cancelled

    def perform(self) -> None:
        if not self.set_running_or_notify_cancel():
            return
        work, self._work = self._work, None
        assert work is not None  # noqa: S101
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self.set_exception(error)
            # The traceback knows this frame, which knows the call, which knows the error.
            del self
        else:
            self.set_result(result)


class Workers:
    """A queue of calls, and threads that are started when there is work and end when there is none.

    Args:
        threads: The most calls at once.
        executor: Somebody else's threads to use; none are made then.
    """

    def __init__(self, threads: int, executor: Executor | None = None) -> None:
        self._most = threads
        self._executor = executor
        self._lock = threading.Lock()
        # A token for each call, whichever of them it will be; `False` ends a thread.
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._urgent: deque[Call[Any]] = deque()
        self._ahead: deque[Call[Any]] = deque()
        self._working = 0
        self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._stopping = threading.Event()

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    def put(self, call: Call[Any], *, urgent: bool) -> None:
        """Do a call when its turn comes."""
        with self._lock:
            if self._stopping.is_set():
                raise _closed()
            call.urgent = urgent
            (self._urgent if urgent else self._ahead).append(call)
            must_start = self._must_start()
        self._tokens.put(True)
        if must_start:
            self._start(call)

    def hurry(self, calls: Iterable[Call[Any]]) -> None:
        """Let calls overtake those that nobody waits for."""
        with self._lock:
            for call in calls:
                if not call.urgent and not call.taken:
                    # It stays in its old place too, where it is passed over when its turn comes.
                    call.urgent = True
                    self._urgent.append(call)

    def perform_here(self, calls: Iterable[Call[Any]]) -> None:
        """Do calls that no thread has begun, on the thread that asks: one of these, which must not wait for itself."""
        for call in calls:
            with self._lock:
                taken, call.taken = call.taken, True
            if not taken:
                call.perform()

    def pause(self, seconds: float) -> None:
        """Let time pass on a thread of these, unless they are stopped."""
        if self._stopping.wait(seconds):
            raise _closed()

    def stop(self) -> None:
        """Cancel what has not begun and let the threads end. What is under way is not waited for."""
        with self._lock:
            self._stopping.set()
            dropped = [*self._urgent, *self._ahead]
            self._urgent.clear()
            self._ahead.clear()
            threads = len(self._threads)
        for _ in range(threads):
            self._tokens.put(False)
        for call in dropped:
            call.cancel()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the threads have ended, but no longer than this."""
        deadline = None if seconds is None else monotonic() + seconds
        with self._lock:
            threads = self._threads - {threading.current_thread()}
        for thread in threads:
            thread.join(None if deadline is None else max(0.0, deadline - monotonic()))

    def _must_start(self) -> bool:
        if self._working >= self._most or len(self._urgent) + len(self._ahead) <= self._idle:
            return False
        self._working += 1
        return True

    def _start(self, call: Call[Any]) -> None:
        try:
            if self._executor is not None:
                self._executor.submit(self._one_call)
            else:
                thread = threading.Thread(target=self._calls, name=f"formatkit-io-{next(_numbers)}", daemon=True)
                with self._lock:
                    self._threads.add(thread)
                thread.start()
        except RuntimeError as error:
            with self._lock:
                self._working -= 1
                if self._working:
                    return
                for calls in (self._urgent, self._ahead):
                    with suppress(ValueError):
                        calls.remove(call)
            raise StorageError(f"there is no thread for storage calls: {error}") from error

    def _calls(self) -> None:
        """What a thread of our own does."""
        _here.working = True
        while self._has_work():
            with self._lock:
                self._idle -= 1
                call = self._pop()
            if call is not None:
                call.perform()
            del call
        with self._lock:
            self._threads.discard(threading.current_thread())

    def _has_work(self) -> bool:
        """Wait for a call; False if this thread should end."""
        with self._lock:
            self._idle += 1
        while True:
            with suppress(Empty):
                if self._tokens.get(timeout=_IDLE_SECONDS):
                    return True
            with self._lock:
                if self._stopping.is_set() or not (self._urgent or self._ahead):
                    self._idle -= 1
                    self._working -= 1
                    return False

    def _one_call(self) -> None:
        """What a thread of somebody else does: one call at a time, so that other work gets its turn."""
        with self._lock:
            call = self._pop()
        if call is not None:
            was_working, _here.working = on_worker_thread(), True
            try:
                call.perform()
            finally:
                _here.working = was_working
        with self._lock:
            waiting = next(iter(self._urgent or self._ahead), None)
            if waiting is None:
                self._working -= 1
        if waiting is not None:
            self._start(waiting)

    def _pop(self) -> Call[Any] | None:
        for calls in (self._urgent, self._ahead):
            while calls:
                call = calls.popleft()
                if not call.taken:
                    call.taken = True
                    return call
        return None


def _closed() -> StorageError:
    return StorageError("the IO runtime was closed")
