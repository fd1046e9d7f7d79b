"""Compiled code that finds pages by their headers, and those that hold wanted rows.

Functions get addresses and look at nothing outside the range they are given. They return `DAMAGED` or `OTHER_FORM`
for bytes that they cannot decode.
"""

from __future__ import annotations

from formatkit.batches.compiled.language import call5, entry, load8, load32, load64, part, store64
from formatkit.formats.parquet.kernels.numbers import (
    DAMAGED,
    DATA_PAGE_NUMBERS,
    DICTIONARY_PAGE,
    FRAME,
    HAVE_CHECKSUMS,
    LONGEST,
    NEED_DICTIONARY,
    OTHER_CODEC,
    OTHER_FORM,
    REACHED,
    ROWS_FOUND,
    SUMMARY_NUMBERS,
)

__all__ = [
    "decompress_frame",
    "find_pages",
    "page_header",
    "page_parts",
    "varint",
    "zstd_content_size",
]

_MAX_DEPTH = 8
_DATA_PAGE_STRUCTS = (5, 7, 8)
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = (0, 5), (2, 7), (3, 8)
"""The types of pages, and the structs that describe them."""

_DICTIONARY_ENCODINGS = (2, 8)
_RUNS = 3
_UNCOMPRESSED, _ZSTD = 0, 6
_MOST_VALUES = 2**31 - 1
_FRAME_MAGIC = 0xFD2FB528 - 2**32
_LEAST_FRAME = 9


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
def page_header(start: int, end: int, found: int) -> int:  # noqa: C901 - calls would cost more than they explain
    """Decode a `PageHeader` in Thrift's compact protocol, as far as it matters; returns how long it is.

    Twelve numbers are stored at `found`, -1 where there is none: the fields 1 to 4 (type, sizes, checksum), which of
    the structs 5, 7 and 8 there is, and the fields 1 to 7 of that.
    """
    for place in range(12):
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
        if kind == 0:
            return DAMAGED
        if head >> 4:
            number = (outer if depth == 0 else inner) + (head >> 4)
        else:
            number, at = varint(at, end)
            if number < 0:
                return DAMAGED
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
                return DAMAGED
            value = (value >> 1) ^ -(value & 1)
        elif kind == 7:
            at += 8
        elif kind == 8:
            length, at = varint(at, end)
            if length < 0 or length > end - at:
                return DAMAGED
            at += length
        elif kind == 12:
            if depth == 0 and number in _DATA_PAGE_STRUCTS:
                if which:
                    return DAMAGED
                which = number
                store64(found + 32, number)
            depth += 1
            inner = 0 if depth == 1 else inner
            if depth > _MAX_DEPTH:
                return DAMAGED
            continue
        else:
            return DAMAGED
        # A field of another type than it should have does not count; field 7 is a flag.
        if depth == 0 and 1 <= number <= 4 and kind == 5:
            store64(found + 8 * (number - 1), value if number < 4 else value & 0xFFFFFFFF)
        elif depth == 1 and outer == which and 1 <= number <= 7 and (kind <= 2 if number == 7 else kind == 5):
            store64(found + 8 * (number + 4), value)
    return DAMAGED


@entry
def zstd_content_size(start: int, end: int) -> int:
    """How long the content of a zstd frame is, if it tells that and ends exactly at `end`; else a negative number."""
    if end - start < _LEAST_FRAME or load32(start) != _FRAME_MAGIC:
        return DAMAGED
    flags = load8(start + 4)
    single_segment = (flags >> 5) & 1
    width = (1 << (flags >> 6)) if flags >> 6 else single_segment
    # Dictionaries are not used in Parquet.
    if flags & 3 or width == 0:
        return DAMAGED
    at = start + 6 - single_segment
    if end - at < width:
        return DAMAGED
    size = 0
    for number in range(width):
        size |= load8(at + number) << (8 * number)
    if width == 2:
        size += 256
    at += width
    last = 0
    while not last:
        if end - at < 3:
            return DAMAGED
        block = load8(at) | (load8(at + 1) << 8) | (load8(at + 2) << 16)
        last = block & 1
        # A block that repeats one byte stores only that.
        at += 3 + (1 if (block >> 1) & 3 == 1 else block >> 3)
        if at > end:
            return DAMAGED
    return size if at + (4 if flags & 4 else 0) == end else DAMAGED


