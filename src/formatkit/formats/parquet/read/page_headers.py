"""The checks of `kernels.page_check`, for processes without compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from formatkit.formats.parquet.kernels.numbers import Chunk, Fault
from formatkit.formats.parquet.thrift import ThriftError, decode_struct, varint

__all__ = ["check_pages", "page_digit"]

_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = range(4)
_STRUCTS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 2, 3, 4, 8, 9
_UNCOMPRESSED, _ZSTD = 0, 6
_RATIOS = {1: 22, 2: 1032, 5: 255, 6: 32768, 7: 255}
"""To how many bytes one byte can be decompressed at most, by codec. A zstd block of 128 KiB can take four bytes."""

_MAX_HEADER_BYTES = 1 << 20
_MAX_ENCODING = 62
_FRAME_HEADER_BYTES = 18
_FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
_LARGE_BYTES = 64 * 1024 * 1024
_UNKNOWN_NULLS = -1
"""What parquet-mr writes into pages of version 2 when statistics are switched off."""

_Row = npt.NDArray[np.int64]


class _MoreError(Exception):
    """The bytes in hand end before what is to be checked."""


class _FaultError(Exception):
    """A page is wrong."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.name)
        self.fault = fault


def check_pages(data: memoryview, start: int, chunks: npt.NDArray[np.int64]) -> int:
    """Check pages of several chunks as far as their headers are in hand; returns how many chunks are not done yet.

    Args:
        data: The bytes of the file from `start` on.
        start: Where they begin in the file.
        chunks: The numbers of each chunk: see `kernels.numbers.Chunk`. They are changed.
    """
    data = data.cast("B")
    for row in chunks:
        try:
            row[Chunk.FAULT] = 0
            _check_chunk(row, data, start)
        except _FaultError as error:
            row[Chunk.FAULT] = error.fault
    undone = (chunks[:, Chunk.FAULT] != 0) | (chunks[:, Chunk.AT] != chunks[:, Chunk.END])
    return int(undone.sum())


def _check_chunk(row: _Row, data: memoryview, start: int) -> None:
    chunk_end = int(row[Chunk.END])
    known_end = min(start + len(data), chunk_end)
    data = data[: known_end - start] if known_end > start else data[:0]
    while start <= (at := int(row[Chunk.AT])) < known_end:
        try:
            header, content = decode_struct(data, at - start)
            _check_page(row, header, data, content, chunk_end - start - content)
        except _MoreError:
            return
        except ThriftError:
            if known_end == chunk_end or known_end - at > _MAX_HEADER_BYTES:
                raise _FaultError(Fault.HEADER) from None
            return
        except (KeyError, TypeError, AttributeError):
            raise _FaultError(Fault.HEADER) from None
        row[Chunk.AT] = start + content + header[3]
    if row[Chunk.AT] == chunk_end and row[Chunk.VALUES_LEFT]:
        raise _FaultError(Fault.COUNT)


def _check_page(row: _Row, header: dict[int, Any], data: memoryview, content: int, left: int) -> None:
    kind, length, stored = header[1], header[2], header[3]
    _require(length >= 0 and stored >= 0 and kind in (*_STRUCTS, _INDEX_PAGE), Fault.HEADER)
    _require(stored <= left, Fault.CHAIN)
    if row[Chunk.CODEC] == _UNCOMPRESSED:
        _require(length == stored, Fault.SIZES)
    elif kind != _DATA_PAGE_V2:
        _require_room(row, data[content:], stored, length)
    if kind == _INDEX_PAGE:
        return
    described = header[_STRUCTS[kind]]
    if kind == _DICTIONARY_PAGE:
        _check_dictionary(row, described, length)
        return
    values = described[1]
    _require(0 <= values <= row[Chunk.VALUES_LEFT], Fault.COUNT)
    encoding = described[2 if kind == _DATA_PAGE else 4]
    _require(0 <= encoding <= _MAX_ENCODING, Fault.HEADER)
    if kind == _DATA_PAGE:
        _check_v1(row, described, length)
    else:
        _check_v2(row, described, data[content:], stored, length)
    row[Chunk.VALUES_LEFT] -= values
    row[Chunk.ENCODINGS] |= 1 << encoding
    counted = int(row[Chunk.PAGES]) + (1 << page_digit(encoding))
    row[Chunk.PAGES] = (counted + (1 << 63)) % (1 << 64) - (1 << 63)


def page_digit(encoding: int) -> int:
    """By how many bits to shift a page that is counted in `Chunk.PAGES`."""
    place = encoding if encoding <= _BYTE_STREAM_SPLIT else _RLE_DICTIONARY
    return 6 * (_PLAIN_DICTIONARY if encoding == _RLE_DICTIONARY else place)


def _check_dictionary(row: _Row, described: dict[int, Any], length: int) -> None:
    values, encoding = described[1], described[2]
    _require(row[Chunk.AT] == row[Chunk.START] and values >= 0, Fault.DICTIONARY)
    is_plain = encoding in (_PLAIN, _PLAIN_DICTIONARY)
    _require(is_plain and _has_values(int(row[Chunk.WIDTH]), _PLAIN, values, length), Fault.DICTIONARY)


