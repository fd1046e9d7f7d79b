"""Compiled code that finds single values in the bytes of a page.

Every function gets addresses and looks at nothing outside the range it is given. It returns a negative number for
bytes that are damaged or in a form it does not know, and it looks at the whole page for that, not only at what is asked
for, so that damage in front of a value cannot move it unnoticed.
"""

from __future__ import annotations

import numpy as np

from formatkit.batches.compiled import copy, jit, load8, load32, load64, part, store8, store32, store64
from formatkit.formats.parquet.page_kernels import varint

__all__ = ["BITS", "BYTES", "FIXED", "copy_all", "dictionary_arrays", "gather"]

FIXED, BITS, BYTES = range(3)

_DAMAGED = -1
_PLAIN, _RUNS = 0, 3
_DICTIONARY = (2, 8)


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
def _places(start: int, end: int, count: int, rows: int, wanted: int, first_row: int, found: int) -> int:  # noqa: C901 - calls would cost more than they explain
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
def _run_numbers(  # noqa: C901 - calls would cost more than they explain
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
            if length > (end - at) // max(width, 1):
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
    return done


@part
def _byte_arrays(start: int, end: int, count: int, wanted: int, at_places: int, found: int, lengths: int) -> int:
    """Where byte arrays are, each of which stands behind its length; returns how many bytes those asked for have.

    There are `count`, which end at `end`. `wanted` of them are asked for by their ascending places; their addresses and
    lengths are stored; a negative place is passed over.
    """
    at, done, total = start, 0, 0
    for number in range(count):
        if end - at < 4:
            return _DAMAGED
        length = load32(at)
        at += 4
        if length < 0 or length > end - at:
            return _DAMAGED
        while done < wanted:
            place = load64(at_places + 8 * done)
            if place > number:
                break
            if place >= 0:
                store64(found + 8 * done, at)
                store64(lengths + 8 * done, length)
                total += length
            done += 1
        at += length
    while done < wanted:
        if load64(at_places + 8 * done) >= 0:
            return _DAMAGED
        done += 1
    return total if at == end else _DAMAGED


@part
def _plain_fixed(start: int, end: int, width: int, count: int, wanted: int, at_places: int, found: int) -> int:
    if end - start != count * width:
        return _DAMAGED
    for number in range(wanted):
        place = load64(at_places + 8 * number)
        if place < 0:
            continue
        if width == 8:
            store64(found + 8 * number, load64(start + 8 * place))
        elif width == 4:
            store32(found + 4 * number, load32(start + 4 * place))
        else:
            copy(found + width * number, start + width * place, width)
    return 0


@part
def _plain_bits(start: int, end: int, count: int, wanted: int, at_places: int, found: int) -> int:
    if end - start != (count + 7) >> 3:
        return _DAMAGED
    for number in range(wanted):
        place = load64(at_places + 8 * number)
        if place >= 0:
            store8(found + number, (load8(start + (place >> 3)) >> (place & 7)) & 1)
    return 0


@part
def _bits_in_runs(start: int, end: int, count: int, wanted: int, at_places: int, indices: int, found: int) -> int:
    if end - start < 4 or load32(start) != end - start - 4:
        return _DAMAGED
    if _run_numbers(start + 4, end, 1, count, 2, wanted, at_places, indices) < 0:
        return _DAMAGED
    for number in range(wanted):
        store8(found + number, load32(indices + 4 * number))
    return 0


@part
def _from_dictionary(
    width: int,
    wanted: int,
    at_places: int,
    indices: int,
    dictionary: int,
    dictionary_lengths: int,
    found: int,
    lengths: int,
) -> int:
    """Replace indices by values. A width of 0 stands for byte arrays; returns how many bytes these have."""
    total = 0
    for number in range(wanted):
        index = load32(indices + 4 * number)
        if load64(at_places + 8 * number) < 0:
            continue
        if width == 0:
            length = load64(dictionary_lengths + 8 * index)
            store64(found + 8 * number, load64(dictionary + 8 * index))
            store64(lengths + 8 * number, length)
            total += length
        elif width == 8:
            store64(found + 8 * number, load64(dictionary + 8 * index))
        elif width == 4:
            store32(found + 4 * number, load32(dictionary + 4 * index))
        else:
            copy(found + width * number, dictionary + width * index, width)
    return total


@jit(f"int64({', '.join(['int64'] * 19)})")
def gather(  # noqa: C901 - calls would cost more than they explain
    kind: int,
    width: int,
    encoding: int,
    optional: int,
    levels: int,
    levels_end: int,
    values: int,
    values_end: int,
    count: int,
    rows: int,
    wanted: int,
    first_row: int,
    places: int,
    indices: int,
    dictionary: int,
    dictionary_lengths: int,
    dictionary_count: int,
    found: int,
    lengths: int,
) -> int:
    """Take the values at some rows out of a page; returns how many bytes they have if they are byte arrays.

    Args:
        kind: `FIXED`, `BITS` or `BYTES`.
        width: The bytes of each value if all have the same, else 0.
        encoding: Parquet's number of it.
        optional: Whether values can be null; their levels then stand at the head of the values if `levels` is 0.
        levels: Where the definition levels begin.
        levels_end: Where they end.
        values: Where the values begin.
        values_end: Where they end.
        count: How many rows the page has.
        rows: The numbers of the rows.
        wanted: How many they are.
        first_row: The number of the page's first row.
        places: Gets the places of the values in the page, negative for nulls.
        indices: Room for as many numbers of 32 bits.
        dictionary: The values of the dictionary, or the addresses of byte arrays.
        dictionary_lengths: The lengths of these.
        dictionary_count: How many there are.
        found: Gets the values, or the addresses of byte arrays; left alone for nulls.
        lengths: Gets the lengths of these; left alone for nulls.
    """
    defined = count
    if optional:
        if levels == 0:
            if values_end - values < 4:
                return _DAMAGED
            levels = values + 4
            levels_end = levels + load32(values)
            if levels_end < levels or levels_end > values_end:
                return _DAMAGED
            values = levels_end
        defined = _places(levels, levels_end, count, rows, wanted, first_row, places)
    else:
        for number in range(wanted):
            place = load64(rows + 8 * number) - first_row
            if place < 0 or place >= count:
                return _DAMAGED
            store64(places + 8 * number, place)
    if defined <= 0:
        return defined
    if encoding == _PLAIN:
        if kind == FIXED:
            return _plain_fixed(values, values_end, width, defined, wanted, places, found)
        if kind == BITS:
            return _plain_bits(values, values_end, defined, wanted, places, found)
        return _byte_arrays(values, values_end, defined, wanted, places, found, lengths)
    if encoding == _RUNS and kind == BITS:
        return _bits_in_runs(values, values_end, defined, wanted, places, indices, found)
    if encoding not in _DICTIONARY or kind == BITS or values >= values_end:
        return _DAMAGED
    bits = load8(values)
    if _run_numbers(values + 1, values_end, bits, defined, dictionary_count, wanted, places, indices) < 0:
        return _DAMAGED
    return _from_dictionary(width, wanted, places, indices, dictionary, dictionary_lengths, found, lengths)


@jit("int64(int64, int64, int64, int64, int64)")
def dictionary_arrays(start: int, end: int, count: int, found: int, lengths: int) -> int:
    """Find all of `count` byte arrays that stand from `start` to `end`; returns how many bytes they have."""
    for number in range(count):
        store64(found + 8 * number, number)
    return _byte_arrays(start, end, count, count, found, found, lengths)


@jit("int64(int64, int64, int64, int64)")
def copy_all(count: int, addresses: int, lengths: int, target: int) -> int:
    """Copy byte arrays one behind the other; returns how many bytes they have."""
    at = target
    for number in range(count):
        length = load64(lengths + 8 * number)
        copy(at, load64(addresses + 8 * number), length)
        at += length
    return at - target