@entry
def decompress_frame(zstd: int, context: int, start: int, end: int, target: int, length: int) -> int:
    """Decompress one zstd frame that has `length` bytes; returns that, or something else if it does not."""
    if zstd_content_size(start, end) != length:
        return DAMAGED
    found: int = call5(zstd, context, target, length, start, end - start)
    return found


@part
def _page_content(page: int, tools: int, target: int, room: int) -> tuple[int, int]:
    """Where the values of a data page begin and end, decompressed to `target` if need be; 0 if they cannot be.

    At `tools` stand the addresses of `ZSTD_decompressDCtx` and of a context for it. `target` has `room` bytes.
    """
    start, end, length = load64(page + 56), load64(page + 64), load64(page + 72)
    if load64(page + 80) == 0:
        return start, end
    if length > room or call5(load64(tools), load64(tools + 8), target, length, start, end - start) != length:
        return 0, 0
    return target, target + length


@part
def page_parts(page: int, optional: int, tools: int, target: int, room: int) -> tuple[int, int, int, int]:
    """Where the definition levels of a data page begin and end, if it has any, and its values; zeros if damaged."""
    levels, levels_end = load64(page + 40), load64(page + 48)
    values, values_end = _page_content(page, tools, target, room)
    if optional and levels == 0 and values:
        # They stand at the head of the values, behind their length.
        levels = values + 4
        levels_end = levels + load32(values) if levels <= values_end else 0
        if levels_end < levels or levels_end > values_end:
            return 0, 0, 0, 0
        values = levels_end
    return levels, levels_end, values, values_end


@part
def _data_page(header: int, base: int, optional: int, codec: int, page: int) -> int:
    """Check the header of a data page, and store what it says at `page`, behind the first four numbers."""
    content, length, stored = base + load64(header + 8), load64(header + 24), load64(header + 32)
    kind, struct, values = load64(header + 16), load64(header + 48), load64(header + 56)
    first, second, third = load64(header + 64), load64(header + 72), load64(header + 80)
    levels, levels_end, start, end = 0, 0, content, content + stored
    compressed = 0 if codec == _UNCOMPRESSED else 1
    if second < 0 or third < 0:
        return DAMAGED
    if (kind, struct) == _DATA_PAGE:
        encoding = first
        if encoding < 0:
            return DAMAGED
        # The levels stand at the head of the values. They can be encoded as in old times.
        if optional and second != _RUNS:
            return OTHER_FORM
    elif (kind, struct) == _DATA_PAGE_V2:
        encoding, levels_length, repetition_levels = third, load64(header + 88), load64(header + 96)
        # The first number counts nulls; parquet-mr writes -1 there when statistics are switched off.
        if first < -1 or second != values or repetition_levels != 0 or levels_length < 0 or levels_length > stored:
            return DAMAGED
        # Levels are never compressed in this version.
        levels, levels_end = content, content + levels_length
        start = levels_end
        length -= levels_length
        if load64(header + 104) == 0:
            compressed = 0
    else:
        return DAMAGED
    if length == 0:
        compressed, end = 0, start
    if length < 0 or (not compressed and length != end - start):
        return DAMAGED
    store64(page + 32, encoding)
    store64(page + 40, levels)
    store64(page + 48, levels_end)
    store64(page + 56, start)
    store64(page + 64, end)
    store64(page + 72, length)
    if compressed and codec == _ZSTD and zstd_content_size(start, end) == length:
        compressed = FRAME
    store64(page + 80, compressed)
    store64(page + 88, load64(header + 40))
    return 0


