"""One Parquet file read in every way that the reader has, which must all give the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from pyiceberg.expressions import BooleanExpression

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.polars import PolarsBatch
from formatkit.tck.literals import internal
from support.filters import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
)
from support.thresholds import picking_pages

__all__ = ["WAYS", "Read", "duckdb_rows", "filters_on"]

Read = Callable[..., list[Any]]
"""From a file to the internal values of its first column; further arguments are those of `read_file`."""


def _arrow(*, batch_rows: int = 131_072, pages: bool = False) -> Read:
    def read(data: bytes, **asked: Any) -> list[Any]:
        with picking_pages() if pages else nullcontext():
            scan = formatkit.read_file(data, file_format="parquet", batch_rows=batch_rows, **asked)
            rows = [row for batch in scan.to_batches() for row in ArrowBatch().rows(scan.schema, batch)]
        return [internal(row[0], scan.schema.fields[0].field_type) for row in rows]

    return read


def _polars(data: bytes, **asked: Any) -> list[Any]:
    scan = formatkit.read_file(data, file_format="parquet", batch_type=pl.DataFrame, **asked)
    rows = [row for batch in scan.to_batches() for row in PolarsBatch().rows(scan.schema, batch)]
    return [internal(row[0], scan.schema.fields[0].field_type) for row in rows]


WAYS: dict[str, Read] = {
    "arrow": _arrow(),
    "small batches": _arrow(batch_rows=3),
    "picked pages": _arrow(pages=True),
    "polars": _polars,
}


def duckdb_rows(path: Path, columns: str = "*") -> list[Any]:
    """What DuckDB reads of a file."""
    found = duckdb.sql(f"select {columns} from '{path}'")
    assert found is not None
    return found.fetchall()


def filters_on(column: str, literals: Sequence[Any]) -> list[BooleanExpression]:
    """Every comparison with each literal, and null tests."""
    comparisons = (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
    found = [compare(column, literal) for literal in literals for compare in comparisons]
    return [*found, In(column, set(literals[:2])), NotIn(column, set(literals[:2])), IsNull(column), NotNull(column)]
