from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
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
def test_values_that_a_dictionary_holds_for_no_row_do_not_count(batches: BatchType) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array(["a", "m", "z"]))
    metrics = column_metrics(batches, StringType(), "full", column)
    assert metrics == ColumnMetrics(value_count=3, null_count=1, lower="m", upper="m")


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
