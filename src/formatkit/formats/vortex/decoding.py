"""Runs scans: rows of a range in file order, in batches of Arrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import vortex as vx
import vortex.expr as ve

from formatkit.formats.vortex.failures import reading
from formatkit.formats.vortex.projection import Decoded
from formatkit.formats.vortex.source_reads import SourceReads

__all__ = ["NumberedRows", "RowRange", "Scan"]

_MATCHES = "matches"


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

    def numbered_matches(self, chunks: list[RowRange], condition: Any) -> Generator[NumberedRows]:
        """The rows for which the condition is true, with their ordinals.

        Vortex does not say which rows passed a filter. So each chunk is filtered by itself, which skips it by its
        statistics where they allow it; only where some rows passed and some did not, the condition is asked for again.
        """
        matching = self._file.to_repeated_scan(self._decoded.expression, expr=condition)
        mask = self._file.to_repeated_scan(ve.pack({_MATCHES: condition}))
        kind = pa.struct(list(self._decoded.arrow))
        with reading(self._reads):
            for chunk in chunks:
                for start in range(chunk.start, chunk.end, self._batch_rows):
                    rows = RowRange(start, min(start + self._batch_rows, chunk.end))
                    found = [self._checked(array, kind) for array in matching.execute(row_range=rows)]
                    count = sum(batch.num_rows for batch in found)
                    if count == 0:
                        continue
                    numbers = np.arange(rows.start, rows.end) if count == rows.end - rows.start else _places(mask, rows)
                    position = 0
                    for batch in found:
                        end = position + batch.num_rows
                        yield NumberedRows(self._decoded.complete(batch), rows.start, numbers[position:end])
                        position = end

    def _batches(self, rows: RowRange, condition: Any) -> Iterator[pa.RecordBatch]:
        options: dict[str, Any] = {"expr": condition, "batch_size": self._batch_rows}
        if rows != (0, len(self._file)):
            options["indices"] = vx.Array.from_range(range(*rows))
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
            yield self._checked(array, kind)

    def _checked(self, array: Any, kind: Any) -> pa.RecordBatch:
        batch = pa.RecordBatch.from_struct_array(array.to_arrow_array(arrow_type=kind))
        if self._reads.seal is None:
            batch.validate(full=True)
        return batch


def _places(mask: Any, rows: RowRange) -> Any:
    """The ordinals of the rows for which the mask is true."""
    kind = pa.struct([pa.field(_MATCHES, pa.bool_())])
    parts = [array.to_arrow_array(arrow_type=kind).field(0) for array in mask.execute(row_range=rows)]
    return rows.start + pc.indices_nonzero(pa.chunked_array(parts)).to_numpy().astype(np.int64)
