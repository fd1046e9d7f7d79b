"""Writes Polars frames to Parquet files through Arrow.

Polars encodes by itself, but stores no field ids inside lists and structs, no maps, no uuid, and none of what the
`write.parquet.*` properties ask for. A frame becomes an Arrow batch almost without copying, and the rest is one code
path for both batch types.
"""

from __future__ import annotations

from types import TracebackType

import polars as pl

from formatkit.batches.polars import PolarsBatch
from formatkit.batches.polars.to_arrow import arrow_batch
from formatkit.contract import ByteSink, WriteOptions, WriteResult
from formatkit.errors import UnsupportedError
from formatkit.formats.parquet.writer import ParquetFileWriter, ParquetWriter

__all__ = ["PolarsParquetFileWriter", "PolarsParquetWriter"]


class PolarsParquetWriter:
    """Creates Parquet files from Polars frames."""

    def open(self, sink: ByteSink, options: WriteOptions) -> PolarsParquetFileWriter:
        if options.encryption is not None:
            raise UnsupportedError(f"{sink.location}: encrypted Parquet is written from Arrow batches only")
        return PolarsParquetFileWriter(ParquetWriter().open(sink, options), options)


class PolarsParquetFileWriter:
    """One Parquet file."""

    def __init__(self, writer: ParquetFileWriter, options: WriteOptions) -> None:
        self._writer = writer
        self._schema = options.schema
        self._canonical = PolarsBatch().evolve(options.schema, options.schema, {})

    def write(self, batch: pl.DataFrame) -> None:
        self._writer.write(arrow_batch(self._schema, self._canonical(batch)))

    def bytes_written(self) -> int:
        return self._writer.bytes_written()

    def close(self) -> WriteResult | None:
        return self._writer.close()

    def abort(self) -> None:
        self._writer.abort()

    def __enter__(self) -> PolarsParquetFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
