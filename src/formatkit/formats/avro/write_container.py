"""The outer form of an Avro file while it is written: the header, then compressed blocks between sync markers."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from formatkit.contract import SinkStream
from formatkit.errors import UnsupportedError
from formatkit.forks import keep_for_ever, renew_after_fork
from formatkit.formats.avro.codecs import compress
from formatkit.formats.avro.container import MAGIC, SYNC_BYTES
from formatkit.formats.avro.encode import EncodedBlock

__all__ = ["ContainerOutput"]

# More do not help, because one thread encodes the blocks.
_MOST_THREADS = 4


class ContainerOutput:
    """Stores blocks in their order. While some are compressed in threads of the file's own, the next is encoded."""

    def __init__(self, stream: SinkStream, metadata: Mapping[str, bytes], codec: str, level: int | None) -> None:
        self._stream = stream
        self._codec = codec
        self._level = level
        self._sync = os.urandom(SYNC_BYTES)
        self._header: bytes | None = _header({**metadata, "avro.codec": codec.encode()}, self._sync)
        self._waiting: deque[tuple[EncodedBlock, Future[bytes | memoryview]]] = deque()
        self._threads = min(os.cpu_count() or 1, _MOST_THREADS)
        self._pool: ThreadPoolExecutor | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """Leave the file to the parent, whose threads compress its blocks."""
        keep_for_ever(self._pool)
        self._pool = None
        lost: Future[bytes | memoryview] = Future()
        lost.set_exception(
            UnsupportedError("this Avro file is written by the process from which this one was forked; write another")
        )
        self._waiting = deque((block, lost) for block, _ in self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of blocks that are not stored yet, as they were before compression."""
        return sum(len(block.data) for block, _ in self._waiting)

    def write(self, block: EncodedBlock) -> None:
        if self._codec == "null" or self._threads == 1:
            self._store_block(block.rows, compress(self._codec, block.data, self._level))
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="formatkit-avro")
        self._waiting.append((block, self._pool.submit(compress, self._codec, block.data, self._level)))
        while self._waiting and (len(self._waiting) > 2 * self._threads or self._waiting[0][1].done()):
            self._store_oldest()

    def finish(self, last: EncodedBlock | None) -> None:
        """Store all that was written, then `last`, and close the stream."""
        # First, while threads are still busy with the others.
        compressed = b"" if last is None else compress(self._codec, last.data, self._level)
        while self._waiting:
            self._store_oldest()
        if last is not None:
            self._store_block(last.rows, compressed)
        self.stop()
        self._stream.close()

    def stop(self) -> None:
        """Forget what is not stored yet. May be called at any time, and twice."""
        pool, self._pool = self._pool, None
        self._waiting.clear()
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    def _store_oldest(self) -> None:
        block, compressed = self._waiting.popleft()
        self._store_block(block.rows, compressed.result())

    def _store_block(self, rows: int, data: bytes | memoryview) -> None:
        if self._header is not None:
            self._stream.write(self._header)
            self._header = None
        self._stream.write(_long(rows) + _long(len(data)))
        self._stream.write(data)
        self._stream.write(self._sync)


def _header(metadata: Mapping[str, bytes], sync: bytes) -> bytes:
    pairs = [_bytes(key.encode()) + _bytes(value) for key, value in metadata.items()]
    return MAGIC + _long(len(pairs)) + b"".join(pairs) + _long(0) + sync


def _bytes(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(value: int) -> bytes:
    """A number that is not negative in Avro's form: zigzag, then seven bits a byte, the lowest first."""
    rest, encoded = 2 * value, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
