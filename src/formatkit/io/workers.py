"""Threads that do storage calls: those that somebody waits for before those that read ahead."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from formatkit.errors import OutOfMemoryError, StorageError, enough_memory
from formatkit.io.failures import no_answer

__all__ = ["Call", "Workers", "on_worker_thread", "progress"]

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_LONGEST_LOOK_SECONDS = 1.0
_MAX_HUNG_THREADS = 64
_numbers = count(1)
_here = threading.local()


def on_worker_thread() -> bool:
    """Whether the calling thread is one that does storage calls."""
    return getattr(_here, "working", False)


def progress() -> None:
    """Say on a thread that does storage calls that the storage has answered something."""
    for call in getattr(_here, "calls", ()):
        call.last_progress = monotonic()


class Call(Future[T]):
    """A storage call and its outcome. A cancelled one lets go of everything that it was about.

    Whoever waits for it waits until it ends, or until a call that is under way makes no progress for too long: such
    calls fail, and the threads that hang in them are replaced.

    Args:
        work: What to do.
        timeout: The most seconds without progress; what the workers say if left out.
    """

    def __init__(self, work: Callable[[], T], timeout: float | None = None) -> None:
        super().__init__()
        self._work: Callable[[], T] | None = work
        self.timeout = timeout
        self.taken = False
        self.urgent = False
        self.last_progress = 0.0
        self.thread: threading.Thread | None = None
        self.workers: Workers | None = None

    def result(self, timeout: float | None = None) -> T:
        if timeout is None:
            self._wait()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if timeout is None:
            self._wait()
        return super().exception(timeout)

    def _wait(self) -> None:
        while self.workers is not None and not self.done():
            # A call may fail with a `TimeoutError` of its own, which is not raised here.
            with suppress(TimeoutError, CancelledError):
                super().exception(self.workers.patience_with(self))
            if not self.done():
                self.workers.give_up_hung_calls()

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
        self.last_progress, self.thread = monotonic(), threading.current_thread()
        outer = getattr(_here, "calls", ())
        _here.calls = (*outer, self)
        # What was given up meanwhile has an outcome already.
        with suppress(InvalidStateError):
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
                _here.calls = outer
                self.set_exception(error)
                # The traceback knows this frame, which knows the call, which knows the error.
                del self
            else:
                _here.calls = outer
                self.set_result(result)

    def give_up(self, seconds: float) -> None:
        """Fail, though the storage may still answer."""
        thread = None if self.thread is None else self.thread.ident
        with suppress(InvalidStateError):
            self.set_exception(no_answer(thread, seconds))


class Workers:
    """A queue of calls, and threads that are started when there is work and end when there is none.

    Nothing can end a thread that hangs in a call. It is left to itself, and another takes its place, but no more than
    64 of them hang at once; then every call fails.

    Args:
        threads: The most calls at once.
        executor: Somebody else's threads to use; none are made then.
        timeout: How many seconds a call may be under way without progress.
    """

    def __init__(self, threads: int, executor: Executor | None = None, timeout: float = inf) -> None:
        self._most = threads
        self._timeout = timeout
        self._running: set[Call[Any]] = set()
        self._hung: set[threading.Thread] = set()
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

    @property
    def hung(self) -> int:
        """How many threads hang in calls that were given up."""
        return len(self._hung)

    def put(self, call: Call[Any], *, urgent: bool) -> None:
        """Do a call when its turn comes."""
        with self._lock:
            if self._stopping.is_set():
                raise _closed()
            call.workers = self
            call.urgent = urgent
            (self._urgent if urgent else self._ahead).append(call)
            must_start = self._must_start()
            if not self._working:
                raise _all_hang()
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
                self._perform(call)

    def pause(self, seconds: float) -> None:
        """Let time pass on a thread of these, unless they are stopped."""
        progress()
        if self._stopping.wait(seconds):
            raise _closed()
        progress()

    def give_up_hung_calls(self) -> None:
        """Fail all calls that make no progress, and replace their threads."""
        now = monotonic()
        with self._lock:
            hung = [call for call in self._running if now - call.last_progress >= self._timeout_of(call)]
            self._running.difference_update(hung)
            threads = {call.thread for call in hung if call.thread is not None} - self._hung
            self._hung |= threads
            self._working -= len(threads)
            # Those that were hurried are in both queues.
            waiting = [call for call in dict.fromkeys((*self._urgent, *self._ahead)) if not call.taken]
            starting = [call for call in waiting if self._must_start()]
            hopeless = waiting if not self._working else []
            for call in hopeless:
                call.taken = True
        for call in hung:
            call.give_up(self._timeout_of(call))
        for call in hopeless:
            if call.set_running_or_notify_cancel():
                call.set_exception(_all_hang())
        for call in starting:
            self._start(call)

    def patience_with(self, call: Call[Any]) -> float:
        """How many seconds to wait for a call before looking whether something hangs."""
        return min(self._timeout_of(call) / 4, _LONGEST_LOOK_SECONDS)

    def _timeout_of(self, call: Call[Any]) -> float:
        return self._timeout if call.timeout is None else call.timeout

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
        deadline = inf if seconds is None else monotonic() + seconds
        while True:
            with self._lock:
                threads = self._threads - self._hung - {threading.current_thread()}
            left = deadline - monotonic()
            if not threads or left <= 0:
                return
            next(iter(threads)).join(min(left, _LONGEST_LOOK_SECONDS, self._timeout / 4))
            self.give_up_hung_calls()

    def _must_start(self) -> bool:
        if self._working >= self._most or len(self._urgent) + len(self._ahead) <= self._idle:
            return False
        if len(self._hung) >= _MAX_HUNG_THREADS:
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
                with enough_memory("a call to the storage"):
                    thread.start()
        except (RuntimeError, OutOfMemoryError) as error:
            with self._lock:
                self._working -= 1
                if self._working:
                    return
                for calls in (self._urgent, self._ahead):
                    with suppress(ValueError):
                        calls.remove(call)
            if isinstance(error, OutOfMemoryError):
                raise
            raise StorageError(f"there is no thread for storage calls: {error}") from error

    def _calls(self) -> None:
        """What a thread of our own does."""
        _here.working = True
        while self._has_work():
            with self._lock:
                self._idle -= 1
                call = self._pop()
            if call is not None:
                self._perform(call)
            del call
            if threading.current_thread() in self._hung:
                break
        with self._lock:
            self._threads.discard(threading.current_thread())
            self._hung.discard(threading.current_thread())

    def _perform(self, call: Call[Any]) -> None:
        call.last_progress, call.thread = monotonic(), threading.current_thread()
        with self._lock:
            self._running.add(call)
        try:
            call.perform()
        finally:
            with self._lock:
                self._running.discard(call)

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
                self._perform(call)
            finally:
                _here.working = was_working
        with self._lock:
            if threading.current_thread() in self._hung:
                self._hung.discard(threading.current_thread())
                return
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


def _all_hang() -> StorageError:
    message = f"{_MAX_HUNG_THREADS} threads hang in storage calls; no more are made until some of them return"
    return StorageError(message, retryable=True, timed_out=True)


def _closed() -> StorageError:
    return StorageError("the IO runtime was closed")
