"""What the footer stores about one column chunk, beyond what pyarrow tells safely.

Decoding a whole footer in Python takes longer than reading a few pages, so the record of a chunk is found by the bytes
of what is known about it, its data offset among them, which is unique.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from formatkit.contract.storage import ByteRange
from formatkit.formats.parquet.thrift import ThriftError, decode_struct, encode_part, i64

__all__ = ["ChunkRecord", "chunk_start", "find_chunk_record"]

_META_DATA = 3
_OFFSET_INDEX, _COLUMN_INDEX = (4, 5), (6, 7)
_ENCODING_STATS, _DATA_PAGES = 13, (0, 3)
_CODEC, _NUM_VALUES, _UNCOMPRESSED_SIZE, _COMPRESSED_SIZE, _DATA_PAGE_OFFSET = 4, 5, 6, 7, 9


@dataclass(frozen=True, kw_only=True)
class ChunkRecord:
    """Fields of a `ColumnChunk` by their numbers in the specification.

    Attributes:
        codec: The number of the codec.
        meta_data: The fields of `ColumnMetaData` behind its sizes: offsets, statistics, bloom filter.
        indexes: The fields of `ColumnChunk` that say where the page index is.
        place: Where the record was found in the footer.
    """

    codec: int
    meta_data: Mapping[int, Any]
    indexes: Mapping[int, Any]
    place: int

    @property
    def page_encodings(self) -> list[tuple[int, int]]:
        """The encodings of data pages, and how many pages have them; empty if that is not known."""
        stored = self.meta_data.get(_ENCODING_STATS, ())
        found = []
        for entry in stored if isinstance(stored, list) else ():
            match entry:
                case {1: kind, 2: int(encoding), 3: int(count)} if encoding >= 0 and count >= 0:
                    if kind in _DATA_PAGES and count:
                        found.append((encoding, count))
                case _:
                    return []
        return found

    @property
    def offset_index(self) -> ByteRange | None:
        """Where it is stored where the pages are."""
        return self._index(*_OFFSET_INDEX)

    @property
    def column_index(self) -> ByteRange | None:
        """Where it is stored what the values of the pages are between."""
        return self._index(*_COLUMN_INDEX)

    def _index(self, offset_field: int, length_field: int) -> ByteRange | None:
        offset, length = self.indexes.get(offset_field), self.indexes.get(length_field)
        return ByteRange(offset, length) if isinstance(offset, int) and isinstance(length, int) else None


def find_chunk_record(footer: bytes, chunk: pq.ColumnChunkMetaData, start: int = 0) -> ChunkRecord | None:
    """Find the record of a chunk, or None if it cannot be told apart.

    Args:
        footer: The footer as it is stored.
        chunk: What pyarrow knows about the chunk.
        start: Where to begin; the records of later row groups stand behind those of earlier ones.
    """
    known = encode_part(
        i64(_NUM_VALUES, chunk.num_values),
        i64(_UNCOMPRESSED_SIZE, chunk.total_uncompressed_size),
        i64(_COMPRESSED_SIZE, chunk.total_compressed_size),
        after=_CODEC,
    )
    offset = i64(_DATA_PAGE_OFFSET, chunk.data_page_offset)
    place = footer.find(known + encode_part(offset, after=_COMPRESSED_SIZE), start)
    if place < 0:
        return None
    try:
        meta_data, end = decode_struct(footer, place + len(known), after=_COMPRESSED_SIZE)
        indexes, _ = decode_struct(footer, end, after=_META_DATA)
    except ThriftError:
        return None
    # The number before is the codec, which is small enough for one byte in zigzag form.
    return ChunkRecord(codec=footer[place - 1] >> 1, meta_data=meta_data, indexes=indexes, place=place)


def chunk_start(chunk: pq.ColumnChunkMetaData) -> int:
    """Where the first page of a chunk begins, its dictionary included."""
    # Some writers store 0 where there is no dictionary.
    return min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
