"""Where the bytes of ranges go: into the caller's memory, or into one new Arrow buffer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from formatkit.contract.storage import ByteRange
from formatkit.errors import ConfigurationError
from formatkit.io.failures import out_of_range
from formatkit.io.uring.files import UringFile
from formatkit.io.uring.requests import Request

__all__ = ["request_buffers", "request_into", "request_packed"]

_LARGEST_END = (1 << 63) - 1
# Neighbours in memory begin at a cache line each, as Arrow's own buffers do.
_SPACING = 64


def request_into(file: int | UringFile, location: str, reads: Sequence[tuple[ByteRange, memoryview]]) -> Request:
    """A request that fills memory of the caller."""
    descriptor = file if isinstance(file, int) else file.handle()
    wanted = [(span, room) for span, room in reads if span.length or room.nbytes]
    owners = []
    for span, room in wanted:
        if span.offset < 0 or span.length < 0 or span.end > _LARGEST_END:
            raise out_of_range(location, span.offset, span.length, os.fstat(int(descriptor)).st_size)
        _check_room(location, room, span.length)
        owners.append(pa.py_buffer(room))
    ranges = [span for span, _ in wanted]
    offsets, lengths = _columns(ranges)
    return Request(
        int(descriptor),
        location,
        ranges,
        offsets=offsets,
        addresses=np.fromiter((owner.address for owner in owners), dtype=np.uint64, count=len(owners)),
        lengths=lengths,
        needed=lengths.copy(),
        grain=1,
        memory=owners,
        handle=descriptor,
    )


def request_packed(file: int | UringFile, location: str, ranges: Sequence[ByteRange], room: memoryview) -> Request:
    """A request that fills memory of the caller with ranges, one behind the other."""
    descriptor = file if isinstance(file, int) else file.handle()
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > _LARGEST_END:
            raise out_of_range(location, offset, length, os.fstat(int(descriptor)).st_size)
    offsets, lengths = _columns(ranges)
    _check_room(location, room, int(lengths.sum()))
    owner = pa.py_buffer(room)
    ends = np.cumsum(lengths)
    filled = lengths > 0
    return Request(
        int(descriptor),
        location,
        [span for span in ranges if span.length],
        offsets=offsets[filled],
        addresses=(ends - lengths)[filled].astype(np.uint64) + np.uint64(owner.address),
        lengths=lengths[filled],
        needed=lengths[filled],
        grain=1,
        memory=owner,
        handle=descriptor,
    )


def request_buffers(file: UringFile, ranges: Sequence[ByteRange]) -> Request:
    """A request for new memory. Its result is a buffer for each range: slices of one allocation.

    Of a file that is read directly whole blocks are read into memory that begins at a block, and the slices leave out
    what was not asked for.
    """
    for offset, length in ranges:
        if offset < 0 or length < 0 or offset + length > file.size:
            raise out_of_range(file.location, offset, length, file.size)
    handle = file.handle(direct=file.direct)
    grain = file.block_bytes if file.direct else 1
    offsets, lengths = _columns(ranges)
    before = offsets % grain
    first = offsets - before
    read_lengths = -(-(lengths + before) // grain) * grain
    spacing = max(grain, _SPACING)
    ends = np.cumsum(-(-read_lengths // spacing) * spacing)
    total = int(ends[-1]) if len(ends) else 0
    whole = pa.allocate_buffer(total + spacing)
    start = -whole.address % spacing
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64) + start if len(ends) else ends
    filled = lengths > 0
    return Request(
        int(handle),
        file.location,
        [span for span in ranges if span.length],
        offsets=first[filled],
        addresses=(starts[filled] + whole.address).astype(np.uint64),
        lengths=read_lengths[filled],
        needed=(lengths + before)[filled],
        grain=grain,
        memory=whole,
        handle=handle,
        result=[whole.slice(at, count) for at, count in zip((starts + before).tolist(), lengths.tolist(), strict=True)],
    )


def _check_room(location: str, room: memoryview, length: int) -> None:
    if room.readonly or room.nbytes != length:
        kind = "read-only memory" if room.readonly else "memory"
        found = f"{kind} of {room.nbytes} bytes was given for a range of {length} bytes"
        raise ConfigurationError(f"cannot read {location}: {found}")


def _columns(ranges: Sequence[ByteRange]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbers = np.fromiter(chain.from_iterable(ranges), dtype=np.int64, count=2 * len(ranges))
    return numbers[::2].copy(), numbers[1::2].copy()
