"""Parquet for Polars frames, as the entry point names it."""

from __future__ import annotations

import polars as pl

from formatkit.contract.capability import Capability
from formatkit.formats.parquet.polars.reader import PolarsParquetReader
from formatkit.formats.parquet.polars.writer import PolarsParquetWriter

__all__ = ["PolarsParquetFormat"]


class PolarsParquetFormat:
    """Apache Parquet, decoded by Polars; encoded by pyarrow, which alone stores field ids at every level."""

    file_format = "parquet"
    batch_type = pl.DataFrame
    capabilities = frozenset(
        {
            Capability.SKIP_CHUNKS,
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.COLUMN_SIZES,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions = (".parquet",)
    magic = b"PAR1"

    def reader(self) -> PolarsParquetReader:
        return PolarsParquetReader()

    def writer(self) -> PolarsParquetWriter:
        return PolarsParquetWriter()
