"""Metrics of the values of a file, gathered while its batches pass by (clause B6)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
    UnknownType,
)

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.forms import as_type, without_encoding
from formatkit.batches.arrow.types import Column, storage_type
from formatkit.contract.metrics import ColumnMetrics, FileMetrics, MetricsKind, MetricsMode
from formatkit.contract.truncation import truncated_lower, truncated_upper
from formatkit.contract.variant import VariantType

__all__ = ["ArrowMetricsCollector"]

_UNBOUNDED = (UnknownType, VariantType, GeometryType, GeographyType)
"""Types without order. The bounds that Iceberg defines for some of them, boxes and shredded paths, are optional."""


class ArrowMetricsCollector:
    """Gathers the metrics of one file. Keeps two values a column, never a batch.

    Leaves inside lists and maps are left out: their counts would not be counts of rows.
    """

    def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
        self._row_count = 0
        self._leaves = [
            _collector(path, field, mode)
            for path, field in _leaves(schema.as_struct(), ())
            if (mode := modes.get(field.field_id)) is not None and mode.counts
        ]

    def update(self, batch: pa.RecordBatch) -> None:
        """Take the values of one more batch into account."""
        self._row_count += batch.num_rows
        if batch.num_rows:
            for leaf in self._leaves:
                leaf.update(batch)

    def finish(self) -> FileMetrics:
        """The metrics of everything seen."""
        columns = {leaf.field.field_id: leaf.metrics(self._row_count) for leaf in self._leaves}
        return FileMetrics(row_count=self._row_count, columns=columns)


def _leaves(struct: StructType, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], NestedField]]:
    for position, field in enumerate(struct.fields):
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, (*path, position))
        elif isinstance(field.field_type, PrimitiveType):
            yield (*path, position), field


def _collector(path: tuple[int, ...], field: NestedField, mode: MetricsMode) -> _Leaf:
    match field.field_type:
        case FloatType() | DoubleType():
            return _FloatLeaf(path, field, mode)
        case StringType() | BinaryType():
            return _BytesLeaf(path, field, mode)
    return _Leaf(path, field, mode)


class _Leaf:
    """Counts and exact extremes of one column."""

    def __init__(self, path: tuple[int, ...], field: NestedField, mode: MetricsMode) -> None:
        self.field = field
        self._mode = mode
        self._find = column_finder(path)
        self._type = storage_type(field.field_type)
        self._bounded = mode.bounds and not isinstance(field.field_type, _UNBOUNDED)
        self._null_count = 0
        self._lower: Any = None
        self._upper: Any = None

    def update(self, batch: pa.RecordBatch) -> None:
        column = self._find(batch)
        values = self._values(column)
        if self._bounded and values.null_count < len(values):
            self._widen(values)

    def metrics(self, row_count: int) -> ColumnMetrics:
        return ColumnMetrics(value_count=row_count, null_count=self._null_count, lower=self._lower, upper=self._upper)

    def _values(self, column: Column) -> Column:
        """Count the nulls; the values among which the extremes are to be found."""
        kind = self.field.field_type
        if isinstance(kind, UnknownType):
            self._null_count += len(column)
            return column
        is_variant = isinstance(kind, VariantType)
        values = without_encoding(column) if is_variant else as_type(column, self._type, self.field.name)
        self._null_count += values.null_count
        return values

    def _widen(self, values: Column) -> None:
        extremes = pc.min_max(values)
        lower, upper = _internal(extremes["min"]), _internal(extremes["max"])
        self._lower = lower if self._lower is None else min(self._lower, lower)
        self._upper = upper if self._upper is None else max(self._upper, upper)


class _BytesLeaf(_Leaf):
    """Strings and binaries, whose bounds may be shortened and whose dictionaries need not be expanded."""

    def metrics(self, row_count: int) -> ColumnMetrics:
        lower, upper = self._lower, self._upper
        if self._mode.kind is MetricsKind.TRUNCATE and lower is not None:
            lower = truncated_lower(lower, self._mode.length)
            upper = truncated_upper(upper, self._mode.length)
        return ColumnMetrics(value_count=row_count, null_count=self._null_count, lower=lower, upper=upper)

    def _values(self, column: Column) -> Column:
        if isinstance(column, pa.DictionaryArray) and column.dictionary.null_count == 0:
            self._null_count += column.null_count
            if not self._bounded:
                return column
            # Only what rows refer to: a dictionary may hold values that were filtered away.
            used = pc.unique(column.indices).drop_null()
            return as_type(column.dictionary, self._type, self.field.name).take(used)
        return super()._values(column)


class _FloatLeaf(_Leaf):
    """Floats, of which NaN is counted and left out of the bounds, and −0.0 lies below 0.0."""

    def __init__(self, path: tuple[int, ...], field: NestedField, mode: MetricsMode) -> None:
        super().__init__(path, field, mode)
        self._nan_count = 0

    def metrics(self, row_count: int) -> ColumnMetrics:
        return ColumnMetrics(
            value_count=row_count,
            null_count=self._null_count,
            nan_count=self._nan_count,
            lower=self._lower,
            upper=self._upper,
        )

    def update(self, batch: pa.RecordBatch) -> None:
        values = self._values(self._find(batch))
        numbers = values.fill_null(math.nan).to_numpy()
        nans = np.count_nonzero(np.isnan(numbers)) - values.null_count
        self._nan_count += nans
        if self._bounded and nans + values.null_count < len(values):
            self._widen(numbers)

    def _widen(self, values: Any) -> None:
        lower, upper = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
        if lower == 0.0 or upper == 0.0:
            # The zeros are equal for NumPy, which returns whichever comes first.
            negative = np.signbit(values[values == 0.0])
            lower = (-0.0 if negative.any() else 0.0) if lower == 0.0 else lower
            upper = (-0.0 if negative.all() else 0.0) if upper == 0.0 else upper
        self._lower = lower if self._lower is None else min(self._lower, lower, key=_total_order)
        self._upper = upper if self._upper is None else max(self._upper, upper, key=_total_order)


def _total_order(value: float) -> tuple[float, float]:
    return value, math.copysign(1.0, value)


def _internal(scalar: Any) -> Any:
    """Times and dates as the integers that they are; Python's types are too small for them."""
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
