"""Iceberg's AES-GCM streams (AGS1): a file as a sequence of blocks that are encrypted and authenticated one by one.

    "AGS1" | plain block length, 4 bytes LE | block 0 | block 1 | …        block = nonce (12) | ciphertext | tag (16)

All blocks but the last hold exactly the plain block length, and only the sole block of an empty file is empty. What a
block is authenticated with, the file's AAD prefix and the block's number, keeps blocks from being moved within a file
or between files. That whole blocks were cut off the end shows only against a length from elsewhere, which is why the
length of the source should come from the table's metadata.
"""

from __future__ import annotations

import io
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

from formatkit.contract import ByteRange, ByteSink, ByteSource, Encryption, SinkStream
from formatkit.errors import ConfigurationError, CorruptFileError, UnsupportedError
from formatkit.forks import fork_safe

__all__ = ["MAGIC", "StreamCipher", "decrypting_source", "encrypting_sink", "encrypting_stream"]

MAGIC: Final = b"AGS1"
_HEADER: Final = 8
_NONCE: Final = 12
_OVERHEAD: Final = _NONCE + 16
_BLOCK: Final = 1 << 20
"""What Java writes, and the only plain block length that it reads."""

_KEY_LENGTHS: Final = (16, 24, 32)
_CACHED_BLOCKS: Final = 4


def decrypting_source(source: ByteSource, encryption: Encryption) -> ByteSource:
    """The plain bytes of an encrypted file. Closing it does not close `source`.

    Raises:
        CorruptFileError: The file is no AGS1 stream, or its length fits none.
    """
    return _DecryptingSource(source, StreamCipher(encryption))


def encrypting_sink(sink: ByteSink, encryption: Encryption) -> ByteSink:
    """A sink that stores what is written to it encrypted; its streams count plain bytes."""
    return _EncryptingSink(sink, StreamCipher(encryption))


def encrypting_stream(stream: SinkStream, cipher: StreamCipher) -> SinkStream:
    """A stream that stores what is written to it encrypted in `stream`, which is closed and aborted with it."""
    return _EncryptingStream(stream, cipher)


class StreamCipher:
    """Encrypts and decrypts single blocks. It holds no state besides the key, so threads share it."""

    def __init__(self, encryption: Encryption) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            message = "encrypted Avro files need the package cryptography: pip install 'formatkit[encryption]'"
            raise UnsupportedError(message) from error
        if len(encryption.key) not in _KEY_LENGTHS:
            lengths = ", ".join(map(str, _KEY_LENGTHS))
            message = f"the encryption key has {len(encryption.key)} bytes; AES-GCM takes one of {lengths}"
            raise ConfigurationError(message)
        self._aes = AESGCM(encryption.key)
        self._aad_prefix = encryption.aad_prefix
        self._invalid_tag = InvalidTag

    def encrypt(self, number: int, plain: bytes | bytearray | memoryview) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._aes.encrypt(nonce, plain, self._aad(number))

    def decrypt(self, number: int, block: memoryview, location: str) -> bytes:
        try:
            return self._aes.decrypt(block[:_NONCE], block[_NONCE:], self._aad(number))
        except self._invalid_tag as error:
            message = (
                f"block {number} fails authentication: the key or the AAD prefix is another one, or it was changed"
            )
            raise _corrupt(location, message) from error

    def _aad(self, number: int) -> bytes:
        return self._aad_prefix + number.to_bytes(4, "little")


