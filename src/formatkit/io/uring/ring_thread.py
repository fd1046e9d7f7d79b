"""The thread that owns a ring, and the bounded queue in front of it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from contextlib import suppress

from formatkit.errors import FormatkitError, InternalError, StorageError
from formatkit.io.failures import closed_source
from formatkit.io.uring.engine import Engine
from formatkit.io.uring.requests import Request
from formatkit.io.uring.ring import Ring

__all__ = ["RingThread"]

# Memory of requests that a broken ring had in flight. The kernel may still write into it, so it is never given back.
_STRANDED: list[object] = []


class RingThread:
    """Started at once; raises what the kernel says if there cannot be a ring.

    Args:
        entries: The most reads in flight.
        most_waiting: The most reads that wait for their turn, before whoever brings more has to wait.
        ring_type: What to make the ring with.
    """

    def __init__(self, entries: int, most_waiting: int, ring_type: type[Ring]) -> None:
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._inbox: list[Request] = []
        # At whatever moment a process is forked, no request is missing here.
        self._unfinished: set[Request] = set()
        self._waiting = 0
        self._asleep = False
        self._stopping = False
        self._cause: OSError | None = None
        self._ring: Ring | None = None
        self._engine: Engine | None = None
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=self._serve, args=(entries, ring_type, started), name="formatkit-io-uring", daemon=True
        )
        self._thread.start()
        try:
            started.result()
        except BaseException:
            self._thread.join()
            os.close(self._wake)
            raise

    @property
    def strays(self) -> int:
        """Completions that belonged to no read in flight, and were dropped."""
        return self._engine.strays if self._engine else 0

    def submit(self, request: Request) -> None:
        """Queue a request, waiting while the queue is full. The ring's own thread never waits."""
        count = request.left
        with self._changed:
            while self._waiting and self._waiting + count > self._most_waiting and not self._is_current():
                if self._stopping:
                    break
                self._changed.wait()
            if self._cause:
                raise self._broken(request)
            if self._stopping:
                raise closed_source(request.location)
            self._unfinished.add(request)
            self._inbox.append(request)
            self._waiting += count
            if self._asleep:
                self._asleep = False
                os.eventfd_write(self._wake, 1)

    def stop(self) -> None:
        """Have the thread refuse what waits, let land what is in flight, and end."""
        with self._changed:
            if not self._stopping:
                self._stopping = True
                os.eventfd_write(self._wake, 1)
                self._changed.notify_all()

    def close(self, patience: float | None = None) -> None:
        """Stop the thread and wait for its end, but no longer than this."""
        self.stop()
        if not self._is_current():
            self._thread.join(patience)

    def forget(self) -> None:
        """In a forked child, where the thread does not exist: close copies of descriptors, fail inherited requests."""
        with suppress(OSError):
            os.close(self._wake)
        if self._ring is not None:
            self._ring.forget()
        for request in list(self._unfinished):
            request.forget()

    def _is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def _serve(self, entries: int, ring_type: type[Ring], started: Future[None]) -> None:
        try:
            self._ring = ring_type(entries)
            self._ring.enter(0)
        except OSError as error:
            if self._ring is not None:
                self._ring.close()
            started.set_exception(error)
            return
        self._engine = Engine(self._ring, self._wake, self._unfinished)
        started.set_result(None)
        try:
            self._run(self._engine)
        except OSError as error:
            # The frames of a traceback would keep the requests alive.
            self._cause = error.with_traceback(None)
        finally:
            self._end(self._ring)
            self._ring = self._engine = None

    def _run(self, engine: Engine) -> None:
        gone = 0
        while True:
            stopping = self._take_in(engine, gone)
            if stopping:
                engine.refuse_waiting()
                if engine.idle:
                    return
            else:
                engine.listen()
            gone = engine.fill()
            engine.run()

    def _take_in(self, engine: Engine, gone: int) -> bool:
        """Move new requests to the engine, and count off the reads that stopped waiting; whether to stop."""
        with self._changed:
            arrived, self._inbox = self._inbox, []
            if gone:
                self._waiting -= gone
                self._changed.notify_all()
            self._asleep = True
            stopping = self._stopping
        for request in arrived:
            engine.add(request)
        return stopping

    def _end(self, ring: Ring) -> None:
        with self._changed:
            self._stopping = True
            self._asleep = False
            self._inbox.clear()
            self._changed.notify_all()
        ring.close()
        os.close(self._wake)
        while self._unfinished:
            request = self._unfinished.pop()
            if request.in_flight:
                _STRANDED.append(request.memory)
            request.fail(self._broken(request))
            request.finish()

    def _broken(self, request: Request) -> FormatkitError:
        kind = StorageError if self._cause else InternalError
        reason = f"the ring broke: {self._cause}" if self._cause else "the ring's thread ended early"
        return kind(f"cannot read {request.location}: {reason}", location=request.location)
