from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import reduce
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIn,
    BoundNotNull,
    Not,
    Or,
)
from pyiceberg.expressions.visitors import bind as pyiceberg_bind
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.errors import AmbiguousColumnError, ColumnNotFoundError, InvalidPredicateError
from formatkit.kernel import bind
from support.filters import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotStartsWith,
    StartsWith,
)
from support.rowbatch import holds

INT_MAX = 2**31 - 1
INT_MIN = -(2**31)
NAN = float("nan")
INF = float("inf")
FLOAT_TENTH = 0.10000000149011612
FLOAT_MAX = 3.4028234663852886e38
DAY = 18262  # 2020-01-01
MICROS = DAY * 86_400_000_000
NANOS = MICROS * 1_000


def one_column(type_: IcebergType, *, required: bool = False) -> Schema:
    return Schema(NestedField(1, "c", type_, required=required))


def kept(type_: IcebergType, predicate: BooleanExpression | str, values: list[Any]) -> list[Any]:
    schema = one_column(type_)
    bound = bind(schema, predicate)
    return [value for value in values if holds(bound, schema, (value,))]


@pytest.mark.parametrize(
    ("type_", "predicate", "values", "expected"),
    [
        # Literals beyond the column's range: nulls and NaN still fail.
        (IntegerType(), LessThan("c", 2**40), [INT_MIN, INT_MAX, None], [INT_MIN, INT_MAX]),
        (IntegerType(), LessThanOrEqual("c", 2**40), [INT_MAX, None], [INT_MAX]),
        (IntegerType(), GreaterThan("c", -(2**40)), [INT_MIN, None], [INT_MIN]),
        (IntegerType(), GreaterThan("c", 2**40), [INT_MAX, None], []),
        (IntegerType(), EqualTo("c", 2**40), [INT_MAX, None], []),
        (IntegerType(), NotEqualTo("c", 2**40), [INT_MAX, None], [INT_MAX, None]),
        (IntegerType(), In("c", [1, 2**40]), [1, INT_MAX, None], [1]),
        (IntegerType(), NotIn("c", [1, 2**40]), [1, INT_MAX, None], [INT_MAX, None]),
        (LongType(), LessThan("c", 2**63), [2**63 - 1, None], [2**63 - 1]),
        (FloatType(), LessThan("c", 1e39), [FLOAT_MAX, INF, NAN, None, -INF], [FLOAT_MAX, -INF]),
        (FloatType(), GreaterThan("c", -1e39), [-FLOAT_MAX, -INF, NAN, None], [-FLOAT_MAX]),
        (FloatType(), GreaterThan("c", 1e39), [FLOAT_MAX, INF, NAN, None], [INF]),
        (DoubleType(), LessThan("c", 10**400), [1.7976931348623157e308, INF, NAN], [1.7976931348623157e308]),
        (DoubleType(), EqualTo("c", INF), [INF, -INF, 1.0, NAN], [INF]),
        (IntegerType(), LessThan("c", INF), [INT_MAX, None], [INT_MAX]),
        # Fractions against integers.
        (IntegerType(), GreaterThan("c", 1.5), [1, 2, None], [2]),
        (IntegerType(), GreaterThanOrEqual("c", -1.5), [-2, -1], [-1]),
        (IntegerType(), LessThan("c", 1.5), [1, 2, None], [1]),
        (IntegerType(), LessThanOrEqual("c", -1.5), [-2, -1], [-2]),
        (IntegerType(), EqualTo("c", 1.5), [1, 2, None], []),
        (IntegerType(), EqualTo("c", Decimal("2.0")), [1, 2, None], [2]),
        (IntegerType(), "c > 1.5", [1, 2, None], [2]),
        (IntegerType(), In("c", [Decimal("1.5"), Decimal(2)]), [1, 2, None], [2]),
        (LongType(), GreaterThan("c", "41"), [41, 42], [42]),
        # Floats take the column's type.
        (FloatType(), EqualTo("c", 0.1), [FLOAT_TENTH, None], [FLOAT_TENTH]),
        (FloatType(), GreaterThan("c", 0.1), [FLOAT_TENTH, 0.2], [0.2]),
        (FloatType(), EqualTo("c", 0.0), [-0.0, 0.0, None], [-0.0, 0.0]),
        (DoubleType(), "c = 0.1", [0.1, FLOAT_TENTH], [0.1]),
        (DoubleType(), EqualTo("c", 1), [1.0, NAN], [1.0]),
        # Decimals, whatever the scale of the literal.
        (DecimalType(9, 2), "c = '1.1'", [Decimal("1.10"), None], [Decimal("1.10")]),
        (DecimalType(9, 2), "c = 1.1", [Decimal("1.10"), None], [Decimal("1.10")]),
        (DecimalType(9, 2), EqualTo("c", 1.1), [Decimal("1.10"), None], [Decimal("1.10")]),
        (DecimalType(9, 2), EqualTo("c", 1), [Decimal("1.00"), None], [Decimal("1.00")]),
        (DecimalType(9, 2), "c < 1.105", [Decimal("1.10"), Decimal("1.11"), None], [Decimal("1.10")]),
        (DecimalType(9, 2), "c > 1.105", [Decimal("1.10"), Decimal("1.11")], [Decimal("1.11")]),
        (DecimalType(9, 2), "c > -1.105", [Decimal("-1.10"), Decimal("-1.11")], [Decimal("-1.10")]),
        (DecimalType(9, 2), "c = 1.105", [Decimal("1.10"), Decimal("1.11"), None], []),
        (DecimalType(9, 2), "c != 1.105", [Decimal("1.10"), None], [Decimal("1.10"), None]),
        (DecimalType(4, 2), "c < 100", [Decimal("99.99"), None], [Decimal("99.99")]),
        (
            DecimalType(38, 10),
            EqualTo("c", Decimal("1234567890123456789012345678.0123456789")),
            [Decimal("1234567890123456789012345678.0123456789"), Decimal("1234567890123456789012345678.0123456788")],
            [Decimal("1234567890123456789012345678.0123456789")],
        ),
        # Dates and times.
        (DateType(), EqualTo("c", date(2020, 1, 1)), [DAY, DAY + 1], [DAY]),
        (DateType(), "c = '2020-01-01'", [DAY, DAY + 1], [DAY]),
        (DateType(), EqualTo("c", datetime(2020, 1, 1)), [DAY, None], [DAY]),
        (DateType(), EqualTo("c", datetime(2020, 1, 1, 5)), [DAY, None], []),
        (DateType(), NotEqualTo("c", datetime(2020, 1, 1, 5)), [DAY, None], [DAY, None]),
        (DateType(), GreaterThan("c", datetime(2020, 1, 1, 5)), [DAY, DAY + 1], [DAY + 1]),
        (DateType(), LessThan("c", datetime(2020, 1, 1, 5)), [DAY, DAY + 1], [DAY]),
        (TimestampType(), EqualTo("c", date(2020, 1, 1)), [MICROS, MICROS + 1], [MICROS]),
        (TimestampType(), "c >= '2020-01-01'", [MICROS - 1, MICROS], [MICROS]),
        (TimestampType(), "c = '2020-01-01 00:00:00.000001'", [MICROS, MICROS + 1], [MICROS + 1]),
        (TimestampType(), "c > '2020-01-01T00:00:00.0000005'", [MICROS, MICROS + 1], [MICROS + 1]),
        (TimestampNanoType(), EqualTo("c", datetime(2020, 1, 1)), [NANOS, NANOS + 1], [NANOS]),
        (TimestampNanoType(), "c = '2020-01-01T00:00:00.000000001'", [NANOS, NANOS + 1], [NANOS + 1]),
        (TimestampNanoType(), EqualTo("c", date(2020, 1, 1)), [NANOS, NANOS + 1], [NANOS]),
        (TimestamptzType(), "c = '2020-01-01T01:30:00+01:30'", [MICROS, MICROS + 1], [MICROS]),
        (TimestamptzType(), "c = '2019-12-31T22:30:00-01:30'", [MICROS, MICROS + 1], [MICROS]),
        (TimestamptzType(), "c = '2020-01-01T00:00:00Z'", [MICROS, MICROS + 1], [MICROS]),
        (TimestamptzType(), EqualTo("c", datetime(2020, 1, 1, tzinfo=UTC)), [MICROS, MICROS + 1], [MICROS]),
        (TimeType(), EqualTo("c", time(0, 0, 1)), [1_000_000, None], [1_000_000]),
        (TimeType(), "c > '00:00:01'", [1_000_000, 1_000_001], [1_000_001]),
        # The rest.
        (BooleanType(), "c = true", [True, False, None], [True]),
        (BooleanType(), GreaterThan("c", False), [True, False, None], [True]),
        (StringType(), "c like 'a%'", ["a", "ab", "b", None], ["a", "ab"]),
        (StringType(), "c not like 'a%'", ["a", "ab", "b", None], ["b", None]),
        (StringType(), Not(StartsWith("c", "a")), ["a", "b", None], ["b", None]),
        (StringType(), Not(NotStartsWith("c", "a")), ["a", "b", None], ["a"]),
        (UUIDType(), EqualTo("c", UUID(int=5)), [UUID(int=5).bytes, None], [UUID(int=5).bytes]),
        (UUIDType(), f"c = '{UUID(int=5)}'", [UUID(int=5).bytes, None], [UUID(int=5).bytes]),
        (FixedType(2), EqualTo("c", b"ab"), [b"ab", b"ac"], [b"ab"]),
        (BinaryType(), GreaterThan("c", b"\x7f"), [b"\x7f", b"\x80"], [b"\x80"]),
        # NaN and null tests.
        (IntegerType(), IsNaN("c"), [1, None], []),
        (IntegerType(), NotNaN("c"), [1, None], [1, None]),
        (DoubleType(), NotNaN("c"), [1.0, None], [1.0, None]),
        (UnknownType(), NotEqualTo("c", 5), [None], [None]),
        (UnknownType(), EqualTo("c", 5), [None], []),
        (UnknownType(), IsNull("c"), [None], [None]),
        (GeometryType(), IsNull("c"), [b"", None], [None]),
        (StringType(), "true", ["a", None], ["a", None]),
    ],
)
def test_a_bound_filter_keeps_exactly_the_rows_that_the_unbound_one_means(
    type_: IcebergType, predicate: BooleanExpression | str, values: list[Any], expected: list[Any]
) -> None:
    assert kept(type_, predicate, values) == expected


