"""Opens ORC files and reads them: which stripes, which columns, which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.batches.arrow.pools import memory_pool
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import UnsupportedError
from formatkit.formats.orc.decoding import decode
from formatkit.formats.orc.describe import describe
from formatkit.formats.orc.projection import project
from formatkit.formats.orc.pruning.statistics import StatisticsSection
from formatkit.formats.orc.pruning.stripes import select_stripes
from formatkit.formats.orc.schema import FileSchema, file_schema
from formatkit.formats.orc.tail import Tail, end_range, read_tail

__all__ = ["OrcDataFile", "OrcReader"]


class OrcReader:
    """Opens ORC files for Arrow batches."""

    uses_threads = True

    def open(self, source: ByteSource, options: OpenOptions) -> OrcDataFile:
        if options.encryption is not None:
            raise UnsupportedError(f"{source.location}: ORC files are not decrypted", location=source.location)
        tail = read_tail(source)
        return OrcDataFile(source, tail, file_schema(tail.stored_types, tail.location))

    def opening_ranges(self, size: int) -> Sequence[ByteRange]:
        """What `open` reads first of a file of this length."""
        return (end_range(size),)


class OrcDataFile:
    """One ORC file. Its tail was read; nothing stays open."""

    def __init__(self, source: ByteSource, tail: Tail, columns: FileSchema) -> None:
        self._source = source
        self._tail = tail
        self._columns = columns
        self._statistics = StatisticsSection(source, tail)

    @property
    def schema(self) -> Schema:
        return self._columns.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._columns.unreadable

    @property
    def row_count(self) -> int:
        return self._tail.rows

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return tuple(stripe.offset for stripe in self._tail.stripes)

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._tail.metadata

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        projection = project(self._columns.columns, options.projection)
        selection = select_stripes(self._statistics, projection.columns, options.predicate, options.split)
        batches = decode(
            self._source,
            self._tail,
            projection,
            options.projection,
            options.predicate,
            selection.reads,
            options.batch_rows,
            memory_pool(options.properties),
            options.threads,
        )
        return ReadResult(batches=BatchStream(batches), residual=AlwaysTrue(), counters=selection.counters)

    def describe(self) -> Mapping[str, Any]:
        return describe(self._tail)

    def close(self) -> None:
        """Nothing stays open between reads."""
