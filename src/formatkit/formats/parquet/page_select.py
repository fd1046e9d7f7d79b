"""Parquet files in memory that hold only the chosen pages of some columns of one row group.

pyarrow decodes whole column chunks. To have it decode less, the wanted pages are copied as they are, behind the
dictionary of their chunk, and a footer is written that knows of nothing else.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.forks import cached
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.elements import Physical
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.pruning.page_index import DICTIONARY_ENCODINGS, ChunkIndex, PageIndexError, Pages
from formatkit.formats.parquet.read.page_check import ChunkPages, PageChecks
from formatkit.formats.parquet.row_ranges import RowRanges
from formatkit.formats.parquet.stored_schema import stored_elements
from formatkit.formats.parquet.thrift import (
    Field,
    ThriftError,
    binaries,
    binary,
    decode_struct,
    encode,
    find_field,
    i32,
    i32s,
    i64,
    list_of,
    nested,
)

__all__ = ["PageChoice", "PageFiles"]

_MAGIC = b"PAR1"
_ENCODINGS = (0, 3, 8)
_PAGE_FIELDS = {0: (5, 2), 3: (8, 4)}
"""By type of page: the field of its header that tells about its values, and where that tells their encoding."""

_NO_CHUNK = encode(i64(2, 0))
"""Stands for a column that is not read."""


@dataclass(frozen=True, kw_only=True)
class PageChoice:
    """Some pages of one column chunk."""

    index: ChunkIndex
    pages: Pages
    chosen: npt.NDArray[np.bool_]

    def widened(self, ranges: RowRanges) -> PageChoice:
        """All pages that hold some of the rows."""
        return replace(self, chosen=ranges.touched(self.pages.bounds))

    @cached
    def dictionary(self) -> ByteRange:
        """What stands before the first data page; empty if that is nothing."""
        start = chunk_start(self.index.chunk)
        return ByteRange(start, int(self.pages.offsets[0]) - start)

    @property
    def ranges(self) -> list[ByteRange]:
        """All that may be read for these pages."""
        return [part for part in (self.dictionary, *self.runs) if part.length]

    @cached
    def share(self) -> float:
        """About which part of the chunk's bytes must be decoded for these pages."""
        dictionary = self.dictionary.length
        pages = int(self.pages.sizes[self.chosen].sum())
        needed = dictionary if self.chosen[: self.index.dictionary_pages].any() else 0
        return (needed + pages) / (dictionary + int(self.pages.sizes.sum()))

    @cached
    def runs(self) -> list[ByteRange]:
        """The bytes of the chosen pages; those that follow one another together."""
        found: list[ByteRange] = []
        for page in np.flatnonzero(self.chosen):
            offset, size = int(self.pages.offsets[page]), int(self.pages.sizes[page])
            if found and found[-1].end == offset:
                found[-1] = ByteRange(found[-1].offset, found[-1].length + size)
            else:
                found.append(ByteRange(offset, size))
        return found


class PageFiles:
    """Writes such files for one file."""

    def __init__(self, source: ByteSource, footer: Footer) -> None:
        self._source = source
        self._footer = footer
        self._checks = PageChecks(footer)

    @cached
    def _schema(self) -> Field:
        """The schema as pyarrow is shown it for the whole file."""
        footer = stored_elements(self._footer.data)
        return find_field(footer.footer_shown(self._footer.columns.shown), 2)

    def of(self, row_group: RowGroup, choices: Mapping[int, PageChoice], rows: int) -> pa.Buffer:
        """A file of one row group with `rows` rows, which the choices, by leaf, all hold.

        Raises `PageIndexError` if a page is not what the page index says. No header says how many rows of a repeated
        leaf a page has, so the file claims one more: whoever decodes it sees by their number whether they are right.

        Args:
            row_group: The row group that the pages belong to.
            choices: Pages, by leaf.
            rows: How many rows each of them has.
        """
        source, metadata = self._source, self._footer.metadata
        content: list[bytes | memoryview] = [_MAGIC]
        position = len(_MAGIC)
        chunks = [_NO_CHUNK] * metadata.num_columns
        checked, claimed = [], rows
        for leaf, choice in choices.items():
            column = metadata.schema.column(leaf)
            repeated = column.max_repetition_level > 0
            claimed = rows + 1 if repeated else claimed
            runs = [source.read(*run) for run in choice.runs]
            found = _headers(choice, runs, repeated=repeated)
            if found.need_dictionary and choice.dictionary.length:
                runs.insert(0, source.read(*choice.dictionary))
            size = sum(map(len, runs))
            chunks[leaf] = _chunk_record(column, choice, found, position, size)
            checked.append(self._checks.numbers(row_group, leaf, position, position + size, found.values))
            content += runs
            position += size
        footer = encode(
            i32(1, 1),
            self._schema,
            i64(3, claimed),
            list_of(4, [encode(list_of(1, chunks), i64(2, position), i64(3, claimed))]),
            # Readers work around the faults of known writers.
            binary(6, self._footer.created_by.encode()),
        )
        content += footer, struct.pack("<I", len(footer)), _MAGIC
        file = pa.py_buffer(b"".join(content))
        if not self._checks.are_off:
            pages = ChunkPages(self._footer, [(row_group, leaf) for leaf in choices], checked)
            pages.see(0, file)
            self._checks.require_encodings(pages, are_whole=False)
        return file


class _Headers(NamedTuple):
    """What the headers of chosen pages say."""

    values: int
    need_dictionary: bool


def _headers(choice: PageChoice, runs: Sequence[memoryview], *, repeated: bool) -> _Headers:
    """Read the headers, which must agree with the page index. A page has one value a row unless it is repeated."""
    pages, values, encodings = choice.pages, 0, set()
    starts = [run.offset for run in choice.runs]
    for page in np.flatnonzero(choice.chosen).tolist():
        offset, size, rows = (int(part) for part in (pages.offsets[page], pages.sizes[page], pages.rows[page]))
        run = bisect_right(starts, offset) - 1
        try:
            header, end = decode_struct(runs[run], offset - starts[run])
            values_field, encoding_field = _PAGE_FIELDS[header[1]]
            data_page = header[values_field]
            found, encoding, stored = data_page[1], data_page[encoding_field], end + header[3]
        except (ThriftError, KeyError, TypeError) as error:
            raise PageIndexError(choice.index) from error
        if stored != offset - starts[run] + size or found < rows or (found > rows and not repeated):
            raise PageIndexError(choice.index)
        if not choice.index.can_have(page, encoding):
            raise PageIndexError(choice.index)
        values += found
        encodings.add(encoding)
    return _Headers(values, not encodings.isdisjoint(DICTIONARY_ENCODINGS))


def _chunk_record(column: pq.ColumnSchema, choice: PageChoice, found: _Headers, position: int, size: int) -> bytes:
    dictionary = choice.dictionary.length if found.need_dictionary else 0
    fields = [
        i32(1, Physical[column.physical_type.replace("FIXED_LEN_BYTE_ARRAY", "FIXED")]),
        i32s(2, _ENCODINGS),
        binaries(3, ()),
        i32(4, choice.index.codec),
        i64(5, found.values),
        i64(6, choice.index.chunk.total_uncompressed_size),
        i64(7, size),
        i64(9, position + dictionary),
    ]
    if dictionary:
        fields.append(i64(11, position))
    return encode(i64(2, 0), nested(3, *fields))
