"""Compiled code that decodes runs, each of which repeats one number or packs several, in as many steps as one likes.

A cursor has six numbers of 64 bits: where the next run begins and the last one ends, how many numbers of the current
run are left, the number it repeats, -1 if it packs them, or -2 before the first run, where the first bit of its next
packed number is, counted from the first one of all memory, and where its packed numbers end.
"""

from __future__ import annotations

from formatkit.batches.compiled.arrays import AT_ONCE, copy_bits, set_bits, some_bytes
from formatkit.batches.compiled.language import load8, load64, part, store32, store64
from formatkit.formats.parquet.kernels.pages import varint

__all__ = ["are_used_up", "begin_runs", "next_bits", "next_numbers"]

_DAMAGED = -1
_NO_RUN = -2
_AT, _END, _LEFT, _VALUE, _BIT, _PACKED_END = range(0, 48, 8)


@part
def begin_runs(runs: int, start: int, end: int) -> None:
    """Set a cursor to the first run."""
    store64(runs + _AT, start)
    store64(runs + _END, end)
    store64(runs + _LEFT, 0)
    store64(runs + _VALUE, _NO_RUN)


@part
def are_used_up(runs: int) -> bool:
    """Whether no bytes are left behind the last run that was asked for; nobody asks if all values are null."""
    return bool(load64(runs + _AT) == load64(runs + _END) or load64(runs + _VALUE) == _NO_RUN)


@part
def _next_run(runs: int, width: int, most: int) -> int:
    """Read the head of the next run of numbers of `width` bits; returns how many it has.

    It may repeat a number at most `most` times. What is packed may be followed by zeros that nobody asks for.
    """
    end = load64(runs + _END)
    head, at = varint(load64(runs + _AT), end)
    length = head >> 1
    if head < 0 or length == 0:
        return _DAMAGED
    if head & 1:
        # Indices into a dictionary of one value may have no bits, and then take no bytes.
        if length > ((end - at) // width if width else most):
            return _DAMAGED
        store64(runs + _VALUE, -1)
        store64(runs + _BIT, at * 8)
        at += length * width
        store64(runs + _PACKED_END, at)
        length *= 8
    else:
        size = (width + 7) >> 3
        if size > end - at or length > most:
            return _DAMAGED
        value = 0
        for number in range(size):
            value |= load8(at + number) << (8 * number)
        store64(runs + _VALUE, value)
        at += size
    store64(runs + _AT, at)
    store64(runs + _LEFT, length)
    return length


@part
def next_bits(runs: int, count: int, left_in_page: int, target: int, at: int) -> int:
    """Decode numbers of one bit into a bitmap of zeros, from number `at` on; returns how many are set."""
    done, found = 0, 0
    while done < count:
        left = load64(runs + _LEFT)
        if left == 0:
            left = _next_run(runs, 1, left_in_page - done)
        value = load64(runs + _VALUE)
        if left < 0 or value > 1:
            return _DAMAGED
        step = min(left, count - done)
        if value < 0:
            bit = load64(runs + _BIT)
            found += copy_bits(target, at + done, bit, load64(runs + _PACKED_END), step)
            store64(runs + _BIT, bit + step)
        elif value:
            for first in range(at + done, at + done + step, AT_ONCE):
                set_bits(target, first, (1 << min(AT_ONCE, at + done + step - first)) - 1)
            found += step
        store64(runs + _LEFT, left - step)
        done += step
    return found


@part
def _unpack(bit: int, end: int, width: int, count: int, target: int) -> int:
    """Unpack numbers of `width` bits to 32 bits each; returns the largest."""
    mask = (1 << width) - 1
    # As many as can be read with the seven bytes behind them.
    whole = min(count, max(0, ((end - 8) * 8 - bit) // max(width, 1)))
    largest = 0
    for number in range(whole):
        value = (load64(bit >> 3) >> (bit & 7)) & mask
        largest = max(largest, value)
        store32(target + 4 * number, value)
        bit += width
    for number in range(whole, count):
        value = (some_bytes(bit >> 3, end) >> (bit & 7)) & mask
        largest = max(largest, value)
        store32(target + 4 * number, value)
        bit += width
    return largest


@part
def next_numbers(runs: int, width: int, count: int, left_in_page: int, limit: int, target: int) -> int:
    """Decode numbers of up to 32 bits, all below `limit`, to 32 bits each; returns a negative number for others."""
    done = 0
    while done < count:
        left = load64(runs + _LEFT)
        if left == 0:
            left = _next_run(runs, width, left_in_page - done)
            if left < 0:
                return _DAMAGED
        step = min(left, count - done)
        value = load64(runs + _VALUE)
        if value < 0:
            bit = load64(runs + _BIT)
            if _unpack(bit, load64(runs + _PACKED_END), width, step, target + 4 * done) >= limit:
                return _DAMAGED
            store64(runs + _BIT, bit + step * width)
        else:
            if value >= limit:
                return _DAMAGED
            for number in range(done, done + step):
                store32(target + 4 * number, value)
        store64(runs + _LEFT, left - step)
        done += step
    return 0