def _check_v1(row: _Row, described: dict[int, Any], length: int) -> None:
    for bits, encoding in (
        (row[Chunk.DEFINITION_BITS], described[3]),
        (row[Chunk.REPETITION_BITS], described[4]),
    ):
        _require(not bits or encoding in (_RLE, _BIT_PACKED), Fault.LEVELS)
        if bits and encoding == _BIT_PACKED:
            row[Chunk.ENCODINGS] |= 1 << _BIT_PACKED
    if not row[Chunk.DEFINITION_BITS] and not row[Chunk.REPETITION_BITS]:
        width, lengths = int(row[Chunk.WIDTH]), (length, length - int(row[Chunk.PADDING]))
        _require(any(_has_values(width, described[2], described[1], each) for each in lengths), Fault.VALUES)


def _check_v2(row: _Row, described: dict[int, Any], data: memoryview, stored: int, length: int) -> None:
    values, rows, encoding, definition, repetition = (described[number] for number in (1, 3, 4, 5, 6))
    nulls = described.get(2, _UNKNOWN_NULLS)
    is_compressed = row[Chunk.CODEC] != _UNCOMPRESSED and described.get(7, True)
    levels = definition + repetition
    _require(_UNKNOWN_NULLS <= nulls <= values and 0 <= rows <= values, Fault.HEADER)
    _require(definition >= 0 and repetition >= 0 and levels <= min(stored, length), Fault.SIZES)
    _require(is_compressed or stored == length, Fault.SIZES)
    definition_bits, repetition_bits = int(row[Chunk.DEFINITION_BITS]), int(row[Chunk.REPETITION_BITS])
    _require(bool(definition_bits) or not definition, Fault.LEVELS)
    _require(bool(repetition_bits) or (not repetition and rows == values), Fault.LEVELS)
    if len(data) < levels:
        raise _MoreError
    if is_compressed:
        _require_room(row, data[levels:], stored - levels, length - levels)
    if repetition_bits:
        _count_levels(data[:repetition], repetition_bits, values)
    defined = _count_levels(data[repetition:levels], definition_bits, values) if definition_bits else values
    if repetition_bits or definition_bits > 1:
        return
    _require(nulls == _UNKNOWN_NULLS or defined == values - nulls, Fault.LEVELS)
    _require(_has_values(int(row[Chunk.WIDTH]), encoding, defined, length - levels), Fault.VALUES)


def _require(condition: object, fault: Fault) -> None:
    if not condition:
        raise _FaultError(fault)


def _require_room(row: _Row, data: memoryview, stored: int, length: int) -> None:
    """Raise unless compressed bytes can be `length` bytes when they are decompressed."""
    if len(data) < min(stored, _FRAME_HEADER_BYTES):
        raise _MoreError
    codec = int(row[Chunk.CODEC])
    _require(codec not in _RATIOS or length <= (stored + 64) * _RATIOS[codec], Fault.SIZES)
    _require(length <= max(_LARGE_BYTES, int(row[Chunk.MAX_LENGTH])), Fault.SIZES)
    if codec == _ZSTD:
        said = _frame_content(data[:stored])
        # There may be more frames behind the first one.
        _require(said is None or said <= length, Fault.SIZES)


def _frame_content(frame: memoryview) -> int | None:
    """What the header of a zstd frame says its content has."""
    if len(frame) < _FRAME_HEADER_BYTES or frame[:4] != _FRAME_MAGIC:
        return None
    flags = frame[4]
    single_segment = (flags >> 5) & 1
    width = (1 << (flags >> 6)) if flags >> 6 else single_segment
    if flags & 3 or width == 0:
        return None
    start = 6 - single_segment
    return int.from_bytes(frame[start : start + width], "little") + (256 if width == 2 else 0)


def _has_values(width: int, encoding: int, values: int, length: int) -> bool:
    """Whether so many values fit the length of a page."""
    if encoding == _PLAIN and width == 0:
        return length >= 4 * values
    if encoding == _PLAIN and width < 0:
        # Parquet.Net wrote one byte more behind eight booleans.
        return length in ((values + 7) >> 3, (values >> 3) + 1)
    if encoding == _PLAIN or (encoding == _BYTE_STREAM_SPLIT and width > 0):
        return length == values * width
    return True


def _count_levels(data: memoryview, bits: int, count: int) -> int:
    """Require that runs hold so many levels, and nothing else; returns how many levels of one bit are 1."""
    at, left, found = 0, count, 0
    try:
        while left > 0:
            head, at = varint(data, at)
            length = head >> 1
            _require(length, Fault.LEVELS)
            if head & 1:
                packed = data[at : at + length * bits]
                _require(len(packed) == length * bits and length * 8 - left <= 7, Fault.LEVELS)
                if bits == 1:
                    found += int(np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")[:left].sum())
                at, left = at + length * bits, left - 8 * length
            else:
                _require(length <= left, Fault.LEVELS)
                if bits == 1 and data[at] == 1:
                    found += length
                at, left = at + ((bits + 7) >> 3), left - length
    except (IndexError, ThriftError):
        raise _FaultError(Fault.LEVELS) from None
    _require(at == len(data), Fault.LEVELS)
    return found
