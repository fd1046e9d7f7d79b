"""Writing through the IO runtime: the encoder goes on while what it wrote is on its way to the storage."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from formatkit.contract.storage import ByteSink, SinkStream
from formatkit.errors import StorageError
from formatkit.forks import keep_for_ever, renew_after_fork
from formatkit.io.usage import IoUsage

if TYPE_CHECKING:
    from formatkit.io.runtime import IoRuntime

__all__ = ["RoutedSink", "RoutedSinkStream"]

_CHUNK_BYTES = 1 << 20
_SHORT_BYTES = 64 << 10
_MOST_WAITING_BYTES = 4 << 20
_LOOK_SECONDS = 1.0


class RoutedSink:
    """A sink whose storage is only touched by threads of the runtime.

    Args:
        backend: The place itself.
        runtime: Where its calls run.
        timeout: How many seconds the storage may be silent; as the runtime says if left out.

    Attributes:
        usage: What was written there.
    """

    def __init__(self, backend: ByteSink, runtime: IoRuntime, timeout: float | None = None) -> None:
        self.usage = IoUsage(runtime.usage)
        self._timeout = timeout
        self._backend = backend
        self._runtime = runtime

    @property
    def location(self) -> str:
        return self._backend.location

    def create(self, *, overwrite: bool = False) -> RoutedSinkStream:
        stream = self._runtime.run(
            lambda: self._backend.create(overwrite=overwrite), usage=self.usage, timeout=self._timeout
        )
        return RoutedSinkStream(stream, self.location, self._runtime, self.usage, self._timeout)


class RoutedSinkStream:
    """An open output that is written behind its caller's back, in order and a bounded number of bytes behind.

    A write that fails in the background ends the stream: the next call raises what went wrong, and so does every later
    one but `abort`, so that a file with a hole is never published.
    """

    def __init__(
        self,
        backend: SinkStream,
        location: str,
        runtime: IoRuntime,
        usage: IoUsage,
        timeout: float | None = None,
    ) -> None:
        self._backend = backend
        self._location = location
        self._runtime = runtime
        self._usage = usage
        self._timeout = timeout
        self._writing: Future[None] | None = None
        self._size = 0
        self._closed = False
        self._settled = False
        self._gathered: list[bytes | memoryview] = []
        self._gathered_bytes = 0
        # Held by whoever calls the backend, so that chunks arrive in order and nothing follows an abort.
        self._backend_turn = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: deque[tuple[list[bytes | memoryview], int]] = deque()
        self._waiting_bytes = 0
        self._writer_asked_for = False
        self._writer_runs = False
        self._failure: BaseException | None = None
        renew_after_fork(self)

    def write(self, data: bytes | memoryview, /) -> int:
        if self._closed:
            raise StorageError(f"cannot write {self._location}: the stream was closed", location=self._location)
        self._raise_failure()
        piece = _lasting(data)
        length = len(piece)
        self._gathered.append(piece)
        self._gathered_bytes += length
        self._size += length
        if self._gathered_bytes >= _CHUNK_BYTES:
            self._hand_over()
            self._wait_until_few_wait(_MOST_WAITING_BYTES)
        return length

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Wait until everything that was written has reached the backend."""
        if self._closed:
            return
        self._raise_failure()
        self._hand_over()
        self._wait_until_few_wait(0)
        self._raise_failure()
        self._run(self._flush_backend)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._settled:
            self._raise_failure()
        self._queue_gathered()
        self._run(self._finish)

    def abort(self) -> None:
        self._closed = True
        if self._settled:
            return
        self._forget_what_waits()
        try:
            self._run(self._discard)
        except StorageError:
            if not self._runtime.closed:
                raise
            # No thread of the runtime is left to clean up.
            self._discard()

    def after_fork(self) -> None:
        """Leave the file to the parent: nothing that is done or dropped here may reach it."""
        if not self._settled:
            keep_for_ever(self._backend)
            self._settled = True
            message = f"cannot write {self._location}: the process from which this one was forked writes it"
            self._failure = StorageError(message, location=self._location)

    def _hand_over(self) -> None:
        """Let what was gathered be written by the runtime."""
        self._queue_gathered()
        with self._changed:
            ask = bool(self._waiting) and not self._writer_asked_for
            self._writer_asked_for |= ask
        if ask:
            self._writing = self._runtime.submit(self._write_behind, timeout=self._timeout)

    def _queue_gathered(self) -> None:
        if self._gathered:
            with self._changed:
                self._waiting.append((self._gathered, self._gathered_bytes))
                self._waiting_bytes += self._gathered_bytes
            self._gathered, self._gathered_bytes = [], 0

    def _wait_until_few_wait(self, most: int) -> None:
        with self._changed:
            if self._waiting_bytes > most and self._writer_runs:
                with self._usage.waiting():
                    while self._waiting_bytes > most and self._writer_runs:
                        self._changed.wait(_LOOK_SECONDS)
                        self._raise_if_it_hangs()
            if self._waiting_bytes <= most:
                return
        # Nobody has begun yet. On a thread of the runtime this is done at once, since no other thread may be free.
        self._run(self._write_behind)

    def _run(self, call: Callable[[], None]) -> None:
        """Do a storage call, for which the caller waits."""
        try:
            self._runtime.run(call, usage=self._usage, timeout=self._timeout)
        except StorageError as error:
            if error.timed_out:
                self._give_up(error)
            raise

    def _raise_if_it_hangs(self) -> None:
        self._runtime.workers.give_up_hung_calls()
        if self._writing is not None and self._writing.done():
            error = self._writing.exception()
            if isinstance(error, StorageError) and error.timed_out:
                self._give_up(error)
                raise error

    def _give_up(self, error: StorageError) -> None:
        """Leave the backend to the thread that hangs in it, and has the turn."""
        self._failure = error
        self._settled = True

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write_behind(self) -> None:
        with self._backend_turn:
            self._write_all()

    def _write_all(self) -> None:
        """Write what waits, until nothing does. The caller has the turn."""
        with self._changed:
            self._writer_runs = True
        while (chunk := self._next_chunk()) is not None:
            pieces, length = chunk
            try:
                for part in _worth_a_call(pieces):
                    self._backend.write(part)
                    self._usage.add_write(len(part))
            except BaseException as error:  # noqa: BLE001 - it is raised by the next call
                self._failure = error
                self._forget_what_waits()
            else:
                with self._changed:
                    self._waiting_bytes = max(0, self._waiting_bytes - length)
                    self._changed.notify_all()

    def _next_chunk(self) -> tuple[list[bytes | memoryview], int] | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._writer_asked_for = self._writer_runs = False
            return None

    def _forget_what_waits(self) -> None:
        with self._changed:
            self._waiting.clear()
            self._waiting_bytes = 0
            self._changed.notify_all()

    def _flush_backend(self) -> None:
        with self._backend_turn:
            self._backend.flush()

    def _finish(self) -> None:
        """Write the rest, and publish the file if all of it arrived."""
        with self._backend_turn:
            self._write_all()
            if self._failure is None:
                self._backend.close()
                self._settled = True
                return
            try:
                self._backend.abort()
                self._settled = True
            finally:
                raise self._failure

    def _discard(self) -> None:
        with self._backend_turn:
            self._backend.abort()
            self._settled = True


def _worth_a_call(pieces: Sequence[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The pieces, with short ones joined. Long ones are not, because that would copy them."""
    short: list[bytes | memoryview] = []
    for piece in pieces:
        if len(piece) < _SHORT_BYTES:
            short.append(piece)
            continue
        if short:
            yield b"".join(short)
            short.clear()
        yield piece
    if short:
        yield b"".join(short)


def _lasting(data: bytes | memoryview) -> bytes | memoryview:
    """The data, copied unless nobody can change it: codecs use their buffers again as soon as a write returns."""
    if isinstance(data, bytes):
        return data
    view = memoryview(data)
    if isinstance(view.obj, bytes) and view.contiguous:
        return view.cast("B")
    return view.tobytes()
