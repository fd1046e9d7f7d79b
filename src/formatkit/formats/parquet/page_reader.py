"""The pages of a flat column: found, checked, and decompressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from formatkit.batches.compiled.loading import kernels
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.forks import cached
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.kernels.numbers import (
    DAMAGED,
    DATA_PAGE_NUMBERS,
    DICTIONARY_PAGE,
    HAVE_CHECKSUMS,
    LONGEST,
    NEED_DICTIONARY,
    OTHER_CODEC,
    REACHED,
    ROWS_FOUND,
    SUMMARY_NUMBERS,
)
from formatkit.formats.parquet.page_content import (
    KERNELS,
    Content,
    PageContents,
    UnsuitableError,
    address,
    thread_tools,
)
from formatkit.formats.parquet.pruning.page_index import ChunkIndex, PageIndexError, Pages
from formatkit.formats.parquet.read.page_check import ChunkPages
from formatkit.formats.parquet.row_ranges import RowNumbers

__all__ = ["DataPages", "PageCheck", "PageReader"]

# Which of the numbers of a page it is: see `find_pages`.
_ROWS, _VALUES, _LENGTH, _CHECKSUM = 3, 7, 9, 11
_SUMMARY_ROOM = SUMMARY_NUMBERS + 14
_PLAIN_ENCODINGS = (0, 2)
_USUAL_PAGES = 64

_WHOLE_BYTES = 4 * 1024 * 1024
_WHOLE_SPAN = 0.25
"""Up to so many bytes are read at once if the wanted rows span so large a share of the row group."""

_PIECE_BYTES = 1024 * 1024

_MOST_BYTES = 32 * 1024 * 1024
"""Larger chunks without a page index are left to pyarrow, which does not need to hold all of them."""

_GROUP_BYTES = 512 * 1024
"""About what the cache next to a processor holds, which is how far decompressed bytes should get from it."""

_Numbers = npt.NDArray[np.int64]

PageCheck = Callable[[int, int, int], ChunkPages]


class DataPages(NamedTuple):
    """Pages in memory, to be looked at before the next ones are asked for.

    Attributes:
        start: The number of the first of the wanted rows that they hold.
        end: The number of the first wanted row behind them.
        table: What `gather` needs to know of each page.
        need_dictionary: Whether one of them is encoded by the dictionary.
        longest: How many bytes the longest of them has that is to be decompressed.
        memory: What the addresses in the table belong to.
    """

    start: int
    end: int
    table: _Numbers
    need_dictionary: bool
    longest: int
    memory: object


class _Found(NamedTuple):
    """What `find_pages` finds: the numbers of pages, and what it says about all of them."""

    table: _Numbers
    summary: list[int]

    @property
    def dictionary(self) -> list[int] | None:
        """What is said of the page of the dictionary, if it is there."""
        return self.summary[DICTIONARY_PAGE:SUMMARY_NUMBERS] if self.summary[DICTIONARY_PAGE] else None


class PageReader:
    """The pages of one column chunk.

    Raises `CorruptFileError` for pages that contradict each other, `PageIndexError` for those that contradict the page
    index, and `UnsuitableError` for those in another form.

    Args:
        source: The file.
        index: The page index of the chunk.
        rows: How many rows the chunk has.
        check: Makes the check of the pages from one byte of the file to another, and how many values they have; None
            where pages cannot be checked.
        optional: Whether values may be null.
    """

    def __init__(
        self, source: ByteSource, index: ChunkIndex, rows: int, check: PageCheck | None = None, *, optional: bool
    ) -> None:
        chunk = index.chunk
        self._source = source
        self._index = index
        self._rows = rows
        self._check = check
        self._optional = optional
        self._chunk = ByteRange(chunk_start(chunk), chunk.total_compressed_size)
        self._longest = chunk.total_uncompressed_size
        self._contents = PageContents(index.codec, self._longest)
        self._kernels = kernels(KERNELS)
        self._dictionary_page: tuple[memoryview, list[int]] | None = None

    @cached
    def dictionary(self) -> tuple[int, Content]:
        """How many values the dictionary has, and these, in plain encoding. To be asked for while pages are read."""
        if self._dictionary_page is not None:
            page, self._dictionary_page = self._dictionary_page, None
            return self._read_dictionary(*page)
        if (pages := self._index.pages) is None:
            raise self.contradiction("a page refers to a dictionary that is not there")
        start, end = self._chunk.offset, int(pages.offsets[0])
        data = self._source.read(start, end - start)
        if self._check is not None:
            self._check(start, end, 0).see(start, data)
        found = self._find(data, 0, None)
        if found.summary[REACHED] != len(data) or found.dictionary is None:
            raise self.contradiction("a page refers to a dictionary that is not there")
        return self._read_dictionary(data, found.dictionary)

    def ranges(self, rows: RowNumbers) -> list[ByteRange]:
        """What is read for the pages that hold some rows."""
        if self._is_read_whole(rows):
            return [self._chunk]
        if (pages := self._index.pages) is None:
            return []
        dictionary = ByteRange(self._chunk.offset, int(pages.offsets[0]) - self._chunk.offset)
        ranges = (_span(pages, first, last) for first, last in _runs(pages, rows))
        return [part for part in (dictionary, *ranges) if part.length]

    def read(self, rows: RowNumbers) -> Iterator[DataPages]:
        """The pages that hold some rows, in order."""
        if self._is_read_whole(rows):
            # Local files are read in pieces that stay near the processor, others as they were announced.
            yield from self.read_all(self._chunk.length if self._source.local_path() is None else _PIECE_BYTES, rows)
            return
        if (pages := self._index.pages) is None:
            raise UnsuitableError("the chunk is large and has no page index")
        for first, last in _runs(pages, rows):
            span = _span(pages, first, last)
            data = self._source.read(*span)
            try:
                if self._check is not None:
                    values = int(pages.bounds[last + 1] - pages.bounds[first])
                    self._check(span.offset, span.end, values).see(span.offset, data)
                found = self._find(data, int(pages.bounds[first]), rows)
            except CorruptFileError as error:
                # Read as a whole, the chunk shows whether it is the pages that are wrong.
                raise PageIndexError(self._index) from error
            if not np.array_equal(found.table[:, _ROWS], pages.rows[first : last + 1]):
                raise PageIndexError(self._index)
            yield from self._pages(data, found)

    def read_all(self, window: int, rows: RowNumbers | None = None) -> Iterator[DataPages]:
        """All pages, or those that hold some rows, in order. About `window` bytes are read at once."""
        at, end, size, row = self._chunk.offset, self._chunk.end, window, 0
        seen = None if self._check is None else self._check(at, end, self._rows)
        while at < end:
            data = self._source.read(at, min(size, end - at))
            if seen is not None:
                seen.see(at, data)
            found = self._find(data, row, rows)
            if not (reached := found.summary[REACHED]):
                # The first page is longer than that, or none.
                if len(data) == end - at:
                    raise self.contradiction(f"there is no page at byte {at}")
                size *= 4
                continue
            if len(found.table):
                yield from self._pages(data, found)
            at, size, row = at + reached, window, row + found.summary[ROWS_FOUND]
        if row != self._rows:
            raise self.contradiction("the pages of a column have other rows than their row group")

    def contradiction(self, what: str) -> Exception:
        """The error for pages that contradict each other, or where they cannot be checked, for what pyarrow decides."""
        name = self._index.chunk.path_in_schema
        if self._check is None:
            return UnsuitableError(what)
        return corrupt(self._source.location, f"column {name!r}: {what}")

    def _is_read_whole(self, rows: RowNumbers) -> bool:
        local = self._source.local_path() is not None
        if local and self._chunk.length <= _WHOLE_BYTES and rows[-1] - rows[0] >= self._rows * _WHOLE_SPAN:
            return True
        return self._index.pages is None and self._chunk.length <= _MOST_BYTES

    def _find(self, data: memoryview, first_row: int, rows: RowNumbers | None) -> _Found:
        """Find pages that stand one behind the other, of which the first one has the row `first_row`.

        The page of the dictionary, which may come before it, is kept until it is read.
        """
        buffer = pa.py_buffer(data)
        start, summary, most = buffer.address, np.zeros(_SUMMARY_ROOM, np.int64), _USUAL_PAGES
        while True:
            table = np.empty((most, DATA_PAGE_NUMBERS), np.int64)
            count = self._kernels.find_pages(
                start,
                start + buffer.size,
                first_row,
                0 if rows is None else address(rows),
                -1 if rows is None else len(rows),
                self._optional,
                self._contents.codec,
                address(table),
                most,
                address(summary),
            )
            if count < most:
                break
            most *= 8
        if count == DAMAGED:
            raise self.contradiction("the header of a page contradicts itself")
        if count < 0:
            raise UnsuitableError("a page is of another kind, or has levels in another encoding")
        found = _Found(table[:count], summary.tolist())
        if found.dictionary is not None:
            self._dictionary_page = data, found.dictionary
        return found

    def _read_dictionary(self, data: memoryview, page: list[int]) -> tuple[int, Content]:
        start, size, length, values, encoding, checksum = page
        if encoding not in _PLAIN_ENCODINGS:
            raise UnsuitableError("the dictionary is encoded")
        if not 0 <= values <= self._longest:
            raise UnsuitableError("the dictionary cannot have so many values")
        self._verify(data, start, start + size, checksum)
        return values, self._contents.one(data[start : start + size], length)

    def _pages(self, data: memoryview, found: _Found) -> Iterator[DataPages]:
        """Pages that were found, as many at once as can be decompressed."""
        table, summary = found
        base = pa.py_buffer(data).address
        if summary[HAVE_CHECKSUMS]:
            for _, _, _, _, _, levels, _, values, values_end, _, _, checksum in table.tolist():
                self._verify(data, (levels or values) - base, values_end - base, checksum)
        longest, groups = summary[LONGEST], [(0, len(table))]
        if longest and (summary[OTHER_CODEC] or not thread_tools().can_decompress(longest)):
            longest, groups = 0, list(_groups(table[:, _LENGTH].tolist()))
        for start, end in groups:
            part = table[start:end]
            memory = self._decompress(data, base, part) if summary[LONGEST] and not longest else None
            first, last = int(part[0, 0]), int(part[-1, 1])
            yield DataPages(first, last, part, bool(summary[NEED_DICTIONARY]), longest, (data, memory))

    def _verify(self, data: memoryview, start: int, end: int, checksum: int) -> None:
        """Raise unless a page has the checksum that its header says; a negative one says nothing."""
        if checksum >= 0 and isal_zlib.crc32(data[start:end]) != checksum:
            raise self.contradiction("a page has another checksum than its header says")

    def _decompress(self, data: memoryview, base: int, table: _Numbers) -> object:
        """Put into the table where the values of pages are once they are decompressed; returns what holds them."""
        memory = []
        for row, page in zip(table, table.tolist(), strict=True):
            values, values_end, length, compressed = page[_VALUES:_CHECKSUM]
            if compressed:
                content = self._contents.one(data[values - base : values_end - base], length)
                row[_VALUES:_CHECKSUM] = content.address, content.address + content.size, content.size, 0
                memory.append(content)
        return memory


def _groups(lengths: list[int]) -> Iterator[tuple[int, int]]:
    """Pages that are decompressed together: the number of the first, and of the first behind them."""
    start = total = 0
    for number, length in enumerate(lengths):
        if number > start and total + length > _GROUP_BYTES:
            yield start, number
            start, total = number, 0
        total += length
    yield start, len(lengths)


def _runs(pages: Pages, rows: RowNumbers) -> Iterator[tuple[int, int]]:
    """The first and the last of pages that hold rows, as long as they follow one another and are not many bytes."""
    chosen = np.flatnonzero(np.diff(np.searchsorted(rows, pages.bounds))).tolist()
    offsets, ends = pages.offsets.tolist(), (pages.offsets + pages.sizes).tolist()
    first = 0
    for place in range(1, len(chosen) + 1):
        if place < len(chosen):
            here, before = chosen[place], chosen[place - 1]
            if offsets[here] == ends[before] and ends[here] - offsets[chosen[first]] <= _WHOLE_BYTES:
                continue
        yield chosen[first], chosen[place - 1]
        first = place


def _span(pages: Pages, first: int, last: int) -> ByteRange:
    start = int(pages.offsets[first])
    return ByteRange(start, int(pages.offsets[last] + pages.sizes[last]) - start)
