"""Parquet files in memory that hold some leaves of some row groups of another file, in a plain schema.

The pages are copied as they are. Before that their headers are read, because Polars takes what they say about their
sizes for true.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.formats.parquet.chunk_record import chunk_start
from formatkit.formats.parquet.failures import corrupt
from formatkit.formats.parquet.footer import Footer, RowGroup
from formatkit.formats.parquet.polars.plain_schema import PlainLeaf, PlainSchema
from formatkit.formats.parquet.read.page_check import PageChecks
from formatkit.formats.parquet.thrift import (
    ThriftError,
    binaries,
    binary,
    decode_struct,
    encode,
    i32,
    i32s,
    i64,
    list_of,
    nested,
)

__all__ = ["PlainFiles"]

_MAGIC = b"PAR1"
_ENCODINGS = (0, 3, 8)
_CODECS = frozenset({0, 1, 2, 4, 6, 7})
"""Uncompressed, snappy, gzip, brotli, zstd and raw LZ4."""

_DATA_PAGES = {0: 5, 3: 8}
"""By type of page: the field of its header that begins with the number of values."""

_DICTIONARY_PAGE, _INDEX_PAGE = 2, 1


class PlainFiles:
    """Writes such files for one file."""

    def __init__(self, source: ByteSource, footer: Footer, schema: PlainSchema) -> None:
        self.schema = schema
        self.location = source.location
        self._source = source
        self._footer = footer
        self._checks = PageChecks(footer)

    def supports(self, row_groups: Sequence[RowGroup]) -> bool:
        """Whether the footer tells enough about the chunks, and Polars has their codecs."""
        records = (self._footer.chunk_record(group, leaf.index) for group in row_groups for leaf in self.schema.leaves)
        # Polars knows no packed levels.
        are_known = not self._checks.have_odd_levels
        return are_known and all(record is not None and record.codec in _CODECS for record in records)

    def size(self, row_group: RowGroup) -> int:
        """How many bytes of a row group are copied."""
        return sum(part.length for part in self._parts(row_group))

    def announce(self, row_groups: Sequence[RowGroup]) -> None:
        """Tell the source what will be read."""
        self._source.prefetch([part for row_group in row_groups for part in self._parts(row_group)])

    def _parts(self, row_group: RowGroup) -> Iterator[ByteRange]:
        return row_group.chunk_ranges([leaf.index for leaf in self.schema.leaves])

    def of(self, row_groups: Sequence[RowGroup]) -> bytes:
        """A file of row groups that are supported. Raises `CorruptFileError` for pages that cannot be."""
        content: list[bytes | memoryview] = [_MAGIC]
        position = len(_MAGIC)
        groups = []
        for row_group in row_groups:
            chunks = []
            for leaf in self.schema.leaves:
                chunk = row_group.metadata.column(leaf.index)
                pages = self._source.read(chunk_start(chunk), chunk.total_compressed_size)
                check_pages(pages, chunk, self.location)
                if not self._checks.are_off:
                    seen = self._checks.chunks([row_group], [leaf.index])
                    seen.see(chunk_start(chunk), pages)
                    self._checks.require_encodings(seen)
                chunks.append(self._chunk(row_group, leaf, chunk, position))
                content.append(pages)
                position += len(pages)
            groups.append(encode(list_of(1, chunks), i64(2, position), i64(3, row_group.rows)))
        footer = encode(
            i32(1, 1),
            list_of(2, [self.schema.root, *self.schema.elements]),
            i64(3, sum(row_group.rows for row_group in row_groups)),
            list_of(4, groups),
            # Readers work around the faults of known writers.
            binary(6, self._footer.created_by.encode()),
        )
        content += footer, struct.pack("<I", len(footer)), _MAGIC
        return b"".join(content)

    def _chunk(self, row_group: RowGroup, leaf: PlainLeaf, chunk: pq.ColumnChunkMetaData, position: int) -> bytes:
        record = self._footer.chunk_record(row_group, leaf.index)
        assert record is not None  # noqa: S101
        start = chunk_start(chunk)
        fields = [
            i32(1, leaf.physical),
            i32s(2, _ENCODINGS),
            binaries(3, [part.encode() for part in leaf.path]),
            i32(4, record.codec),
            i64(5, chunk.num_values),
            i64(6, chunk.total_uncompressed_size),
            i64(7, chunk.total_compressed_size),
            i64(9, position + chunk.data_page_offset - start),
        ]
        if chunk.dictionary_page_offset is not None:
            fields.append(i64(11, position + chunk.dictionary_page_offset - start))
        return encode(i64(2, position), nested(3, *fields))


def check_pages(pages: memoryview, chunk: pq.ColumnChunkMetaData, location: str) -> None:
    """Raise `CorruptFileError` unless the pages fill the chunk, hold its values and match their checksums."""
    at = values = 0
    try:
        while at < len(pages):
            header, start = decode_struct(pages, at)
            kind, size, checksum = header[1], header[3], header.get(4)
            at = start + size
            if size < 0 or at > len(pages) or header[2] < 0:
                raise corrupt(location, f"a page of column {chunk.path_in_schema!r} does not fit its column chunk")
            if checksum is not None and zlib.crc32(pages[start:at]) != checksum & 0xFFFFFFFF:
                raise corrupt(location, f"a page of column {chunk.path_in_schema!r} does not match its checksum")
            if kind in _DATA_PAGES:
                values += header[_DATA_PAGES[kind]][1]
            elif kind not in (_DICTIONARY_PAGE, _INDEX_PAGE):
                raise corrupt(location, f"column {chunk.path_in_schema!r} has a page of the unknown type {kind}")
    except (ThriftError, KeyError, TypeError) as error:
        raise corrupt(location, f"a page header of column {chunk.path_in_schema!r} cannot be decoded") from error
    if values != chunk.num_values:
        message = f"column {chunk.path_in_schema!r} promises {chunk.num_values} values and holds {values}"
        raise corrupt(location, message)
