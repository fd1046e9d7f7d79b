"""Compiled code that checks the headers of pages against each other and against what the footer says of their chunk.

It looks at nothing outside the range that it is given. `read.page_check` has the same checks in Python.
"""

from __future__ import annotations

from formatkit.batches.compiled.language import entry, load8, load32, load64, ones, part, store64
from formatkit.formats.parquet.kernels.numbers import CHUNK_NUMBERS, Chunk, Fault
from formatkit.formats.parquet.kernels.pages import page_header, varint

__all__ = ["check_pages"]

_AT, _START, _END = 8 * Chunk.AT, 8 * Chunk.START, 8 * Chunk.END
_VALUES_LEFT, _MAX_LENGTH = 8 * Chunk.VALUES_LEFT, 8 * Chunk.MAX_LENGTH
_CODEC, _WIDTH, _ENCODINGS, _FAULT = 8 * Chunk.CODEC, 8 * Chunk.WIDTH, 8 * Chunk.ENCODINGS, 8 * Chunk.FAULT
_PAGES = 8 * Chunk.PAGES
_DEFINITION, _REPETITION, _PADDING = 8 * Chunk.DEFINITION_BITS, 8 * Chunk.REPETITION_BITS, 8 * Chunk.PADDING

_HEADER, _SIZES, _CHAIN = int(Fault.HEADER), int(Fault.SIZES), int(Fault.CHAIN)
_COUNT, _LEVELS, _VALUES, _DICTIONARY = int(Fault.COUNT), int(Fault.LEVELS), int(Fault.VALUES), int(Fault.DICTIONARY)

_MORE = -1
"""The bytes in hand end before what is to be checked."""

_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 1, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 2, 3, 4, 8, 9
_UNCOMPRESSED, _SNAPPY, _GZIP, _LZ4, _ZSTD, _LZ4_RAW = 0, 1, 2, 5, 6, 7
_MAX_HEADER_BYTES = 1 << 20
_MAX_ENCODING = 62
_FRAME_HEADER_BYTES = 18
_FRAME_MAGIC = 0xFD2FB528 - 2**32
_LARGE_BYTES = 64 * 1024 * 1024
# What parquet-mr writes into pages of version 2 when statistics are switched off.
_UNKNOWN_NULLS = -1


@part
def _ratio(codec: int) -> int:
    """To how many bytes one byte can be decompressed at most; 0 where that is not known."""
    if codec == _SNAPPY:
        return 22
    if codec == _GZIP:
        return 1032
    if codec in (_LZ4, _LZ4_RAW):
        return 255
    if codec == _ZSTD:
        # A block of 128 KiB that repeats one byte takes four.
        return 32768
    return 0


@part
def _frame_content(at: int, end: int) -> int:
    """What the header of a zstd frame says its content has; a negative number if it does not say it."""
    if end - at < _FRAME_HEADER_BYTES or load32(at) != _FRAME_MAGIC:
        return -1
    flags = load8(at + 4)
    single_segment = (flags >> 5) & 1
    width = (1 << (flags >> 6)) if flags >> 6 else single_segment
    if flags & 3 or width == 0:
        return -1
    size = 0
    for number in range(width):
        size |= load8(at + 6 - single_segment + number) << (8 * number)
    return size + 256 if width == 2 else size


@part
def _can_hold(chunk: int, content: int, window_end: int, stored: int, length: int) -> bool:
    """Whether compressed bytes can be `length` bytes when they are decompressed."""
    codec = load64(chunk + _CODEC)
    ratio = _ratio(codec)
    if ratio and length > (stored + 64) * ratio:
        return False
    if length > _LARGE_BYTES and length > load64(chunk + _MAX_LENGTH):
        return False
    if codec == _ZSTD:
        said = _frame_content(content, min(window_end, content + stored))
        # There may be more frames behind the first one.
        return said <= length
    return True


