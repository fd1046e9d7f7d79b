"""The truth that everything is compared with, checked against the tables of the Iceberg specs by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions.parser import parse
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UUIDType,
)

from formatkit.tck import naive
from formatkit.tck.histories import histories
from formatkit.tck.literals import internal
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import rows


def kept(iceberg_type: IcebergType, values: list[Any], where: str) -> list[Any]:
    schema = Schema(NestedField(1, "x", iceberg_type))
    return [value for value in values if naive.matches({1: value}, schema, parse(where))]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x = 1", [1]),
        ("x != 1", [0, 2, None]),
        ("x < 1", [0]),
        ("x <= 1", [0, 1]),
        ("x > 1", [2]),
        ("x >= 1", [1, 2]),
        ("x in (0, 2)", [0, 2]),
        ("x not in (0, 2)", [1, None]),
        ("x is null", [None]),
        ("x is not null", [0, 1, 2]),
        ("not (x < 1)", [1, 2, None]),
        ("not (x = 1 or x is null)", [0, 2]),
        ("x > 0 and x != 2", [1]),
        ("x < 5000000000", [0, 1, 2]),
    ],
)
def test_predicates_are_true_or_false_for_null(where: str, expected: list[Any]) -> None:
    assert kept(IntegerType(), [0, 1, 2, None], where) == expected


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("x = 0.0", [0.0, -0.0]),
        ("x < 1.0", [0.0, -0.0]),
        ("x >= 0.0", [0.0, -0.0, 1.0, math.inf]),
        ("x != 1.0", [0.0, -0.0, math.inf, math.nan, None]),
        ("x not in (0.0, 1.0)", [math.inf, math.nan, None]),
        ("x is nan", [math.nan]),
        ("x is not nan", [0.0, -0.0, 1.0, math.inf, None]),
        ("not (x > 0.5)", [0.0, -0.0, math.nan, None]),
    ],
)
def test_nan_fails_comparisons_and_zeros_are_equal(where: str, expected: list[Any]) -> None:
    values = [0.0, -0.0, 1.0, math.inf, math.nan, None]
    assert comparable(kept(DoubleType(), values, where)) == comparable(expected)


def test_strings_order_by_their_bytes_and_prefixes_keep_nulls_out() -> None:
    values = ["a", "ab", "\uffff", "\U0001f600", None]
    assert kept(StringType(), values, "x > '\uffff'") == ["\U0001f600"]
    assert kept(StringType(), values, "x like 'a%'") == ["a", "ab"]
    assert kept(StringType(), values, "x not like 'a%'") == ["\uffff", "\U0001f600", None]


@pytest.mark.parametrize(
    ("iceberg_type", "value", "expected"),
    [
        (DateType(), "1969-12-31", -1),
        (TimestampType(), "1970-01-01T00:00:00.000001", 1),
        (TimestampType(), "1969-12-31T23:59:59.999999", -1),
        (TimestampNanoType(), "1970-01-01T00:00:00.000000001", 1),
        (FloatType(), 1.1, 1.100000023841858),
        (FloatType(), 1e300, 1e300),
        (UUIDType(), "80000000-0000-0000-0000-000000000001", bytes([0x80, *[0] * 14, 1])),
        (BinaryType(), b"\x80", b"\x80"),
    ],
    ids=str,
)
def test_values_have_one_internal_form(iceberg_type: PrimitiveType, value: Any, expected: Any) -> None:
    assert internal(value, iceberg_type) == expected


def test_absent_fields_take_constant_then_default_then_null() -> None:
    source = Schema(NestedField(1, "id", IntegerType()))
    target = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "constant", IntegerType(), initial_default=5),
        NestedField(3, "default", IntegerType(), initial_default=5),
        NestedField(4, "null", IntegerType()),
    )
    assert naive.evolve({1: 7}, source, target, {2: None}) == {1: 7, 2: None, 3: 5, 4: None}
    required = Schema(NestedField(5, "must", IntegerType(), required=True))
    with pytest.raises(naive.MissingRequiredError, match="must"):
        naive.evolve({1: 7}, source, required)


def test_null_parents_stay_null_and_present_ones_are_completed() -> None:
    inner = NestedField(3, "new", IntegerType(), initial_default=5)
    source = Schema(NestedField(1, "s", StructType(NestedField(2, "old", DateType()))))
    target = Schema(NestedField(1, "s", StructType(NestedField(2, "old", TimestampType()), inner)))
    assert naive.evolve({1: None}, source, target) == {1: None}
    assert naive.evolve({1: {2: 1}}, source, target) == {1: {2: 86_400_000_000, 3: 5}}


@given(st.data())
def test_rows_survive_the_way_to_arrow_and_back(data: st.DataObject) -> None:
    schema = data.draw(histories())[-1]
    plain = data.draw(rows(schema))
    table = to_arrow(schema, plain)
    table.validate(full=True)
    assert comparable(from_arrow(schema, table)) == comparable(plain)
