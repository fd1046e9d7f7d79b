"""Compiled code that decodes the pages of a flat column, one behind the other, into the buffers of an Arrow array.

Where it stands is kept in a cursor, numbers of 64 bits in memory, so that rows can be decoded in as many steps as one
likes, whatever pages they are in. Every address is compared with the end of its buffer before it is followed. Functions
return `DAMAGED` or `OTHER_FORM` for bytes that they cannot decode.
"""

from __future__ import annotations

from formatkit.batches.compiled.arrays import spread
from formatkit.batches.compiled.language import entry, load8, load32, load64, part, store32, store64
from formatkit.formats.parquet.kernels.array_values import (
    dictionary_bytes,
    dictionary_bytes_length,
    dictionary_values,
    max_words,
    plain_bits,
    plain_bytes,
    plain_values,
)
from formatkit.formats.parquet.kernels.numbers import (
    BIG_ENDIAN,
    BITS,
    BYTES,
    DAMAGED,
    DATA_PAGE_NUMBERS,
    DICTIONARY,
    DICTIONARY_COUNT,
    DICTIONARY_LENGTHS,
    DONE,
    FILLED,
    FIXED,
    INDICES,
    KIND,
    MAX_HIGH,
    MAX_LOW,
    NULLS,
    OPTIONAL,
    OTHER_FORM,
    OUT_OF_PAGES,
    OUTCOME,
    PAGE,
    PAGE_COUNT,
    PAGE_LEFT,
    PAGES,
    ROOM,
    ROOM_BYTES,
    SHORT_OF_ROOM,
    SLACK,
    STEP_NUMBERS,
    STORED_WIDTH,
    TOOLS,
    WANTED,
    WIDTH,
)
from formatkit.formats.parquet.kernels.pages import page_parts
from formatkit.formats.parquet.kernels.run_cursors import are_used_up, begin_runs, next_bits, next_numbers

__all__ = ["decode", "decode_columns"]

_PLAIN, _RUNS = 0, 3
_DICTIONARY_ENCODINGS = (2, 8)

# What of the cursor belongs to this module: the encoding of the page, where its values are, how many bits an index has,
# and of how many rows, with how many values, the levels and indices are decoded already.
_ENCODING, _VALUES, _VALUES_END, _INDEX_BITS, _PENDING, _PENDING_VALUES = range(19, 25)
_LEVEL_RUNS, _INDEX_RUNS = 25 * 8, 31 * 8


@part
def _open_page(cursor: int) -> int:
    """Turn to the next page."""
    number, kind = load64(cursor + 8 * PAGE), load64(cursor + 8 * KIND)
    page = load64(cursor + 8 * PAGES) + 8 * DATA_PAGE_NUMBERS * number
    encoding, optional = load64(page + 32), load64(cursor + 8 * OPTIONAL)
    tools, target, room = load64(cursor + 8 * TOOLS), load64(cursor + 8 * ROOM), load64(cursor + 8 * ROOM_BYTES)
    levels, levels_end, values, values_end = page_parts(page, optional, tools, target, room)
    if values == 0:
        return DAMAGED
    if optional:
        begin_runs(cursor + _LEVEL_RUNS, levels, levels_end)
    if encoding == _RUNS and kind == BITS:
        if values_end - values < 4 or load32(values) != values_end - values - 4:
            return DAMAGED
        begin_runs(cursor + _INDEX_RUNS, values + 4, values_end)
    elif encoding in _DICTIONARY_ENCODINGS and kind != BITS:
        # There is nothing at all if all values are null.
        width = 0
        if values < values_end:
            width = load8(values)
            values += 1
        if width > 32:
            return DAMAGED
        store64(cursor + 8 * _INDEX_BITS, width)
        begin_runs(cursor + _INDEX_RUNS, values, values_end)
    elif encoding != _PLAIN:
        return OTHER_FORM
    store64(cursor + 8 * PAGE_LEFT, load64(page + 24))
    store64(cursor + 8 * _ENCODING, encoding)
    # Bits are counted from the first one of all memory.
    store64(cursor + 8 * _VALUES, values * 8 if kind == BITS else values)
    store64(cursor + 8 * _VALUES_END, values_end)
    store64(cursor + 8 * PAGE, number + 1)
    return 0


