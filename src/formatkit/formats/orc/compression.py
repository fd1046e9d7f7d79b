"""The chunks that every part of an ORC file is cut into when the file is compressed.

A chunk has three bytes before it: its length and whether it is stored as it is. That is legal for every codec, so what
is written here needs none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Literal

import pyarrow as pa

from formatkit.errors import UnsupportedError

__all__ = ["Codec", "CompressionError", "decompress", "frame"]

_HEADER_BYTES = 3
_MAX_BLOCK = (1 << 23) - 1


class Codec(IntEnum):
    """How a file is compressed, by the number in its postscript."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


class CompressionError(ValueError):
    """The bytes are not what the codec makes."""


def decompress(data: memoryview, codec: Codec, block_bytes: int) -> bytes:
    """The content of a part of the file that is no longer than some megabytes."""
    if codec is Codec.NONE:
        return bytes(data)
    inflate = _CODECS.get(codec)
    if inflate is None:
        known = ", ".join(sorted(known.name for known in _CODECS))
        raise UnsupportedError(f"the ORC codec {codec.name} cannot be read; known are NONE, {known}")
    blocks = []
    for block, original in _chunks(data, block_bytes):
        try:
            blocks.append(bytes(block) if original else inflate(bytes(block), block_bytes))
        except (zlib.error, pa.ArrowException, OSError, IndexError) as error:
            raise CompressionError(f"a chunk is not {codec.name}: {error}") from error
    return b"".join(blocks)


def frame(data: bytes, codec: Codec, block_bytes: int) -> bytes:
    """The content as chunks that are stored as they are."""
    if codec is Codec.NONE:
        return data
    size = min(block_bytes, _MAX_BLOCK)
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join((len(block) << 1 | 1).to_bytes(_HEADER_BYTES, "little") + block for block in blocks)


def _chunks(data: memoryview, block_bytes: int) -> Iterator[tuple[memoryview, bool]]:
    position, end = 0, len(data)
    while position < end:
        header = int.from_bytes(data[position : position + _HEADER_BYTES], "little")
        position += _HEADER_BYTES
        length = header >> 1
        if position + length > end:
            raise CompressionError(f"a chunk claims {length} bytes, {max(end - position, 0)} are left")
        if length > block_bytes:
            raise CompressionError(f"a chunk has {length} bytes, the largest block of the file {block_bytes}")
        yield data[position : position + length], bool(header & 1)
        position += length


def _inflate_zlib(block: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    content = inflater.decompress(block, limit)
    if not inflater.eof and inflater.decompress(inflater.unconsumed_tail, 1):
        raise CompressionError(f"a chunk holds more than {limit} bytes")
    return content


def _inflate_snappy(block: bytes, limit: int) -> bytes:
    return _inflate_known_size("snappy", block, _snappy_size(block), limit)


def _snappy_size(block: bytes) -> int:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return size


def _inflate_lz4(block: bytes, limit: int) -> bytes:
    return _inflate_known_size("lz4_raw", block, _lz4_size(block), limit)


def _lz4_size(block: bytes) -> int:
    """What the sequences of an LZ4 block add up to; the format itself does not say it."""
    size = position = 0
    while True:
        token = block[position]
        literals, position = _lz4_length(block, position + 1, token >> 4)
        position += literals
        size += literals
        if position >= len(block):
            return size
        copied, position = _lz4_length(block, position + 2, token & 15)
        size += copied + 4


def _lz4_length(block: bytes, position: int, length: int) -> tuple[int, int]:
    if length == 15:
        while (more := block[position]) == 255:
            length += 255
            position += 1
        length += more
        position += 1
    return length, position


def _inflate_known_size(codec: Literal["snappy", "lz4_raw"], block: bytes, size: int, limit: int) -> bytes:
    if size > limit:
        raise CompressionError(f"a chunk holds {size} bytes, the largest block of the file {limit}")
    return bytes(pa.Codec(codec).decompress(block, size, asbytes=True)) if size else b""


def _inflate_zstd(block: bytes, limit: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise CompressionError(f"a chunk holds more than {limit} bytes")
    return bytes(content)


_CODECS: dict[Codec, Callable[[bytes, int], bytes]] = {
    Codec.ZLIB: _inflate_zlib,
    Codec.SNAPPY: _inflate_snappy,
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: _inflate_zstd,
}
