"""Conditions compare columns as they compare a column with a literal."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.constants import column_of
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidPredicateError
from formatkit.kernel import bind
from formatkit.kernel.parsing import parse, parse_value
from formatkit.write.merge.conditions import compile_condition
from support.naive_merge import compare

NAN = float("nan")
FAR = 2**62  # microseconds of a year that has no nanoseconds
SIGNS = ["=", "!=", "<", "<=", ">", ">="]
LONG_DECIMAL = Decimal("9" * 38)

# Both columns and what is in them; values are in an order of their own where Python has none for both.
COMPARABLE: list[tuple[IcebergType, list[Any], IcebergType, list[Any]]] = [
    (BooleanType(), [True, False, None], BooleanType(), [False, True, None]),
    (IntegerType(), [-(2**31), 5, None], LongType(), [2**40, 5, -(2**31)]),
    (LongType(), [2**63 - 1, 2, None], DecimalType(38, 37), [Decimal("9.5"), Decimal(2), None]),
    (DecimalType(38, 0), [LONG_DECIMAL, Decimal(1)], DecimalType(38, 38), [Decimal("0.1"), Decimal("-0.5")]),
    (FloatType(), [0.5, NAN, -0.0, None, 0.1], DoubleType(), [0.5, NAN, 0.0, NAN, 0.1]),
    (DoubleType(), [NAN, float("inf")], DoubleType(), [NAN, float("-inf")]),
    (DateType(), [date(2020, 1, 1), None], DateType(), [date(2020, 1, 2), date(1, 1, 1)]),
    (TimeType(), [time(1), None], TimeType(), [time(2), time(1)]),
    (StringType(), ["a", "ä", "\U00010000", None], StringType(), ["b", "z", "\uffff", ""]),
    (UUIDType(), [UUID(int=1), None], UUIDType(), [UUID(int=2**127), UUID(int=1)]),
    (BinaryType(), [b"a", b"\xff", None], FixedType(2), [b"aa", b"\x01\x02", b"aa"]),
    (TimestamptzType(), [datetime(2020, 1, 1, tzinfo=UTC)], TimestamptzType(), [datetime(2020, 1, 2, tzinfo=UTC)]),
    (UnknownType(), [None, None], StringType(), ["a", None]),
]


def marks(left: IcebergType, right: IcebergType, text: str, columns: list[Any]) -> list[bool]:
    schema = Schema(NestedField(1, "a", left), NestedField(2, "b", right))
    test = compile_condition(schema, bind(schema, text, compare_columns=True))
    return list(test(pa.RecordBatch.from_arrays(columns, ["a", "b"])).tolist())


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("case", COMPARABLE, ids=lambda case: f"{case[0]} and {case[2]}")
def test_columns_are_compared_row_by_row(case: tuple[Any, ...], sign: str) -> None:
    left, mine, right, others = case
    pairs = [(own, other) for own in mine for other in others]
    columns = [column_of(left, [own for own, _ in pairs]), column_of(right, [other for _, other in pairs])]
    stored = zip(columns[0].to_pylist(), columns[1].to_pylist(), strict=True)
    expected = [compare(sign, *map(ordered, pair)) for pair in stored]
    assert marks(left, right, f"a {sign} b", columns) == expected
    assert marks(left, right, f"not (a {sign} b)", columns) == [not each for each in expected]
    assert marks(left, right, f"a {sign} b and not (a {sign} b)", columns) == [False] * len(pairs)
    assert marks(left, right, f"a {sign} b or not (a {sign} b)", columns) == [True] * len(pairs)


def ordered(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.bytes
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("sign", SIGNS)
def test_microseconds_and_nanoseconds_are_compared_exactly(sign: str) -> None:
    micros, nanos = [FAR, 1, 1, -1, None], [2**62, 1000, 1001, -999, 5]
    columns = [pa.array(micros, pa.timestamp("us")), pa.array(nanos, pa.timestamp("ns"))]
    expected = [compare(sign, None if a is None else a * 1000, b) for a, b in zip(micros, nanos, strict=True)]
    assert marks(TimestampType(), TimestampNanoType(), f"a {sign} b", columns) == expected


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (IntegerType(), DoubleType()),
        (IntegerType(), StringType()),
        (DateType(), TimestampType()),
        (TimestampType(), TimestamptzType()),
        (StringType(), BinaryType()),
        (BooleanType(), IntegerType()),
        (VariantType(), VariantType()),
        (ListType(3, LongType()), ListType(4, LongType())),
    ],
    ids=str,
)
def test_columns_of_other_kinds_are_not_compared(left: IcebergType, right: IcebergType) -> None:
    with pytest.raises(InvalidPredicateError, match="'a'"):
        marks(left, right, "a = b", [])


def test_only_who_asks_for_it_compares_columns() -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()))
    with pytest.raises(InvalidPredicateError):
        bind(schema, "a = b")
    with pytest.raises(InvalidPredicateError):
        bind(schema, parse("a = b", compare_columns=True))


@pytest.mark.parametrize("text", ["a = b and a > b or not a <> b", "a == b", "(((a>=b)))", 'a < "b"'])
def test_comparisons_of_columns_combine_like_others(text: str) -> None:
    assert len(marks(LongType(), LongType(), text, [pa.array([1, None]), pa.array([1, 2])])) == 2


@pytest.mark.parametrize("text", ["a = b c", "a = ", "= a", "a < b < a", "a in (b)", "a between b and c", "a like b"])
def test_other_comparisons_of_columns_are_refused(text: str) -> None:
    with pytest.raises(InvalidPredicateError):
        parse(text, compare_columns=True)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("source.a", "source.a"), ('source."a b"', "source.a b"), ("truest.a", "truest.a")],
)
def test_a_value_may_be_a_column(text: str, meaning: str) -> None:
    assert getattr(parse_value(text), "name", None) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [("'it''s'", "it's"), (" 5 ", 5), ("-1.50", Decimal("-1.50")), ("true", True), ("'source.a'", "source.a")],
)
def test_a_value_may_be_a_literal(text: str, meaning: Any) -> None:
    assert getattr(parse_value(text), "value", None) == meaning


@pytest.mark.parametrize("text", ["", "a b", "'a", "a + 1", "a = 1", "source."])
def test_other_values_are_refused(text: str) -> None:
    with pytest.raises(InvalidPredicateError):
        parse_value(text)
