"""Short ways to read Parquet bytes with the Polars plugin, and to compare it with Arrow's."""

from __future__ import annotations

from typing import Any

import polars as pl
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.polars import PolarsBatch
from formatkit.contract import OpenOptions, ReadOptions, ReadResult
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.formats.parquet.polars.plugin import PolarsParquetFormat
from formatkit.formats.parquet.polars.reader import PolarsParquetFile
from formatkit.io import MemorySource

__all__ = ["frames", "open_for_polars", "rows_by_arrow", "rows_by_polars"]

Rows = list[tuple[Any, ...]]


def open_for_polars(data: bytes) -> PolarsParquetFile:
    return PolarsParquetFormat().reader().open(MemorySource(data), OpenOptions())


def frames(result: ReadResult[pl.DataFrame]) -> list[pl.DataFrame]:
    with result.batches as batches:
        return list(batches)


def rows_by_polars(data: bytes, projection: Schema | None = None, **options: Any) -> Rows:
    file = open_for_polars(data)
    asked = ReadOptions(projection=projection or file.schema, **options)
    result = file.read(asked)
    keep = PolarsBatch().filter(asked.projection, result.residual)
    return [row for frame in frames(result) for row in PolarsBatch().rows(asked.projection, keep(frame))]


def rows_by_arrow(data: bytes, projection: Schema | None = None, **options: Any) -> Rows:
    file = ParquetFormat().reader().open(MemorySource(data), OpenOptions())
    asked = ReadOptions(projection=projection or file.schema, **options)
    with file.read(asked).batches as batches:
        return [row for batch in batches for row in ArrowBatch().rows(asked.projection, batch)]
