"""Read-ahead of local files through io_uring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from formatkit.errors import FormatkitError, StorageError
from formatkit.io.backends import CachingBackend
from formatkit.io.failures import closed_source
from formatkit.io.ranges import split
from formatkit.io.requests import Requests, Room
from formatkit.io.uring import UringReader
from formatkit.io.usage import IoUsage
from formatkit.io.workers import Call

if TYPE_CHECKING:
    from formatkit.io.runtime import IoRuntime

__all__ = ["RingRequests"]

_SUBMISSION_BYTES = 1 << 20


class RingCall(Future[None]):
    """A submission. It ends when nothing writes into its rooms any more, even if it was cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.submitted: Future[None] | None = None

    def cancel(self) -> bool:
        if self.submitted is not None:
            self.submitted.cancel()
        return False


class RingRequests(Requests):
    """Reads ahead with a ring, and with threads what somebody waits for or what the ring failed to read."""

    def __init__(self, backend: CachingBackend, runtime: IoRuntime, usage: IoUsage, ring: UringReader) -> None:
        super().__init__(backend, runtime, usage)
        self._file = backend
        self._ring = ring

    def begin_ahead(self, wanted: Sequence[Room], part_bytes: Sequence[int]) -> list[Sequence[Future[None]]]:
        begun: list[list[Future[None]]] = [[] for _ in wanted]
        for submission in _submissions(wanted, part_bytes):
            call = self._submitted([part for _, part in submission])
            for number, _ in submission:
                begun[number].append(call)
        return [*begun]

    def _submitted(self, parts: Sequence[Room]) -> RingCall:
        call = RingCall()
        descriptor = self._file.acquire()
        try:
            call.submitted = self._ring.submit(descriptor, parts, location=self._file.location)
        except FormatkitError as error:
            self._file.release()
            call.set_exception(error)
            return call
        self._usage.add(requests=len(parts))
        call.submitted.add_done_callback(lambda landed: self._landed(landed, call, parts))
        return call

    def _landed(self, landed: Future[None], call: RingCall, parts: Sequence[Room]) -> None:
        """Pass on what became of a submission; runs on the thread of the ring."""
        self._file.release()
        error = closed_source(self._file.location) if landed.cancelled() else landed.exception()
        if error is None:
            self._usage.add(fetched=sum(part.length for part, _ in parts))
            call.set_result(None)
        elif isinstance(error, StorageError) and error.retryable:
            self._read_by_thread(call, parts)
        else:
            call.set_exception(error)

    def _read_by_thread(self, call: RingCall, parts: Sequence[Room]) -> None:
        def read() -> None:
            for part, room in parts:
                self._reading(part, room)()

        def pass_on(second: Future[None]) -> None:
            error = closed_source(self._file.location) if second.cancelled() else second.exception()
            call.set_result(None) if error is None else call.set_exception(error)

        second = Call(read)
        second.add_done_callback(pass_on)
        try:
            self._runtime.workers.put(second, urgent=True)
        except StorageError:
            second.cancel()


def _submissions(wanted: Sequence[Room], part_bytes: Sequence[int]) -> Iterator[list[tuple[int, Room]]]:
    """Parts that are submitted together, each with the number of its range: small ones of several ranges."""
    gathered: list[tuple[int, Room]] = []
    total = 0
    for number, ((one, room), size) in enumerate(zip(wanted, part_bytes, strict=True)):
        for part in split(one, size):
            if gathered and total + part.length > _SUBMISSION_BYTES:
                yield gathered
                gathered, total = [], 0
            gathered.append((number, (part, room[part.offset - one.offset : part.end - one.offset])))
            total += part.length
    if gathered:
        yield gathered
