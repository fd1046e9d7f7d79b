"""The block codecs of Avro container files, in both directions."""

from __future__ import annotations

import bz2
import lzma
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import zstandard
from isal import isal_zlib

from formatkit.formats.avro.failures import BlockError, LongBlockError

__all__ = ["CODECS", "MAX_BLOCK_BYTES", "compress", "decompress"]

Data: TypeAlias = "bytes | memoryview"

MAX_BLOCK_BYTES = 512 * 1024 * 1024
"""Blocks that would grow beyond this are refused, lest a few damaged bytes take all memory."""

_CHECKSUM_BYTES = 4
_LENGTH_BYTES = 4
_RAW_DEFLATE = -15
# Iceberg's default.
_ZSTD_LEVEL = 1
_ISAL_ERROR: Any = isal_zlib.error
# Enough for the dictionary of the highest preset, not for the gigabytes that a damaged header may ask for.
_XZ_MEMORY = 128 * 1024 * 1024
_PIECE_BYTES = 16 * 1024 * 1024


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: Data, max_length: int) -> bytes | bytearray: ...


def decompress(codec: str, data: memoryview, limit: int = MAX_BLOCK_BYTES) -> memoryview:
    """The block as it was before it was compressed.

    Raises:
        BlockError: The data is damaged.
        LongBlockError: It is longer than `limit` once decompressed.
    """
    try:
        return _DECOMPRESSORS[codec](data, limit)
    except MemoryError:
        # Arrow's is also one of Arrow's other errors.
        raise
    except (_ISAL_ERROR, lzma.LZMAError, pa.ArrowException, OSError, EOFError) as error:
        raise BlockError(f"its {codec} data is damaged: {error}") from error


def compress(codec: str, data: Data, level: int | None = None) -> bytes | memoryview:
    """The block as it is stored. `level` is in the codec's own scale; None is its default."""
    return _COMPRESSORS[codec](data, level)


def _stored(data: memoryview, _limit: int) -> memoryview:
    return data


def _inflate(data: memoryview, limit: int) -> memoryview:
    # Old writers leave a part of a zlib checksum behind the deflate stream.
    return _drain(isal_zlib.decompressobj(_RAW_DEFLATE), data, limit, trailing=_CHECKSUM_BYTES)


def _drain(decompressor: _Decompressor, data: memoryview, limit: int, trailing: int = 0) -> memoryview:
    # One byte more than allowed, because the end of a stream may show only when more is asked for.
    plain = decompressor.decompress(data, limit + 1)
    if len(plain) > limit:
        raise _too_long(limit)
    if not decompressor.eof:
        raise BlockError("its compressed data ends too early")
    if len(decompressor.unused_data) > trailing:
        raise BlockError(f"{len(decompressor.unused_data)} bytes follow its compressed data")
    return memoryview(plain)


def _unsnap(data: memoryview, limit: int) -> memoryview:
    if len(data) <= _CHECKSUM_BYTES:
        raise BlockError("it is too short to hold snappy data and a checksum")
    compressed, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    length = _snappy_length(compressed)
    # Each byte of snappy data stands for at most 64 bytes, in whole copies of that length.
    if length > limit or length > 64 * len(compressed):
        raise _too_long(limit)
    plain = _view(_snappy().decompress(compressed, length))
    if isal_zlib.crc32(plain) != int.from_bytes(checksum, "big"):
        raise BlockError("its checksum does not fit its bytes")
    return plain


def _snappy_length(data: memoryview) -> int:
    length = 0
    for place, byte in enumerate(data[:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length
    raise BlockError("its snappy data does not say how long it is")


def _unzstd(data: memoryview, limit: int) -> memoryview:
    length = _zstd_length(data)
    if length is not None and length > limit:
        raise _too_long(limit)
    if length:
        try:
            return memoryview(_contexts.decompressor.decompress(data, allow_extra_data=False))
        except zstandard.ZstdError:
            # More than one frame; the stream below also tells damage from that.
            pass
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), "zstd") as stream:
        plain = stream.read(limit + 1)
    if len(plain) > limit:
        raise _too_long(limit)
    return memoryview(plain)


def _zstd_length(data: memoryview) -> int | None:
    """The length that the header of the first frame promises, if it does."""
    if len(data) < 5 or bytes(data[:4]) != b"\x28\xb5\x2f\xfd":
        raise BlockError("it does not begin like zstandard data")
    descriptor = data[4]
    size_flag, single_segment, dictionary_flag = descriptor >> 6, descriptor >> 5 & 1, descriptor & 3
    width = (single_segment, 2, 4, 8)[size_flag]
    start = 5 + (not single_segment) + (0, 1, 2, 4)[dictionary_flag]
    if not width or len(data) < start + width:
        return None
    return int.from_bytes(data[start : start + width], "little") + (256 if width == 2 else 0)


