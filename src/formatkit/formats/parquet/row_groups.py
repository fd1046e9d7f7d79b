"""Decides when enough rows are buffered for a row group of the asked size on disk."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

__all__ = ["RowGroupBuffer"]

_SMALLEST_RATIO = 1 / 8
"""Bounds memory: however well the data compresses, no more than eight times the row group size is buffered."""


class RowGroupBuffer:
    """Rows that wait for their row group.

    How many bytes rows take on disk is known only after they were encoded, so the size of a row group is foretold from
    the one before it. Before the first one, `ratio` is None and the owner measures a sample.

    Attributes:
        ratio: Encoded bytes per byte of Arrow memory, as measured last.
    """

    def __init__(self, *, target_bytes: int, max_rows: int, min_rows: int) -> None:
        self._target_bytes = target_bytes
        self._max_rows = max_rows
        self._min_rows = min(min_rows, max_rows)
        self._batches: deque[pa.RecordBatch] = deque()
        self.rows = 0
        self.memory_bytes = 0
        self.ratio: float | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        self.rows += batch.num_rows
        self.memory_bytes += batch.nbytes

    def measured(self, encoded_bytes: int, memory_bytes: int) -> None:
        """Learn from rows that were encoded."""
        self.ratio = max(encoded_bytes / max(memory_bytes, 1), _SMALLEST_RATIO)

    def encoded_bytes(self) -> int:
        """About how many bytes the waiting rows will take on disk."""
        return int(self.memory_bytes * (1.0 if self.ratio is None else self.ratio))

    def rows_of_full_group(self) -> int | None:
        """How many of the waiting rows fill a row group, or None if they do not."""
        if self.rows >= self._min_rows and self.encoded_bytes() >= self._target_bytes:
            fitting = int(self._target_bytes * self.rows / max(self.encoded_bytes(), 1))
            return min(max(fitting, self._min_rows), self._max_rows)
        return self._max_rows if self.rows >= self._max_rows else None

    def sample(self, rows: int) -> pa.RecordBatch:
        """Some of the waiting rows, which stay."""
        return self._batches[0].slice(0, rows)

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """The first rows, which leave the buffer."""
        taken: list[pa.RecordBatch] = []
        while rows > 0:
            batch = self._batches.popleft()
            if batch.num_rows > rows:
                self._batches.appendleft(batch.slice(rows))
                batch = batch.slice(0, rows)
            taken.append(batch)
            rows -= batch.num_rows
            self.rows -= batch.num_rows
            self.memory_bytes -= batch.nbytes
        return taken
