"""Stripes are left out only if their statistics can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)

from formatkit.contract import POS, ReadOptions
from formatkit.kernel import bind
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import leaf_types, predicates, rows
from support.orc_files import foreign, open_bytes, pyorc_bytes, read_rows, stripes_of, written


def stripes_of_one(values: Sequence[Any], kind: Any) -> bytes:
    """A file with one stripe for each value."""
    data = foreign(pa.table({"a": pa.array(values, kind), "pad": ["x"] * len(values)}), stripe_size=1, batch_size=1)
    assert open_bytes(data).describe()["rows_per_stripe"] == [1] * len(values)
    return data


def read_and_count(data: bytes, where: str) -> tuple[list[Any], int]:
    """The values that match and how many stripes were decoded."""
    file = open_bytes(data)
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, where)))
    with result.batches as batches:
        return [value for batch in batches for value in batch["a"].to_pylist()], result.counters["stripes_read"]


@pytest.mark.parametrize(
    ("values", "kind", "where", "stripes"),
    [
        ([1, 5, None, -7], pa.int64(), "a > 1", 1),
        ([1, 5, None, -7], pa.int32(), "a in (-7, 6)", 1),
        ([1, 5, None, -7], pa.int8(), "a is null", 1),
        ([1, 5, None, -7], pa.int64(), "a != 5", 3),
        ([1.5, -2.0, None], pa.float64(), "a < 0", 1),
        ([1.5, -2.0, None], pa.float32(), "a >= 1.5", 1),
        (["a", "bc", "ß", None], pa.string(), "a = 'bc'", 1),
        (["a", "bc", "bd", None], pa.string(), "a like 'b%'", 2),
        ([True, False, None], pa.bool_(), "a = true", 1),
        ([Decimal("1.10"), Decimal("-3.00"), None], pa.decimal128(9, 2), "a > 0", 1),
        ([date(1960, 1, 1), date(2020, 1, 1)], pa.date32(), "a < '1970-01-01'", 1),
        ([datetime(1960, 1, 1), datetime(2020, 1, 1)], pa.timestamp("us"), "a < '1970-01-01T00:00:00'", 1),
        (
            [datetime(1960, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)],
            pa.timestamp("us", "UTC"),
            "a > '2019-12-31T00:00:00+00:00'",
            1,
        ),
    ],
)
def test_stripes_that_cannot_match_are_not_read(values: Sequence[Any], kind: Any, where: str, stripes: int) -> None:
    found, read = read_and_count(stripes_of_one(values, kind), where)
    assert read == stripes
    assert len(found) == stripes


def test_a_row_group_with_nan_hides_its_other_values_from_the_statistics() -> None:
    values = pa.array([float(n) for n in range(10_000)] + [nan] + [1e9] * 10_000)
    data = foreign(pa.table({"a": values}), row_index_stride=10_000)
    found, _ = read_and_count(data, "a > 100000")
    assert len(found) == 10_000


@pytest.mark.parametrize("values", [[nan], [nan, 1.0], [1.0, nan], [inf, -inf], [nan, None]])
@pytest.mark.parametrize(
    "where", ["a = 1.0", "a is nan", "a is not nan", "a < 5.0", "a > 0.0", "a is null", "a != 1.0"]
)
def test_nan_is_never_lost(values: list[float | None], where: str) -> None:
    schema = Schema(NestedField(1, "a", DoubleType()))
    file = open_bytes(foreign(pa.table({"a": pa.array(values, pa.float64())})))
    expected = [value for value in values if naive.matches({1: value}, schema, parse(where))]
    assert repr([row["a"] for row in read_rows(file, where=where)]) == repr(expected)


@pytest.mark.parametrize("zeros", [[-0.0, 0.0], [0.0, -0.0], [-0.0], [0.0]])
@pytest.mark.parametrize("where", ["a = 0", "a >= 0", "a <= 0", "a in (0, 7)"])
def test_zeros_of_both_signs_are_found(zeros: list[float], where: str) -> None:
    assert len(read_and_count(foreign(pa.table({"a": zeros})), where)[0]) == len(zeros)


MOMENTS = [-1, -999, -1_000, -999_500, -1_000_001, -1_500_000, 0, 1, 999_999]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("operator", ["=", "<=", ">="])
def test_timestamps_before_1970_are_found_by_their_own_value(moment: int, operator: str) -> None:
    file = open_bytes(foreign(pa.table({"a": pa.array([moment], pa.timestamp("us"))})))
    text = (datetime(1970, 1, 1) + (datetime.resolution * moment)).isoformat(timespec="microseconds")
    assert len(read_rows(file, where=f"a {operator} '{text}'")) == 1


def test_files_without_statistics_are_read_whole() -> None:
    data = pyorc_bytes("struct<a:int>", [(n,) for n in range(10)], row_index_stride=0)
    assert read_and_count(data, "a = 3") == ([3], 1)


def test_long_texts_are_found_by_shortened_bounds() -> None:
    values = ["b" * 5000, "b" * 5000 + "c"]
    for value in values:
        assert read_and_count(foreign(pa.table({"a": values})), f"a = '{value}'")[0] == [value]


def test_statistics_of_elements_say_nothing_about_rows() -> None:
    schema = Schema(
        NestedField(1, "s", StructType(NestedField(2, "n", LongType()))),
        NestedField(3, "l", ListType(4, LongType(), element_required=False)),
        NestedField(5, "pad", StringType()),
    )
    kind = pa.struct([("n", pa.int64())])
    columns = [pa.array([{"n": 1}, None, {"n": None}], kind), pa.array([[], None, [1, 2, 3]]), pa.array(["x"] * 3)]
    batch = pa.RecordBatch.from_arrays(columns, ["s", "l", "pad"])
    file = open_bytes(written(schema, [batch], properties=stripes_of(1))[0])
    assert [row["s"] for row in read_rows(file, where="s.n is null")] == [None, {"n": None}]
    assert [row["s"] for row in read_rows(file, where="s is null")] == [None]
    assert [row["l"] for row in read_rows(file, where="l is not null")] == [[], [1, 2, 3]]


@given(data=st.data())
def test_small_stripes_give_the_rows_that_the_naive_evaluator_gives(data: st.DataObject) -> None:
    kinds: list[PrimitiveType] = data.draw(st.lists(leaf_types(), min_size=1, max_size=3))
    inner = NestedField(20, "x", data.draw(leaf_types()), required=False)
    schema = Schema(
        *(NestedField(i + 1, f"c{i}", kind, required=False) for i, kind in enumerate(kinds)),
        NestedField(19, "s", StructType(inner), required=False),
        NestedField(21, "pad", StringType(), required=True),
    )
    content = data.draw(rows(schema, min_size=1))
    predicate = data.draw(predicates(schema))
    stored, _ = written(
        schema, to_arrow(schema, content).to_batches(), properties=stripes_of(data.draw(st.integers(1, 4)))
    )
    file = open_bytes(stored)
    options = ReadOptions(projection=Schema(*file.schema.fields, POS), predicate=bind(schema, predicate), batch_rows=3)
    output = Schema(*schema.fields, POS)
    with file.read(options).batches as batches:
        found = [row for batch in batches for row in from_arrow(output, batch)]
    expected = [
        {**row, POS.field_id: position} for position, row in enumerate(content) if naive.matches(row, schema, predicate)
    ]
    assert comparable(found) == comparable(expected)
