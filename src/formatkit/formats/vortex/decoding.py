"""Runs scans: rows of a range in file order, in batches of Arrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import vortex as vx
import vortex.expr as ve

from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.formats.vortex.failures import is_overflow, reading
from formatkit.formats.vortex.projection import Decoded
from formatkit.formats.vortex.source_reads import SourceReads

__all__ = ["NumberedRows", "RowRange", "Scan"]

_MATCHES = "matches"
_DECODED_ROWS = 65_536


class RowRange(NamedTuple):
    """The rows [start, end)."""

    start: int
    end: int


class NumberedRows(NamedTuple):
    """Decoded columns and the ordinals of their rows, which follow one another if only the first is given."""

    columns: pa.RecordBatch
    first_row: int
    numbers: Any = None


class Scan:
    """One projection of one open file.

    Args:
        file: Vortex's own file object, which several scans may use at once.
        reads: Where it reads from.
        decoded: The projection.
        batch_rows: No batch has more rows than this.
    """

    def __init__(self, file: Any, reads: SourceReads, decoded: Decoded, batch_rows: int) -> None:
        self._file = file
        self._reads = reads
        self._decoded = decoded
        self._batch_rows = batch_rows
        # Batches of the usual size are cut from larger ones, because each has its price. Who asks for smaller ones
        # wants little to be decoded.
        self._decoded_rows = batch_rows if batch_rows < DEFAULT_BATCH_ROWS else max(batch_rows, _DECODED_ROWS)

    def rows(self, rows: RowRange, condition: Any = None) -> Generator[NumberedRows]:
        """The rows of the range, without those for which the condition is not true. Then they are not numbered."""
        if rows.start == rows.end:
            return
        with reading(self._reads):
            first_row = rows.start
            for batch in self._batches(rows, condition):
                for start in range(0, batch.num_rows, self._batch_rows):
                    part = batch.slice(start, self._batch_rows)
                    yield NumberedRows(self._decoded.complete(part), first_row)
                    first_row += part.num_rows
            if condition is None and first_row != rows.end:
                message = f"rows {rows.start} to {rows.end} were to be read, and the last one found is {first_row}"
                raise RuntimeError(message)

    def numbered_matches(self, rows: RowRange, condition: Any) -> Generator[NumberedRows]:
        """The rows of the range for which the condition is true, with their ordinals.

        Vortex does not say which rows passed a filter, so a second scan asks for the condition's own value in each row.
        """
        with reading(self._reads), closing(self.rows(rows, condition)) as matches:
            numbers = _Ordinals(self._masks(rows, condition), rows.start)
            for found in matches:
                yield found._replace(numbers=numbers.take(found.columns.num_rows))
            if numbers.left():
                raise RuntimeError("its filtered rows are fewer than those that match")

    def _masks(self, rows: RowRange, condition: Any) -> Iterator[Any]:
        kind = pa.struct([pa.field(_MATCHES, pa.bool_())])
        for array in self._file.scan(ve.pack({_MATCHES: condition}), **self._part(rows)):
            yield array.to_arrow_array(arrow_type=kind).field(0)

    def _batches(self, rows: RowRange, condition: Any) -> Iterator[pa.RecordBatch]:
        done, batch_rows = 0, self._decoded_rows
        while True:
            try:
                for batch in _without_first(self._decoded_batches(rows, condition, batch_rows), done):
                    done += batch.num_rows
                    yield batch
            except (pa.ArrowException, RuntimeError) as error:
                if batch_rows == 1 or not is_overflow(error):
                    raise
                # The texts of so many rows do not fit into one array.
                batch_rows //= 2
            else:
                return

    def _decoded_batches(self, rows: RowRange, condition: Any, batch_rows: int) -> Iterator[pa.RecordBatch]:
        options = {"expr": condition, "batch_size": batch_rows, **self._part(rows)}
        if self._reads.seal is not None:
            reader = self._file.to_arrow(self._decoded.expression, schema=self._decoded.arrow, **options)
            try:
                yield from reader
            finally:
                reader.close()
            return
        # Vortex ends the process if it panics inside Arrow's stream interface, and hands out what it did not check.
        kind = pa.struct(list(self._decoded.arrow))
        for array in self._file.scan(self._decoded.expression, **options):
            batch = pa.RecordBatch.from_struct_array(array.to_arrow_array(arrow_type=kind))
            batch.validate(full=True)
            yield batch

    def _part(self, rows: RowRange) -> dict[str, Any]:
        return {} if rows == (0, len(self._file)) else {"indices": vx.Array.from_range(range(*rows))}


def _without_first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of all rows but the first."""
    for batch in batches:
        left_out = min(rows, batch.num_rows)
        rows -= left_out
        if left_out < batch.num_rows or not batch.num_rows:
            yield batch.slice(left_out)


class _Ordinals:
    """The ordinals of matching rows, worked out as they are asked for."""

    def __init__(self, masks: Iterator[Any], first_row: int) -> None:
        self._masks = masks
        self._next_row = first_row
        self._known = np.zeros(0, np.int64)

    def take(self, count: int) -> Any:
        """The next so many."""
        while len(self._known) < count:
            mask = next(self._masks, None)
            if mask is None:
                raise RuntimeError("its filtered rows are more than those that match")
            found = pc.indices_nonzero(mask).to_numpy().astype(np.int64) + self._next_row
            self._known = np.concatenate((self._known, found))
            self._next_row += len(mask)
        taken, self._known = self._known[:count], self._known[count:]
        return taken

    def left(self) -> bool:
        return len(self._known) > 0 or any(mask.true_count for mask in self._masks)
