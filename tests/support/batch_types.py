"""Every batch type that the project ships, filled from Arrow columns, so that one suite judges them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.polars import PolarsBatch
from formatkit.contract import DataBatch

__all__ = ["ARROW", "POLARS", "BatchType", "every_batch_type"]


@dataclass(frozen=True)
class BatchType:
    """One batch type, and how to make batches of it."""

    name: str
    operations: DataBatch[Any]

    def holds(self, column: Any) -> bool:
        """Whether the batch type has the physical form of an Arrow column."""
        return self is ARROW or not _is_foreign(column.type)

    def batch(self, columns: Sequence[Any], rows: int | None = None) -> Any:
        """A batch of Arrow columns; without columns, of so many rows."""
        names = [f"c{number}" for number in range(len(columns))]
        if self is POLARS:
            series = [pl.Series(name, pl.from_arrow(column)) for name, column in zip(names, columns, strict=True)]
            return pl.DataFrame(series) if series else pl.DataFrame(height=rows or 0)
        if not columns:
            return pa.record_batch([pa.nulls(rows or 0)], names=[""]).select([])
        return pa.RecordBatch.from_arrays(list(columns), names=names)

    def rows(self, schema: Schema, batch: Any) -> list[tuple[Any, ...]]:
        return list(self.operations.rows(schema, batch))

    def column(self, schema: Schema, batch: Any, position: int = 0) -> list[Any]:
        """One column as Python values."""
        return [row[position] for row in self.rows(schema, batch)]

    def __str__(self) -> str:
        return self.name


ARROW = BatchType("arrow", ArrowBatch())
POLARS = BatchType("polars", PolarsBatch())

every_batch_type = pytest.mark.parametrize("batches", [ARROW, POLARS], ids=str)


def _is_foreign(arrow_type: Any) -> bool:
    """Whether Polars has no column of this Arrow type."""
    return bool(
        pa.types.is_run_end_encoded(arrow_type)
        or pa.types.is_decimal256(arrow_type)
        or isinstance(arrow_type, pa.OpaqueType)
    )
