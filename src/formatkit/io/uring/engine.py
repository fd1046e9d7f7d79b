"""Many requests on one ring: what is in flight, what waits for a slot, and what to do with each completion."""

from __future__ import annotations

import ctypes
import errno
import os
from collections import deque

import numpy as np
from numpy.typing import NDArray

from formatkit.errors import FormatkitError, StorageError
from formatkit.io.failures import closed_source, out_of_range, storage_failures
from formatkit.io.uring.requests import UNNUMBERED, Request
from formatkit.io.uring.ring import Ring
from formatkit.io.uring.slab import Slab

__all__ = ["Engine"]

_WAKE_TOKEN = (1 << 64) - 1
_MOST_INTERRUPTIONS = 100


class Engine:
    """The ring's side of a reader. It belongs to one thread, and does little per completion: arrays do the work.

    Args:
        ring: The ring.
        wake: A descriptor; when it can be read, there are new requests.
        unfinished: Where requests are to be crossed off when their callers have been told.
    """

    def __init__(self, ring: Ring, wake: int, unfinished: set[Request]) -> None:
        self._ring = ring
        self._unfinished = unfinished
        # One entry is left for the read that wakes the thread up.
        self._slab = Slab(ring.entries - 1)
        self._running: dict[int, Request] = {}
        self._free_numbers: list[int] = []
        self._backlog: deque[tuple[Request, NDArray[np.int64]]] = deque()
        self._fruitless = False
        self._armed = False
        self._wake = wake
        self._wake_count = ctypes.c_uint64()
        self.strays = 0

    @property
    def idle(self) -> bool:
        return not self._running and not self._armed

    def add(self, request: Request) -> None:
        request.number = self._free_numbers.pop() if self._free_numbers else len(self._running)
        self._running[request.number] = request
        self._backlog.append((request, np.arange(request.left)))

    def refuse_waiting(self) -> None:
        """Submit nothing more; what is in flight still lands."""
        for request in list(self._running.values()):
            if request.in_flight < request.left:
                request.fail(closed_source(request.location))
                self._finish_if_landed(request)
        self._backlog.clear()

    def listen(self) -> None:
        """Have the ring read the descriptor that wakes the thread up."""
        if not self._armed:
            address = ctypes.addressof(self._wake_count)
            token, room = np.array([_WAKE_TOKEN], dtype=np.uint64), np.array([address], dtype=np.uint64)
            self._ring.push(token, self._wake, room, np.array([8]), np.array([0]))
            self._armed = True

    def fill(self) -> int:
        """Put waiting reads into the ring, as many as there are slots; how many reads stopped waiting."""
        gone = 0
        while self._backlog and self._slab.free:
            request, reads = self._backlog.popleft()
            if not self._is_wanted(request):
                gone += len(reads)
                continue
            now, later = reads[: self._slab.free], reads[self._slab.free :]
            asked = request.lengths[now]
            tokens = self._slab.take(request.number, now, asked, request.needed[now])
            self._ring.push(tokens, request.descriptor, request.addresses[now], asked, request.offsets[now])
            request.in_flight += len(now)
            gone += len(now)
            if len(later):
                self._backlog.appendleft((request, later))
        return gone

    def run(self) -> None:
        """Submit, wait, and work off what has completed."""
        oldest = next(iter(self._running.values()), None)
        if oldest is None or self._fruitless:
            self._ring.enter(1)
        else:
            # Reads complete about in order, so no request is ready before those of the oldest have landed. With reads
            # waiting for slots, half of the slots are kept busy.
            taken = self._slab.capacity - self._slab.free
            self._ring.enter(max(1, min(oldest.in_flight, taken // 2 if self._backlog else taken)), patient=False)
        tokens, results = self._ring.drain()
        self._fruitless = not len(tokens)
        if len(tokens):
            self._settle(tokens, results)

    def _settle(self, tokens: NDArray[np.uint64], results: NDArray[np.int32]) -> None:
        slots, fits = self._slab.find(tokens)
        if not fits.all():
            woken = tokens == _WAKE_TOKEN
            if woken.any():
                self._disarm(int(results[woken][0]))
            self.strays += int(len(tokens) - fits.sum() - woken.sum())
            slots, results = slots[fits], results[fits]
        complete = (results >= self._slab.needed[slots]) & (results <= self._slab.asked[slots])
        if not complete.all():
            for slot, result in zip(slots[~complete].tolist(), results[~complete].tolist(), strict=True):
                self._settle_incomplete(slot, result)
        landed = np.bincount(self._slab.request[slots])
        self._slab.release(slots)
        for number in np.flatnonzero(landed).tolist():
            request = self._running[number]
            request.in_flight -= int(landed[number])
            request.left -= int(landed[number])
            self._finish_if_landed(request)

    def _disarm(self, result: int) -> None:
        self._armed = False
        if result < 0:
            raise OSError(-result, f"{os.strerror(-result)} (waiting for requests)")

    def _settle_incomplete(self, slot: int, result: int) -> None:
        request = self._running[int(self._slab.request[slot])]
        read = int(self._slab.read[slot])
        if result in (-errno.EAGAIN, -errno.EINTR) and request.interruptions < _MOST_INTERRUPTIONS:
            request.interruptions += 1
        elif result < 0:
            request.fail(_failure(request, read, OSError(-result, os.strerror(-result))))
            return
        elif result > self._slab.asked[slot]:
            found = f"the kernel reports {result} bytes where {self._slab.asked[slot]} were asked for"
            request.fail(_failure(request, read, OSError(found)))
            return
        elif result == 0 or result % request.grain:
            request.fail(_end_of_file(request, read))
            return
        else:
            request.advance(read, result)
        request.left += 1
        self._backlog.append((request, np.array([read])))

    def _is_wanted(self, request: Request) -> bool:
        """Whether to submit more reads of a request."""
        if request.error is None and not request.future.abandoned and request.begin():
            return True
        self._finish_if_landed(request)
        return False

    def _finish_if_landed(self, request: Request) -> None:
        ready = not request.left or request.error is not None or request.future.abandoned
        if request.number != UNNUMBERED and ready and not request.in_flight:
            del self._running[request.number]
            self._free_numbers.append(request.number)
            request.number = UNNUMBERED
            request.finish()
            self._unfinished.discard(request)


def _failure(request: Request, read: int, cause: OSError) -> FormatkitError:
    offset, length = request.range_of(read)
    try:
        with storage_failures(request.location, f"read {length} bytes from offset {offset} of"):
            raise cause
    except StorageError as error:
        # The frames of a traceback would keep the request alive, and with it the file open.
        cause.__traceback__ = None
        return error.with_traceback(None)


def _end_of_file(request: Request, read: int) -> FormatkitError:
    offset, length = request.range_of(read)
    return out_of_range(request.location, offset, length, os.fstat(request.descriptor).st_size)
