"""Compiled code that finds single values in the bytes of a page.

Every function gets addresses and looks at nothing outside the range it is given. It returns a negative number for
bytes that are damaged or in a form it does not know, and it looks at the whole page for that, not only at what is asked
for, so that damage in front of a value cannot move it unnoticed.
"""

from __future__ import annotations

from formatkit.batches.compiled.language import copy, entry, load8, load32, load64, part, store8, store32, store64
from formatkit.formats.parquet.kernels.numbers import (
    BITS,
    BYTES,
    DAMAGED,
    DATA_PAGE_NUMBERS,
    FIXED,
    OTHER_FORM,
    SHORT_OF_ROOM,
)
from formatkit.formats.parquet.kernels.pages import page_parts
from formatkit.formats.parquet.kernels.runs import places_of_rows, run_numbers

__all__ = ["dictionary_arrays", "gather"]

_PLAIN, _RUNS = 0, 3
_DICTIONARY = (2, 8)


@part
def _byte_arrays(start: int, end: int, count: int, wanted: int, at_places: int, found: int, lengths: int) -> int:
    """Where byte arrays are, each of which stands behind its length; returns how many bytes those asked for have.

    There are `count`, which end at `end`. `wanted` of them are asked for by their ascending places; their addresses and
    lengths are stored; a negative place is passed over.
    """
    at, done, total = start, 0, 0
    for number in range(count):
        if end - at < 4:
            return DAMAGED
        length = load32(at)
        at += 4
        if length < 0 or length > end - at:
            return DAMAGED
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
            return DAMAGED
        done += 1
    return total if at == end else DAMAGED


@part
def _plain_fixed(start: int, end: int, width: int, count: int, wanted: int, at_places: int, found: int) -> int:
    if end - start != count * width:
        return DAMAGED
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
    # Parquet.Net wrote one byte more behind eight booleans.
    if end - start != (count + 7) >> 3 and end - start != (count >> 3) + 1:
        return DAMAGED
    for number in range(wanted):
        place = load64(at_places + 8 * number)
        if place >= 0:
            store8(found + number, (load8(start + (place >> 3)) >> (place & 7)) & 1)
    return 0


@part
def _bits_in_runs(start: int, end: int, count: int, wanted: int, at_places: int, indices: int, found: int) -> int:
    if end - start < 4 or load32(start) != end - start - 4:
        return DAMAGED
    if run_numbers(start + 4, end, 1, count, 2, wanted, at_places, indices) < 0:
        return DAMAGED
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


@part
def _gather_page(  # noqa: C901 - calls would cost more than they explain
    kind: int,
    width: int,
    optional: int,
    page: int,
    rows: int,
    places: int,
    indices: int,
    dictionary: int,
    dictionary_lengths: int,
    dictionary_count: int,
    found: int,
    lengths: int,
    tools: int,
) -> int:
    """The same as `gather` for one page, at `page`; rows, places and what is found begin with those of this page."""
    wanted = load64(page + 8) - load64(page)
    first_row, count, encoding = load64(page + 16), load64(page + 24), load64(page + 32)
    levels, levels_end, values, values_end = page_parts(page, optional, tools, load64(tools + 24), load64(tools + 16))
    if values == 0:
        return DAMAGED
    defined: int = count
    if optional:
        defined = places_of_rows(levels, levels_end, count, rows, wanted, first_row, places)
    else:
        for number in range(wanted):
            place = load64(rows + 8 * number) - first_row
            if place < 0 or place >= count:
                return DAMAGED
            store64(places + 8 * number, place)
    if defined < 0:
        return DAMAGED
    if defined == 0:
        return DAMAGED if encoding == _PLAIN and values_end - values > (1 if kind == BITS else 0) else 0
    if encoding == _PLAIN:
        if kind == FIXED:
            return _plain_fixed(values, values_end, width, defined, wanted, places, found)
        if kind == BITS:
            return _plain_bits(values, values_end, defined, wanted, places, found)
        return _byte_arrays(values, values_end, defined, wanted, places, found, lengths)
    if encoding == _RUNS and kind == BITS:
        return _bits_in_runs(values, values_end, defined, wanted, places, indices, found)
    if encoding not in _DICTIONARY or kind == BITS:
        return OTHER_FORM
    if values >= values_end:
        return DAMAGED
    bits: int = load8(values)
    if run_numbers(values + 1, values_end, bits, defined, dictionary_count, wanted, places, indices) < 0:
        return DAMAGED
    return _from_dictionary(width, wanted, places, indices, dictionary, dictionary_lengths, found, lengths)