@part
def _decode_levels(cursor: int, count: int, validity: int, row: int) -> int:
    """Decode what comes before the values of some rows; returns how many of them are not null."""
    defined, left = count, load64(cursor + 8 * PAGE_LEFT)
    if load64(cursor + 8 * OPTIONAL):
        defined = next_bits(cursor + _LEVEL_RUNS, count, left, validity, row)
    if defined > 0 and load64(cursor + 8 * _ENCODING) in _DICTIONARY_ENCODINGS:
        limit, indices = load64(cursor + 8 * DICTIONARY_COUNT), load64(cursor + 8 * INDICES)
        if next_numbers(cursor + _INDEX_RUNS, load64(cursor + 8 * _INDEX_BITS), defined, left, limit, indices) < 0:
            return DAMAGED
    return defined


@part
def _room_needed(cursor: int, defined: int) -> int:
    """For how many bytes there must be room before byte arrays are decoded."""
    filled: int = load64(cursor + 8 * FILLED) + SLACK
    if load64(cursor + 8 * _ENCODING) == _PLAIN:
        filled += load64(cursor + 8 * _VALUES_END) - load64(cursor + 8 * _VALUES)
    else:
        lengths, indices = load64(cursor + 8 * DICTIONARY_LENGTHS), load64(cursor + 8 * INDICES)
        filled += dictionary_bytes_length(lengths, indices, defined)
    return filled


@part
def _decode_bytes(cursor: int, count: int, defined: int, validity: int, row: int, offsets: int, data: int) -> int:
    filled, indices = load64(cursor + 8 * FILLED), load64(cursor + 8 * INDICES)
    if load64(cursor + 8 * _ENCODING) == _PLAIN:
        at, end = load64(cursor + 8 * _VALUES), load64(cursor + 8 * _VALUES_END)
        at, filled = plain_bytes(at, end, count, defined, validity, row, offsets, data, filled)
        if at == 0:
            return DAMAGED
        store64(cursor + 8 * _VALUES, at)
    else:
        dictionary, lengths = load64(cursor + 8 * DICTIONARY), load64(cursor + 8 * DICTIONARY_LENGTHS)
        filled = dictionary_bytes(dictionary, lengths, indices, count, defined, validity, row, offsets, data, filled)
    store64(cursor + 8 * FILLED, filled)
    return 0


@part
def _decode_bits(cursor: int, count: int, defined: int, validity: int, row: int, target: int) -> int:
    bit, end = load64(cursor + 8 * _VALUES), load64(cursor + 8 * _VALUES_END)
    if load64(cursor + 8 * _ENCODING) == _PLAIN:
        if defined > end * 8 - bit:
            return DAMAGED
        store64(cursor + 8 * _VALUES, bit + defined)
    else:
        # As a bitmap of their own first.
        bits = load64(cursor + 8 * INDICES)
        for number in range((defined >> 6) + 2):
            store64(bits + 8 * number, 0)
        if next_bits(cursor + _INDEX_RUNS, defined, load64(cursor + 8 * PAGE_LEFT), bits, 0) < 0:
            return DAMAGED
        bit, end = bits * 8, bits + ((defined + 7) >> 3)
    plain_bits(bit, end, count, defined, validity, row, target)
    return 0


@part
def _decode_fixed(cursor: int, count: int, defined: int, validity: int, row: int, values: int) -> int:
    stored, width = load64(cursor + 8 * STORED_WIDTH), load64(cursor + 8 * WIDTH)
    target = values + width * row
    if load64(cursor + 8 * _ENCODING) == _PLAIN:
        at = load64(cursor + 8 * _VALUES)
        if defined > (load64(cursor + 8 * _VALUES_END) - at) // stored:
            return DAMAGED
        kind = load64(cursor + 8 * KIND)
        largest = plain_values(kind, stored, at, defined, target)
        store64(cursor + 8 * _VALUES, at + stored * defined)
        if kind == BIG_ENDIAN:
            high, low = max_words(target, defined, load64(cursor + 8 * MAX_HIGH), load64(cursor + 8 * MAX_LOW))
            store64(cursor + 8 * MAX_HIGH, high)
            store64(cursor + 8 * MAX_LOW, low)
        elif kind != FIXED:
            store64(cursor + 8 * MAX_LOW, max(largest >> 1, load64(cursor + 8 * MAX_LOW)))
    else:
        dictionary_values(load64(cursor + 8 * DICTIONARY), width, load64(cursor + 8 * INDICES), defined, target)
    if defined < count:
        spread(target, width, validity, row, count, defined)
    return 0


