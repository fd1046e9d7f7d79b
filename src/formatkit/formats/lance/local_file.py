"""Lance opens paths only: the path of a file, and proof that its bytes are those that were written.

Lance ends the whole process if it panics while it decodes, which damaged pages can make it do. Files that were written
here have a seal (`formatkit.contract.seal`), and what is going to be decoded is compared with its checksums first.
"""

from __future__ import annotations

import os
import struct
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from formatkit.contract.file_end import FileEnd
from formatkit.contract.seal import Seal, find_seal
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.forks import finalize_here, fork_safe
from formatkit.formats.lance.column_buffers import UnknownDescriptionError, column_buffers
from formatkit.formats.lance.failures import corrupt

__all__ = ["TAIL_BYTES", "LocalFile"]

MAGIC = b"LANC"
_TAIL = struct.Struct("<QQQIIHH4s")
TAIL_BYTES = _TAIL.size
_PLACE = struct.Struct("<QQ")
_STEP_BYTES = 1 << 20


class _Tail(NamedTuple):
    """What the last bytes of a file say. Offsets and lengths of other things stand in tables."""

    columns_start: int
    column_places_start: int
    global_places_start: int
    global_count: int
    column_count: int
    major: int
    minor: int
    magic: bytes


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
        self._end = FileEnd(source)
        self._tail = self._read_tail()
        self._seal: Seal | None = find_seal(self._end, TAIL_BYTES)
        self._verified: set[int] = set()
        self._lock = fork_safe(threading.Lock())
        self.sealed = self._seal is not None
        local = source.local_path()
        if local is not None:
            self.path = os.path.abspath(local)  # noqa: PTH100
            self.verify([ByteRange(self._tail.columns_start, self.size - self._tail.columns_start)])
        else:
            self.path = self._copy()

    def buffers(self, columns: Sequence[int], count: int) -> list[ByteRange]:
        """What is to be verified before columns are decoded, by their numbers, in a file that should have `count`.

        That is all of the file if it has more or fewer columns, or says where they are in a way that is not known.
        """
        if self._seal is None:
            return []
        if len(columns) < count == self._tail.column_count:
            try:
                return [buffer for column in columns for buffer in self._buffers(self._seal, column)]
            except UnknownDescriptionError:
                pass
        return [ByteRange(0, self.size)]

    def announce(self, ranges: Iterable[ByteRange]) -> None:
        """Say what is going to be verified. Lance finds it in the memory of the operating system then."""
        if self._seal is not None:
            self._source.prefetch([self._bytes_of(self._seal, run) for run in self._unverified(self._seal, ranges)])

    def verify(self, ranges: Iterable[ByteRange]) -> None:
        """Compare the blocks that the ranges touch with their checksums, each block once."""
        if self._seal is None:
            return
        with self._lock:
            for run in self._unverified(self._seal, ranges):
                self._verify_run(self._seal, run)

    def close(self) -> None:
        """Remove the copy, if there is one."""
        if self._source.local_path() is None:
            self._remove_copy()

    def _unverified(self, seal: Seal, ranges: Iterable[ByteRange]) -> Iterator[range]:
        """The blocks that the ranges touch, in runs."""
        blocks = {
            block
            for part in ranges
            for block in range(part.offset // seal.block_bytes, -(-part.end // seal.block_bytes))
            if block < len(seal.checksums)
        }
        return _runs(sorted(blocks - self._verified), _STEP_BYTES // seal.block_bytes)

    def _bytes_of(self, seal: Seal, run: range) -> ByteRange:
        start = run.start * seal.block_bytes
        return ByteRange(start, min(run.stop * seal.block_bytes, seal.data_length) - start)

    def _verify_run(self, seal: Seal, run: range) -> memoryview:
        part = self._bytes_of(seal, run)
        data = self._source.read(*part)
        seal.verify(self._source, part.offset, data)
        self._verified.update(run)
        return data

    def _buffers(self, seal: Seal, column: int) -> Iterator[ByteRange]:
        place = self._tail.column_places_start + _PLACE.size * column
        offset, length = _PLACE.unpack(self._described(seal, place, _PLACE.size))
        return column_buffers(self._described(seal, offset, length))

    def _described(self, seal: Seal, offset: int, length: int) -> memoryview:
        if offset < self._tail.columns_start or length > self.size - offset:
            raise UnknownDescriptionError("a column is described elsewhere")
        return seal.read(self._end, offset, length)

    def _read_tail(self) -> _Tail:
        if self.size < TAIL_BYTES:
            raise corrupt(self.location, f"it has {self.size} bytes, and the shortest one {TAIL_BYTES}")
        tail = _Tail(*_TAIL.unpack(self._end.read(self.size - TAIL_BYTES, TAIL_BYTES)))
        if tail.magic != MAGIC:
            raise corrupt(self.location, f"it does not end with {MAGIC.decode()}")
        if tail.columns_start > self.size:
            raise corrupt(self.location, "its columns are described outside of it")
        return tail

    def _copy(self) -> str:
        self.announce([ByteRange(0, self.size)])
        handle, path = tempfile.mkstemp(prefix="formatkit-", suffix=".lance")
        self._remove_copy = finalize_here(self, Path(path).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as copy:
            if self._seal is None:
                steps = [
                    ByteRange(start, min(_STEP_BYTES, self.size - start)) for start in range(0, self.size, _STEP_BYTES)
                ]
                self._source.prefetch(steps)
                for step in steps:
                    copy.write(self._source.read(*step))
            else:
                for run in self._unverified(self._seal, [ByteRange(0, self.size)]):
                    copy.write(self._verify_run(self._seal, run))
                copy.write(self._seal.behind_data)
        return path


def _runs(numbers: list[int], longest: int) -> Iterator[range]:
    """The numbers as ranges of consecutive ones."""
    start = 0
    for position in range(1, len(numbers) + 1):
        at_end = position == len(numbers)
        if at_end or numbers[position] != numbers[position - 1] + 1 or position - start >= longest:
            yield range(numbers[start], numbers[position - 1] + 1)
            start = position