def _unlz4(data: memoryview, limit: int) -> memoryview:
    """An LZ4 block behind its decompressed length: not in Avro's spec, but fastavro writes it."""
    length, compressed = int.from_bytes(data[:_LENGTH_BYTES], "little"), data[_LENGTH_BYTES:]
    if length > limit:
        raise _too_long(limit)
    # Arrow returns as many bytes as it is asked for, whatever number of them it decompressed.
    if _lz4_length(bytes(compressed)) != length:
        raise BlockError("its LZ4 data has another length than it says")
    return _view(_lz4().decompress(compressed, length)) if length else memoryview(b"")


def _lz4_length(data: bytes) -> int:
    """How long an LZ4 block is once decompressed, by the lengths of its literals and matches."""
    length = place = 0
    try:
        while place < len(data):
            token = data[place]
            literals, place = _lz4_run(data, place + 1, token >> 4)
            place += literals
            length += literals
            if place < len(data):
                match, place = _lz4_run(data, place + 2, token & 15)
                length += match + 4
    except IndexError:
        place = -1
    if place != len(data):
        raise BlockError("its LZ4 data ends too early")
    return length


def _lz4_run(data: bytes, place: int, length: int) -> tuple[int, int]:
    """The length of a run of literals or of a match, and the place behind it."""
    if length == 15:
        while True:
            byte = data[place]
            place += 1
            length += byte
            if byte < 255:
                break
    return length, place


def _unbzip2(data: memoryview, limit: int) -> memoryview:
    return _drain(_InPieces(bz2.BZ2Decompressor()), data, limit)


def _unxz(data: memoryview, limit: int) -> memoryview:
    return _drain(_InPieces(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)), data, limit)


class _InPieces:
    """Decompresses a piece at a time. At once, the libraries of Python need twice the memory of the result."""

    def __init__(self, decompressor: bz2.BZ2Decompressor | lzma.LZMADecompressor) -> None:
        self._decompressor = decompressor

    @property
    def eof(self) -> bool:
        return self._decompressor.eof

    @property
    def unused_data(self) -> bytes:
        return self._decompressor.unused_data

    def decompress(self, data: Data, max_length: int) -> bytearray:
        plain = bytearray()
        while not self.eof and len(plain) < max_length:
            piece = self._decompressor.decompress(data, min(_PIECE_BYTES, max_length - len(plain)))
            if not piece and self._decompressor.needs_input:
                break
            plain += piece
            data = b""
        return plain


def _too_long(limit: int) -> LongBlockError:
    return LongBlockError(f"it would be longer than {limit} bytes once decompressed")


class _ZstdContexts(threading.local):
    """What is costly to make, and can be used by one thread at a time."""

    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}


_contexts = _ZstdContexts()


@lru_cache(1)
def _snappy() -> Any:
    return pa.Codec("snappy")


@lru_cache(1)
def _lz4() -> Any:
    return pa.Codec("lz4_raw")


def _view(buffer: pa.Buffer) -> memoryview:
    """The bytes of a buffer, which Arrow shows as signed."""
    return memoryview(buffer).cast("B")


def _store(data: Data, _level: int | None) -> memoryview:
    return memoryview(data)


def _deflate(data: Data, level: int | None) -> bytes:
    compressed: bytes = isal_zlib.compress(data, _isal_level(level), _RAW_DEFLATE)
    return compressed


def _isal_level(level: int | None) -> int:
    """The level of the library, which has 0 to 3, for one of zlib's scale, 0 to 9."""
    return 2 if level is None else min(3, (level + 2) // 3)


def _snap(data: Data, _level: int | None) -> bytes:
    return b"".join((_snappy().compress(data), isal_zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big")))


def _zstd(data: Data, level: int | None) -> bytes:
    level = _ZSTD_LEVEL if level is None else level
    if (compressor := _contexts.compressors.get(level)) is None:
        compressor = _contexts.compressors[level] = zstandard.ZstdCompressor(level)
    return compressor.compress(data)


def _bzip2(data: Data, level: int | None) -> bytes:
    return bz2.compress(data, 9 if level is None else level)


def _xz(data: Data, level: int | None) -> bytes:
    return lzma.compress(data, preset=level)


_DECOMPRESSORS: dict[str, Callable[[memoryview, int], memoryview]] = {
    "null": _stored,
    "deflate": _inflate,
    "snappy": _unsnap,
    "zstandard": _unzstd,
    "bzip2": _unbzip2,
    "xz": _unxz,
    "lz4": _unlz4,
}
_COMPRESSORS: dict[str, Callable[[Data, int | None], bytes | memoryview]] = {
    "null": _store,
    "deflate": _deflate,
    "snappy": _snap,
    "zstandard": _zstd,
    "bzip2": _bzip2,
    "xz": _xz,
}

CODECS = tuple(_DECOMPRESSORS)
"""The names as files spell them."""