class _DecryptingSource:
    """Decrypts the blocks that a read touches and keeps the last few."""

    def __init__(self, source: ByteSource, cipher: StreamCipher) -> None:
        self._source = source
        self._cipher = cipher
        self._stored = source.size()
        self._block = _block_length(source, self._stored)
        self._size = _plain_length(source.location, self._stored, self._block)
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._lock = fork_safe(threading.Lock())
        # An empty file has nothing to read, and yet must prove that it was meant to be empty.
        self._plain_block(0)

    @property
    def location(self) -> str:
        return self._source.location

    def size(self) -> int:
        return self._size

    def read(self, offset: int, length: int) -> memoryview:
        if offset < 0 or length < 0 or offset + length > self._size:
            message = f"bytes {offset} to {offset + length} are asked for, but the decrypted file has {self._size}"
            raise _corrupt(self.location, message)
        if length == 0:
            return memoryview(b"")
        first, start = divmod(offset, self._block)
        last = (offset + length - 1) // self._block
        if first == last:
            return memoryview(self._plain_block(first))[start : start + length]
        parts = b"".join(self._plain_block(number) for number in range(first, last + 1))
        return memoryview(parts)[start : start + length]

    def prefetch(self, ranges: Sequence[ByteRange]) -> None:
        # In the order of need, and each once, although several ranges may lie in it.
        numbers = dict.fromkeys(number for wanted in ranges for number in self._touched(wanted))
        with self._lock:
            unknown = [number for number in numbers if number not in self._recent]
        self._source.prefetch([self._stored_range(number) for number in unknown])

    def open(self) -> BinaryIO:
        return io.BufferedReader(_SourceFile(self))

    def local_path(self) -> str | None:
        return None

    def close(self) -> None:
        with self._lock:
            self._recent.clear()

    def _plain_block(self, number: int) -> bytes:
        with self._lock:
            if (plain := self._recent.get(number)) is not None:
                self._recent.move_to_end(number)
                return plain
        plain = self._cipher.decrypt(number, self._source.read(*self._stored_range(number)), self.location)
        with self._lock:
            self._recent[number] = plain
            while len(self._recent) > _CACHED_BLOCKS:
                self._recent.popitem(last=False)
        return plain

    def _touched(self, wanted: ByteRange) -> range:
        """The numbers of the blocks that hold a range of plain bytes."""
        start, end = max(wanted.offset, 0), min(wanted.end, self._size)
        return range(start // self._block, -(-end // self._block) if start < end else 0)

    def _stored_range(self, number: int) -> ByteRange:
        start = _HEADER + number * (self._block + _OVERHEAD)
        return ByteRange(start, min(self._block + _OVERHEAD, self._stored - start))


class _SourceFile(io.RawIOBase):
    """A seekable file object over a source, to be wrapped in a `BufferedReader`."""

    def __init__(self, source: _DecryptingSource) -> None:
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size()}[whence]
        if origin + offset < 0:
            raise ValueError(f"cannot seek to {origin + offset}, before the start of the file")
        self._position = origin + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._source.size() - self._position))
        buffer[:length] = self._source.read(self._position, length) if length else b""
        self._position += length
        return length


class _EncryptingSink:
    def __init__(self, sink: ByteSink, cipher: StreamCipher) -> None:
        self._sink = sink
        self._cipher = cipher

    @property
    def location(self) -> str:
        return self._sink.location

    def create(self, *, overwrite: bool = False) -> SinkStream:
        return encrypting_stream(self._sink.create(overwrite=overwrite), self._cipher)


class _EncryptingStream:
    """Collects plain bytes and stores a block whenever one is full."""

    def __init__(self, stream: SinkStream, cipher: StreamCipher) -> None:
        self._stream = stream
        self._cipher = cipher
        self._pending = bytearray()
        self._number = 0
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:
        plain = memoryview(data).cast("B")
        self._pending += plain
        self._size += len(plain)
        while len(self._pending) >= _BLOCK:
            with memoryview(self._pending) as pending:
                self._store(pending[:_BLOCK])
            del self._pending[:_BLOCK]
        return len(plain)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self._stream.closed:
            if self._pending or self._number == 0:
                self._store(self._pending)
                self._pending = bytearray()
            self._stream.close()

    def abort(self) -> None:
        self._pending.clear()
        self._stream.abort()

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def _store(self, plain: bytearray | memoryview) -> None:
        if self._number == 0:
            self._stream.write(MAGIC + _BLOCK.to_bytes(4, "little"))
        self._stream.write(self._cipher.encrypt(self._number, plain))
        self._number += 1


def _block_length(source: ByteSource, stored_length: int) -> int:
    if stored_length < _HEADER:
        raise _corrupt(source.location, f"it has {stored_length} bytes, less than the header of an AES-GCM stream")
    header = bytes(source.read(0, _HEADER))
    if header[:4] != MAGIC:
        raise _corrupt(
            source.location, f"it begins with {header[:4]!r} and not with {MAGIC!r}; is it encrypted at all?"
        )
    length = int.from_bytes(header[4:], "little", signed=True)
    if length <= 0:
        raise _corrupt(source.location, f"its header says that blocks have {length} bytes")
    return length


def _plain_length(location: str, stored_length: int, block: int) -> int:
    full, rest = divmod(stored_length - _HEADER, block + _OVERHEAD)
    if rest == 0 and full > 0:
        return full * block
    if rest > _OVERHEAD or (rest == _OVERHEAD and full == 0):
        return full * block + rest - _OVERHEAD
    raise _corrupt(location, f"{stored_length} bytes are no whole number of blocks; the file is truncated")


def _corrupt(location: str, what: str) -> CorruptFileError:
    return CorruptFileError(f"{location} cannot be decrypted: {what}", location=location)
