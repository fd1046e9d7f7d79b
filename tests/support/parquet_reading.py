"""Short ways to open and read Parquet bytes in tests."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.contract import POS, OpenOptions, ReadOptions
from formatkit.formats.parquet.reader import ParquetDataFile, ParquetReader
from formatkit.io import MemorySource


def open_bytes(data: bytes, **options: Any) -> ParquetDataFile:
    return ParquetReader().open(MemorySource(data), OpenOptions(**options))


def read_batches(file: ParquetDataFile, projection: Schema | None = None, **options: Any) -> list[pa.RecordBatch]:
    """All batches; all columns unless a projection is given."""
    asked = ReadOptions(projection=file.schema if projection is None else projection, **options)
    with file.read(asked).batches as batches:
        return list(batches)


def read_rows(file: ParquetDataFile, projection: Schema | None = None, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read_batches(file, projection, **options) for row in batch.to_pylist()]


def columns_named(file: ParquetDataFile, *names: str, positions: bool = False) -> Schema:
    """A projection of whole top-level columns."""
    fields = [field for field in file.schema.fields if field.name in names]
    return Schema(*fields, *([POS] if positions else []))
