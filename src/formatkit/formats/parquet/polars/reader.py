"""Opens Parquet files for Polars: all that is not decoding is what Arrow's reader does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema

from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.contract.results import BatchStream, ReadResult
from formatkit.contract.storage import ByteSource
from formatkit.errors import UnsupportedError
from formatkit.formats.parquet.footer import Footer, RowGroup, read_footer
from formatkit.formats.parquet.polars.decoding import decode_by_arrow, decode_by_polars
from formatkit.formats.parquet.polars.plain_file import PlainFiles
from formatkit.formats.parquet.polars.plain_schema import plain_schema
from formatkit.formats.parquet.projection import project
from formatkit.formats.parquet.pruning.row_groups import RowGroupSelection, select_row_groups
from formatkit.formats.parquet.reader import ParquetDataFile

__all__ = ["PolarsParquetFile", "PolarsParquetReader"]


class PolarsParquetReader:
    """Opens Parquet files for Polars frames."""

    def open(self, source: ByteSource, options: OpenOptions) -> PolarsParquetFile:
        if options.encryption is not None:
            message = f"{source.location}: encrypted Parquet is read as Arrow batches only"
            raise UnsupportedError(message, location=source.location)
        return PolarsParquetFile(source, read_footer(source, None))


class PolarsParquetFile:
    """One Parquet file. Its footer was read; nothing stays open between reads."""

    def __init__(self, source: ByteSource, footer: Footer) -> None:
        self._source = source
        self._footer = footer
        self._described = ParquetDataFile(source, footer)

    @property
    def schema(self) -> Schema:
        return self._described.schema

    @property
    def unreadable(self) -> Mapping[int, str]:
        return self._described.unreadable

    @property
    def row_count(self) -> int:
        return self._described.row_count

    @property
    def split_offsets(self) -> tuple[int, ...]:
        return self._described.split_offsets

    @property
    def metadata(self) -> Mapping[str, str]:
        return self._described.metadata

    def read(self, options: ReadOptions) -> ReadResult[pl.DataFrame]:
        source, footer = self._source, self._footer
        projection = project(footer.columns.columns, options.projection, frozenset())
        selection = select_row_groups(source, footer, projection.columns, options.predicate, options.split)
        row_groups = _chosen(footer, selection)
        files = self._plain_files(options.projection, row_groups)
        if files is not None:
            batches = decode_by_polars(files, row_groups, options.projection, options.batch_rows)
        else:
            batches = decode_by_arrow(source, footer, projection, selection.reads, options.batch_rows)
        return ReadResult(
            batches=BatchStream(batches),
            residual=AlwaysTrue() if selection.all_match else options.predicate,
            counters={**selection.counters, "row_groups_decoded_by_arrow": 0 if files else len(row_groups)},
        )

    def describe(self) -> Mapping[str, Any]:
        return self._described.describe()

    def close(self) -> None:
        """Nothing stays open between reads."""

    def _plain_files(self, projection: Schema, row_groups: list[RowGroup]) -> PlainFiles | None:
        """What Polars decodes, or None if it would not decode all of it exactly."""
        schema = plain_schema(self._footer.columns.columns, projection)
        if schema is None:
            return None
        if schema.leaves and row_groups:
            self._footer.require_sound_chunks()
        files = PlainFiles(self._source, self._footer, schema)
        return files if files.supports(row_groups) else None


def _chosen(footer: Footer, selection: RowGroupSelection) -> list[RowGroup]:
    chosen = {read.index for read in selection.reads}
    return [row_group for row_group in footer.row_groups if row_group.index in chosen]
