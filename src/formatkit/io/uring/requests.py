"""What a caller wants to have read, in the form that the ring's thread works with."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatkit.contract.storage import ByteRange
from formatkit.errors import FormatkitError, StorageError

__all__ = ["UNNUMBERED", "ReadFuture", "Request"]

# The number of a request that is not being worked on.
UNNUMBERED = -1

# Larger ranges are read as several parts side by side: inside one read of the page cache the kernel waits for one step
# of reading ahead after the other. It could not deliver more than 2 GiB at a time anyway.
_PART_BYTES = 1 << 20


class ReadFuture(Future[Any]):
    """The outcome of a request. `cancel` after its first read was submitted leaves out the reads that were not."""

    abandoned = False

    def cancel(self) -> bool:
        self.abandoned = True
        return super().cancel()


class Request:
    """Reads of one file. They are worked on by the ring's thread only.

    Args:
        descriptor: What to read from. It stays open until the future is done.
        location: The file's name for errors.
        ranges: What the caller asked for, for errors.
        offsets, addresses, lengths: Where each range begins in the file and in memory, and the most bytes to read.
        needed: How many bytes of it must arrive.
        grain: Block size if the file is read directly, else 1.
        memory: Whatever owns the memory.
        handle: Whatever owns the descriptor.
        result: What the future will hold.
    """

    def __init__(
        self,
        descriptor: int,
        location: str,
        ranges: Sequence[ByteRange],
        *,
        offsets: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        needed: NDArray[np.int64],
        grain: int,
        memory: object,
        handle: object,
        result: object = None,
    ) -> None:
        self.descriptor = descriptor
        self.location = location
        self._ranges = ranges
        self._range_of_read: NDArray[np.int64] | None = None
        self.offsets, self.addresses, self.lengths, self.needed = offsets, addresses, lengths, needed
        if (lengths > _PART_BYTES).any():
            self._range_of_read, starts = _parts(lengths)
            self.offsets = offsets[self._range_of_read] + starts
            self.addresses = addresses[self._range_of_read] + starts.astype(np.uint64)
            self.lengths = np.minimum(lengths[self._range_of_read] - starts, _PART_BYTES)
            self.needed = np.minimum(needed[self._range_of_read] - starts, _PART_BYTES)
        self.grain = grain
        self.memory = memory
        self.handle = handle
        self.result = result
        self.future = ReadFuture()
        self.left = len(self.offsets)
        self.in_flight = 0
        self.number = UNNUMBERED
        self.interruptions = 0
        self._begun: bool | None = None
        self.error: FormatkitError | None = None

    def range_of(self, read: int) -> ByteRange:
        """The range that a read is a part of."""
        return self._ranges[read if self._range_of_read is None else int(self._range_of_read[read])]

    def advance(self, read: int, count: int) -> None:
        """Bytes of a read have arrived, but not all of them."""
        self.offsets[read] += count
        self.addresses[read] += np.uint64(count)
        self.lengths[read] -= count
        self.needed[read] -= count

    def begin(self) -> bool:
        """Whether to work on it at all: not if it was cancelled while it waited."""
        if self._begun is None:
            self._begun = self.future.set_running_or_notify_cancel()
        return self._begun

    def fail(self, error: FormatkitError) -> None:
        """Keep the first error; what is in flight must land before the caller may hear of it."""
        self.error = self.error or error

    def finish(self) -> None:
        """Tell the caller, unless it was the caller who cancelled."""
        if not self.begin():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif self.left:
            message = f"cannot read {self.location}: the request was cancelled"
            self.future.set_exception(StorageError(message, location=self.location))
        else:
            self.future.set_result(self.result)

    def forget(self) -> None:
        """In a forked child: nobody works on it here, and any lock inside its future may be held for good."""
        self.future.__init__()  # type: ignore[misc]
        message = f"cannot read {self.location}: the read was begun by the process that this one was forked from"
        self.future.set_exception(StorageError(message, location=self.location, retryable=True))


def _parts(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each part its range, and where in the range it begins."""
    counts = -(-lengths // _PART_BYTES)
    ranges = np.repeat(np.arange(len(lengths)), counts)
    firsts = np.cumsum(counts) - counts
    return ranges, (np.arange(len(ranges)) - firsts[ranges]) * _PART_BYTES
