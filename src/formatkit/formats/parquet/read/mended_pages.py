"""Pages that pyarrow cannot decode though others can, in a form that it can.

These are pages without values, behind which pyarrow sees no more pages; differences of 33 bits between numbers of 32
bits, as DuckDB writes them; LZ4 in several parts, as Hadoop writes it; and encodings of no values in no bytes, as
Parquet.Net writes them. The chunks of a row group are copied into a file in memory without compression, each page as it
is unless it is one of these.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.formats.parquet.elements import Physical
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.stored_schema import stored_elements
from formatkit.formats.parquet.thrift import (
    Field,
    ThriftError,
    binaries,
    binary,
    decode_struct,
    encode,
    find_field,
    i32,
    i32s,
    i64,
    list_of,
    nested,
    varint,
)

__all__ = ["mended_file"]

_MAGIC = b"PAR1"
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = range(4)
_STRUCTS = {_DATA_PAGE: 5, _DICTIONARY_PAGE: 7, _DATA_PAGE_V2: 8}
_PLAIN, _RLE, _BIT_PACKED, _DIFFERENCES = 0, 3, 4, 5
_EMPTIED = (_RLE, _DIFFERENCES, 6, 7)
"""Encodings that begin with a number, also where there are no values."""

_UNCOMPRESSED, _BROTLI, _LZ4 = 0, 4, 5
_CODECS: dict[int, Literal["snappy", "gzip", "brotli", "zstd", "lz4_raw"]] = {
    1: "snappy",
    2: "gzip",
    _BROTLI: "brotli",
    6: "zstd",
    7: "lz4_raw",
}
_NO_CHUNK = encode(i64(2, 0))
_LARGE_BYTES = 64 * 1024 * 1024
_STEP_BYTES = 1024 * 1024
_MAX_NUMBERS = 64 * 1024 * 1024
_MAX_BITS = 64
_GOES_ON, _GOES_ON_AGAIN = 15, 255
"""Lengths of LZ4 that are not complete."""


class _UnknownError(Exception):
    """The bytes are in no form that is known here."""


class _Leaf(NamedTuple):
    """How a column is stored."""

    physical: str
    definition_bits: int
    repetition_bits: int
    codec: int
    most_bytes: int


class _Chunk(NamedTuple):
    """A column chunk without compression."""

    data: bytes
    dictionary: int
    is_mended: bool


def mended_file(file: Any, footer: Footer, row_group: RowGroup, leaves: Sequence[int]) -> pa.Buffer | None:
    """A file of this row group alone, with these leaves; None if there is nothing to mend, or nothing that can be."""
    content, position, is_mended = [_MAGIC], len(_MAGIC), False
    chunks = [_NO_CHUNK] * footer.metadata.num_columns
    try:
        for leaf in leaves:
            start, length, uncompressed, values = row_group.extent(leaf)
            column = footer.metadata.schema.column(leaf)
            bits = column.max_definition_level.bit_length(), column.max_repetition_level.bit_length()
            codec = footer.codec(row_group, leaf)
            file.seek(start)
            stored = memoryview(file.read(length))
            chunk = _copied(stored, _Leaf(column.physical_type, *bits, codec, max(uncompressed, _LARGE_BYTES)))
            chunks[leaf] = _chunk_record(column, chunk, values, position)
            content.append(chunk.data)
            position += len(chunk.data)
            is_mended |= chunk.is_mended
    except (_UnknownError, ThriftError, pa.ArrowException, LookupError, TypeError, ValueError, struct.error):
        return None
    except OSError as error:
        # A failure of the storage has a number; pyarrow reports what it cannot decompress without one.
        if error.errno is not None:
            raise
        return None
    if not is_mended:
        return None
    schema = find_field(stored_elements(footer.data).footer_shown(footer.columns.shown), 2)
    rows = row_group.rows
    written = encode(
        i32(1, 1),
        schema,
        i64(3, rows),
        list_of(4, [encode(list_of(1, chunks), i64(2, position), i64(3, rows))]),
        binary(6, footer.created_by.encode()),
    )
    return pa.py_buffer(b"".join((*content, written, struct.pack("<I", len(written)), _MAGIC)))


def _chunk_record(column: pq.ColumnSchema, chunk: _Chunk, values: int, position: int) -> bytes:
    size = len(chunk.data)
    fields = [
        i32(1, Physical[column.physical_type.replace("FIXED_LEN_BYTE_ARRAY", "FIXED")]),
        i32s(2, (_PLAIN, _RLE)),
        binaries(3, ()),
        i32(4, _UNCOMPRESSED),
        i64(5, values),
        i64(6, size),
        i64(7, size),
        i64(9, position + chunk.dictionary),
    ]
    if chunk.dictionary:
        fields.append(i64(11, position))
    return encode(i64(2, 0), nested(3, *fields))


def _copied(stored: memoryview, leaf: _Leaf) -> _Chunk:
    """The pages of a chunk."""
    pages: list[bytes] = []
    at, dictionary, is_mended = 0, 0, False
    while at < len(stored):
        header, at = decode_struct(stored, at)
        kind, length, size = header[1], header[2], header[3]
        page = stored[at : at + size]
        at += size
        if len(page) != size or not 0 <= length <= leaf.most_bytes:
            raise _UnknownError
        if 4 in header and zlib.crc32(page) != header[4] & 0xFFFFFFFF:
            raise _UnknownError
        if kind == _INDEX_PAGE:
            continue
        described = header[_STRUCTS[kind]]
        if kind != _DICTIONARY_PAGE and described[1] == 0:
            is_mended = True
            continue
        levels = described[5] + described[6] if kind == _DATA_PAGE_V2 else 0
        is_plain = leaf.codec == _UNCOMPRESSED or (kind == _DATA_PAGE_V2 and not described.get(7, True))
        if is_plain:
            content, is_odd = bytes(page), False
        else:
            found, is_odd = _decompressed(leaf.codec, bytes(page[levels:]), length - levels)
            content = bytes(page[:levels]) + found
        if kind == _DICTIONARY_PAGE:
            pages.append(_page(kind, content, i32(1, described[1]), i32(2, described[2])))
            dictionary = len(pages[-1])
        else:
            page_bytes, is_other = _data_page(kind, described, content, leaf)
            pages.append(page_bytes)
            is_odd |= is_other
        is_mended |= is_odd
    return _Chunk(b"".join(pages), dictionary, is_mended)


def _page(kind: int, content: bytes, *described: Field) -> bytes:
    size = len(content)
    return encode(i32(1, kind), i32(2, size), i32(3, size), nested(_STRUCTS[kind], *described)) + content


def _data_page(kind: int, described: dict[int, Any], content: bytes, leaf: _Leaf) -> tuple[bytes, bool]:
    """A page of data, and whether it is another one than before."""
    encoding = described[2 if kind == _DATA_PAGE else 4]
    start = described[5] + described[6] if kind == _DATA_PAGE_V2 else _levels_end(described, content, leaf)
    levels, values = content[:start], content[start:]
    is_mended = True
    if encoding in _EMPTIED and not values:
        encoding = _PLAIN
    elif encoding == _DIFFERENCES and leaf.physical == "INT32":
        encoding, values = _PLAIN, _summed(values, described[1]).tobytes()
    else:
        is_mended = False
    numbers = [described[number] for number in range(1, 5 if kind == _DATA_PAGE else 7)]
    numbers[1 if kind == _DATA_PAGE else 3] = encoding
    fields = (i32(number, value) for number, value in enumerate(numbers, start=1))
    return _page(kind, levels + values, *fields), is_mended


def _levels_end(described: dict[int, Any], content: bytes, leaf: _Leaf) -> int:
    """Where the levels at the head of a page of version 1 end."""
    at = 0
    for bits, encoding in ((leaf.repetition_bits, described[4]), (leaf.definition_bits, described[3])):
        if bits and encoding == _BIT_PACKED:
            at += (described[1] * bits + 7) // 8
        elif bits:
            at += 4 + int(struct.unpack_from("<I", content, at)[0])
    if at > len(content):
        raise _UnknownError
    return at


def _summed(data: bytes, most: int) -> npt.NDArray[np.int32]:
    """Numbers of 32 bits that are stored as differences, of whatever width: what is beyond 32 bits wraps around."""
    block, at = varint(data, 0)
    parts, at = varint(data, at)
    count, at = varint(data, at)
    first, at = _signed(data, at)
    if not parts or block % parts or (block // parts) % 8 or count > min(most, _MAX_NUMBERS):
        raise _UnknownError
    size = block // parts
    steps = [np.array([first & 0xFFFFFFFFFFFFFFFF], np.uint64)]
    left = count - 1
    while left > 0:
        least, at = _signed(data, at)
        widths = data[at : at + parts]
        at += parts
        for width in widths[: (min(left, block) + size - 1) // size]:
            packed = data[at : at + size * width // 8]
            at += len(packed)
            if width > _MAX_BITS or len(packed) != size * width // 8:
                raise _UnknownError
            if width:
                bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little").reshape(size, width)
                numbers = bits[:left].astype(np.uint64) @ (np.uint64(1) << np.arange(width, dtype=np.uint64))
            else:
                numbers = np.zeros(min(size, left), np.uint64)
            steps.append(numbers + np.uint64(least & 0xFFFFFFFFFFFFFFFF))
            left -= size
        if len(widths) != parts:
            raise _UnknownError
    sums: npt.NDArray[np.uint64] = np.cumsum(np.concatenate(steps), dtype=np.uint64)
    return sums[:count].astype(np.uint32).view(np.int32)


def _signed(data: bytes, at: int) -> tuple[int, int]:
    number, at = varint(data, at)
    return (number >> 1) ^ -(number & 1), at


def _decompressed(codec: int, data: bytes, length: int) -> tuple[bytes, bool]:
    """The content of a page, and whether it is stored in a way that pyarrow does not know."""
    if not length:
        return b"", False
    if codec == _LZ4:
        return _from_hadoop(data, length)
    if codec == _BROTLI:
        return _from_brotli(data, length), False
    return pa.Codec(_CODECS[codec]).decompress(data, length, asbytes=True), False


def _from_brotli(data: bytes, length: int) -> bytes:
    """Content of which nothing bounds the length but itself, and whose length the codec of pyarrow does not tell."""
    found, left = [], length
    with pa.CompressedInputStream(pa.BufferReader(data), "brotli") as stream:
        while left and (step := stream.read(min(left, _STEP_BYTES))):
            found.append(step)
            left -= len(step)
    if left:
        raise _UnknownError
    return b"".join(found)


def _from_hadoop(data: bytes, length: int) -> tuple[bytes, bool]:
    """Blocks of LZ4, each behind its length; those that were one piece stand behind the length of all of it."""
    found: list[bytes] = []
    at, has_parts = 0, False
    while at < len(data):
        (left,) = struct.unpack_from(">I", data, at)
        at += 4
        number = 0
        while left > 0:
            (size,) = struct.unpack_from(">I", data, at)
            block = data[at + 4 : at + 4 + size]
            at += 4 + size
            if len(block) != size or left > length:
                raise _UnknownError
            found.append(_block(block, left))
            left -= len(found[-1])
            number += 1
        has_parts |= number > 1
    content = b"".join(found)
    if len(content) != length:
        raise _UnknownError
    return content, has_parts


def _block(data: bytes, most: int) -> bytes:
    """The content of one block of LZ4, which has `most` bytes at most; its sequences add up to how many it has."""
    size = at = 0
    while True:
        token = data[at]
        count, at = _lz4_length(data, at + 1, token >> 4)
        at += count
        size += count
        if at >= len(data):
            break
        count, at = _lz4_length(data, at + 2, token & 15)
        size += count + 4
    if not 0 < size <= most:
        raise _UnknownError
    return pa.Codec("lz4_raw").decompress(data, size, asbytes=True)


def _lz4_length(data: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that goes on in further bytes if it is 15."""
    if length == _GOES_ON:
        while True:
            byte = data[at]
            at += 1
            length += byte
            if byte != _GOES_ON_AGAIN:
                break
    return length, at
