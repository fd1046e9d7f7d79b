"""Decides which columns of a row group are read by taking single values out of their pages, and reads them so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.flat_columns import PAYBACK, FlatColumn, flat_column, has_usual_pages
from formatkit.formats.parquet.footer import RowGroup
from formatkit.formats.parquet.gather import ColumnGatherer
from formatkit.formats.parquet.page_content import UnsuitableError
from formatkit.formats.parquet.page_reader import PageReader
from formatkit.formats.parquet.projection import Projection
from formatkit.formats.parquet.pruning.page_index import ChunkIndex
from formatkit.formats.parquet.read.page_check import PageChecks
from formatkit.formats.parquet.row_ranges import RowNumbers
from formatkit.formats.parquet.text_columns import check_text

__all__ = ["Gathering"]

_MOST_ROWS = 0.25
"""Where a larger share of the rows is wanted it is faster to decode all of them."""


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    """A column that may be read so."""

    flat: FlatColumn
    index: ChunkIndex

    def bytes_to_decode(self, rows: RowNumbers) -> int:
        """How much the pages that hold some rows have to be decompressed to, about."""
        chunk = self.index.chunk
        if (pages := self.index.pages) is None:
            return int(chunk.total_uncompressed_size)
        chosen = np.diff(np.searchsorted(rows, pages.bounds)) > 0
        share = int(pages.sizes[chosen].sum()) / max(chunk.total_compressed_size, 1)
        return int(chunk.total_uncompressed_size * share)


class Gathering:
    """The columns of one row group.

    Args:
        source: The file.
        projection: What is read of it.
        row_group: The row group.
        index_of: Finds the page index of a leaf.
        decode: Decodes a column at some rows with pyarrow.
        counters: Where to count.
        checks: Check pages.
    """

    def __init__(
        self,
        source: ByteSource,
        projection: Projection,
        row_group: RowGroup,
        index_of: Callable[[int], ChunkIndex | None],
        decode: Callable[[int, RowNumbers], pa.Array[Any]],
        counters: MutableMapping[str, int],
        checks: PageChecks,
    ) -> None:
        self._source = source
        self._projection = projection
        self._row_group = row_group
        self._index_of = index_of
        self._decode = decode
        self._counters = counters
        self._checks = checks

    def choose(self, columns: Sequence[int], rows: RowNumbers) -> dict[int, ColumnGatherer]:
        """Those of the columns that are better read so."""
        if len(rows) > self._row_group.rows * _MOST_ROWS:
            return {}
        found = {column: candidate for column in columns if (candidate := self._candidate(column)) is not None}
        if not found or not self._pays(found.values(), rows):
            return {}
        self._counters["columns_gathered"] = self._counters.get("columns_gathered", 0) + len(found)
        return {column: self._gatherer(candidate) for column, candidate in found.items()}

    def _pays(self, candidates: Iterable[_Candidate], rows: RowNumbers) -> bool:
        # If it pays anyway, nobody needs to look at page indexes for that.
        return PAYBACK.paid or PAYBACK.reached(sum(candidate.bytes_to_decode(rows) for candidate in candidates))

    def batches(
        self, columns: Mapping[int, ColumnGatherer], rows: RowNumbers, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The columns at some rows."""
        for start in range(0, len(rows), batch_rows):
            wanted = rows[start : start + batch_rows]
            arrays = [self._values(column, gatherer, wanted) for column, gatherer in columns.items()]
            check_text(arrays, [self._projection.schema.names[column] for column in columns], self._source.location)
            yield self._projection.part(list(columns), arrays)

    def _values(self, column: int, gatherer: ColumnGatherer, rows: RowNumbers) -> pa.Array[Any]:
        try:
            return gatherer.at(rows)
        except UnsuitableError:
            self._counters["columns_gathered_in_vain"] = self._counters.get("columns_gathered_in_vain", 0) + 1
            return self._decode(column, rows)

    def _candidate(self, column: int) -> _Candidate | None:
        flat = flat_column(self._projection, column)
        index = None if flat is None else self._index_of(flat.leaf)
        if flat is None or index is None or not has_usual_pages(index.chunk, index.codec):
            return None
        return _Candidate(flat=flat, index=index)

    def _gatherer(self, candidate: _Candidate) -> ColumnGatherer:
        flat = candidate.flat
        check = self._checks.part(self._row_group, flat.leaf)
        reader = PageReader(self._source, candidate.index, self._row_group.rows, check, optional=flat.optional)
        return ColumnGatherer(reader, flat.element, flat.kind)