def comparisons() -> Iterator[BooleanExpression]:
    for kind in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual):
        for literal in (-3.0, -0.0, 0.5, 2.0, 1e39):
            yield kind("c", literal)
    yield In("c", [0.0, 2.0])
    yield NotIn("c", [0.0, 2.0])
    for unary in (IsNull, IsNaN, NotNaN):
        yield unary("c")


@pytest.mark.parametrize("type_", [IntegerType(), FloatType(), DoubleType(), DecimalType(9, 1)], ids=str)
@pytest.mark.parametrize("predicate", [*comparisons()], ids=str)
def test_a_negation_keeps_exactly_the_other_rows(type_: IcebergType, predicate: BooleanExpression) -> None:
    values: list[Any] = [None, -3, 0, 1, 2, INT_MAX]
    if isinstance(type_, FloatType | DoubleType):
        values = [None, NAN, -INF, INF, -3.0, -0.0, 0.0, 0.5, 2.0]
    positive = kept(type_, predicate, values)
    negative = kept(type_, Not(predicate), values)
    assert [value for value in values if value not in negative] == positive
    assert len(positive) + len(negative) == len(values)


def test_a_negated_combination_keeps_exactly_the_other_rows() -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", DoubleType()))
    inner = Or(And(LessThan("a", 1), Not(GreaterThan("b", 0.0))), Not(Or(EqualTo("a", 5), IsNaN("b"))))
    bound, negated = bind(schema, inner), bind(schema, Not(inner))
    rows = list(product([None, 0, 1, 5], [None, NAN, -1.0, 0.0, 1.0]))
    assert all(holds(bound, schema, row) is not holds(negated, schema, row) for row in rows)
    assert "Not(" not in repr(negated).replace("BoundNot", "")


