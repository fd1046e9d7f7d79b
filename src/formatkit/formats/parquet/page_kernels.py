"""Compiled code that finds pages by their headers.

Functions get addresses and look at nothing outside the range they are given. They return a negative number for bytes
that are damaged or in a form they do not know.
"""

from __future__ import annotations

from formatkit.batches.compiled import jit, load8, load64, part, store64

__all__ = ["PAGE_NUMBERS", "page_table", "varint"]

PAGE_NUMBERS = 13

_DAMAGED = -1
_MAX_DEPTH = 8
_DATA_PAGE_STRUCTS = (5, 7, 8)


@part
def varint(at: int, end: int) -> tuple[int, int]:
    """An unsigned number of at most 63 bits, and where it ends; a negative number if it is cut off or longer."""
    number = 0
    shift = 0
    while at < end and shift < 63:
        byte = load8(at)
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    return -1, at


@part
def _page_header(start: int, end: int, found: int) -> int:  # noqa: C901 - calls would cost more than they explain
    """Decode a `PageHeader` in Thrift's compact protocol, as far as it matters; returns how long it is.

    Eleven numbers are stored at `found`, -1 where there is none: the fields 1 to 3 (type, sizes), which of the structs
    5, 7 and 8 there is, and the fields 1 to 7 of that.
    """
    for place in range(11):
        store64(found + 8 * place, -1)
    at, depth = start, 0
    outer = 0
    inner = 0
    which = 0
    while at < end:
        head = load8(at)
        at += 1
        if head == 0:
            if depth == 0:
                return at - start
            depth -= 1
            continue
        kind = head & 0x0F
        if head >> 4:
            number = (outer if depth == 0 else inner) + (head >> 4)
        else:
            number, at = varint(at, end)
            if number < 0:
                return _DAMAGED
            number = (number >> 1) ^ -(number & 1)
        if depth == 0:
            outer = number
        elif depth == 1:
            inner = number
        value = -1
        if kind <= 2:
            value = 2 - kind
        elif kind == 3:
            at += 1
        elif kind <= 6:
            value, at = varint(at, end)
            if value < 0:
                return _DAMAGED
            value = (value >> 1) ^ -(value & 1)
        elif kind == 7:
            at += 8
        elif kind == 8:
            length, at = varint(at, end)
            if length < 0 or length > end - at:
                return _DAMAGED
            at += length
        elif kind == 12:
            if depth == 0 and number in _DATA_PAGE_STRUCTS:
                if which:
                    return _DAMAGED
                which = number
                store64(found + 24, number)
            depth += 1
            inner = 0 if depth == 1 else inner
            if depth > _MAX_DEPTH:
                return _DAMAGED
            continue
        else:
            return _DAMAGED
        # A field of another type than it should have does not count; field 7 is a flag.
        if depth == 0 and 1 <= number <= 3 and kind == 5:
            store64(found + 8 * (number - 1), value)
        elif depth == 1 and outer == which and 1 <= number <= 7 and (kind <= 2 if number == 7 else kind == 5):
            store64(found + 8 * (number + 3), value)
    return _DAMAGED


@jit("int64(int64, int64, int64, int64)")
def page_table(start: int, end: int, table: int, most: int) -> int:
    """Find the pages that stand one behind the other from `start` to `end`; returns how many there are.

    Of the first `most` of them 13 numbers are stored at `table`: where the header and the content begin, counted from
    `start`, and the numbers of the header.
    """
    at, count = start, 0
    while at < end:
        row = table + PAGE_NUMBERS * 8 * min(count, most - 1)
        size = _page_header(at, end, row + 16)
        stored = load64(row + 32)
        if size < 0 or stored < 0 or stored > end - at - size:
            return _DAMAGED
        store64(row, at - start)
        store64(row + 8, at - start + size)
        at += size + stored
        count += 1
    return count
