"""Short ways to write Parquet into memory in tests, and to look at what was written."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema

from formatkit.contract import WriteOptions, WriteResult
from formatkit.formats.parquet.thrift import decode_struct
from formatkit.formats.parquet.writer import ParquetWriter
from formatkit.io import MemorySink

__all__ = ["data_pages", "metadata_of", "write_bytes", "written"]


def written(schema: Schema, batches: Sequence[pa.RecordBatch], **options: Any) -> tuple[bytes, WriteResult]:
    """The bytes of a file of these batches, and what the writer reports."""
    sink = MemorySink()
    with ParquetWriter().open(sink, WriteOptions(schema=schema, **options)) as writer:
        for batch in batches:
            writer.write(batch)
        result = writer.close()
    assert result is not None
    assert sink.data is not None
    return sink.data, result


def write_bytes(schema: Schema, *columns: Any, **options: Any) -> bytes:
    """The bytes of a file of these columns."""
    batch = pa.RecordBatch.from_arrays(list(columns), names=[field.name for field in schema.fields])
    return written(schema, [batch], **options)[0]


def metadata_of(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(data))


def data_pages(data: bytes, chunk: pq.ColumnChunkMetaData) -> Iterator[dict[int, Any]]:
    """The page headers of a column chunk by Thrift field number, the dictionary page excepted."""
    at, values = chunk.data_page_offset, 0
    while values < chunk.num_values:
        header, at = decode_struct(data, at)
        at += header[3]
        values += (header.get(5) or header[8])[1]
        yield header
