"""Where the pages of a column chunk are and what their values are between, if the file has a page index.

The index is an offer that can be declined: whatever looks wrong about it means that the chunk is read as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.forks import cached
from formatkit.formats.parquet.chunk_record import ChunkRecord, chunk_start
from formatkit.formats.parquet.elements import Element
from formatkit.formats.parquet.offset_index import page_locations
from formatkit.formats.parquet.row_ranges import RowNumbers
from formatkit.formats.parquet.statistics import bounds, plain_value
from formatkit.formats.parquet.thrift import ThriftError, decode_struct

__all__ = ["DICTIONARY_ENCODINGS", "ChunkIndex", "Pages"]

_ENCODING_STATS = 13
_DATA_PAGES = (0, 3)
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


class ChunkIndex:
    """The page index of one column chunk, read when it is asked for.

    Args:
        source: The file.
        chunk: What pyarrow knows about the chunk.
        record: What the footer says beyond that.
        rows: How many rows its row group has.
    """

    def __init__(self, source: ByteSource, chunk: pq.ColumnChunkMetaData, record: ChunkRecord, rows: int) -> None:
        self.chunk = chunk
        self.codec = record.codec
        self._source = source
        self._record = record
        self._rows = rows

    @cached
    def dictionary_pages(self) -> int:
        """How many data pages are known to be dictionary-encoded; writers put them before all others."""
        return sum(count for encoding, count in self._encodings if encoding in DICTIONARY_ENCODINGS)

    @cached
    def all_dictionary(self) -> bool:
        """Whether every data page is known to be dictionary-encoded."""
        return bool(self._encodings) and all(encoding in DICTIONARY_ENCODINGS for encoding, _ in self._encodings)

    @cached
    def _encodings(self) -> list[tuple[int, int]]:
        """The encodings of data pages, and how many pages have them; empty if that is not known."""
        stored = self._record.meta_data.get(_ENCODING_STATS, ())
        try:
            return [(entry[2], entry[3]) for entry in stored if entry[1] in _DATA_PAGES and entry[3] > 0]
        except (KeyError, TypeError):
            return []

    @cached
    def pages(self) -> Pages | None:
        """The pages, or None if their places are not known."""
        data = self._read(self._record.offset_index)
        try:
            stored = page_locations(data or b"")
        except ThriftError:
            return None
        if not len(stored):
            return None
        pages = Pages(offsets=stored[:, 0], sizes=stored[:, 1], bounds=np.append(stored[:, 2], self._rows))
        return pages if self._is_plausible(pages) else None

    def metrics(self, element: Element) -> Sequence[ColumnMetrics] | None:
        """What is known about the values of each page, or None if nothing is."""
        pages, data = self.pages, self._read(self._record.column_index)
        if pages is None or data is None:
            return None
        decode = _metrics if len(data) <= _REMEMBERED_BYTES else _metrics.__wrapped__
        return decode(data, element, tuple(pages.rows.tolist()))

    def _read(self, place: ByteRange | None) -> bytes | None:
        if place is None:
            return None
        try:
            return bytes(self._source.read(*place))
        except CorruptFileError:
            return None

    def _is_plausible(self, pages: Pages) -> bool:
        chunk, ends = self.chunk, pages.offsets + pages.sizes
        return bool(
            chunk_start(chunk) >= _SMALLEST_OFFSET
            and pages.offsets[0] == chunk.data_page_offset
            and pages.bounds[0] == 0
            and (pages.rows > 0).all()
            and (pages.sizes > 0).all()
            and (pages.offsets[1:] >= ends[:-1]).all()
            and ends[-1] <= chunk_start(chunk) + chunk.total_compressed_size
        )


# Keyed by content, as footers are: an index that was read before costs its bytes again, but not their meaning.
@lru_cache(maxsize=_REMEMBERED_INDEXES)
def _metrics(data: bytes, element: Element, rows: tuple[int, ...]) -> tuple[ColumnMetrics, ...] | None:
    """What a `ColumnIndex` says about pages with so many rows each, or None if it does not fit them."""
    try:
        index, _ = decode_struct(data)
        nulls = index.get(5) or [None] * len(rows)
        described = zip(rows, index[1], index[2], index[3], nulls, strict=True)
        return tuple(_page_metrics(element, *page) for page in described)
    except (KeyError, TypeError, ValueError):
        return None


def _page_metrics(
    element: Element, rows: int, only_nulls: bool, lowest: Any, highest: Any, nulls: int | None
) -> ColumnMetrics:
    if only_nulls:
        return ColumnMetrics(value_count=rows, null_count=rows)
    known = isinstance(nulls, int) and 0 <= nulls <= rows
    lower, upper = bounds(element, plain_value(element, lowest), plain_value(element, highest))
    return ColumnMetrics(value_count=rows, null_count=nulls if known else None, lower=lower, upper=upper)
