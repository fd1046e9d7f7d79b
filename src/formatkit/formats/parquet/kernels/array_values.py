"""Compiled code that decodes the values of a page into the buffers of an Arrow array.

Rows are counted from the first one of the array. `defined` of `count` rows are not null; which ones the bits of
`validity` tell, from number `row` on, and nobody looks at these if all are.
"""

from __future__ import annotations

from formatkit.batches.compiled.arrays import copy_bits, is_set
from formatkit.batches.compiled.language import (
    copy,
    load8,
    load32,
    load64,
    move16,
    part,
    reversed_bytes,
    store8,
    store32,
    store64,
)
from formatkit.formats.parquet.kernels.numbers import BIG_ENDIAN, FIXED, SLACK

__all__ = [
    "dictionary_bytes",
    "dictionary_bytes_length",
    "dictionary_values",
    "max_words",
    "plain_bits",
    "plain_bytes",
    "plain_values",
]

_DAMAGED = -1
_MAX_WORD = (1 << 63) - 1


@part
def _big_endian(source: int, width: int, target: int) -> None:
    """A number of up to 16 bytes, highest first, as 16 bytes, lowest first."""
    if width >= 8:
        low, high = reversed_bytes(load64(source + width - 8)), reversed_bytes(load64(source))
        # Its lowest bytes belong to the other half.
        high = high >> (8 * (16 - width)) if width > 8 else low >> 63
    else:
        low = 0
        for number in range(width):
            low = (low << 8) | load8(source + number)
        low = (low << (64 - 8 * width)) >> (64 - 8 * width)
        high = low >> 63
    store64(target, low)
    store64(target + 8, high)


@part
def plain_values(kind: int, width: int, at: int, count: int, target: int) -> int:
    """Values of `width` bytes each, of which there are enough.

    Returns the largest of those that become numbers of 16 bytes, where a negative one counts as its complement; 0 for
    kinds of other lengths.
    """
    largest = 0
    if kind == FIXED:
        copy(target, at, count * width)
    elif kind == BIG_ENDIAN:
        for number in range(count):
            _big_endian(at + width * number, width, target + 16 * number)
    elif width == 8:
        for number in range(count):
            value = load64(at + 8 * number)
            sign = value >> 63
            store64(target + 16 * number, value)
            store64(target + 16 * number + 8, sign)
            largest = max(largest, value ^ sign)
    else:
        for number in range(count):
            small = load32(at + 4 * number)
            sign = small >> 63
            store64(target + 16 * number, small)
            store64(target + 16 * number + 8, sign)
            largest = max(largest, small ^ sign)
    return largest


@part
def max_words(values: int, count: int, max_high: int, max_low: int) -> tuple[int, int]:
    """The larger of two maxima and those of numbers of 16 bytes: see `numbers.MAX_HIGH`."""
    for number in range(count):
        low, high = load64(values + 16 * number), load64(values + 16 * number + 8)
        sign = high >> 63
        max_high = max(max_high, high ^ sign)
        # Without its lowest bit, a word of 64 bits is a number without a sign.
        max_low = max(max_low, ((low ^ sign) >> 1) & _MAX_WORD)
    return max_high, max_low


@part
def dictionary_values(dictionary: int, width: int, indices: int, count: int, target: int) -> None:
    """Values of a dictionary that has them as they are decoded."""
    if width == 8:
        for number in range(count):
            store64(target + 8 * number, load64(dictionary + 8 * load32(indices + 4 * number)))
    elif width == 4:
        for number in range(count):
            store32(target + 4 * number, load32(dictionary + 4 * load32(indices + 4 * number)))
    elif width == 16:
        for number in range(count):
            move16(target + 16 * number, dictionary + 16 * load32(indices + 4 * number))
    else:
        for number in range(count):
            copy(target + width * number, dictionary + width * load32(indices + 4 * number), width)


@part
def plain_bytes(
    at: int, end: int, count: int, defined: int, validity: int, row: int, offsets: int, data: int, filled: int
) -> tuple[int, int]:
    """Byte arrays, each behind its length, from `at` on; returns where they end, or 0, and where those in `data` do.

    There is room for as many bytes as there are up to `end`, and for the slack.
    """
    ends = offsets + 4 * (row + 1)
    for number in range(count):
        if defined == count or is_set(validity, row + number):
            if end - at < 4:
                return 0, filled
            length = load32(at)
            at += 4
            if length < 0 or length > end - at:
                return 0, filled
            if length <= SLACK and end - at >= SLACK:
                move16(data + filled, at)
            else:
                copy(data + filled, at, length)
            at += length
            filled += length
        store32(ends + 4 * number, filled)
    return at, filled


@part
def dictionary_bytes_length(lengths: int, indices: int, count: int) -> int:
    """How many bytes some byte arrays of a dictionary have together."""
    total = 0
    for number in range(count):
        total += load64(lengths + 8 * load32(indices + 4 * number))
    return total


@part
def dictionary_bytes(
    dictionary: int,
    lengths: int,
    indices: int,
    count: int,
    defined: int,
    validity: int,
    row: int,
    offsets: int,
    data: int,
    filled: int,
) -> int:
    """Byte arrays of a dictionary; returns where those in `data` end. There is room for them and for the slack."""
    ends = offsets + 4 * (row + 1)
    for number in range(count):
        if defined == count or is_set(validity, row + number):
            index = load32(indices)
            indices += 4
            length, source = load64(lengths + 8 * index), load64(dictionary + 8 * index)
            if length <= SLACK:
                move16(data + filled, source)
            else:
                copy(data + filled, source, length)
            filled += length
        store32(ends + 4 * number, filled)
    return filled


@part
def plain_bits(bit: int, end: int, count: int, defined: int, validity: int, row: int, target: int) -> None:
    """Bits, from number `bit` of all memory on, into a bitmap of zeros."""
    if defined == count:
        copy_bits(target, row, bit, end, count)
        return
    for number in range(row, row + count):
        if is_set(validity, number):
            if is_set(0, bit):
                byte = target + (number >> 3)
                store8(byte, load8(byte) | (1 << (number & 7)))
            bit += 1