@pytest.mark.parametrize(
    ("type_", "predicate", "hint"),
    [
        (IntegerType(), "c = 'x'", "use a number"),
        (DoubleType(), "c = 'nan'", "is nan"),
        (FloatType(), "c = true", "use a number"),
        (StringType(), "c = 5", "single quotes"),
        (IntegerType(), "c like 'a%'", "for strings"),
        (BooleanType(), "c = 1", "true or false"),
        (DateType(), "c = 'yesterday'", "ISO 8601"),
        (DateType(), "c = '2020-01-01T00:00:00+00:00'", "leave out the time zone"),
        (TimestamptzType(), "c = '2020-01-01'", r"2020-01-01T00:00:00\+00:00"),
        (TimestampType(), "c = '2020-01-01T25:00:00'", "no such time"),
        (TimestampType(), "c = '2020-02-30'", "no such day"),
        (TimestampType(), "c = 1.5", "ISO 8601"),
        (TimeType(), "c = '1 pm'", "23:59"),
        (UUIDType(), "c = 'x'", "UUID"),
        (FixedType(2), EqualTo("c", b"abc"), "2 bytes"),
        (BinaryType(), "c = 'x'", "use bytes"),
        (DecimalType(9, 2), EqualTo("c", Decimal("1e999")), "exponent"),
        (GeometryType(), EqualTo("c", b""), "no order"),
        (StructType(NestedField(2, "x", IntegerType())), "c = 1", "is null"),
        (StructType(NestedField(2, "x", IntegerType())), "c is nan", "is null"),
        (ListType(2, IntegerType()), "c.element = 1", "inside a list"),
        (MapType(2, StringType(), 3, IntegerType()), "c.value = 1", "inside a list or map"),
        (IntegerType(), "c = ", "cannot parse"),
        (IntegerType(), "c = 1 and", "cannot parse"),
        (StringType(), "c like '%a%'", "LIKE"),
    ],
)
def test_a_filter_that_cannot_be_meant_says_what_to_write(
    type_: IcebergType, predicate: BooleanExpression | str, hint: str
) -> None:
    with pytest.raises(InvalidPredicateError, match=hint):
        bind(one_column(type_), predicate)


