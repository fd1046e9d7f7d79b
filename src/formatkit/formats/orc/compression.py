"""The chunks that every part of an ORC file is cut into when the file is compressed.

A chunk has three bytes before it: its length and whether it is stored as it is. That is legal for every codec, so what
is written here needs none.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import zstandard
from isal import isal_zlib

from formatkit.batches.compiled.zstd import thread_zstd
from formatkit.formats.orc.decoder_room import DecoderRoom
from formatkit.formats.orc.lz4_blocks import LARGEST_IN_FRAMES, lz4_frame, lz4_size
from formatkit.formats.orc.metadata.lzo_blocks import LzoError, lzo_decompressed

__all__ = ["Codec", "CompressionError", "decompress", "decompress_into", "decompressed", "frame"]

Content: TypeAlias = bytes | memoryview

_HEADER_BYTES = 3
_MAX_BLOCK = (1 << 23) - 1
_RAW_DEFLATE = -15
_ZSTD_CALL = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t
)
_ISAL_ERROR: Any = isal_zlib.error


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


class _Chunk(NamedTuple):
    """Some stored bytes, and whether they are the content itself."""

    stored: memoryview
    original: bool


def decompress(data: memoryview, codec: Codec, block_bytes: int) -> bytes:
    """The content of a part of the file as one."""
    return b"".join(decompressed(data, codec, block_bytes))


def decompressed(data: memoryview, codec: Codec, block_bytes: int) -> Iterator[Content]:
    """The content of a part of the file, in pieces that may be used until the next one is asked for."""
    if codec is Codec.NONE:
        yield data
        return
    try:
        yield from _CODECS[codec](_chunks(data), block_bytes)
    except MemoryError:
        # Arrow's is also one of Arrow's other errors.
        raise
    except (_ISAL_ERROR, zstandard.ZstdError, pa.ArrowException, OSError, IndexError, LzoError) as error:
        raise CompressionError(f"a chunk is not {codec.name}: {error}") from error


def decompress_into(room: DecoderRoom, data: memoryview, codec: Codec, block_bytes: int) -> None:
    """Add the content of a part of the file to a room."""
    if codec is Codec.ZSTD and thread_zstd().function:
        _inflate_zstd_into(room, data, block_bytes)
        return
    for piece in decompressed(data, codec, block_bytes):
        room.put(piece)


def _inflate_zstd_into(room: DecoderRoom, data: memoryview, limit: int) -> None:
    """The same without a copy, by the library itself."""
    inflate, context = thread_zstd()
    call = _ZSTD_CALL(inflate)
    for stored, original in _chunks(data):
        if original:
            room.put(stored)
            continue
        target, source = room.extend(limit), pa.py_buffer(stored)
        length = call(context, pa.py_buffer(target).address, limit, source.address, source.size)
        # Errors are numbers larger than any length.
        if length > limit:
            raise CompressionError(f"a chunk is not ZSTD, or holds more than {limit} bytes")
        room.end -= limit - length


def frame(data: bytes, codec: Codec, block_bytes: int) -> bytes:
    """The content as chunks that are stored as they are."""
    if codec is Codec.NONE:
        return data
    size = min(block_bytes, _MAX_BLOCK)
    blocks = (data[start : start + size] for start in range(0, len(data), size))
    return b"".join((len(block) << 1 | 1).to_bytes(_HEADER_BYTES, "little") + block for block in blocks)


def _chunks(data: memoryview) -> Iterator[_Chunk]:
    position, end = 0, len(data)
    while position < end:
        header = int.from_bytes(data[position : position + _HEADER_BYTES], "little")
        position += _HEADER_BYTES
        length = header >> 1
        if position + length > end:
            raise CompressionError(f"a chunk claims {length} bytes, {max(end - position, 0)} are left")
        # Some writers end a stream with an empty chunk.
        if length:
            yield _Chunk(data[position : position + length], bool(header & 1))
            position += length


def _each(inflate: Callable[[memoryview, int], Content]) -> Callable[[Iterator[_Chunk], int], Iterator[Content]]:
    """Decompresses chunks one by one."""

    def inflated(chunks: Iterator[_Chunk], limit: int) -> Iterator[Content]:
        for stored, original in chunks:
            yield stored if original else inflate(stored, limit)

    return inflated


def _inflate_zlib(stored: memoryview, limit: int) -> bytes:
    inflater = isal_zlib.decompressobj(_RAW_DEFLATE)
    # One byte more than allowed, because the end of a stream may show only when more is asked for.
    content: bytes = inflater.decompress(stored, limit + 1)
    if len(content) > limit:
        raise _too_long(limit)
    if not inflater.eof:
        raise CompressionError("a chunk ends before its content does")
    return content


def _inflate_snappy(stored: memoryview, limit: int) -> Content:
    return _inflate_known_size("snappy", stored, _snappy_size(stored), limit)


def _snappy_size(stored: memoryview) -> int:
    size = shift = 0
    for byte in stored[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return size


def _inflate_brotli(stored: memoryview, limit: int) -> Content:
    with pa.CompressedInputStream(pa.BufferReader(stored), "brotli") as stream:
        content: bytes = stream.read(limit + 1)
    if len(content) > limit:
        raise _too_long(limit)
    return content


def _inflate_lz4(chunks: Iterator[_Chunk], limit: int) -> Iterator[Content]:
    """Blocks of LZ4 do not say how long their content is, but frames of them need not."""
    if limit > LARGEST_IN_FRAMES:
        for stored, original in chunks:
            yield stored if original else _inflate_known_size("lz4_raw", stored, lz4_size(stored), limit)
        return
    with pa.CompressedInputStream(pa.BufferReader(lz4_frame(chunks, limit)), "lz4") as stream:
        while content := stream.read(limit):
            yield content


def _inflate_known_size(codec: Literal["snappy", "lz4_raw"], stored: memoryview, size: int, limit: int) -> Content:
    if size > limit:
        raise _too_long(limit)
    return memoryview(_codec(codec).decompress(stored, size)).cast("B") if size else b""


@lru_cache
def _codec(name: Literal["snappy", "lz4_raw"]) -> pa.Codec:
    return pa.Codec(name)


class _ZstdContext(threading.local):
    """What is costly to make, and can be used by one thread at a time."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()


_zstd = _ZstdContext()


def _inflate_zstd(stored: memoryview, limit: int) -> bytes:
    if zstandard.frame_content_size(stored) > limit:
        raise _too_long(limit)
    return _zstd.decompressor.decompress(stored, max_output_size=limit, allow_extra_data=False)


def _too_long(limit: int) -> CompressionError:
    return CompressionError(f"a chunk holds more than {limit} bytes, which is the largest block of the file")


_CODECS: dict[Codec, Callable[[Iterator[_Chunk], int], Iterator[Content]]] = {
    Codec.ZLIB: _each(_inflate_zlib),
    Codec.SNAPPY: _each(_inflate_snappy),
    Codec.LZO: _each(lzo_decompressed),
    Codec.LZ4: _inflate_lz4,
    Codec.ZSTD: _each(_inflate_zstd),
    Codec.BROTLI: _each(_inflate_brotli),
}
