"""Where the pages of a column chunk are and what their values are between, if the file has a page index.

Both indexes are claims. Locations must tile the chunk and its rows, and what is claimed about pages must be possible;
otherwise the index is dropped, and the chunk is read as a whole. Pages that are read must be what the offset index
says, or `PageIndexError` asks for the same.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import NOTHING, ColumnGate, Hint, count_dropped
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.forks import cached
from formatkit.formats.parquet.chunk_record import ChunkRecord, chunk_start
from formatkit.formats.parquet.pruning.offset_index import page_locations
from formatkit.formats.parquet.pruning.statistics import StoredLeaf, stored_nulls
from formatkit.formats.parquet.row_ranges import RowNumbers
from formatkit.formats.parquet.thrift import ThriftError, decode_struct

__all__ = ["DICTIONARY_ENCODINGS", "ChunkIndex", "PageIndexError", "Pages"]

DICTIONARY_ENCODINGS = (2, 8)
_SMALLEST_OFFSET = 4
_REMEMBERED_INDEXES = 128
_REMEMBERED_BYTES = 8 * 1024


@dataclass(frozen=True, kw_only=True)
class Pages:
    """The data pages of a chunk.

    Attributes:
        offsets: Where each page's header begins in the file.
        sizes: How long each page is, with its header.
        bounds: The number of each page's first row within the row group, and the number of rows at the end.
    """

    offsets: RowNumbers
    sizes: RowNumbers
    bounds: RowNumbers

    @cached
    def rows(self) -> RowNumbers:
        """How many rows each page holds."""
        return np.diff(self.bounds)


class PageIndexError(Exception):
    """A page is not what the offset index of its chunk says. The chunk is to be read as a whole."""

    def __init__(self, index: ChunkIndex) -> None:
        super().__init__(index.chunk.path_in_schema)
        self.index = index


class ChunkIndex:
    """The page index of one column chunk, read when it is asked for.

    Args:
        source: The file.
        chunk: What pyarrow knows about the chunk.
        record: What the footer says beyond that.
        rows: How many rows its row group has.
        counters: Where to count what is dropped.
    """

    def __init__(
        self,
        source: ByteSource,
        chunk: pq.ColumnChunkMetaData,
        record: ChunkRecord,
        rows: int,
        counters: MutableMapping[str, int] | None = None,
    ) -> None:
        self.chunk = chunk
        self.codec = record.codec
        self._source = source
        self._record = record
        self._rows = rows
        self._counters = {} if counters is None else counters
        self._is_dropped = False
        self._metrics_dropped = False

    @cached
    def dictionary_pages(self) -> int:
        """How many data pages are known to be dictionary-encoded; writers put them before all others."""
        return sum(count for encoding, count in self._record.page_encodings if encoding in DICTIONARY_ENCODINGS)

    @cached
    def all_dictionary(self) -> bool:
        """Whether every data page is known to be dictionary-encoded."""
        found = self._record.page_encodings
        return bool(found) and all(encoding in DICTIONARY_ENCODINGS for encoding, _ in found)

    def can_have(self, page: int, encoding: int) -> bool:
        """Whether a data page can have an encoding, by its number and by how many pages there are of each."""
        found = self._record.page_encodings
        is_dictionary = encoding in DICTIONARY_ENCODINGS
        return not found or (
            is_dictionary == (page < self.dictionary_pages)
            and (is_dictionary or any(encoding == one for one, _ in found))
        )

    @property
    def pages(self) -> Pages | None:
        """The pages, or None if their places are not known."""
        return None if self._is_dropped else self._pages

    def drop(self) -> None:
        """Forget an index that pages do not agree with."""
        if not self._is_dropped:
            self._is_dropped = True
            count_dropped(self._counters, Hint.OFFSET_INDEXES)

    @cached
    def _pages(self) -> Pages | None:
        place = self._record.offset_index
        if place is None:
            return None
        try:
            stored = page_locations(self._read(place) or b"")
        except ThriftError:
            stored = None
        if stored is not None and len(stored):
            pages = Pages(offsets=stored[:, 0], sizes=stored[:, 1], bounds=np.append(stored[:, 2], self._rows))
            if self._are_possible(pages):
                return pages
        self.drop()
        return None

    def metrics(self, leaf: StoredLeaf) -> Sequence[ColumnMetrics] | None:
        """What is known about the values of each page, or None if nothing is."""
        pages, place = self.pages, self._record.column_index
        if pages is None or place is None:
            return None
        data = self._read(place) or b""
        decode = _metrics if len(data) <= _REMEMBERED_BYTES else _metrics.__wrapped__
        found = decode(data, leaf, tuple(pages.rows.tolist()), stored_nulls(self._record))
        if found.dropped and not self._metrics_dropped:
            self._metrics_dropped = True
            count_dropped(self._counters, Hint.COLUMN_INDEXES)
        return found.pages

    def _read(self, place: ByteRange) -> bytes | None:
        try:
            return bytes(self._source.read(*place))
        except CorruptFileError:
            return None

    def _are_possible(self, pages: Pages) -> bool:
        """Whether pages follow one another from the first data page to the end of the chunk, and so do their rows."""
        chunk, ends = self.chunk, pages.offsets + pages.sizes
        return bool(
            chunk_start(chunk) >= _SMALLEST_OFFSET
            and pages.offsets[0] == chunk.data_page_offset
            and pages.bounds[0] == 0
            and (pages.rows > 0).all()
            and (pages.sizes > 0).all()
            and (pages.offsets[1:] == ends[:-1]).all()
            and ends[-1] == chunk_start(chunk) + chunk.total_compressed_size
        )


class _PageMetrics(NamedTuple):
    """What can be believed about each page, and whether anything of it was dropped."""

    pages: tuple[ColumnMetrics, ...] | None
    dropped: bool


_NO_METRICS = _PageMetrics(None, dropped=True)


# Keyed by content, as footers are: an index that was read before costs its bytes again, but not their meaning.
@lru_cache(maxsize=_REMEMBERED_INDEXES)
def _metrics(data: bytes, leaf: StoredLeaf, rows: tuple[int, ...], nulls: int | None) -> _PageMetrics:
    """What a `ColumnIndex` says about pages with so many rows each, of a chunk with so many nulls."""
    gate = ColumnGate(leaf.type_, required=leaf.required)
    pages, dropped = [], False
    try:
        index, _ = decode_struct(data)
        counts = index.get(5)
        counts = [None] * len(rows) if counts is None else counts
        for page in zip(rows, index[1], index[2], index[3], counts, strict=True):
            claim = _claim(leaf, *page)
            found = NOTHING if claim is None else gate.admit(claim, page[0])
            if found is NOTHING:
                return _NO_METRICS
            dropped = dropped or found is not claim
            pages.append(found)
        known = [page.null_count for page in pages if page.null_count is not None]
        if len(known) == len(pages) and nulls is not None and sum(known) != nulls:
            return _NO_METRICS
    except (KeyError, TypeError, ValueError):
        return _NO_METRICS
    return _PageMetrics(tuple(pages), dropped)


def _claim(leaf: StoredLeaf, rows: int, only_nulls: Any, lowest: Any, highest: Any, nulls: Any) -> ColumnMetrics | None:
    """What is claimed about a page; None if that contradicts itself."""
    if only_nulls is False:
        if nulls == rows:
            return None
        lower, upper = leaf.bounds(lowest, highest)
        return ColumnMetrics(value_count=rows, null_count=nulls, lower=lower, upper=upper)
    if only_nulls is not True or lowest or highest or leaf.required or nulls not in (None, rows):
        return None
    return ColumnMetrics(value_count=rows, null_count=rows)
