from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract import ColumnMetrics, FileMetrics, MetricsMode
from support.arrow_forms import FORMS
from support.batch_types import BatchType, every_batch_type
from support.typed_values import ALL_TYPES, TypedValues

LAST = "\U0010ffff"


def collect(batches: BatchType, schema: Schema, modes: dict[int, str], *parts: list[Any]) -> FileMetrics:
    parsed = {field_id: MetricsMode.parse(mode) for field_id, mode in modes.items()}
    collector = batches.operations.collector(schema, parsed)
    for columns in parts:
        collector.update(batches.batch(columns))
    return collector.finish()


def column_metrics(batches: BatchType, kind: IcebergType, mode: str, *columns: Any) -> ColumnMetrics:
    """The metrics of one column that comes in several batches."""
    parts = [[column] for column in columns]
    return collect(batches, Schema(NestedField(1, "c", kind)), {1: mode}, *parts).columns[1]


@every_batch_type
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_bounds_are_the_true_extremes_as_internal_values(batches: BatchType, sample: TypedValues, form: str) -> None:
    values = sample.with_specials
    column = FORMS[form](sample.column(values))
    if column is None or not batches.holds(column):
        return
    metrics = column_metrics(batches, sample.iceberg, "full", column)
    nans = sum(value is not None and sample.is_float and math.isnan(value) for value in values)
    assert metrics == ColumnMetrics(
        value_count=len(values),
        null_count=2,
        nan_count=nans if sample.is_float else None,
        lower=sample.ascending[0],
        upper=sample.ascending[-1],
    )
    assert type(metrics.lower) is type(sample.ascending[0])


@every_batch_type
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_extremes_may_lie_in_any_batch(batches: BatchType, sample: TypedValues) -> None:
    nulls = sample.column([None, None])
    middle = sample.column([sample.ascending[1]])
    whole = sample.column(list(sample.ascending))
    for parts in ([nulls, middle, whole], [whole, middle, nulls], [middle, nulls, whole, nulls]):
        metrics = column_metrics(batches, sample.iceberg, "full", *parts)
        assert (metrics.lower, metrics.upper) == (sample.ascending[0], sample.ascending[-1])
        assert metrics.value_count == sum(map(len, parts))
        assert metrics.null_count == 2 * sum(part is nulls for part in parts)


@every_batch_type
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_a_column_of_nulls_has_counts_and_no_bounds(batches: BatchType, sample: TypedValues) -> None:
    metrics = column_metrics(batches, sample.iceberg, "full", sample.column([None]), sample.column([]))
    assert (metrics.value_count, metrics.null_count, metrics.lower, metrics.upper) == (1, 1, None, None)


@every_batch_type
def test_nan_is_counted_and_never_a_bound(batches: BatchType) -> None:
    nan = math.nan
    all_nan = column_metrics(batches, DoubleType(), "full", pa.array([nan, None, nan]))
    assert all_nan == ColumnMetrics(value_count=3, null_count=1, nan_count=2)
    mixed = column_metrics(
        batches, DoubleType(), "full", pa.array([nan]), pa.array([nan, 2.0, nan]), pa.array([1.0, None])
    )
    assert mixed == ColumnMetrics(value_count=6, null_count=1, nan_count=3, lower=1.0, upper=2.0)


@every_batch_type
@pytest.mark.parametrize(
    ("values", "lower", "upper"),
    [
        ([0.0], 0.0, 0.0),
        ([-0.0], -0.0, -0.0),
        ([0.0, -0.0], -0.0, 0.0),
        ([-0.0, 0.0], -0.0, 0.0),
        ([None, 0.0, math.nan, -0.0], -0.0, 0.0),
        ([-0.0, 1.0], -0.0, 1.0),
        ([0.0, 1.0], 0.0, 1.0),
        ([-1.0, -0.0], -1.0, -0.0),
        ([-1.0, 0.0], -1.0, 0.0),
    ],
)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch for each value"])
@pytest.mark.parametrize("kind", [sample for sample in ALL_TYPES if sample.is_float], ids=str)
def test_minus_zero_lies_below_plus_zero(
    batches: BatchType, values: list[Any], lower: float, upper: float, together: bool, kind: TypedValues
) -> None:
    parts = [values] if together else [[value] for value in values]
    metrics = column_metrics(batches, kind.iceberg, "full", *(kind.column(part) for part in parts))
    assert (metrics.lower, metrics.upper) == (lower, upper)
    assert math.copysign(1, metrics.lower) == math.copysign(1, lower)
    assert math.copysign(1, metrics.upper) == math.copysign(1, upper)


