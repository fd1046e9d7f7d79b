"""The pages of a flat column one by one: found, checked, and decompressed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.batches.loading import compiled_module
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.page_index import ChunkIndex, Pages
from formatkit.formats.parquet.row_ranges import RowNumbers
from formatkit.formats.parquet.thrift import ThriftError, varint

__all__ = ["DataPage", "PageReader", "UnsuitableError", "address"]

_KERNELS = "formatkit.formats.parquet.page_kernels"

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = (0, 5), (2, 7), (3, 8)
"""The types of pages, and the structs that describe them."""

_REQUIRED_FIELDS = {5: 3, 8: 5}
"""How many fields behind the first these structs must have; pyarrow refuses pages that lack one."""

_RUNS = 3
_PLAIN_ENCODINGS = (0, 2)
_USUAL_PAGES = 64
_PAGE_NUMBERS = 13
_MAX_CONTENT_BYTES = 2**31 - 1

_WHOLE_BYTES = 4 * 1024 * 1024
_WHOLE_SPAN = 0.25
"""Up to so many bytes are read at once if the wanted rows span so large a share of the row group."""

_MOST_BYTES = 32 * 1024 * 1024
"""Larger chunks without a page index are left to pyarrow, which does not need to hold all of them."""

_UNCOMPRESSED, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
_CODECS: dict[int, Literal["snappy", "gzip", "zstd"]] = {_SNAPPY: "snappy", _GZIP: "gzip", _ZSTD: "zstd"}


class UnsuitableError(Exception):
    """The bytes are damaged, or in a form of which single values cannot be found."""


class DataPage(NamedTuple):
    """The content of a page, by addresses that are valid as long as `content` is held.

    Attributes:
        wanted: Which of the wanted rows it holds: the number of the first, and of the first behind it.
        first_row: The number of its first row.
        rows: How many rows it has.
        encoding: How the values are encoded.
        levels: Where the levels that tell which values are null begin; 0 if at the head of the values.
        levels_end: Where they end.
        values: Where the values begin.
        values_end: Where they end.
        content: The memory.
    """

    wanted: list[int]
    first_row: int
    rows: int
    encoding: int
    levels: int
    levels_end: int
    values: int
    values_end: int
    content: tuple[pa.Buffer, ...]


class _Header(NamedTuple):
    """Where a page is among others and what its header says, as `page_table` stores it.

    Attributes:
        start: Where the header begins.
        content: Where the content begins.
        kind: The type of page.
        length: How long the content is.
        stored: How long it is as it is stored.
        struct: Which struct describes the page.
        values: The first field of that: how many values there are.
        others: The fields from the second to the seventh.
    """

    start: int
    content: int
    kind: int
    length: int
    stored: int
    struct: int
    values: int
    others: list[int]


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
        self._longest = min(chunk.total_uncompressed_size, _MAX_CONTENT_BYTES)
        # Decoders are not shared, because those of gzip keep a state.
        self._codec = None if index.codec == _UNCOMPRESSED else pa.Codec(_CODECS[index.codec])
        self._page_table = compiled_module(_KERNELS).page_table
        self._dictionary: tuple[int, pa.Buffer] | None = None

    @staticmethod
    def can_decompress(codec: int) -> bool:
        """Whether the codec tells how long the content is, so that nobody sees memory that was never written."""
        return codec in _CODECS or codec == _UNCOMPRESSED

    @property
    def dictionary(self) -> tuple[int, pa.Buffer]:
        """How many values the dictionary has, and these, in plain encoding."""
        if self._dictionary is None:
            if (pages := self._index.pages) is None:
                raise UnsuitableError("there is no dictionary")
            place = ByteRange(self._chunk.offset, int(pages.offsets[0]) - self._chunk.offset)
            data = pa.py_buffer(self._source.read(*place))
            headers = self._headers(data)
            if len(headers) != 1:
                raise UnsuitableError("there is no dictionary")
            self._dictionary = self._read_dictionary(data, headers[0])
        return self._dictionary

    def ranges(self, rows: RowNumbers) -> list[ByteRange]:
        """What is read for the pages that hold some rows."""
        if self._is_read_whole(rows):
            return [self._chunk]
        if (pages := self._index.pages) is None:
            return []
        dictionary = ByteRange(self._chunk.offset, int(pages.offsets[0]) - self._chunk.offset)
        ranges = (_span(pages, first, last) for first, last in _runs(pages, rows))
        return [part for part in (dictionary, *ranges) if part.length]

    def read(self, rows: RowNumbers) -> Iterator[DataPage]:
        """The pages that hold some rows, in order."""
        if self._is_read_whole(rows):
            yield from self._whole(rows)
            return
        if (pages := self._index.pages) is None:
            raise UnsuitableError("the chunk is large and has no page index")
        for first, last in _runs(pages, rows):
            data = pa.py_buffer(self._source.read(*_span(pages, first, last)))
            headers = self._headers(data)
            if [header.values for header in headers] != pages.rows[first : last + 1].tolist():
                raise UnsuitableError("the pages have other rows than their index says")
            yield from self._pages(data, headers, int(pages.bounds[first]), rows)

    def _is_read_whole(self, rows: RowNumbers) -> bool:
        local = self._source.local_path() is not None
        if local and self._chunk.length <= _WHOLE_BYTES and rows[-1] - rows[0] >= self._rows * _WHOLE_SPAN:
            return True
        return self._index.pages is None and self._chunk.length <= _MOST_BYTES

    def _whole(self, rows: RowNumbers) -> Iterator[DataPage]:
        data = pa.py_buffer(self._source.read(*self._chunk))
        headers = self._headers(data)
        if headers and (headers[0].kind, headers[0].struct) == _DICTIONARY_PAGE:
            self._dictionary = self._read_dictionary(data, headers.pop(0))
        if sum(header.values for header in headers) != self._rows:
            raise UnsuitableError("the pages have other rows than the row group")
        yield from self._pages(data, headers, 0, rows)

    def _headers(self, data: pa.Buffer) -> list[_Header]:
        start, end = data.address, data.address + data.size
        count = most = _USUAL_PAGES
        table = np.empty((most, _PAGE_NUMBERS), np.int64)
        while (count := self._page_table(start, end, address(table), most)) > most:
            most = count
            table = np.empty((most, _PAGE_NUMBERS), np.int64)
        if count < 0:
            raise UnsuitableError("there is no page where one should be")
        return [_Header._make([*numbers[:7], numbers[7:]]) for numbers in table[:count].tolist()]

    def _read_dictionary(self, data: pa.Buffer, header: _Header) -> tuple[int, pa.Buffer]:
        if (header.kind, header.struct) != _DICTIONARY_PAGE or header.others[0] not in _PLAIN_ENCODINGS:
            raise UnsuitableError("there is no dictionary where it should be, or it is encoded")
        if not 0 <= header.values <= self._longest:
            raise UnsuitableError("the dictionary cannot have so many values")
        return header.values, self._decompressed(data.slice(header.content, header.stored), header.length)

    def _pages(self, data: pa.Buffer, headers: list[_Header], first_row: int, rows: RowNumbers) -> Iterator[DataPage]:
        counts = [header.values for header in headers]
        if min(counts, default=0) < 0:
            raise UnsuitableError("a page cannot have so few rows")
        bounds = list(accumulate(counts, initial=first_row))
        edges = np.searchsorted(rows, bounds).tolist()
        for header, page_row, *wanted in zip(headers, bounds, edges, edges[1:], strict=False):
            if wanted[0] == wanted[1]:
                continue
            if -1 in header.others[: _REQUIRED_FIELDS.get(header.struct, 0)]:
                raise UnsuitableError("the header of a page lacks what it must have")
            content = data.slice(header.content, header.stored)
            if (header.kind, header.struct) == _DATA_PAGE:
                yield self._first_version(content, header, wanted, page_row)
            elif (header.kind, header.struct) == _DATA_PAGE_V2:
                yield self._second_version(content, header, wanted, page_row)
            else:
                raise UnsuitableError("there is no data page where one should be")

    def _first_version(self, data: pa.Buffer, header: _Header, wanted: list[int], first_row: int) -> DataPage:
        encoding, levels_encoding, *_ = header.others
        if self._optional and levels_encoding != _RUNS:
            raise UnsuitableError("the levels are encoded as in old times")
        content = self._decompressed(data, header.length)
        start = content.address
        return DataPage(wanted, first_row, header.values, encoding, 0, 0, start, start + content.size, (content,))

    def _second_version(self, data: pa.Buffer, header: _Header, wanted: list[int], first_row: int) -> DataPage:
        _, rows, encoding, levels, repetition_levels, compressed = header.others
        if rows != header.values or repetition_levels != 0 or not 0 <= levels <= data.size:
            raise UnsuitableError("the page has repeated values")
        values, length = data.slice(levels), header.length - levels
        if compressed and values.size:
            values = self._decompressed(values, length)
        if values.size != length:
            raise UnsuitableError("the page is not as long as its header says")
        # Levels are never compressed in this version.
        start, end = data.address, values.address + length
        return DataPage(wanted, first_row, rows, encoding, start, start + levels, values.address, end, (data, values))

    def _decompressed(self, data: pa.Buffer, length: int) -> pa.Buffer:
        if self._codec is None:
            if data.size != length:
                raise UnsuitableError("the page is not as long as its header says")
            return data
        if not 0 <= length <= self._longest or not self._may_hold(data, length):
            raise UnsuitableError("the page has another length than its header says")
        try:
            return self._codec.decompress(data, length)
        except OSError as error:
            raise UnsuitableError("the page cannot be decompressed") from error

    def _may_hold(self, data: pa.Buffer, length: int) -> bool:
        """Whether data say that they hold so many bytes; the rest of a longer buffer would not be written."""
        if self._index.codec == _ZSTD:
            return True
        view = memoryview(data).cast("B")
        try:
            stored = varint(view, 0)[0] if self._index.codec == _SNAPPY else int.from_bytes(view[-4:], "little")
        except (IndexError, ThriftError):
            return False
        return stored == length


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


def address(array: npt.NDArray[Any]) -> int:
    """Where the numbers of an array are in memory."""
    place: int = array.__array_interface__["data"][0]
    return place