@part
def _levels(start: int, end: int, bits: int, count: int) -> int:
    """Check that runs of levels hold `count` of them and end at `end`.

    Returns how many levels of one bit are 1, 0 for wider ones, or a negative number if they do not.
    """
    at, left = start, count
    found = 0
    while left > 0:
        head, at = varint(at, end)
        length = head >> 1
        if head < 0 or length == 0:
            return -1
        if head & 1 == 0:
            value_end = at + ((bits + 7) >> 3)
            if value_end > end or length > left:
                return -1
            if bits == 1 and load8(at) == 1:
                found += length
            at = value_end
            left -= length
            continue
        if length > (end - at) // bits or length * 8 - left > 7:
            return -1
        if bits == 1:
            for number in range(length):
                byte = load8(at + number)
                if left < 8:
                    byte &= (1 << left) - 1
                found += ones(byte)
                left -= 8
        else:
            left -= 8 * length
        at += length * bits
    return found if at == end else -1


@part
def _plain_length(width: int, values: int) -> int:
    """How many bytes values in plain encoding have; byte arrays have at least so many."""
    if width < 0:
        return (values + 7) >> 3
    return values * (width or 4)


@part
def _has_values(width: int, encoding: int, values: int, length: int) -> bool:
    """Whether so many values fit the length of a page."""
    if encoding == _PLAIN and width == 0:
        return length >= _plain_length(width, values)
    # Parquet.Net wrote one byte more behind eight booleans.
    if encoding == _PLAIN and width < 0 and length == (values >> 3) + 1:
        return True
    if encoding == _PLAIN or (encoding == _BYTE_STREAM_SPLIT and width > 0):
        return length == _plain_length(width, values)
    return True


@part
def _check_dictionary(chunk: int, header: int, length: int) -> int:
    values, encoding, width = load64(header + 40), load64(header + 48), load64(chunk + _WIDTH)
    if load64(header + 32) != 7 or load64(chunk + _AT) != load64(chunk + _START) or values < 0:
        return _DICTIONARY
    if encoding not in (_PLAIN, 2) or not _has_values(width, _PLAIN, values, length):
        return _DICTIONARY
    return 0


@part
def _check_v1(chunk: int, header: int, length: int) -> int:
    values, encoding = load64(header + 40), load64(header + 48)
    definition_bits, repetition_bits = load64(chunk + _DEFINITION), load64(chunk + _REPETITION)
    if load64(header + 32) != 5:
        return _HEADER
    if definition_bits and load64(header + 56) not in (_RLE, _BIT_PACKED):
        return _LEVELS
    if repetition_bits and load64(header + 64) not in (_RLE, _BIT_PACKED):
        return _LEVELS
    if (definition_bits and load64(header + 56) != _RLE) or (repetition_bits and load64(header + 64) != _RLE):
        store64(chunk + _ENCODINGS, load64(chunk + _ENCODINGS) | (1 << _BIT_PACKED))
    if definition_bits == 0 and repetition_bits == 0:
        width, padding = load64(chunk + _WIDTH), load64(chunk + _PADDING)
        if not _has_values(width, encoding, values, length) and not _has_values(
            width, encoding, values, length - padding
        ):
            return _VALUES
    return 0


@part
def _check_v2(chunk: int, header: int, content: int, window_end: int, stored: int, length: int) -> int:  # noqa: C901 - calls would cost more than they explain
    values, nulls, rows, encoding = (
        load64(header + 40),
        load64(header + 48),
        load64(header + 56),
        load64(header + 64),
    )
    definition, repetition = load64(header + 72), load64(header + 80)
    definition_bits, repetition_bits = load64(chunk + _DEFINITION), load64(chunk + _REPETITION)
    if load64(header + 32) != 8 or nulls < _UNKNOWN_NULLS or nulls > values or rows < 0 or rows > values:
        return _HEADER
    if definition < 0 or repetition < 0 or definition + repetition > min(stored, length):
        return _SIZES
    compressed = load64(chunk + _CODEC) != _UNCOMPRESSED and load64(header + 88) != 0
    if not compressed and stored != length:
        return _SIZES
    if (definition_bits == 0 and definition) or (repetition_bits == 0 and (repetition or rows != values)):
        return _LEVELS
    middle = content + repetition
    values_start, stored = middle + definition, stored - repetition - definition
    if values_start > window_end:
        return _MORE
    if compressed:
        if window_end - values_start < min(stored, _FRAME_HEADER_BYTES):
            return _MORE
        if not _can_hold(chunk, values_start, window_end, stored, length - repetition - definition):
            return _SIZES
    if repetition_bits and _levels(content, middle, repetition_bits, values) < 0:
        return _LEVELS
    defined = values
    if definition_bits:
        defined = _levels(middle, values_start, definition_bits, values)
        if defined < 0:
            return _LEVELS
    if repetition_bits or definition_bits > 1:
        return 0
    if nulls != _UNKNOWN_NULLS and defined != values - nulls:
        return _LEVELS
    return 0 if _has_values(load64(chunk + _WIDTH), encoding, defined, length - definition) else _VALUES


