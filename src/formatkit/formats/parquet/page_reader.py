"""The pages of a flat column: found, checked, and decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from isal import isal_zlib

from formatkit.batches.compiled.loading import kernels
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.kernels.numbers import DATA_PAGE_NUMBERS, FRAME, PAGE_NUMBERS
from formatkit.formats.parquet.page_content import (
    KERNELS,
    Content,
    PageContents,
    UnsuitableError,
    address,
    thread_tools,
)
from formatkit.formats.parquet.page_index import DICTIONARY_ENCODINGS, ChunkIndex, Pages
from formatkit.formats.parquet.row_ranges import RowNumbers

__all__ = ["DataPages", "PageReader"]

_DICTIONARY_PAGE = (2, 7)
"""The type of such a page, and the struct that describes it."""

_KIND, _VALUES = 2, 7
_PLAIN_ENCODINGS = (0, 2)
_USUAL_PAGES = 64

_WHOLE_BYTES = 4 * 1024 * 1024
_WHOLE_SPAN = 0.25
"""Up to so many bytes are read at once if the wanted rows span so large a share of the row group."""

_MOST_BYTES = 32 * 1024 * 1024
"""Larger chunks without a page index are left to pyarrow, which does not need to hold all of them."""

_GROUP_BYTES = 512 * 1024
"""About what the cache next to a processor holds, which is how far decompressed bytes should get from it."""

_Numbers = npt.NDArray[np.int64]


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


class _DataPage(NamedTuple):
    """What `choose_pages` finds about a page."""

    wanted: int
    wanted_end: int
    first_row: int
    rows: int
    encoding: int
    levels: int
    levels_end: int
    values: int
    values_end: int
    length: int
    compressed: int
    checksum: int


class PageReader:
    """The pages of one column chunk. Raises `UnsuitableError` for everything that is not as it should be.

    Args:
        source: The file.
        index: The page index of the chunk.
        rows: How many rows the chunk has.
        optional: Whether values may be null.
    """

    def __init__(self, source: ByteSource, index: ChunkIndex, rows: int, *, optional: bool) -> None:
        chunk = index.chunk
        self._source = source
        self._index = index
        self._rows = rows
        self._optional = optional
        self._chunk = ByteRange(chunk_start(chunk), chunk.total_compressed_size)
        self._longest = chunk.total_uncompressed_size
        self._contents = PageContents(index.codec, self._longest)
        self._kernels = kernels(KERNELS)
        self._dictionary_page: tuple[memoryview, list[int]] | None = None

    @cached_property
    def dictionary(self) -> tuple[int, Content]:
        """How many values the dictionary has, and these, in plain encoding. To be asked for while pages are read."""
        if self._dictionary_page is not None:
            page, self._dictionary_page = self._dictionary_page, None
            return self._read_dictionary(*page)
        if (pages := self._index.pages) is None:
            raise UnsuitableError("there is no dictionary")
        data = self._source.read(self._chunk.offset, int(pages.offsets[0]) - self._chunk.offset)
        headers = self._all_headers(data)
        if len(headers) != 1:
            raise UnsuitableError("there is no dictionary")
        return self._read_dictionary(data, headers[0].tolist())

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
            yield from self._whole(rows)
            return
        if (pages := self._index.pages) is None:
            raise UnsuitableError("the chunk is large and has no page index")
        for first, last in _runs(pages, rows):
            data = self._source.read(*_span(pages, first, last))
            headers = self._all_headers(data)
            if not np.array_equal(headers[:, _VALUES], pages.rows[first : last + 1]):
                raise UnsuitableError("the pages have other rows than their index says")
            yield from self._pages(data, headers, int(pages.bounds[first]), rows)

    def read_all(self, window: int) -> Iterator[DataPages]:
        """All pages, in order. About `window` bytes are read at once."""
        at, end, size, row = self._chunk.offset, self._chunk.end, window, 0
        while at < end:
            data = self._source.read(at, min(size, end - at))
            headers, reached = self._headers(data)
            if not reached:
                # The first page is longer than that, or none.
                if len(data) == end - at:
                    raise UnsuitableError("there is no page where one should be")
                size *= 4
                continue
            headers = self._data_headers(data, headers)
            if len(headers):
                yield from self._pages(data, headers, row, None)
                row += int(headers[:, _VALUES].sum())
            at, size = at + reached, window
        if row != self._rows:
            raise UnsuitableError("the pages have other rows than the row group")

    def _is_read_whole(self, rows: RowNumbers) -> bool:
        local = self._source.local_path() is not None
        if local and self._chunk.length <= _WHOLE_BYTES and rows[-1] - rows[0] >= self._rows * _WHOLE_SPAN:
            return True
        return self._index.pages is None and self._chunk.length <= _MOST_BYTES

    def _whole(self, rows: RowNumbers) -> Iterator[DataPages]:
        data = self._source.read(*self._chunk)
        headers = self._data_headers(data, self._all_headers(data))
        if headers[:, _VALUES].sum() != self._rows:
            raise UnsuitableError("the pages have other rows than the row group")
        yield from self._pages(data, headers, 0, rows)
        self._dictionary_page = None

    def _all_headers(self, data: memoryview) -> _Numbers:
        """What pages say of themselves, each in a row; nothing stands behind the last one."""
        headers, reached = self._headers(data)
        if reached != len(data):
            raise UnsuitableError("there is no page where one should be")
        return headers

    def _headers(self, data: memoryview) -> tuple[_Numbers, int]:
        """What the pages that stand one behind the other say of themselves, each in a row; and where they end."""
        buffer = pa.py_buffer(data)
        start, end = buffer.address, buffer.address + buffer.size
        count = most = _USUAL_PAGES
        reached = np.zeros(1, np.int64)
        table = np.empty((most, PAGE_NUMBERS), np.int64)
        while (count := self._kernels.page_table(start, end, address(table), most, address(reached))) > most:
            most = count
            table = np.empty((most, PAGE_NUMBERS), np.int64)
        return table[:count], int(reached[0])

    def _data_headers(self, data: memoryview, headers: _Numbers) -> _Numbers:
        """Those of data pages. That of the dictionary, which may come first, is kept until it is read."""
        if not len(headers) or headers[0, _KIND] != _DICTIONARY_PAGE[0]:
            return headers
        self._dictionary_page = data, headers[0].tolist()
        return headers[1:]

    def _read_dictionary(self, data: memoryview, header: list[int]) -> tuple[int, Content]:
        _, start, kind, length, size, checksum, struct, values, encoding, *_ = header
        if (kind, struct) != _DICTIONARY_PAGE or encoding not in _PLAIN_ENCODINGS:
            raise UnsuitableError("there is no dictionary where it should be, or it is encoded")
        if not 0 <= values <= self._longest:
            raise UnsuitableError("the dictionary cannot have so many values")
        _verify(data, start, start + size, checksum)
        return values, self._contents.one(data[start : start + size], length)

    def _pages(
        self, data: memoryview, headers: _Numbers, first_row: int, rows: RowNumbers | None
    ) -> Iterator[DataPages]:
        """Those of some pages that hold some rows, or all."""
        base = pa.py_buffer(data).address
        table = np.empty((len(headers), DATA_PAGE_NUMBERS), np.int64)
        count = self._kernels.choose_pages(
            address(headers),
            len(headers),
            base,
            first_row,
            0 if rows is None else address(rows),
            -1 if rows is None else len(rows),
            self._optional,
            self._contents.codec,
            address(table),
        )
        if count < 0:
            raise UnsuitableError("there is no data page where one should be, or it is of an unknown kind")
        pages = [_DataPage._make(numbers) for numbers in table[:count].tolist()]
        for page in pages:
            _verify(data, (page.levels or page.values) - base, page.values_end - base, page.checksum)
        compressed = [page for page in pages if page.compressed]
        longest = max((page.length for page in compressed), default=0)
        frames = all(page.compressed == FRAME for page in compressed)
        groups = [(0, count)]
        if compressed and not (frames and thread_tools().can_decompress(longest)):
            longest, groups = 0, list(_groups([page.length for page in pages]))
        for start, end in groups:
            group, part = pages[start:end], table[start:end]
            memory = None if longest else self._decompress(data, base, group, part)
            need_dictionary = any(page.encoding in DICTIONARY_ENCODINGS for page in group)
            yield DataPages(group[0].wanted, group[-1].wanted_end, part, need_dictionary, longest, (data, memory))

    def _decompress(self, data: memoryview, base: int, pages: list[_DataPage], table: _Numbers) -> object:
        """Put into the table where the values of pages are once they are decompressed; returns what holds them."""
        memory = []
        for page, row in zip(pages, table, strict=True):
            if page.compressed:
                content = self._contents.one(data[page.values - base : page.values_end - base], page.length)
                row[7:11] = content.address, content.address + content.size, content.size, 0
                memory.append(content)
        return memory


def _verify(data: memoryview, start: int, end: int, checksum: int) -> None:
    """Raise `UnsuitableError` if a page has another checksum than it says; a negative one says nothing."""
    if checksum >= 0 and isal_zlib.crc32(data[start:end]) != checksum:
        raise UnsuitableError("a page has another checksum than its header says")


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
