"""Compiled code that decodes streams of bytes and of bits: runs that repeat a byte, or have several.

Every function compares addresses with the end of the stream before it follows them.
"""

from __future__ import annotations

from formatkit.batches.compiled.arrays import set_bits
from formatkit.batches.compiled.language import (
    entry,
    load8,
    load64,
    ones,
    part,
    reversed_bits,
    reversed_bytes,
    store8,
    store32,
    store64,
)
from formatkit.formats.orc.kernels.numbers import AT, BITS, BYTE, DAMAGED, END, LEFT, VALUE

__all__ = ["next_bits", "next_bytes"]


@part
def _run_left(cursor: int) -> int:
    """How many bytes of the current run are left, or of the next one if there are none."""
    left: int = load64(cursor + 8 * LEFT)
    if left:
        return left
    at, end = load64(cursor + 8 * AT), load64(cursor + 8 * END)
    if end - at < 2:
        return DAMAGED
    head = load8(at)
    at += 1
    if head < 0x80:
        left = head + 3
        store64(cursor + 8 * VALUE, load8(at))
        at += 1
    else:
        left = 0x100 - head
        if left > end - at:
            return DAMAGED
        store64(cursor + 8 * VALUE, -1)
    store64(cursor + 8 * AT, at)
    store64(cursor + 8 * LEFT, left)
    return left


@part
def _taken(cursor: int, count: int) -> int:
    """Take bytes of the current run, which has that many; returns where they are if they are not repeated."""
    at: int = load64(cursor + 8 * AT)
    store64(cursor + 8 * LEFT, load64(cursor + 8 * LEFT) - count)
    if load64(cursor + 8 * VALUE) < 0:
        store64(cursor + 8 * AT, at + count)
    return at


@entry
def next_bytes(cursor: int, count: int, target: int) -> int:
    """Decode bytes with a sign to 32 bits each."""
    done = 0
    while done < count:
        left = _run_left(cursor)
        if left < 0:
            return DAMAGED
        step = min(left, count - done)
        value = load64(cursor + 8 * VALUE)
        at = _taken(cursor, step)
        for number in range(step):
            byte = value if value >= 0 else load8(at + number)
            store32(target + 4 * (done + number), (byte ^ 0x80) - 0x80)
        done += step
    return 0


@part
def _reversed(byte: int) -> int:
    """The bits of a byte, the highest one lowest."""
    found: int = (reversed_bits(byte) >> 56) & 0xFF
    return found


@part
def _copy_reversed(cursor: int, count: int, target: int) -> int:
    """Take bytes of the current run, each with its bits reversed; returns how many of these are set."""
    value, whole = load64(cursor + 8 * VALUE), count >> 3
    at = _taken(cursor, count)
    found: int = 0
    if value >= 0:
        byte = _reversed(value)
        for number in range(count):
            store8(target + number, byte)
        found = count * ones(byte)
    else:
        for number in range(whole):
            word = reversed_bytes(reversed_bits(load64(at + 8 * number)))
            store64(target + 8 * number, word)
            found += ones(word)
        for number in range(8 * whole, count):
            byte = _reversed(load8(at + number))
            store8(target + number, byte)
            found += ones(byte)
    return found


@entry
def next_bits(cursor: int, count: int, target: int, at: int) -> int:
    """Decode bits into a bitmap of zeros, from number `at` on; returns how many are set.

    The highest bit of a byte comes first in the stream, and last in a bitmap. Eight bytes more may be written.
    """
    done, found = 0, 0
    while done < count:
        bits = load64(cursor + 8 * BITS)
        if bits == 0:
            left = _run_left(cursor)
            if left < 0:
                return DAMAGED
            if (at + done) & 7 == 0 and count - done >= 8:
                step = min(left, (count - done) >> 3)
                found += _copy_reversed(cursor, step, target + ((at + done) >> 3))
                done += 8 * step
                continue
            value = load64(cursor + 8 * VALUE)
            place = _taken(cursor, 1)
            store64(cursor + 8 * BYTE, _reversed(value if value >= 0 else load8(place)))
            bits = 8
        some = min(bits, count - done)
        byte = load64(cursor + 8 * BYTE)
        word = byte & ((1 << some) - 1)
        set_bits(target, at + done, word)
        found += ones(word)
        store64(cursor + 8 * BYTE, byte >> some)
        store64(cursor + 8 * BITS, bits - some)
        done += some
    return found