@part
def _place(encoding: int) -> int:
    """Where pages in an encoding are counted: both names of indices at one place, encodings without decoder at one."""
    if encoding == _RLE_DICTIONARY:
        return 6 * _PLAIN_DICTIONARY
    return 6 * (encoding if encoding <= _BYTE_STREAM_SPLIT else _RLE_DICTIONARY)


@part
def _check_page(chunk: int, header: int, content: int, window_end: int, left: int) -> int:  # noqa: C901 - calls would cost more than they explain
    """Check one page, whose header is decoded; returns 0, a fault, or that more bytes are needed for it."""
    kind, length, stored = load64(header), load64(header + 8), load64(header + 16)
    if length < 0 or stored < 0:
        return _HEADER
    if stored > left:
        return _CHAIN
    if load64(chunk + _CODEC) == _UNCOMPRESSED:
        if length != stored:
            return _SIZES
    elif kind != _DATA_PAGE_V2:
        if window_end - content < min(stored, _FRAME_HEADER_BYTES):
            return _MORE
        if not _can_hold(chunk, content, window_end, stored, length):
            return _SIZES
    if kind == _DICTIONARY_PAGE:
        return _check_dictionary(chunk, header, length)
    if kind == _INDEX_PAGE:
        return 0
    values = load64(header + 40)
    if kind not in (_DATA_PAGE, _DATA_PAGE_V2):
        return _HEADER
    if values < 0 or values > load64(chunk + _VALUES_LEFT):
        return _COUNT
    encoding = load64(header + (48 if kind == _DATA_PAGE else 64))
    if encoding < 0 or encoding > _MAX_ENCODING:
        return _HEADER
    if kind == _DATA_PAGE:
        fault = _check_v1(chunk, header, length)
    else:
        fault = _check_v2(chunk, header, content, window_end, stored, length)
    if fault == 0:
        store64(chunk + _VALUES_LEFT, load64(chunk + _VALUES_LEFT) - values)
        store64(chunk + _ENCODINGS, load64(chunk + _ENCODINGS) | (1 << encoding))
        store64(chunk + _PAGES, load64(chunk + _PAGES) + (1 << _place(encoding)))
    return fault


@part
def _check_chunk(chunk: int, data: int, start: int, end: int, header: int) -> int:
    """Check the pages of a chunk whose headers are in hand; returns 0 or a fault."""
    at, chunk_end = load64(chunk + _AT), load64(chunk + _END)
    while start <= at < min(end, chunk_end):
        known_end = min(end, chunk_end)
        size = page_header(data + at - start, data + known_end - start, header)
        if size < 0:
            return _HEADER if known_end == chunk_end or known_end - at > _MAX_HEADER_BYTES else 0
        content = at + size
        fault = _check_page(chunk, header, data + content - start, data + known_end - start, chunk_end - content)
        if fault == _MORE:
            return 0
        if fault:
            return fault
        at = content + load64(header + 16)
        store64(chunk + _AT, at)
    if at == chunk_end and load64(chunk + _VALUES_LEFT):
        return _COUNT
    return 0


@entry
def check_pages(data: int, start: int, end: int, chunks: int, count: int, header: int) -> int:
    """Check pages of several chunks as far as their headers are in hand; returns how many chunks are not done yet.

    Args:
        data: Where the bytes `start` to `end` of the file are in memory.
        start: Where they begin in the file.
        end: Where they end.
        chunks: The numbers of each chunk: see `numbers.Chunk`. They are changed.
        count: How many chunks there are.
        header: Room for 12 numbers.
    """
    waiting = 0
    for number in range(count):
        chunk = chunks + 8 * CHUNK_NUMBERS * number
        fault = _check_chunk(chunk, data, start, end, header)
        store64(chunk + _FAULT, fault)
        waiting += fault != 0 or load64(chunk + _AT) != load64(chunk + _END)
    return waiting
