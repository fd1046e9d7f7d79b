"""Metrics of the values of a file, gathered while its batches pass by (clause B6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimeType,
    UnknownType,
)

from formatkit.batches.polars.columns import place_of
from formatkit.batches.polars.forms import Check, as_flat, require
from formatkit.batches.polars.layouts import PerLayout
from formatkit.batches.polars.types import NANOS_PER_MICRO, polars_type
from formatkit.contract.metrics import ColumnMetrics, FileMetrics, MetricsKind, MetricsMode
from formatkit.contract.truncation import truncated_lower, truncated_upper
from formatkit.contract.variant import VariantType

__all__ = ["PolarsMetricsCollector"]

_NO_BOUNDS = (UnknownType, GeometryType, GeographyType, VariantType)


class PolarsMetricsCollector:
    """Gathers the metrics of one file: all columns of a batch at once, of which two values a column are kept.

    Leaves inside lists and maps are left out: their counts would not be counts of rows.
    """

    def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
        self._row_count = 0
        self._leaves = [
            _Leaf(path, field, mode)
            for path, field in _leaves(schema.as_struct(), ())
            if (mode := modes.get(field.field_id)) is not None and mode.counts
        ]
        self._layouts = PerLayout(self._aggregates)

    def update(self, batch: pl.DataFrame) -> None:
        """Take the values of one more batch into account."""
        self._row_count += batch.height
        if not batch.height or not self._leaves:
            return
        aggregates, checks = self._layouts.of(batch)
        require(batch, checks)
        found = batch.select(aggregates).row(0, named=True)
        for number, leaf in enumerate(self._leaves):
            leaf.widen({name: found.get(f"{number}.{name}") for name in _AGGREGATES})

    def finish(self) -> FileMetrics:
        """The metrics of everything seen."""
        columns = {leaf.field.field_id: leaf.metrics(self._row_count) for leaf in self._leaves}
        return FileMetrics(row_count=self._row_count, columns=columns)

    def _aggregates(self, found: pl.Schema) -> tuple[list[pl.Expr], list[Check]]:
        aggregates: list[pl.Expr] = []
        checks: list[Check] = []
        for number, leaf in enumerate(self._leaves):
            expressions, more = leaf.aggregates(found)
            aggregates += [each.alias(f"{number}.{name}") for name, each in expressions.items()]
            checks += more
        return aggregates, checks


_AGGREGATES = ("nulls", "nans", "lower", "upper", "has_minus_zero", "has_plus_zero")


def _leaves(struct: StructType, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], NestedField]]:
    for position, field in enumerate(struct.fields):
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, (*path, position))
        elif isinstance(field.field_type, PrimitiveType):
            yield (*path, position), field


class _Leaf:
    """Counts and exact extremes of one column."""

    def __init__(self, path: tuple[int, ...], field: NestedField, mode: MetricsMode) -> None:
        self.field = field
        self._path = path
        self._mode = mode
        self._bounded = mode.bounds and not isinstance(field.field_type, _NO_BOUNDS)
        self._is_float = isinstance(field.field_type, FloatType | DoubleType)
        self._null_count = 0
        self._nan_count = 0
        self._lower: Any = None
        self._upper: Any = None

    def aggregates(self, found: pl.Schema) -> tuple[dict[str, pl.Expr], list[Check]]:
        """What is to be known about each batch of a layout."""
        place = place_of(self._path, self.field, found)
        kind = self.field.field_type
        if isinstance(kind, UnknownType):
            return {"nulls": pl.len()}, []
        values, checks = as_flat(place, polars_type(kind))
        wanted = {"nulls": values.null_count()}
        if self._is_float:
            wanted["nans"] = values.is_nan().sum()
            values = values.drop_nans()
        if self._bounded:
            wanted |= {"lower": _internal(kind, values.min()), "upper": _internal(kind, values.max())}
        if self._bounded and self._is_float:
            # The zeros are equal for Polars; dividing by them tells them apart.
            zeros = 1 / values.filter(values == 0)
            wanted |= {"has_minus_zero": (zeros < 0).any(), "has_plus_zero": (zeros > 0).any()}
        return wanted, checks

    def widen(self, found: Mapping[str, Any]) -> None:
        """Take what was found in one batch into account."""
        self._null_count += found["nulls"]
        self._nan_count += found["nans"] or 0
        lower, upper = found["lower"], found["upper"]
        if lower is None:
            return
        if self._is_float and lower == 0:
            lower = -0.0 if found["has_minus_zero"] else 0.0
        if self._is_float and upper == 0:
            upper = 0.0 if found["has_plus_zero"] else -0.0
        self._lower = lower if self._lower is None else min(self._lower, lower, key=_total_order)
        self._upper = upper if self._upper is None else max(self._upper, upper, key=_total_order)

    def metrics(self, row_count: int) -> ColumnMetrics:
        lower, upper = self._lower, self._upper
        if self._mode.kind is MetricsKind.TRUNCATE and isinstance(self.field.field_type, StringType | BinaryType):
            lower = None if lower is None else truncated_lower(lower, self._mode.length)
            upper = None if upper is None else truncated_upper(upper, self._mode.length)
        return ColumnMetrics(
            value_count=row_count,
            null_count=self._null_count,
            nan_count=self._nan_count if self._is_float else None,
            lower=lower,
            upper=upper,
        )


def _internal(kind: Any, extreme: pl.Expr) -> pl.Expr:
    """Dates and times as the integers that they are; Python's types are too small for them."""
    if isinstance(kind, TimeType):
        return extreme.to_physical() // NANOS_PER_MICRO
    return extreme.to_physical() if polars_type(kind).is_temporal() else extreme


def _total_order(value: Any) -> Any:
    return (value, math.copysign(1.0, value)) if isinstance(value, float) else value
