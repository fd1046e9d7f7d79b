"""Read-ahead of local files through io_uring."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from formatkit.contract.storage import ByteRange
from formatkit.errors import FormatkitError, StorageError
from formatkit.io.backends import CachingBackend
from formatkit.io.failures import closed_source, not_answered
from formatkit.io.ranges import split
from formatkit.io.requests import PackedRoom, Requests
from formatkit.io.uring import UringReader
from formatkit.io.usage import IoUsage
from formatkit.io.workers import Call

if TYPE_CHECKING:
    from formatkit.io.runtime import IoRuntime

__all__ = ["RingRequests"]

_SUBMISSION_BYTES = 1 << 20


class RingCall(Future[None]):
    """A submission. It ends when nothing writes into its rooms any more, even if it was cancelled."""

    def __init__(self, location: str, ranges: Sequence[ByteRange], timeout: float) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()
        self.submitted: Future[None] | None = None
        self._location = location
        self._ranges = ranges
        self._timeout = timeout

    def result(self, timeout: float | None = None) -> None:
        with suppress(TimeoutError):
            super().exception(self._timeout if timeout is None else timeout)
        if timeout is None and not self.done():
            raise not_answered(self._location, "read", self._ranges[0], self._timeout)
        super().result(timeout)

    def cancel(self) -> bool:
        if self.submitted is not None:
            self.submitted.cancel()
        return False


class RingRequests(Requests):
    """Reads ahead with a ring, and with threads what somebody waits for or what the ring failed to read."""

    together_bytes = _SUBMISSION_BYTES

    def __init__(self, backend: CachingBackend, runtime: IoRuntime, usage: IoUsage, ring: UringReader) -> None:
        super().__init__(backend, runtime, usage)
        self._file = backend
        self._ring = ring

    def begin_ahead(self, wanted: Sequence[PackedRoom], *, urgent: bool = False) -> list[Sequence[Future[None]]]:
        if urgent and all(len(one.ranges) == 1 for one in wanted):
            return super().begin_ahead(wanted, urgent=True)
        return [self._submitted_in_parts(*one) for one in wanted]

    def _submitted_in_parts(self, ranges: Sequence[ByteRange], room: memoryview, part_bytes: int) -> list[RingCall]:
        """A call for each part of the room: one submission has all of several ranges, or some parts of one."""
        if len(ranges) > 1:
            return [self._submitted(ranges, room)]
        parts = split(ranges[0], part_bytes)
        at_once = max(1, _SUBMISSION_BYTES // part_bytes)
        calls: list[RingCall] = []
        for first in range(0, len(parts), at_once):
            together = parts[first : first + at_once]
            start = first * part_bytes
            call = self._submitted(together, room[start : start + at_once * part_bytes])
            calls += [call] * len(together)
        return calls

    def _submitted(self, ranges: Sequence[ByteRange], room: memoryview) -> RingCall:
        call = RingCall(self._file.location, ranges, self._runtime.timeout_seconds)
        descriptor = self._file.acquire()
        try:
            call.submitted = self._ring.submit_packed(descriptor, ranges, room, location=self._file.location)
        except FormatkitError as error:
            self._file.release()
            call.set_exception(error)
            return call
        self._usage.add(requests=len(ranges))
        call.submitted.add_done_callback(lambda landed: self._landed(landed, call, ranges, room))
        return call

    def _landed(self, landed: Future[None], call: RingCall, ranges: Sequence[ByteRange], room: memoryview) -> None:
        """Pass on what became of a submission; runs on the thread of the ring."""
        self._file.release()
        error = closed_source(self._file.location) if landed.cancelled() else landed.exception()
        if error is None:
            self._usage.add(fetched=len(room))
            call.set_result(None)
        elif isinstance(error, StorageError) and error.retryable:
            self._read_by_thread(call, ranges, room)
        else:
            call.set_exception(error)

    def _read_by_thread(self, call: RingCall, ranges: Sequence[ByteRange], room: memoryview) -> None:
        def read() -> None:
            start = 0
            for one in ranges:
                self._reading(one, room[start : start + one.length])()
                start += one.length

        def pass_on(second: Future[None]) -> None:
            error = closed_source(self._file.location) if second.cancelled() else second.exception()
            call.set_result(None) if error is None else call.set_exception(error)

        second = Call(read)
        second.add_done_callback(pass_on)
        try:
            self._runtime.workers.put(second, urgent=True)
        except StorageError:
            second.cancel()