@part
def _copy_all(count: int, places: int, addresses: int, lengths: int, target: int) -> None:
    """Copy byte arrays one behind the other, those with negative places excepted."""
    at = target
    for number in range(count):
        if load64(places + 8 * number) >= 0:
            length = load64(lengths + 8 * number)
            copy(at, load64(addresses + 8 * number), length)
            at += length


@entry
def gather(
    kind: int,
    width: int,
    optional: int,
    pages: int,
    page_count: int,
    rows: int,
    places: int,
    indices: int,
    dictionary: int,
    dictionary_lengths: int,
    dictionary_count: int,
    found: int,
    lengths: int,
    data: int,
    progress: int,
    tools: int,
) -> int:
    """Take the values at some rows out of pages; returns 0, or `SHORT_OF_ROOM`.

    Args:
        kind: `FIXED`, `BITS` or `BYTES`.
        width: The bytes of each value if all have the same, else 0.
        optional: Whether values can be null.
        pages: Twelve numbers of each page: its first one of the wanted rows and the first behind it, counted from that
            of all pages; the number of its first row, and how many rows it has; the encoding of its values; where its
            levels begin and end, which is at the head of the values if that is 0; where its values begin and end; how
            long these are when they are decompressed; and whether they are a zstd frame. The last does not matter here.
        page_count: How many pages there are.
        rows: The numbers of the wanted rows.
        places: Gets the places of the values in their pages, negative for nulls.
        indices: Room for as many numbers of 32 bits.
        dictionary: The values of the dictionary, or the addresses of byte arrays.
        dictionary_lengths: The lengths of these.
        dictionary_count: How many there are.
        found: Gets the values, or is used for the addresses of byte arrays; left alone for nulls.
        lengths: Gets the lengths of these; left alone for nulls.
        data: Gets the bytes of byte arrays.
        progress: Three numbers that are changed: how many pages are done, how many bytes there are of them, and how
            many there is room for, or should be if there is not enough.
        tools: Four numbers: the addresses of `ZSTD_decompressDCtx` and of a context for it, how many bytes there is
            room for when pages are decompressed, and where.
    """
    filled, capacity = load64(progress + 8), load64(progress + 16)
    for number in range(load64(progress), page_count):
        page = pages + 8 * DATA_PAGE_NUMBERS * number
        start = load64(page)
        size = _gather_page(
            kind,
            width,
            optional,
            page,
            rows + 8 * start,
            places + 8 * start,
            indices,
            dictionary,
            dictionary_lengths,
            dictionary_count,
            found + (width or 8) * start,
            lengths + 8 * start,
            tools,
        )
        if size < 0:
            return size
        if kind == BYTES:
            if size > capacity - filled:
                store64(progress, number)
                store64(progress + 8, filled)
                store64(progress + 16, filled + size)
                return SHORT_OF_ROOM
            count = load64(page + 8) - start
            _copy_all(count, places + 8 * start, found + 8 * start, lengths + 8 * start, data + filled)
            filled += size
    store64(progress, page_count)
    store64(progress + 8, filled)
    return 0


@entry
def dictionary_arrays(start: int, end: int, count: int, found: int, lengths: int) -> int:
    """Find all of `count` byte arrays that stand from `start` to `end`; returns how many there are."""
    at = start
    for number in range(count):
        if end - at < 4:
            return DAMAGED
        length = load32(at)
        at += 4
        if length < 0 or length > end - at:
            return DAMAGED
        store64(found + 8 * number, at)
        store64(lengths + 8 * number, length)
        at += length
    return count if at == end else DAMAGED