@part
def _dictionary_page(header: int, start: int, summary: int) -> int:
    """Store what the header of a dictionary page says: see `find_pages`."""
    if load64(header + 16) != _DICTIONARY_PAGE[0] or load64(header + 48) != _DICTIONARY_PAGE[1]:
        return DAMAGED
    for place, field in enumerate((8, 32, 24, 56, 64, 40)):
        store64(summary + 8 * (DICTIONARY_PAGE + place), load64(header + field))
    store64(summary + 8 * DICTIONARY_PAGE, start + load64(header + 8))
    return 0


@entry
def find_pages(
    start: int,
    end: int,
    first_row: int,
    rows: int,
    row_count: int,
    optional: int,
    codec: int,
    pages: int,
    most: int,
    summary: int,
) -> int:
    """Find the data pages that hold some rows among those that stand one behind the other; returns how many they are.

    Args:
        start: Where the first page begins. It may be the page of the dictionary.
        end: Pages that do not end before this are not found.
        first_row: The number of the first row of the first data page.
        rows: Ascending numbers of rows.
        row_count: How many they are; a negative number for all rows, whatever their numbers.
        optional: Whether values can be null.
        codec: Parquet's number of the codec that pages are compressed with, unless they say that they are not.
        pages: Gets numbers of each page that is found: the first and last place of its rows among those asked for, its
            first row and how many it has, its encoding, where its levels and its values begin and end, how long its
            values are when they are decompressed, whether that is needed, and by what, and its checksum or -1.
        most: For how many pages there is room.
        summary: Gets what `numbers` calls `REACHED` and so on; room for 14 numbers more stands behind.
    """
    at, row, chosen, wanted = start, first_row, 0, 0
    longest, other_codec, dictionary, checksums = 0, 0, 0, 0
    header = summary + 8 * SUMMARY_NUMBERS
    while wanted < row_count and load64(rows + 8 * wanted) < first_row:
        wanted += 1
    while at < end and chosen < most:
        size = page_header(at, end, header + 16)
        stored, values = load64(header + 32), load64(header + 56)
        if size < 0 or stored < 0 or stored > end - at - size:
            break
        store64(header + 8, size)
        if at == start and load64(header + 16) == _DICTIONARY_PAGE[0]:
            if _dictionary_page(header, at - start, summary) < 0:
                return DAMAGED
            at += size + stored
            continue
        if load64(header + 16) not in (_DATA_PAGE[0], _DATA_PAGE_V2[0]):
            return OTHER_FORM
        if values < 0 or values > _MOST_VALUES:
            return DAMAGED
        first = wanted
        while wanted < row_count and load64(rows + 8 * wanted) < row + values:
            wanted += 1
        if wanted > first or row_count < 0:
            page = pages + DATA_PAGE_NUMBERS * 8 * chosen
            fault = _data_page(header, at, optional, codec, page)
            if fault < 0:
                return fault
            store64(page, first)
            store64(page + 8, wanted)
            store64(page + 16, row)
            store64(page + 24, values)
            compressed = load64(page + 80)
            if compressed:
                longest = max(longest, load64(page + 72))
                other_codec |= compressed != FRAME
            dictionary |= load64(page + 32) in _DICTIONARY_ENCODINGS
            checksums |= load64(page + 88) >= 0
            chosen += 1
        row += values
        at += size + stored
    store64(summary + 8 * REACHED, at - start)
    store64(summary + 8 * ROWS_FOUND, row - first_row)
    store64(summary + 8 * LONGEST, longest)
    store64(summary + 8 * OTHER_CODEC, other_codec)
    store64(summary + 8 * NEED_DICTIONARY, dictionary)
    store64(summary + 8 * HAVE_CHECKSUMS, checksums)
    return chosen
