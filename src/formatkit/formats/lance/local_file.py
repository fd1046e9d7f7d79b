"""Lance opens paths only: the path of a file, and proof that its bytes are those that were written.

Lance ends the whole process if it panics while it decodes, which damaged pages can make it do. Files that were written
here have a seal (`formatkit.contract.seal`), and what is going to be decoded is compared with its checksums first.
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path

from formatkit.contract.seal import Seal, find_seal
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.lance.failures import corrupt

__all__ = ["TAIL_BYTES", "LocalFile"]

MAGIC = b"LANC"
_TAIL = struct.Struct("<QQQIIHH4s")
TAIL_BYTES = _TAIL.size
_STEP_BYTES = 1 << 18


class LocalFile:
    """A Lance file on the local disk; a copy of it if the source is elsewhere, removed when it is closed.

    Attributes:
        path: Where Lance finds it.
        location: How messages call it.
        size: Its length.
        sealed: Whether it has checksums.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.location = source.location
        self.size = source.size()
        column_metadata = self._column_metadata_start()
        self._seal: Seal | None = find_seal(source, TAIL_BYTES)
        self._verified: set[int] = set()
        self._lock = threading.Lock()
        self.sealed = self._seal is not None
        self.verify([ByteRange(column_metadata, self.size - column_metadata)])
        local = source.local_path()
        self.path = os.path.abspath(local) if local is not None else self._copy()  # noqa: PTH100

    def verify(self, ranges: Iterable[ByteRange]) -> None:
        """Compare the blocks that the ranges touch with their checksums, each block once."""
        seal = self._seal
        if seal is None:
            return
        blocks = {
            block
            for part in ranges
            for block in range(part.offset // seal.block_bytes, -(-part.end // seal.block_bytes))
            if block < len(seal.checksums)
        }
        with self._lock:
            for first, last in _runs(sorted(blocks - self._verified), _STEP_BYTES // seal.block_bytes):
                start = first * seal.block_bytes
                end = min(last * seal.block_bytes, seal.data_length)
                seal.verify(self._source, start, self._source.read(start, end - start))
                self._verified.update(range(first, last))

    def close(self) -> None:
        """Remove the copy, if there is one."""
        if self._source.local_path() is None:
            self._remove_copy()

    def _column_metadata_start(self) -> int:
        if self.size < TAIL_BYTES:
            raise corrupt(self.location, f"it has {self.size} bytes, and the shortest one {TAIL_BYTES}")
        start, *_, magic = _TAIL.unpack(self._source.read(self.size - TAIL_BYTES, TAIL_BYTES))
        if magic != MAGIC:
            raise corrupt(self.location, f"it does not end with {MAGIC.decode()}")
        if start > self.size:
            raise corrupt(self.location, "its columns are described outside of it")
        return int(start)

    def _copy(self) -> str:
        self.verify([ByteRange(0, self.size)])
        handle, path = tempfile.mkstemp(prefix="formatkit-", suffix=".lance")
        self._remove_copy = weakref.finalize(self, Path(path).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as copy:
            for start in range(0, self.size, _STEP_BYTES):
                copy.write(self._source.read(start, min(_STEP_BYTES, self.size - start)))
        return path


def _runs(numbers: list[int], longest: int) -> Iterable[tuple[int, int]]:
    """The numbers as ranges [first, last) of consecutive ones."""
    start = 0
    for position in range(1, len(numbers) + 1):
        at_end = position == len(numbers)
        if at_end or numbers[position] != numbers[position - 1] + 1 or position - start >= longest:
            yield numbers[start], numbers[position - 1] + 1
            start = position
