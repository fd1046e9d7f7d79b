"""Files of one plugin in memory: written from rows, read back as rows, and counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import FormatFile, FormatPlugin, OpenOptions, ReadOptions, Split, WriteOptions
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from formatkit.tck.rows import from_arrow, to_arrow

Plugin = FormatPlugin[pa.RecordBatch]
File = FormatFile[pa.RecordBatch]


def write_table(
    plugin: Plugin,
    schema: Schema,
    table: pa.Table,
    *,
    metadata: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
) -> bytes:
    sink = MemorySink()
    options = WriteOptions(schema=schema, metadata=metadata or {}, properties=properties or {})
    with plugin.writer().open(sink, options) as writer:
        for batch in table.to_batches(max_chunksize=32_768):
            writer.write(batch)
    assert sink.data is not None
    return sink.data


def write_rows(plugin: Plugin, schema: Schema, rows: Sequence[dict[int, Any]], **options: Any) -> bytes:
    return write_table(plugin, schema, to_arrow(schema, rows), **options)


class CountingSource(MemorySource):
    """Counts the bytes that are read."""

    bytes_read = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.bytes_read += length
        return super().read(offset, length)


@contextmanager
def opened(plugin: Plugin, data: bytes | MemorySource) -> Iterator[File]:
    source = data if isinstance(data, MemorySource) else MemorySource(data)
    file = plugin.reader().open(source, OpenOptions())
    try:
        yield file
    finally:
        file.close()
        source.close()


def read_rows(
    file: File, projection: Schema | None = None, where: BooleanExpression | str | None = None, **options: Any
) -> list[dict[int, Any]]:
    """The rows that are left when the residual was applied, by the ids of the projection."""
    wanted = projection or file.schema
    predicate = bind(file.schema, where) if where is not None else AlwaysTrue()
    result = file.read(ReadOptions(projection=wanted, predicate=predicate, **options))
    keep = ArrowBatch().filter(wanted, result.residual)
    with result.batches as batches:
        return [row for batch in batches for row in from_arrow(wanted, keep(batch))]


def tiles(size: int, cuts: Sequence[int]) -> list[Split]:
    bounds = sorted({0, size, *cuts})
    return [Split(start, end - start) for start, end in pairwise(bounds)]
