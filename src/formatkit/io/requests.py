"""Requests of one file: ranges go to the runtime in parts, and come back as filled rooms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from formatkit.contract.storage import ByteRange
from formatkit.io.backends import RangeBackend
from formatkit.io.failures import closed_source
from formatkit.io.ranges import split
from formatkit.io.usage import IoUsage
from formatkit.io.workers import Call, on_worker_thread

if TYPE_CHECKING:
    from formatkit.io.runtime import IoRuntime

__all__ = ["PackedRoom", "Requests", "Room", "new_room"]

Room = tuple[ByteRange, memoryview]
"""A range, and memory of just its length."""


class PackedRoom(NamedTuple):
    """Ranges, memory in which they lie one behind the other, and the size of the parts of it that calls fill."""

    ranges: Sequence[ByteRange]
    room: memoryview
    part_bytes: int


def new_room(length: int) -> memoryview:
    """Memory of Arrow that is to be filled."""
    return memoryview(pa.allocate_buffer(length)).cast("B")


class Requests:
    """Makes the requests of one backend on a runtime, with retries, and counts them.

    Attributes:
        together_bytes: How many bytes of ranges that lie apart one call reads ahead; 0 if it reads one range.
    """

    together_bytes = 0

    def __init__(self, backend: RangeBackend, runtime: IoRuntime, usage: IoUsage) -> None:
        self._backend = backend
        self._runtime = runtime
        self._usage = usage

    def begin(self, wanted: ByteRange, room: memoryview, part_bytes: int, *, urgent: bool) -> list[Call[None]]:
        """Read a range into a room, in parts of so many bytes side by side."""
        calls = []
        for part in split(wanted, part_bytes):
            start = part.offset - wanted.offset
            call = Call(self._reading(part, room[start : start + part.length]), self._backend.timeout)
            self._runtime.workers.put(call, urgent=urgent)
            calls.append(call)
        return calls

    def begin_ahead(self, wanted: Sequence[PackedRoom], *, urgent: bool = False) -> list[Sequence[Future[None]]]:
        """The same for ranges that are read ahead; the calls of each room."""
        return [self.begin(one, room, part_bytes, urgent=urgent) for (one,), room, part_bytes in wanted]

    def fetch(self, wanted: Sequence[Room]) -> None:
        """Read ranges into their rooms, for which the caller waits."""
        part_bytes = self._backend.rules.part_bytes_for(sum(one.length for one, _ in wanted))
        calls = [call for one, room in wanted for call in self.begin(one, room, part_bytes, urgent=True)]
        try:
            self.wait_for(calls)
        finally:
            for call in calls:
                call.cancel()

    def wait_for(self, calls: Sequence[Future[None]]) -> None:
        """Wait until all of these have ended well."""
        if not all(call.done() for call in calls):
            mine = [call for call in calls if isinstance(call, Call)]
            if on_worker_thread():
                self._runtime.workers.perform_here(mine)
            else:
                self._runtime.workers.hurry(mine)
            with self._usage.waiting():
                self._raise_failures(calls)
        else:
            self._raise_failures(calls)

    def _raise_failures(self, calls: Sequence[Future[None]]) -> None:
        for call in calls:
            try:
                call.result()
            except CancelledError:
                raise closed_source(self._backend.location) from None

    def _reading(self, part: ByteRange, room: memoryview) -> Callable[[], None]:
        def read() -> None:
            self._usage.add(requests=1)
            self._backend.read_into(part, room)
            self._usage.add(fetched=part.length)

        return self._runtime.retried(read, self._usage)
