"""Every batch type that the project ships, filled from Arrow columns, so that one suite judges them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch, arrow_schema, column_of
from formatkit.batches.polars import PolarsBatch, polars_schema
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

    def canonical(self, schema: Schema, batch: Any) -> pa.RecordBatch:
        """The batch as Arrow's canonical form. Raises if it is not in its own."""
        if self is ARROW:
            assert batch.schema.equals(arrow_schema(schema), check_metadata=True)
            batch.validate(full=True)
            return cast("pa.RecordBatch", batch)
        assert list(batch.schema.items()) == list(polars_schema(schema).items())
        rows = self.rows(schema, batch)
        columns = [column_of(field.field_type, [row[i] for row in rows]) for i, field in enumerate(schema.fields)]
        if not columns:
            return cast("pa.RecordBatch", ARROW.batch([], len(rows)))
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema))

    def __str__(self) -> str:
        return self.name


ARROW = BatchType("arrow", ArrowBatch())
POLARS = BatchType("polars", PolarsBatch())

every_batch_type = pytest.mark.parametrize("batches", [ARROW, POLARS], ids=str)


def _is_foreign(kind: Any) -> bool:
    """Whether Polars has no column of this Arrow type, or none that says that it is one."""
    return bool(
        pa.types.is_run_end_encoded(kind)
        or pa.types.is_decimal256(kind)
        or pa.types.is_date64(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
        or isinstance(kind, pa.OpaqueType)
    )
