"""Parquet files of one column whose pages are made byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise, repeat
from typing import NamedTuple

from formatkit.formats.parquet.thrift import binaries, binary, encode, i32, i32s, i64, list_of, nested
from support.foreign_parquet import REQUIRED

__all__ = ["DIFFERENCES", "PLAIN", "RLE", "Column", "columns", "data_page", "differences", "levels", "one_column"]

PLAIN, RLE, DIFFERENCES = 0, 3, 5
_ENCODINGS = (PLAIN, RLE, DIFFERENCES)


def one_column(
    physical: int,
    pages: Sequence[bytes],
    rows: int,
    *,
    repetition: int = REQUIRED,
    codec: int = 0,
    encodings: Sequence[int] = _ENCODINGS,
    by: str = "test",
) -> bytes:
    """A file of these pages in one row group."""
    return columns([Column(physical, pages, repetition, codec, encodings=encodings)], rows, by=by)


class Column(NamedTuple):
    """A column of `rows` rows.

    Attributes:
        physical: Its type.
        pages: Its pages.
        repetition: Whether it is required.
        codec: What pages are compressed with.
        page_rows: The rows of each page, if an offset index is to tell where they are.
        encodings: Those that the footer lists.
    """

    physical: int
    pages: Sequence[bytes]
    repetition: int = REQUIRED
    codec: int = 0
    page_rows: Sequence[int] = ()
    encodings: Sequence[int] = _ENCODINGS


def columns(stored: Sequence[Column], rows: int, *, by: str = "test") -> bytes:
    """A file of columns `a`, `b` and so on in one row group."""
    content = b"PAR1"
    chunks = []
    for name, column in zip("abc", stored, strict=False):
        start, places = len(content), []
        for page, first_row in zip(column.pages, accumulate(column.page_rows or repeat(0), initial=0), strict=False):
            places.append(encode(i64(1, len(content)), i32(2, len(page)), i64(3, first_row)))
            content += page
        chunk = nested(
            3,
            i32(1, column.physical),
            i32s(2, column.encodings),
            binaries(3, [name.encode()]),
            i32(4, column.codec),
            i64(5, rows),
            i64(6, 1 << 20),
            i64(7, len(content) - start),
            i64(9, start),
        )
        index = encode(list_of(1, places)) if column.page_rows else b""
        where = (i64(4, len(content)), i32(5, len(index))) if index else ()
        chunks.append(encode(i64(2, start), chunk, *where))
        content += index
    elements = [
        encode(i32(1, column.physical), i32(3, column.repetition), binary(4, name.encode()))
        for name, column in zip("abc", stored, strict=False)
    ]
    footer = encode(
        i32(1, 1),
        list_of(2, [encode(binary(4, b"schema"), i32(5, len(elements))), *elements]),
        i64(3, rows),
        list_of(4, [encode(list_of(1, chunks), i64(2, len(content)), i64(3, rows))]),
        binary(6, by.encode()),
    )
    return content + footer + struct.pack("<I", len(footer)) + b"PAR1"


def data_page(
    content: bytes,
    values: int,
    encoding: int = PLAIN,
    *,
    compress: Callable[[bytes], bytes] = bytes,
    level_encoding: int = RLE,
) -> bytes:
    """A page of version 1."""
    stored = compress(content)
    described = i32(1, values), i32(2, encoding), i32(3, level_encoding), i32(4, RLE)
    return encode(i32(1, 0), i32(2, len(content)), i32(3, len(stored)), nested(5, *described)) + stored


def levels(valid: Sequence[bool]) -> bytes:
    """Definition levels of one bit, each in a run of its own."""
    runs = b"".join(bytes([2, int(one)]) for one in valid)
    return struct.pack("<I", len(runs)) + runs


def differences(numbers: Sequence[int], *, block: int = 128, parts: int = 4) -> bytes:
    """Numbers in DELTA_BINARY_PACKED; differences keep all of their bits, however many these are."""
    steps = [after - before for before, after in pairwise(numbers)]
    out = _varint(block) + _varint(parts) + _varint(len(numbers)) + _zigzag(numbers[0] if numbers else 0)
    size = block // parts
    for start in range(0, len(steps), block):
        least = min(steps[start : start + block])
        pieces = [
            [step - least for step in steps[at : min(at + size, start + block)]]
            for at in range(start, start + block, size)
        ]
        widths = [max(piece, default=0).bit_length() for piece in pieces]
        out += _zigzag(least) + bytes(widths)
        for piece, width in zip(pieces, widths, strict=True):
            packed = sum(number << (width * place) for place, number in enumerate(piece))
            out += packed.to_bytes(size * width // 8, "little") if piece else b""
    return out


def _zigzag(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
