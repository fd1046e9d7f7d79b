"""Parquet for Arrow batches, as the entry point names it."""

from __future__ import annotations

import pyarrow as pa

from formatkit.contract.capability import Capability
from formatkit.formats.parquet.reader import ParquetReader
from formatkit.formats.parquet.writer import ParquetWriter

__all__ = ["ParquetFormat"]


class ParquetFormat:
    """Apache Parquet, decoded and encoded by pyarrow."""

    file_format = "parquet"
    batch_type = pa.RecordBatch
    capabilities = frozenset(
        {
            Capability.SKIP_CHUNKS,
            Capability.FILTER_ROWS,
            Capability.SPLIT,
            Capability.FIELD_IDS,
            Capability.FILE_METADATA,
            Capability.COLUMN_SIZES,
            Capability.DICTIONARY,
            Capability.ENCRYPTION,
            Capability.NANOSECONDS,
            Capability.VARIANT,
        }
    )
    extensions = (".parquet",)
    magic = b"PAR1"

    def reader(self) -> ParquetReader:
        return ParquetReader()

    def writer(self) -> ParquetWriter:
        return ParquetWriter()