@part
def _is_used_up(cursor: int) -> bool:
    """Whether a page ends where its last value does."""
    if load64(cursor + 8 * _ENCODING) != _PLAIN:
        return are_used_up(cursor + _INDEX_RUNS)
    at, end = load64(cursor + 8 * _VALUES), load64(cursor + 8 * _VALUES_END)
    if load64(cursor + 8 * KIND) == BITS:
        # Parquet.Net wrote one byte more behind eight booleans.
        at = min((at >> 3) + 1, end) if at & 7 == 0 else (at + 7) >> 3
    return bool(at == end)


@entry
def decode(cursor: int, rows: int, validity: int, values: int, data: int, room: int) -> int:
    """Decode rows until there are so many.

    Returns 0, or `OUT_OF_PAGES` or `SHORT_OF_ROOM` to go on when there are more, or a negative number.

    Args:
        cursor: See `numbers`.
        rows: How many rows there should be.
        validity: A bitmap of zeros for them, with eight bytes more; not used for columns without nulls.
        values: Room for their values, for offsets of 32 bits and one more, or a bitmap of zeros with eight bytes more.
        data: Room for byte arrays.
        room: How many bytes that has.
    """
    kind, row = load64(cursor + 8 * KIND), load64(cursor + 8 * DONE)
    if kind == BYTES and row == 0:
        store32(values, 0)
    while row < rows:
        left = load64(cursor + 8 * PAGE_LEFT)
        if left == 0:
            if load64(cursor + 8 * PAGE) == load64(cursor + 8 * PAGE_COUNT):
                return OUT_OF_PAGES
            outcome = _open_page(cursor)
            if outcome < 0:
                return outcome
            continue
        count, defined = load64(cursor + 8 * _PENDING), load64(cursor + 8 * _PENDING_VALUES)
        if count == 0:
            count = min(left, rows - row)
            defined = _decode_levels(cursor, count, validity, row)
            if defined < 0:
                return DAMAGED
        if kind == BYTES:
            needed = _room_needed(cursor, defined)
            if needed > room:
                store64(cursor + 8 * _PENDING, count)
                store64(cursor + 8 * _PENDING_VALUES, defined)
                store64(cursor + 8 * WANTED, needed)
                return SHORT_OF_ROOM
            store64(cursor + 8 * _PENDING, 0)
            outcome = _decode_bytes(cursor, count, defined, validity, row, values, data)
        elif kind == BITS:
            outcome = _decode_bits(cursor, count, defined, validity, row, values)
        else:
            outcome = _decode_fixed(cursor, count, defined, validity, row, values)
        if outcome < 0 or (left == count and not _is_used_up(cursor)):
            return DAMAGED
        row += count
        store64(cursor + 8 * DONE, row)
        store64(cursor + 8 * NULLS, load64(cursor + 8 * NULLS) + count - defined)
        store64(cursor + 8 * PAGE_LEFT, left - count)
    return 0


@entry
def decode_columns(steps: int, count: int) -> int:
    """Call `decode` for several columns, one after the other; returns for how many of them it answered 0.

    The first other answer ends that, because what is decoded halfway must not be disturbed.

    Args:
        steps: The arguments for each column, and room for the answer: see `numbers`.
        count: How many columns there are.
    """
    for number in range(count):
        step = steps + 8 * STEP_NUMBERS * number
        outcome = decode(
            load64(step), load64(step + 8), load64(step + 16), load64(step + 24), load64(step + 32), load64(step + 40)
        )
        store64(step + 8 * OUTCOME, outcome)
        if outcome != 0:
            return number
    return count
