"""Collectors of metrics that are wrong in one thing each."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DecimalType, IcebergType, StringType, TimestampNanoType, UUIDType

from formatkit.contract import ColumnMetrics, FileMetrics, MetricsMode
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.batch import GOOD, collecting, faulty


def seeing(change: Callable[[pa.RecordBatch, int], pa.RecordBatch]) -> Subject[Any]:
    """A collector that sees other batches than it is given; `change` is told how many came before."""

    class Collector:
        def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
            self.good = GOOD.collector(schema, modes)
            self.seen = 0

        def update(self, batch: pa.RecordBatch) -> None:
            self.good.update(change(batch, self.seen))
            self.seen += 1

        def finish(self) -> FileMetrics:
            return self.good.finish()

    return faulty(collector=Collector)


def with_modes(change: Callable[[Schema, Mapping[int, MetricsMode]], dict[int, MetricsMode]]) -> Subject[Any]:
    """A collector that records in other modes than it is asked to."""
    return faulty(collector=lambda schema, modes: GOOD.collector(schema, change(schema, modes)))


def is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


@fault("bounds_are_the_least_and_the_greatest_value_of_every_type")
def bounds_of_uuids_are_swapped() -> Subject[Any]:
    def change(metrics: ColumnMetrics, kind: IcebergType) -> ColumnMetrics:
        return replace(metrics, lower=metrics.upper, upper=metrics.lower) if isinstance(kind, UUIDType) else metrics

    return collecting(change)


@fault("bounds_of_a_single_value_are_that_value", "bounds_of_other_types_are_never_shortened")
def bounds_lose_their_nanoseconds() -> Subject[Any]:
    def change(metrics: ColumnMetrics, kind: IcebergType) -> ColumnMetrics:
        if isinstance(kind, TimestampNanoType) and metrics.lower is not None:
            return replace(metrics, lower=metrics.lower // 1000 * 1000, upper=metrics.upper // 1000 * 1000)
        return metrics

    return collecting(change)


@fault(
    "bounds_lie_in_whichever_batch_holds_them",
    "counts_are_those_of_all_batches",
    "metrics_do_not_depend_on_how_rows_are_cut_into_batches",
)
def only_the_first_batch_counts() -> Subject[Any]:
    return seeing(lambda batch, seen: batch.slice(0, 0) if seen else batch)


@fault("a_column_of_nulls_has_counts_and_no_bounds")
def nulls_are_not_counted_where_there_is_nothing_else() -> Subject[Any]:
    def change(metrics: ColumnMetrics, _: IcebergType) -> ColumnMetrics:
        return replace(metrics, null_count=0) if metrics.null_count == metrics.value_count else metrics

    return collecting(change)


@fault("nan_is_counted_for_floats_and_for_them_alone")
def nan_is_not_counted() -> Subject[Any]:
    return collecting(lambda metrics, _: replace(metrics, nan_count=None))


@fault("nan_is_never_a_bound")
def nan_is_the_greatest_value() -> Subject[Any]:
    return collecting(lambda metrics, _: replace(metrics, upper=math.nan) if metrics.nan_count else metrics)


@fault("minus_zero_lies_below_zero")
def minus_zero_is_zero_as_a_lower_bound() -> Subject[Any]:
    return collecting(lambda metrics, _: replace(metrics, lower=0.0) if is_negative_zero(metrics.lower) else metrics)


@fault("minus_zero_lies_below_zero")
def bounds_of_zeros_are_always_widened() -> Subject[Any]:
    def change(metrics: ColumnMetrics, _: IcebergType) -> ColumnMetrics:
        lower = -0.0 if metrics.lower == 0.0 and isinstance(metrics.lower, float) else metrics.lower
        return replace(metrics, lower=lower)

    return collecting(change)


@fault("long_strings_are_shortened_by_code_points", "an_upper_bound_is_shortened_once_after_all_batches")
def upper_bounds_of_strings_are_not_incremented() -> Subject[Any]:
    def change(metrics: ColumnMetrics, kind: IcebergType) -> ColumnMetrics:
        shortened = isinstance(kind, StringType) and metrics.upper is not None and metrics.upper != metrics.lower
        return replace(metrics, upper=metrics.lower) if shortened else metrics

    return collecting(change)


@fault("an_upper_bound_of_strings_is_text_and_not_below_any_of_them")
def upper_bounds_of_strings_are_cut_like_lower_ones() -> Subject[Any]:
    return collecting(lambda metrics, kind: replace(metrics, upper=metrics.lower) if kind == StringType() else metrics)


@fault("long_binaries_are_shortened_by_bytes")
def upper_bounds_of_binaries_carry_past_the_end() -> Subject[Any]:
    def change(metrics: ColumnMetrics, kind: IcebergType) -> ColumnMetrics:
        missing = isinstance(kind, BinaryType) and metrics.lower and metrics.upper is None
        return replace(metrics, upper=b"\0") if missing else metrics

    return collecting(change)


@fault("modes_say_what_is_recorded", "a_column_has_the_mode_of_its_own")
def counts_come_with_bounds() -> Subject[Any]:
    def change(_: Schema, modes: Mapping[int, MetricsMode]) -> dict[int, MetricsMode]:
        return {key: MetricsMode.parse("full") if str(mode) == "counts" else mode for key, mode in modes.items()}

    return with_modes(change)


@fault("a_column_has_the_mode_of_its_own")
def columns_without_a_mode_have_the_default() -> Subject[Any]:
    def change(schema: Schema, modes: Mapping[int, MetricsMode]) -> dict[int, MetricsMode]:
        return {**dict.fromkeys(schema.field_ids, MetricsMode.parse("truncate(16)")), **modes}

    return with_modes(change)


@fault("a_leaf_of_a_struct_counts_its_null_parents_as_nulls")
def null_parents_are_not_counted() -> Subject[Any]:
    def change(batch: pa.RecordBatch, _: int) -> pa.RecordBatch:
        structs: list[Any] = [column for column in batch.columns if pa.types.is_struct(column.type)]
        return batch.filter(structs[0].is_valid()) if structs else batch

    return seeing(change)


@fault("what_lies_under_a_null_parent_is_no_value")
def what_lies_under_a_null_parent_counts() -> Subject[Any]:
    def change(batch: pa.RecordBatch, _: int) -> pa.RecordBatch:
        column: Any = batch.column(0)
        children = [column.field(place) for place in range(column.type.num_fields)]
        bare: Any = pa.StructArray.from_arrays(children, fields=list(column.type))
        return pa.RecordBatch.from_arrays([bare], names=batch.schema.names)

    return seeing(change)


@fault("leaves_inside_lists_and_maps_have_no_bounds")
def elements_of_lists_have_bounds() -> Subject[Any]:
    class Collector:
        def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
            self.good = GOOD.collector(schema, modes)
            self.leaf = max(modes)

        def update(self, batch: pa.RecordBatch) -> None:
            self.good.update(batch)

        def finish(self) -> FileMetrics:
            found = self.good.finish()
            bounds = ColumnMetrics(value_count=2, null_count=0, lower=1, upper=2)
            return FileMetrics(row_count=found.row_count, columns={**found.columns, self.leaf: bounds})

    return faulty(collector=Collector)


@fault("a_column_of_unknown_type_has_counts_only")
def nothing_is_known_of_columns_of_unknown_type() -> Subject[Any]:
    return collecting(lambda metrics, kind: ColumnMetrics() if str(kind) == "unknown" else metrics)


@fault("a_file_without_batches_has_metrics_of_no_rows")
def counts_of_no_rows_are_unknown() -> Subject[Any]:
    return collecting(lambda metrics, _: metrics if metrics.value_count else ColumnMetrics())


@fault("decimals_in_bounds_keep_their_scale")
def decimals_are_normalised() -> Subject[Any]:
    def change(metrics: ColumnMetrics, kind: IcebergType) -> ColumnMetrics:
        if isinstance(kind, DecimalType) and metrics.lower is not None:
            return replace(metrics, lower=metrics.lower.normalize(), upper=metrics.upper.normalize())
        return metrics

    return collecting(change)


@fault("metrics_are_the_same_for_every_physical_form", "metrics_do_not_see_dictionary_entries_that_no_row_has")
def all_entries_of_a_dictionary_count() -> Subject[Any]:
    def change(batch: pa.RecordBatch, _: int) -> pa.RecordBatch:
        column: Any = batch.column(0)
        if not isinstance(column, pa.DictionaryArray):
            return batch
        return pa.RecordBatch.from_arrays([column.dictionary], names=batch.schema.names)

    return seeing(change)


@fault("metrics_of_every_data_set_are_those_of_plain_rows")
def nulls_are_not_counted_as_values() -> Subject[Any]:
    def change(metrics: ColumnMetrics, _: IcebergType) -> ColumnMetrics:
        return replace(metrics, value_count=(metrics.value_count or 0) - (metrics.null_count or 0))

    return collecting(change)


@fault("bounds_enclose_every_value_however_long_they_may_be")
def the_upper_bound_is_the_lower_one() -> Subject[Any]:
    return collecting(lambda metrics, _: replace(metrics, upper=metrics.lower))
