"""Compiled code that makes the buffers of Arrow arrays of decoded streams.

`defined` of some rows are not null; which ones the bits of `validity` tell, and nobody looks at these if all are.
"""

from __future__ import annotations

from formatkit.batches.compiled.arrays import is_set, spread
from formatkit.batches.compiled.language import (
    copy,
    entry,
    load8,
    load64,
    move16,
    part,
    store32,
    store64,
    trailing_zeros,
)
from formatkit.formats.orc.kernels.numbers import AT, DAMAGED, END, SLACK

__all__ = [
    "expand_texts",
    "expanded_length",
    "narrowed",
    "next_decimals",
    "spread_values",
    "text_offsets",
    "timestamps",
]

_SECOND = 1_000_000_000
_LARGEST = 0x7FFFFFFFFFFFFFFF
_POWERS = tuple(10**exponent for exponent in range(19))


@entry
def spread_values(values: int, width: int, validity: int, rows: int, defined: int) -> int:
    """Move values that stand one behind the other to the rows that are not null."""
    spread(values, width, validity, 0, rows, defined)
    return 0


@entry
def narrowed(source: int, count: int, lowest: int, highest: int, target: int) -> int:
    """Store integers as 32 bits each, if all are within limits."""
    least, most = 0, 0
    for number in range(count):
        value = load64(source + 8 * number)
        least, most = min(least, value), max(most, value)
        store32(target + 4 * number, value)
    return 0 if least >= lowest and most <= highest else DAMAGED


@entry
def text_offsets(lengths: int, rows: int, defined: int, validity: int, target: int, available: int) -> int:
    """Turn lengths of texts into offsets of 32 bits, one more than rows; returns how many bytes all have together."""
    filled = 0
    store32(target, 0)
    for row in range(rows):
        if defined == rows or is_set(validity, row):
            length = load64(lengths)
            lengths += 8
            if length < 0 or length > available - filled:
                return DAMAGED
            filled += length
        store32(target + 4 * row + 4, filled)
    return filled


@entry
def expanded_length(indices: int, count: int, lengths: int, entries: int) -> int:
    """How many bytes some texts of a dictionary have together."""
    total = 0
    for number in range(count):
        index = load64(indices + 8 * number)
        if index < 0 or index >= entries:
            return DAMAGED
        total += load64(lengths + 8 * index)
    return total


@entry
def expand_texts(
    indices: int, rows: int, defined: int, validity: int, starts: int, lengths: int, offsets: int, data: int
) -> int:
    """Texts of a dictionary, with offsets. There is room for them, and for the slack."""
    filled = 0
    store32(offsets, 0)
    for row in range(rows):
        if defined == rows or is_set(validity, row):
            index = load64(indices)
            indices += 8
            length, source = load64(lengths + 8 * index), load64(starts + 8 * index)
            if length <= SLACK:
                move16(data + filled, source)
            else:
                copy(data + filled, source, length)
            filled += length
        store32(offsets + 4 * row + 4, filled)
    return filled


@part
def _long_varint(at: int, end: int) -> tuple[int, int, int]:
    """An unsigned number of up to 128 bits in two halves, and where it ends; 0 if it is cut off or longer."""
    low, high, shift = 0, 0, 0
    while at < end and shift < 133:
        byte = load8(at)
        at += 1
        bits = byte & 0x7F
        if shift < 63:
            low |= bits << shift
        elif shift == 63:
            low |= bits << 63
            high = bits >> 1
        else:
            high |= bits << (shift - 64)
        if byte < 0x80:
            return low, high, at if shift < 126 or byte < 4 else 0
        shift += 7
    return 0, 0, 0


@part
def _short_varint(word: int, stops: int) -> int:
    """The number of the bytes of a word up to the first that has no highest bit, seven bits of each."""
    word &= stops ^ (stops - 1)
    word &= 0x7F7F7F7F7F7F7F7F
    word = (word & 0x007F007F007F007F) | ((word & 0x7F007F007F007F00) >> 1)
    word = (word & 0x00003FFF00003FFF) | ((word & 0x3FFF00003FFF0000) >> 2)
    return (word & 0x000000000FFFFFFF) | ((word & 0x0FFFFFFF00000000) >> 4)


@entry
def next_decimals(cursor: int, scales: int, count: int, scale: int, target: int) -> int:
    """Decode decimals to 128 bits each, all with the same scale, whatever scale each is stored with."""
    at, end = load64(cursor + 8 * AT), load64(cursor + 8 * END)
    for number in range(count):
        word = load64(at)
        stops = ~word & -0x7F7F7F7F7F7F7F80
        if at >= end:
            return DAMAGED
        high = 0
        if stops:
            low = _short_varint(word, stops)
            at += (trailing_zeros(stops) >> 3) + 1
            if at > end:
                return DAMAGED
            low = (low >> 1) ^ -(low & 1)
            high = low >> 63
        else:
            low, high, at = _long_varint(at, end)
            if at == 0:
                return DAMAGED
            sign = -(low & 1)
            low = (((low >> 1) & _LARGEST) | (high << 63)) ^ sign
            high = ((high >> 1) & _LARGEST) ^ sign
        more = scale - load64(scales + 8 * number)
        if more:
            # Others are rare enough to be left to somebody else.
            if more < 0 or more > 18 or high != low >> 63:
                return DAMAGED
            power = _POWERS[more]
            if low > _LARGEST // power or low < -_LARGEST // power:
                return DAMAGED
            low *= power
            high = low >> 63
        store64(target + 16 * number, low)
        store64(target + 16 * number + 8, high)
    store64(cursor + 8 * AT, at)
    return 0


@entry
def timestamps(seconds: int, nanos: int, count: int, epoch: int, per_second: int, target: int) -> int:
    """Join seconds since the epoch and nanoseconds, as they are stored, to micro- or nanoseconds since 1970.

    ORC's writers round seconds before 1970 towards it if a millisecond or more is left, its readers undo that.
    """
    most = _LARGEST // per_second - 2
    divisor = _SECOND // per_second
    for number in range(count):
        whole, rest = load64(seconds + 8 * number), load64(nanos + 8 * number)
        zeros = rest & 7
        rest >>= 3
        if rest <= -_SECOND or rest >= _SECOND:
            return DAMAGED
        if zeros:
            rest *= _POWERS[zeros + 1]
            if rest <= -_SECOND or rest >= _SECOND:
                return DAMAGED
        if whole > most or whole < -most:
            return DAMAGED
        whole += epoch
        if whole > most or whole < -most:
            return DAMAGED
        if whole < 0 and rest > 999_999:
            whole -= 1
        store64(target + 8 * number, whole * per_second + rest // divisor)
    return 0
