"""Compiled code that finds numbers in runs, each of which repeats one number or packs several: levels and indices.

Every function gets addresses and looks at nothing outside the range it is given. It returns a negative number for
bytes that are damaged, and it looks at all runs for that, not only at what is asked for.
"""

from __future__ import annotations

import numpy as np

from formatkit.batches.compiled.language import load8, load64, part, store32, store64
from formatkit.formats.parquet.kernels.pages import varint

__all__ = ["places_of_rows", "run_numbers"]

_DAMAGED = -1


@part
def _ones(word: int) -> int:
    """How many bits of a word are set."""
    bits = np.uint64(word)
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    # Left unsigned, it would turn whatever it is added to into a float.
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]


@part
def places_of_rows(start: int, end: int, count: int, rows: int, wanted: int, first_row: int, found: int) -> int:  # noqa: C901 - calls would cost more than they explain
    """Where the values of rows are: their numbers among those that are not null, or -1; returns how many are not null.

    The definition levels, of one bit each, stand from `start` to `end`, and there are `count`. `wanted` ascending
    numbers of 64 bits at `rows` are asked for, counted from `first_row`.
    """
    at, row, defined = start, 0, 0
    done = 0
    following = load64(rows) - first_row if wanted else count
    while row < count:
        head, at = varint(at, end)
        length = head >> 1
        if head < 0 or length == 0:
            return _DAMAGED
        if head & 1 == 0:
            if at >= end or length > count - row:
                return _DAMAGED
            level = load8(at)
            at += 1
            if level > 1:
                return _DAMAGED
            while following < row + length:
                store64(found + 8 * done, defined + following - row if level else -1)
                done += 1
                following = load64(rows + 8 * done) - first_row if done < wanted else count
            defined += length * level
            row += length
            continue
        if length > end - at:
            return _DAMAGED
        values = min(length * 8, count - row)
        position = 0
        while position < values:
            step = min(64, values - position)
            byte = at + (position >> 3)
            if end - byte >= 8:
                word = load64(byte)
            else:
                word = 0
                for number in range((step + 7) >> 3):
                    word |= load8(byte + number) << (8 * number)
            if step < 64:
                word &= (1 << step) - 1
            while following < row + position + step:
                bit = following - row - position
                if (word >> bit) & 1:
                    store64(found + 8 * done, defined + _ones(word & ((1 << bit) - 1)))
                else:
                    store64(found + 8 * done, -1)
                done += 1
                following = load64(rows + 8 * done) - first_row if done < wanted else count
            defined += _ones(word)
            position += step
        at += length
        row += values
    return defined if done == wanted else _DAMAGED


@part
def _packed(at: int, end: int, bit: int, width: int) -> int:
    """The number of `width` bits that begins `bit` bits behind `at`; it ends before `end`."""
    byte = at + (bit >> 3)
    if end - byte >= 8:
        word = load64(byte)
    else:
        word = 0
        for number in range(end - byte):
            word |= load8(byte + number) << (8 * number)
    value: int = (word >> (bit & 7)) & ((1 << width) - 1)
    return value


@part
def _largest(at: int, end: int, width: int, count: int) -> int:
    """The largest of `count` packed numbers. Eight of them take `width` bytes, so every eighth begins with a byte."""
    mask = (1 << width) - 1
    even = 0
    odd = 0
    groups = min(count >> 3, max((end - at - 8) // width - 1, 0))
    for _ in range(groups):
        bit = 0
        for _ in range(4):
            even = max(even, (load64(at + (bit >> 3)) >> (bit & 7)) & mask)
            bit += width
            odd = max(odd, (load64(at + (bit >> 3)) >> (bit & 7)) & mask)
            bit += width
        at += width
    for number in range(count - groups * 8):
        even = max(even, _packed(at, end, number * width, width))
    return max(even, odd)


@part
def run_numbers(  # noqa: C901 - calls would cost more than they explain
    start: int, end: int, width: int, count: int, limit: int, wanted: int, at_places: int, found: int
) -> int:
    """Numbers of `width` bits in runs, each of which repeats one number or packs several; returns how many were found.

    There are `count`, all below `limit`. `wanted` of them are asked for by their ascending places, numbers of 64 bits
    at `at_places`; a negative place stands for 0. They are stored as 32 bits each.
    """
    if width < 0 or width > 32 or limit < 1:
        return _DAMAGED
    mask = (1 << width) - 1
    at, row, done = start, 0, 0
    following = load64(at_places) if wanted else count
    while row < count:
        head, at = varint(at, end)
        length = head >> 1
        if head < 0 or length == 0:
            return _DAMAGED
        if head & 1 == 0:
            size = (width + 7) >> 3
            if size > end - at or length > count - row:
                return _DAMAGED
            value = 0
            for number in range(size):
                value |= load8(at + number) << (8 * number)
            at += size
            if value >= limit:
                return _DAMAGED
            values = length
            while following < row + values:
                store32(found + 4 * done, value if following >= 0 else 0)
                done += 1
                following = load64(at_places + 8 * done) if done < wanted else count
        else:
            # Indices into a dictionary of one value may have no bits, and then take no bytes.
            if length > ((end - at) // width if width else count):
                return _DAMAGED
            values = min(length * 8, count - row)
            if limit <= mask and _largest(at, end, width, values) >= limit:
                return _DAMAGED
            while following < row + values:
                if following < 0:
                    store32(found + 4 * done, 0)
                else:
                    store32(found + 4 * done, _packed(at, end, (following - row) * width, width))
                done += 1
                following = load64(at_places + 8 * done) if done < wanted else count
            at += length * width
        row += values
    while done < wanted:
        if load64(at_places + 8 * done) >= 0:
            return _DAMAGED
        store32(found + 4 * done, 0)
        done += 1
    # Values in plain encoding can look like runs of the few bits that their first byte tells.
    return done if at == end else _DAMAGED
