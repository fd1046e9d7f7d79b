"""Parquet files in memory that hold only the chosen pages of some columns of one row group.

pyarrow decodes whole column chunks. To have it decode less, the wanted pages are copied as they are, behind the
dictionary of their chunk, and a footer is written that knows of nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.elements import Physical
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.page_index import ChunkIndex, Pages
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
_VALUES_FIELD = {0: 5, 3: 8}
"""By type of page: the field of its header that tells how many values it has."""

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

    def ranges(self) -> list[ByteRange]:
        """The bytes to copy: what stands before the first page, which is the dictionary, and runs of chosen pages."""
        start, first = chunk_start(self.index.chunk), int(self.pages.offsets[0])
        found = [ByteRange(start, first - start)] if start < first else []
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

    @cached_property
    def _schema(self) -> Field:
        """The schema as pyarrow is shown it for the whole file."""
        footer = stored_elements(self._footer.data)
        return find_field(footer.footer_without_annotations(self._footer.columns.unreadable_elements), 2)

    def of(self, choices: Mapping[int, PageChoice], rows: int) -> pa.Buffer:
        """A file of one row group with `rows` rows, which the choices, by leaf, all hold.

        Raises `CorruptFileError` if a page is not what the page index says.
        """
        source, metadata = self._source, self._footer.metadata
        ranges = {leaf: choice.ranges() for leaf, choice in choices.items()}
        source.prefetch([wanted for of_leaf in ranges.values() for wanted in of_leaf])
        parts: list[bytes | memoryview] = [_MAGIC]
        position = len(_MAGIC)
        chunks = [_NO_CHUNK] * metadata.num_columns
        for leaf, choice in choices.items():
            column = metadata.schema.column(leaf)
            runs = {wanted.offset: source.read(*wanted) for wanted in ranges[leaf]}
            values = sum(_checked_values(source.location, column, choice, runs))
            size = sum(map(len, runs.values()))
            chunks[leaf] = _chunk_record(column, choice, values, position, size)
            parts += runs.values()
            position += size
        footer = encode(
            i32(1, 1),
            self._schema,
            i64(3, rows),
            list_of(4, [encode(list_of(1, chunks), i64(2, position), i64(3, rows))]),
            # Readers work around the faults of known writers.
            binary(6, self._footer.created_by.encode()),
        )
        parts += footer, struct.pack("<I", len(footer)), _MAGIC
        return pa.py_buffer(b"".join(parts))


def _chunk_record(column: pq.ColumnSchema, choice: PageChoice, values: int, position: int, size: int) -> bytes:
    chunk = choice.index.chunk
    dictionary = chunk.dictionary_page_offset
    data_offset = position if dictionary is None else position + chunk.data_page_offset - dictionary
    fields = [
        i32(1, Physical[column.physical_type.replace("FIXED_LEN_BYTE_ARRAY", "FIXED")]),
        i32s(2, _ENCODINGS),
        binaries(3, ()),
        i32(4, choice.index.codec),
        i64(5, values),
        i64(6, chunk.total_uncompressed_size),
        i64(7, size),
        i64(9, data_offset),
    ]
    if dictionary is not None:
        fields.append(i64(11, position))
    return encode(i64(2, 0), nested(3, *fields))


def _checked_values(
    location: str, column: pq.ColumnSchema, choice: PageChoice, runs: Mapping[int, memoryview]
) -> Iterator[int]:
    """How many values each chosen page holds, by its header, which must agree with the page index."""
    repeated = column.max_repetition_level > 0
    starts = np.array(list(runs))
    pages = choice.pages
    for page in np.flatnonzero(choice.chosen):
        offset, size = int(pages.offsets[page]), int(pages.sizes[page])
        start = int(starts[np.searchsorted(starts, offset, side="right") - 1])
        try:
            header, end = decode_struct(runs[start], offset - start)
            values = int(header[_VALUES_FIELD[header[1]]][1])
            agrees = end + header[3] == offset - start + size
        except (ThriftError, KeyError, TypeError) as error:
            message = f"{location}: is corrupt: there is no data page at byte {offset}, where the page index has one"
            raise CorruptFileError(message, location=location) from error
        rows = int(pages.bounds[page + 1] - pages.bounds[page])
        if not agrees or (values != rows and not repeated):
            message = f"{location}: is corrupt: the page at byte {offset} and the page index disagree about its size"
            raise CorruptFileError(message, location=location)
        yield values
