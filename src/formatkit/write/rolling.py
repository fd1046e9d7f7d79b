"""The files of one partition: rows are gathered until writing them is worth it, files end when they are long enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.typedef import Record

from formatkit.contract import DEFAULT_BATCH_ROWS
from formatkit.write.data_writer import DataFileWriter
from formatkit.write.sorting import Sorter

__all__ = ["FileMaker", "RollingFiles", "concat"]

_GATHERED_ROWS = 8_192
_GATHERED_BYTES = 4 << 20
_SORTED_BYTES = 256 << 20
"""Rows are sorted in memory, so that a sorted file ends here at the latest."""

_HELD_BYTES = 128 << 20
"""A format may keep as much as a row group in memory; what it got before that is on storage."""

_PIECES = 16
"""A file is measured so often on its way to its size at least, so that it gets little longer than that."""


def concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One batch, with memory of its own, of batches that are in one form already: nothing is compiled for it."""
    # Of a single batch Arrow would return the batch itself.
    return pa.concat_batches([*batches, batches[0].slice(0, 0)])  # type: ignore[attr-defined, no-any-return]  # the stubs lack it


class SizeEstimate:
    """How long files really get, as learned from those that are finished.

    Formats guess the length of what they still buffer, and are wrong in the same way each time.
    """

    def __init__(self) -> None:
        self._factor = 1.0

    def corrected(self, told: int) -> float:
        return told * self._factor

    def learn(self, told: int, found: int) -> None:
        self._factor = found / max(told, 1)


@dataclass(frozen=True, kw_only=True)
class FileMaker:
    """What the files of all partitions have in common.

    Attributes:
        open: Begins a file of a partition.
        finish: Describes a file that was closed.
        sorter: Sorts the rows of each file; None if they stay in their order.
        target_bytes: How long a file should get.
        sizes: What is known about how long files get.
    """

    open: Callable[[Record], DataFileWriter]
    finish: Callable[[DataFileWriter, Record], DataFile | None]
    sorter: Sorter | None
    target_bytes: int
    sizes: SizeEstimate = field(default_factory=SizeEstimate)


class RollingFiles:
    """Writes the rows of one partition to one file after the other."""

    def __init__(self, partition: Record, maker: FileMaker) -> None:
        self._partition = partition
        self._maker = maker
        self._gathered: list[pa.RecordBatch] = []
        self._shared: list[pa.RecordBatch] = []
        self._gathered_rows = 0
        self._gathered_bytes = 0
        self._file: DataFileWriter | None = None
        self._file_bytes = 0
        self.finished: list[DataFile] = []

    @property
    def is_open(self) -> bool:
        """Whether there is an unfinished file."""
        return self._file is not None

    @property
    def memory_bytes(self) -> int:
        """At most so much memory becomes free when this is closed."""
        return self._gathered_bytes + min(self._file_bytes, _HELD_BYTES)

    @property
    def is_worth_writing(self) -> bool:
        """Whether enough rows were gathered to write them efficiently."""
        if self._maker.sorter is not None:
            return self._gathered_bytes >= _SORTED_BYTES
        return self._gathered_rows >= _GATHERED_ROWS or self._gathered_bytes >= _GATHERED_BYTES

    def add(self, batch: pa.RecordBatch, *, shared: bool) -> None:
        """Gather rows; nothing is written yet.

        Args:
            batch: The rows.
            shared: Whether they are a part of something larger, whose memory they should not keep for long.
        """
        (self._shared if shared else self._gathered).append(batch)
        self._gathered_rows += batch.num_rows
        self._gathered_bytes += batch.nbytes

    def own(self) -> None:
        """Let go of memory that is shared with other partitions."""
        if self._shared:
            self._gathered.append(concat(self._shared))
            self._shared.clear()

    def write(self) -> None:
        """Write what was gathered. Sorted rows make files of their own."""
        if not self._gathered_rows:
            return
        self._gathered += self._shared
        rows = self._gathered[0] if len(self._gathered) == 1 and not self._shared else concat(self._gathered)
        self._gathered.clear()
        self._shared.clear()
        if self._maker.sorter is not None:
            rows = self._maker.sorter.sort(rows)
        step = self._rows_at_once(rows.num_rows)
        self._gathered_rows = self._gathered_bytes = 0
        for start in range(0, rows.num_rows, step):
            self._write(rows.slice(start, step))
        if self._maker.sorter is not None:
            self._end_file()

    def close(self) -> None:
        """Write everything and finish the file."""
        self.write()
        self._end_file()

    def abort(self) -> None:
        """Give up the unfinished file. Those that are finished are the caller's."""
        self._gathered.clear()
        self._shared.clear()
        if self._file is not None:
            file, self._file = self._file, None
            file.abort()

    def _rows_at_once(self, rows: int) -> int:
        piece = max(self._maker.target_bytes // _PIECES, 1)
        fitting = rows * piece // max(self._gathered_bytes, 1)
        return min(max(fitting, 1), DEFAULT_BATCH_ROWS)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            self._file = self._maker.open(self._partition)
        self._file.write(batch)
        self._file_bytes += batch.nbytes
        # Formats measure what they buffer when they are asked, which is not free; no format doubles what it is given.
        if 2 * self._file_bytes >= self._maker.target_bytes:
            told = self._file.bytes_written()
            if self._maker.sizes.corrected(told) >= self._maker.target_bytes:
                self._end_file()
                self._maker.sizes.learn(told, self.finished[-1].file_size_in_bytes)

    def _end_file(self) -> None:
        if self._file is None:
            return
        file = self._maker.finish(self._file, self._partition)
        self._file, self._file_bytes = None, 0
        if file is not None:
            self.finished.append(file)