NESTED = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "s", StructType(NestedField(3, "x", LongType(), required=True), NestedField(4, "Y", LongType()))),
    NestedField(5, "a.b", IntegerType()),
)


@pytest.mark.parametrize(
    ("name", "case_sensitive", "field_id"),
    [("s.x", True, 3), ("S.X", False, 3), ("s.y", False, 4), ("a.b", True, 5), ("A.B", False, 5)],
)
def test_columns_are_found_by_dotted_names(name: str, case_sensitive: bool, field_id: int) -> None:
    bound = bind(NESTED, EqualTo(name, 1), case_sensitive=case_sensitive)
    assert bound.term.ref().field.field_id == field_id  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["S.x", "s.y", "x", "a", "s.x.z"])
def test_an_unknown_column_lists_the_columns(name: str) -> None:
    with pytest.raises(ColumnNotFoundError, match=r"id, s, s\.x, s\.Y, a\.b"):
        bind(NESTED, EqualTo(name, 1))


@pytest.mark.parametrize("name", ["id", "ID", "Id"])
def test_a_name_that_fits_two_columns_is_refused_when_case_is_ignored(name: str) -> None:
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "ID", IntegerType()))
    with pytest.raises(AmbiguousColumnError, match="id, ID"):
        bind(schema, EqualTo(name, 1), case_sensitive=False)
    assert bind(schema, EqualTo("ID", 1)).term.ref().field.field_id == 2  # type: ignore[attr-defined]


def test_a_required_child_of_an_optional_struct_can_be_null() -> None:
    bound = bind(NESTED, IsNull("s.x"))
    assert holds(bound, NESTED, (1, None, None))
    assert not holds(bound, NESTED, (1, (5, None), None))
    assert bind(NESTED, IsNull("id")) is AlwaysFalse()
    assert bind(NESTED, Not(IsNull("id"))) is AlwaysTrue()


def test_what_is_bound_already_is_bound_again_by_field_id() -> None:
    old = Schema(NestedField(1, "i", IntegerType()), NestedField(7, "t", TimestampType()))
    new = Schema(NestedField(7, "time", TimestampType()), NestedField(1, "j", LongType()))
    predicate = And(In("i", [1, 2, 2**40]), GreaterThan("t", datetime(2020, 1, 1)))
    for bound in (bind(old, predicate), pyiceberg_bind(old, predicate, case_sensitive=True)):
        again = bind(new, bound)
        assert [row for row in ((MICROS + 1, 1), (MICROS, 1), (MICROS + 1, INT_MAX)) if holds(again, new, row)] == [
            (MICROS + 1, 1)
        ]
    with pytest.raises(ColumnNotFoundError):
        bind(Schema(NestedField(9, "i", IntegerType())), bind(old, EqualTo("i", 1)))


@pytest.mark.parametrize(
    ("type_", "literal"),
    [
        (TimestampNanoType(), "2020-01-01T00:00:00.000000001"),
        (FloatType(), 0.1),
        (DecimalType(38, 3), Decimal("1.5")),
        (UUIDType(), UUID(int=1)),
    ],
)
def test_binding_twice_changes_nothing(type_: IcebergType, literal: Any) -> None:
    schema = one_column(type_)
    once = bind(schema, Or(LessThan("c", literal), NotEqualTo("c", literal)))
    assert bind(schema, once) == once


def test_a_thousand_alternatives_nest_no_deeper_than_the_stack() -> None:
    schema = one_column(IntegerType())
    chain: BooleanExpression = reduce(Or, [EqualTo("c", number) for number in range(5_000)])
    bound = bind(schema, Not(Not(chain)))
    assert holds(bound, schema, (4_999,))
    assert not holds(bound, schema, (5_000,))


def test_a_set_keeps_all_its_values() -> None:
    bound = bind(one_column(LongType()), In("c", range(10_000)))
    assert isinstance(bound, BoundIn)
    assert bound.value_set == set(range(10_000))


def test_bound_filters_survive_pickling_with_their_paths() -> None:
    bound = bind(NESTED, Or(IsNull("s.x"), In("id", [1, 2])))
    copy = pickle.loads(pickle.dumps(bound))
    assert copy == bound
    assert [field.name for field in copy.left.term.path] == ["s", "x"]


def test_everything_but_null_stays_when_the_literal_is_out_of_reach() -> None:
    assert isinstance(bind(one_column(IntegerType()), "c < 1099511627776"), BoundNotNull)
    assert bind(one_column(IntegerType(), required=True), "c < 1099511627776") is AlwaysTrue()