@every_batch_type
@pytest.mark.parametrize(
    ("value", "length", "lower", "upper"),
    [
        ("abc", 3, "abc", "abc"),
        ("abcd", 3, "abc", "abd"),
        ("", 1, "", ""),
        ("ab\u0301c", 2, "ab", "ac"),
        ("\U0001f600\U0001f600", 1, "\U0001f600", "\U0001f601"),
        ("a\ud7ffx", 2, "a\ud7ff", "a\ue000"),
        ("a\uffffx", 2, "a\uffff", "a\U00010000"),
        (f"a{LAST}x", 2, f"a{LAST}", "b"),
        (f"a{LAST}{LAST}x", 3, f"a{LAST}{LAST}", "b"),
        (LAST + "x", 1, LAST, None),
        (LAST * 3, 2, LAST * 2, None),
        (LAST * 2, 2, LAST * 2, LAST * 2),
        ("x" * 10_000, 16, "x" * 16, "x" * 15 + "y"),
    ],
)
def test_strings_are_shortened_by_code_points(
    batches: BatchType, value: str, length: int, lower: str, upper: str | None
) -> None:
    metrics = column_metrics(batches, StringType(), f"truncate({length})", pa.array([value]))
    assert (metrics.lower, metrics.upper) == (lower, upper)
    assert upper is None or upper.encode() >= value.encode() >= lower.encode()


@every_batch_type
@pytest.mark.parametrize(
    ("value", "length", "lower", "upper"),
    [
        (b"abc", 3, b"abc", b"abc"),
        (b"abcd", 3, b"abc", b"abd"),
        (b"a\xffx", 2, b"a\xff", b"b"),
        (b"\xff\xffx", 2, b"\xff\xff", None),
        (b"", 1, b"", b""),
        (bytes(10_000), 2, bytes(2), b"\0\1"),
    ],
)
def test_binaries_are_shortened_by_bytes(
    batches: BatchType, value: bytes, length: int, lower: bytes, upper: bytes | None
) -> None:
    metrics = column_metrics(batches, BinaryType(), f"truncate({length})", pa.array([value]))
    assert (metrics.lower, metrics.upper) == (lower, upper)


@every_batch_type
def test_the_upper_bound_is_shortened_once_after_all_batches(batches: BatchType) -> None:
    parts = (pa.array(["abz"]), pa.array(["ab"]), pa.array(["aby"]))
    assert column_metrics(batches, StringType(), "truncate(2)", *parts).upper == "ac"
    assert column_metrics(batches, StringType(), "full", *parts).upper == "abz"


@every_batch_type
@pytest.mark.parametrize("sample", ALL_TYPES, ids=str)
def test_other_types_are_never_shortened(batches: BatchType, sample: TypedValues) -> None:
    if not isinstance(sample.iceberg, StringType | BinaryType):
        metrics = column_metrics(batches, sample.iceberg, "truncate(1)", sample.column(list(sample.ascending)))
        assert (metrics.lower, metrics.upper) == (sample.ascending[0], sample.ascending[-1])


@every_batch_type
def test_values_that_a_dictionary_holds_for_no_row_do_not_count(batches: BatchType) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array(["a", "m", "z"]))
    metrics = column_metrics(batches, StringType(), "full", column)
    assert metrics == ColumnMetrics(value_count=3, null_count=1, lower="m", upper="m")


