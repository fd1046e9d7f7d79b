"""The gate drops what cannot be true of statistics, as little as is safe, and counts it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestampType,
    TimeType,
    UUIDType,
)

from formatkit.contract import ColumnMetrics, Gate
from formatkit.contract.pruning import NOTHING, ColumnGate

ROWS = 10
GOOD: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), False, True),
    (IntegerType(), -(2**31), 2**31 - 1),
    (LongType(), -(2**63), 2**63 - 1),
    (DoubleType(), -math.inf, math.inf),
    (DoubleType(), 0.0, -0.0),
    (DecimalType(4, 2), Decimal("-99.99"), Decimal("99.99")),
    (DateType(), 0, 0),
    (TimeType(), 0, 86_399_999_999),
    (TimestampType(), -1, 1),
    (StringType(), "", "z"),
    (BinaryType(), b"", b"\xff"),
    (FixedType(3), b"a", b"bbb"),
    (UUIDType(), bytes(16), b"\xff" * 16),
    (StringType(), "only one", None),
]
WRONG: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), 0, 1),
    (IntegerType(), 0, 2**31),
    (IntegerType(), False, True),
    (LongType(), 1.0, 2.0),
    (LongType(), 2, 1),
    (DoubleType(), math.nan, 1.0),
    (DoubleType(), 1.0, math.nan),
    (DoubleType(), 1, 2),
    (DecimalType(4, 2), Decimal(1), Decimal(100)),
    (DecimalType(4, 2), Decimal("NaN"), Decimal(1)),
    (TimeType(), -1, 5),
    (TimeType(), 5, 86_400_000_000),
    (StringType(), b"a", b"b"),
    (FixedType(3), b"a", b"bbbb"),
    (UUIDType(), bytes(15), bytes(16)),
    (ListType(1, LongType()), 1, 2),
]


@pytest.mark.parametrize(("type_", "lower", "upper"), GOOD)
def test_possible_bounds_pass(type_: IcebergType, lower: Any, upper: Any) -> None:
    claim = ColumnMetrics(value_count=ROWS, null_count=1, lower=lower, upper=upper)
    assert ColumnGate(type_).admit(claim, ROWS) is claim


@pytest.mark.parametrize(("type_", "lower", "upper"), WRONG)
def test_impossible_bounds_are_dropped_and_counts_stay(type_: IcebergType, lower: Any, upper: Any) -> None:
    claim = ColumnMetrics(value_count=ROWS, null_count=1, lower=lower, upper=upper)
    assert ColumnGate(type_).admit(claim, ROWS) == ColumnMetrics(value_count=ROWS, null_count=1)


@pytest.mark.parametrize("count", [-1, ROWS + 1, 1 << 40, True, 1.0, "1"])
def test_impossible_counts_are_dropped_and_bounds_stay(count: Any) -> None:
    claim = ColumnMetrics(value_count=ROWS, null_count=count, lower=1, upper=2)
    assert ColumnGate(LongType()).admit(claim, ROWS) == ColumnMetrics(value_count=ROWS, lower=1, upper=2)


@pytest.mark.parametrize(
    ("type_", "claim"),
    [
        (LongType(), {"value_count": ROWS - 1}),
        (LongType(), {"value_count": ROWS + 1, "lower": 1, "upper": 2}),
        (LongType(), {"null_count": ROWS, "lower": 1}),
        (LongType(), {"nan_count": 1}),
        (DoubleType(), {"null_count": 6, "nan_count": 5}),
        (DoubleType(), {"null_count": 5, "nan_count": 5, "upper": 1.0}),
    ],
)
def test_nothing_is_left_of_claims_that_contradict_each_other(type_: IcebergType, claim: dict[str, Any]) -> None:
    assert ColumnGate(type_).admit(ColumnMetrics(**claim), ROWS) is NOTHING


def test_a_required_column_has_no_nulls() -> None:
    claim = ColumnMetrics(null_count=1, lower=1, upper=2)
    assert ColumnGate(LongType(), required=True).admit(claim, ROWS) is NOTHING
    assert ColumnGate(LongType()).admit(claim, ROWS) is claim


def test_rows_of_null_structs_may_be_missing_in_counts() -> None:
    claim = ColumnMetrics(value_count=ROWS - 3, null_count=0, lower=1, upper=2)
    assert ColumnGate(LongType(), nested=True).admit(claim, ROWS) is claim
    assert ColumnGate(LongType(), nested=True).admit(ColumnMetrics(value_count=ROWS + 1), ROWS) is NOTHING


def test_what_is_dropped_is_counted() -> None:
    counters: dict[str, int] = {}
    gate = Gate({1: LongType(), 2: StringType()}, counters, required=[1])
    good = {1: ColumnMetrics(null_count=0, lower=1, upper=2), 2: ColumnMetrics(lower="a", upper="b")}
    assert gate.statistics(ROWS, good).columns == good
    assert counters == {}
    assert gate.statistics(ROWS, {1: ColumnMetrics(null_count=5)}).columns == {1: NOTHING}
    assert counters == {"statistics_dropped": 1}
