"""Opens Parquet files and reads them: which row groups, which columns, and what is left of the predicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.batches.arrow.pools import memory_pool
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.announcing import announce_chunks
from formatkit.formats.parquet.decoding import HowToDecode, decode
from formatkit.formats.parquet.describe import describe
from formatkit.formats.parquet.footer import Footer, read_footer
from formatkit.formats.parquet.projection import project
from formatkit.formats.parquet.pruning.row_groups import select_row_groups
from formatkit.formats.parquet.selective import decode_matching

__all__ = ["ParquetDataFile", "ParquetReader"]


class ParquetReader:
    """Opens Parquet files for Arrow batches."""

    uses_threads = True

    def open(self, source: ByteSource, options: OpenOptions) -> ParquetDataFile:
        return ParquetDataFile(source, read_footer(source, options.encryption))


class ParquetDataFile:
    """One Parquet file. Its footer was read; each read opens the file anew, so that reads do not share a cursor."""

    def __init__(self, source: ByteSource, footer: Footer) -> None:
        self._source = source
        self._footer = footer

    @property
    def schema(self) -> Schema:
        return self._footer.columns.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._footer.columns.unreadable

    @property
    def row_count(self) -> int:
        return self._footer.row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        if not self._footer.metadata.num_columns:
            return ()
        self._footer.require_sound_chunks()
        return tuple(sorted(row_group.start for row_group in self._footer.row_groups))

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._footer.key_values

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        projection = project(self._footer.columns.columns, options.projection, options.dictionary_columns)
        selection = select_row_groups(self._source, self._footer, projection.columns, options.predicate, options.split)
        counters = dict(selection.counters)
        how = HowToDecode(batch_rows=options.batch_rows, threads=options.threads)
        if selection.all_match:
            if projection.leaves:
                chosen = self._footer.row_groups_at({read.index for read in selection.reads})
                announce_chunks(self._source, chosen, projection.leaves)
            how = replace(how, pool=memory_pool(options.properties))
            batches = decode(self._source, self._footer, projection, selection.reads, how, counters)
        else:
            batches = decode_matching(
                self._source,
                self._footer,
                projection,
                options.projection,
                options.predicate,
                selection.reads,
                how,
                counters,
            )
        return ReadResult(batches=BatchStream(batches), residual=AlwaysTrue(), counters=counters)

    def describe(self) -> Mapping[str, Any]:
        return describe(self._footer)

    def close(self) -> None:
        """Nothing stays open between reads."""