@every_batch_type
@pytest.mark.parametrize("mode", ["none", "counts", "truncate(16)", "full"])
def test_modes_say_what_is_recorded(batches: BatchType, mode: str) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", DoubleType()))
    columns = [pa.array([1, None], pa.int32()), pa.array([1.0, math.nan])]
    metrics = collect(batches, schema, {1: mode, 2: mode}, columns)
    bounded = mode in ("truncate(16)", "full")
    expected = {
        1: ColumnMetrics(value_count=2, null_count=1, lower=1 if bounded else None, upper=1 if bounded else None),
        2: ColumnMetrics(
            value_count=2, null_count=0, nan_count=1, lower=1.0 if bounded else None, upper=1.0 if bounded else None
        ),
    }
    assert metrics == FileMetrics(row_count=2, columns={} if mode == "none" else expected)


@every_batch_type
def test_columns_without_a_mode_are_left_out(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    numbers = pa.array([1], pa.int32())
    assert set(collect(batches, schema, {2: "full"}, [numbers, numbers]).columns) == {2}


@every_batch_type
@pytest.mark.parametrize("kind", [UnknownType(), GeometryType(), GeographyType()], ids=str)
def test_types_without_an_order_have_counts_only(batches: BatchType, kind: IcebergType) -> None:
    column: Any = pa.nulls(2) if isinstance(kind, UnknownType) else pa.array([b"wkb", None])
    metrics = column_metrics(batches, kind, "full", column)
    assert metrics == ColumnMetrics(value_count=2, null_count=2 if isinstance(kind, UnknownType) else 1)


NESTED = Schema(
    NestedField(1, "numbers", ListType(2, LongType(), element_required=False)),
    NestedField(3, "pairs", MapType(4, StringType(), 5, LongType(), value_required=False)),
    NestedField(
        6,
        "outer",
        StructType(
            NestedField(7, "inner", StructType(NestedField(8, "leaf", LongType(), required=True))),
            NestedField(9, "items", ListType(10, LongType(), element_required=False)),
        ),
    ),
)


@every_batch_type
@pytest.mark.parametrize("offset", [0, 1, 2])
def test_leaves_of_structs_count_their_null_parents_and_leaves_of_lists_are_left_out(
    batches: BatchType, offset: int
) -> None:
    outer = [None, {"inner": {"leaf": 9}, "items": [1]}, {"inner": None, "items": None}, {"inner": {"leaf": -1}}, None]
    columns = [
        pa.array([[1]] * 5).slice(offset),
        pa.array([[("a", 1)]] * 5, pa.map_(pa.string(), pa.int64())).slice(offset),
        pa.array(outer).slice(offset),
    ]
    metrics = collect(batches, NESTED, dict.fromkeys(range(1, 11), "full"), columns)
    leaves = [row["inner"]["leaf"] for row in outer[offset:] if row and row["inner"]]  # type: ignore[index]
    assert metrics.columns == {
        8: ColumnMetrics(
            value_count=5 - offset, null_count=5 - offset - len(leaves), lower=min(leaves), upper=max(leaves)
        )
    }


@every_batch_type
def test_a_value_that_lies_under_a_null_parent_is_no_value(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "x", LongType()))))
    column = pa.StructArray.from_arrays([pa.array([5, 99])], names=["x"], mask=pa.array([False, True]))
    metrics = collect(batches, schema, {2: "full"}, [column])
    assert metrics.columns[2] == ColumnMetrics(value_count=2, null_count=1, lower=5, upper=5)


@every_batch_type
def test_a_file_without_batches_has_metrics_of_no_rows(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "a", FixedType(2)))
    expected = FileMetrics(row_count=0, columns={1: ColumnMetrics(value_count=0, null_count=0)})
    assert collect(batches, schema, {1: "full"}) == expected


@every_batch_type
def test_decimals_keep_their_scale(batches: BatchType) -> None:
    sample = next(sample for sample in ALL_TYPES if str(sample) == "decimal(9, 2)")
    metrics = column_metrics(batches, sample.iceberg, "full", sample.column([Decimal("1.10"), Decimal("2.00")]))
    assert [str(metrics.lower), str(metrics.upper)] == ["1.10", "2.00"]
