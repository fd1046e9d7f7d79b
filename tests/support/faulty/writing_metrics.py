"""Collectors of metrics with one thing wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    LongType,
    StringType,
    UUIDType,
)

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import ColumnMetrics, FileMetrics, MetricsKind, MetricsMode
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.writing import subject

Change = Callable[[IcebergType, ColumnMetrics, MetricsMode], ColumnMetrics]
_FULL = MetricsMode(MetricsKind.FULL)


@fault(
    "counts_and_bounds_are_recorded_without_being_asked_for",
    "equality_deletes_are_recorded_with_counts_and_bounds",
)
def nulls_are_not_counted() -> Subject[Any]:
    return _telling(lambda _, known, __: replace(known, null_count=0))


@fault("counts_and_bounds_are_recorded_without_being_asked_for")
def nulls_are_not_among_the_values() -> Subject[Any]:
    return _telling(lambda _, known, __: replace(known, value_count=_number(known.value_count, known.null_count)))


@fault(
    "metrics_mode_none_records_nothing_but_rows",
    "metrics_mode_counts_records_no_bounds",
    "metrics_modes_of_single_columns_are_kept",
    "only_the_first_hundred_columns_have_metrics_unless_asked_for",
    "truncated_text_bounds_enclose_the_values",
    "truncated_binary_bounds_enclose_the_values",
)
def all_columns_have_all_metrics() -> Subject[Any]:
    class Generous(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            return super().collector(schema, dict.fromkeys(schema.field_ids, _FULL))

    return subject(operations=Generous())


@fault(
    "truncated_text_bounds_enclose_the_values",
    "truncated_binary_bounds_enclose_the_values",
    "long_values_have_bounds_too",
)
def upper_bounds_are_merely_cut() -> Subject[Any]:
    class Cutting(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            def cut(field_id: int, known: ColumnMetrics) -> ColumnMetrics:
                if not isinstance(known.upper, str | bytes):
                    return known
                length = modes[field_id].length
                return replace(known, lower=known.lower[:length], upper=known.upper[:length])

            return _Telling(super().collector(schema, dict.fromkeys(modes, _FULL)), cut)

    return subject(operations=Cutting())


@fault("truncated_text_bounds_are_text_of_any_alphabet")
def text_bounds_are_cut_by_bytes() -> Subject[Any]:
    def cut(known: ColumnMetrics, length: int) -> ColumnMetrics:
        lower = known.lower and known.lower.encode("utf-8", "surrogatepass")[:length].decode("utf-8", "ignore")
        return replace(known, lower=lower)

    return _cutting(cut)


@fault("truncated_text_bounds_are_text_of_any_alphabet")
def an_upper_bound_that_cannot_be_raised_is_left_as_it_is() -> Subject[Any]:
    return _cutting(lambda known, _: replace(known, upper=known.lower if known.upper is None else known.upper))


@fault("nan_is_counted_and_is_no_bound")
def nan_is_not_counted() -> Subject[Any]:
    return _telling(lambda _, known, __: replace(known, nan_count=None if known.nan_count is None else 0))


@fault("nan_is_counted_and_is_no_bound", "infinities_are_bounds_and_nan_is_not")
def nan_is_the_upper_bound() -> Subject[Any]:
    return _telling(lambda _, known, __: replace(known, upper=math.nan) if known.nan_count else known)


@fault("infinities_are_bounds_and_nan_is_not")
def infinities_are_no_bounds() -> Subject[Any]:
    return _telling(
        lambda kind, known, _: (
            replace(known, lower=-1.0, upper=1.0)
            if isinstance(kind, FloatType | DoubleType) and known.upper == math.inf
            else known
        )
    )


@fault("negative_zero_is_below_zero_in_bounds")
def zeros_in_bounds_are_positive() -> Subject[Any]:
    return _telling(
        lambda kind, known, _: (
            replace(known, lower=0.0) if isinstance(kind, FloatType | DoubleType) and known.lower == 0 else known
        )
    )


@fault("extremes_in_the_middle_of_many_chunks_are_found")
def the_last_batch_decides_about_bounds() -> Subject[Any]:
    class Last(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            return _LastBatch(schema, modes)

    return subject(operations=Last())


@fault("columns_without_a_value_have_counts_and_no_bounds")
def columns_without_values_have_the_bounds_zero() -> Subject[Any]:
    return _telling(
        lambda kind, known, _: (
            replace(known, lower=0, upper=0) if isinstance(kind, LongType) and known.lower is None else known
        )
    )


@fault("leaves_of_structs_have_metrics_and_those_of_lists_have_none")
def leaves_of_structs_have_no_bounds() -> Subject[Any]:
    return _telling(lambda _, known, __: known, nested=lambda known: replace(known, lower=None, upper=None))


@fault("bounds_of_every_type_are_its_true_extremes")
def days_before_1970_are_not_looked_at() -> Subject[Any]:
    return _telling(
        lambda kind, known, _: replace(known, lower=max(known.lower, 0)) if isinstance(kind, DateType) else known
    )


@fault("bounds_of_every_type_are_its_true_extremes")
def uuids_and_fixed_bytes_are_ordered_as_signed() -> Subject[Any]:
    return _telling(
        lambda kind, known, _: (
            replace(known, lower=known.upper, upper=known.lower) if isinstance(kind, UUIDType | FixedType) else known
        )
    )


@fault("long_values_have_bounds_too")
def long_values_have_no_bounds() -> Subject[Any]:
    class Short(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            return _Telling(
                super().collector(schema, dict.fromkeys(modes, _FULL)),
                lambda field_id, known: (
                    replace(known, lower=None, upper=None)
                    if isinstance(known.lower, str | bytes) and len(known.lower) > 4096
                    else known
                ),
            )

    return subject(operations=Short())


def _telling(change: Change, nested: Callable[[ColumnMetrics], ColumnMetrics] | None = None) -> Subject[Any]:
    class Faulty(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            top = {field.field_id for field in schema.fields}

            def changed(field_id: int, known: ColumnMetrics) -> ColumnMetrics:
                if nested is not None and field_id not in top:
                    return nested(known)
                return change(schema.find_type(field_id), known, modes[field_id])

            return _Telling(super().collector(schema, modes), changed)

    return subject(operations=Faulty())


def _cutting(cut: Callable[[ColumnMetrics, int], ColumnMetrics]) -> Subject[Any]:
    class Faulty(ArrowBatch):
        def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> Any:
            def changed(field_id: int, known: ColumnMetrics) -> ColumnMetrics:
                is_cut = (
                    isinstance(schema.find_type(field_id), StringType) and modes[field_id].kind is MetricsKind.TRUNCATE
                )
                return cut(known, modes[field_id].length) if is_cut else known

            return _Telling(super().collector(schema, modes), changed)

    return subject(operations=Faulty())


class _Telling:
    def __init__(self, inner: Any, change: Callable[[int, ColumnMetrics], ColumnMetrics]) -> None:
        self._inner = inner
        self._change = change

    def update(self, batch: pa.RecordBatch) -> None:
        self._inner.update(batch)

    def finish(self) -> FileMetrics:
        found: FileMetrics = self._inner.finish()
        return replace(found, columns={key: self._change(key, known) for key, known in found.columns.items()})


class _LastBatch:
    def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
        self._schema, self._modes = schema, modes
        self._all = ArrowBatch().collector(schema, modes)
        self._last: Mapping[int, ColumnMetrics] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        self._all.update(batch)
        one = ArrowBatch().collector(self._schema, self._modes)
        one.update(batch)
        self._last = {**self._last, **{k: v for k, v in one.finish().columns.items() if v.lower is not None}}

    def finish(self) -> FileMetrics:
        found = self._all.finish()
        columns = {
            key: replace(known, lower=self._last[key].lower, upper=self._last[key].upper)
            if key in self._last
            else known
            for key, known in found.columns.items()
        }
        return replace(found, columns=columns)


def _number(values: int | None, nulls: int | None) -> int | None:
    return None if values is None or nulls is None else values - nulls
