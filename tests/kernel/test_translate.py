"""A translated predicate on stored values against the original on the values that they become."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundLiteralPredicate,
    BoundSetPredicate,
    Not,
    Or,
)
from pyiceberg.expressions.visitors import extract_field_ids
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.metadata_columns import DELETED, FILE, PARTITION_ID, POS, SPEC_ID, partition_column
from formatkit.contract.values import internal_value
from formatkit.kernel import bind
from formatkit.kernel.predicates import leaves
from formatkit.kernel.translate import split, translate
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
    NotNull,
    StartsWith,
)
from support.rowbatch import RowBatch, RowOps, holds

COMPARISONS = (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual)
DAY_MICROS = 86_400_000_000
NAN = float("nan")


def predicates(literals: list[Any]) -> list[BooleanExpression]:
    """Every kind of leaf, and the negation of each."""
    single = [kind("c", literal) for kind in COMPARISONS for literal in literals]
    sets = [kind("c", literals) for kind in (In, NotIn)]
    unary = [kind("c") for kind in (IsNull, NotNull, IsNaN, NotNaN)]
    positive: list[BooleanExpression] = [*single, *sets, *unary]
    return [*positive, *(Not(predicate) for predicate in positive)]


def literals_of(predicate: BooleanExpression) -> Iterator[Any]:
    for leaf in leaves(predicate):
        if isinstance(leaf, BoundSetPredicate):
            yield from leaf.value_set
        elif isinstance(leaf, BoundLiteralPredicate):
            yield leaf.literal.value


def assert_same_rows(file_type: IcebergType, table_type: IcebergType, values: list[Any], literals: list[Any]) -> None:
    file, table = Schema(NestedField(1, "stored", file_type)), Schema(NestedField(1, "c", table_type))
    promote = RowOps().evolve(file, table, {})
    for predicate in predicates(literals):
        bound = bind(table, predicate)
        translated = translate(bound, file, {})
        for literal in literals_of(translated):
            assert internal_value(file_type, literal) == literal
        for value in values:
            (promoted,) = promote(RowBatch(((value,),))).rows
            assert holds(translated, file, (value,)) is holds(bound, table, promoted), (predicate, value, translated)


def float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


INT_EDGES = [-(2**31), -1, 0, 1, 2**31 - 1]
FLOAT_MAX = float32(3.4028234663852886e38)
TINY = float32(1.4e-45)


@pytest.mark.parametrize(
    ("file_type", "table_type", "values", "literals"),
    [
        (
            IntegerType(),
            LongType(),
            [None, *INT_EDGES],
            [*INT_EDGES, -(2**31) - 1, 2**31, -(2**63), 2**63 - 1],
        ),
        (
            FloatType(),
            DoubleType(),
            [None, NAN, -math.inf, -FLOAT_MAX, -TINY, -0.0, 0.0, TINY, float32(0.1), 1.0, FLOAT_MAX, math.inf],
            [-math.inf, -1e39, -1e-50, -0.0, 1e-50, 0.1, float32(0.1), 1.0, math.nextafter(1.0, 2.0), 1e39, math.inf],
        ),
        (
            DecimalType(4, 2),
            DecimalType(20, 2),
            [None, Decimal("-99.99"), Decimal("0.00"), Decimal("99.99")],
            [Decimal("-100.00"), Decimal("-99.99"), Decimal("0.00"), Decimal("99.99"), Decimal("100.00")],
        ),
        (
            DateType(),
            TimestampType(),
            [None, -1, 0, 1, 18262],
            [-DAY_MICROS - 1, -DAY_MICROS, -1, 0, 1, DAY_MICROS, 2**63 - 1, -(2**63)],
        ),
        (
            DateType(),
            TimestampNanoType(),
            [None, -1, 0, 1, 18262],
            [-1, 0, 1, DAY_MICROS * 1_000, 2**63 - 1, -(2**63)],
        ),
        (
            FixedType(16),
            UUIDType(),
            [None, bytes(16), b"\x7f" + bytes(15), b"\x80" + bytes(15)],
            [bytes(16), b"\x80" + bytes(15)],
        ),
        (UnknownType(), IntegerType(), [None], [0, 5]),
        (UnknownType(), DoubleType(), [None], [0.0]),
        (StringType(), StringType(), [None, "", "a", "b"], ["", "a"]),
    ],
    ids=str,
)
def test_promoted_columns_keep_their_rows(
    file_type: IcebergType, table_type: IcebergType, values: list[Any], literals: list[Any]
) -> None:
    assert_same_rows(file_type, table_type, values, literals)


@given(st.floats(width=32), st.floats(allow_nan=False))
def test_any_float_against_any_double(value: float, literal: float) -> None:
    neighbours = [literal, math.nextafter(literal, math.inf), math.nextafter(literal, -math.inf)]
    near = [value, float32(literal)] if abs(literal) <= FLOAT_MAX else [value]
    assert_same_rows(FloatType(), DoubleType(), [None, *near], neighbours)
    if value == value:
        assert_same_rows(FloatType(), DoubleType(), [value], [value, math.nextafter(value, 0.0)])


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2))
def test_any_int_against_any_long(value: int, literal: int, step: int) -> None:
    assert_same_rows(IntegerType(), LongType(), [None, value], [literal, value + step])


@given(st.integers(-9999, 9999), st.integers(-(10**12), 10**12), st.integers(-2, 2))
def test_any_decimal_against_a_wider_one(value: int, literal: int, step: int) -> None:
    stored = Decimal(value).scaleb(-2)
    literals = [Decimal(literal).scaleb(-2), Decimal(value + step).scaleb(-2)]
    assert_same_rows(DecimalType(4, 2), DecimalType(12, 2), [None, stored], literals)


@given(st.integers(-100_000, 100_000), st.integers(-DAY_MICROS, DAY_MICROS))
def test_any_date_against_any_timestamp(day: int, offset: int) -> None:
    assert_same_rows(DateType(), TimestampType(), [None, day], [day * DAY_MICROS + offset])
    assert_same_rows(DateType(), TimestampNanoType(), [None, day], [(day * DAY_MICROS + offset) * 1_000 + 1])


DEFAULTED = NestedField(4, "d", DateType(), initial_default=date(2020, 1, 1))
TABLE = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(
        2,
        "s",
        StructType(
            NestedField(3, "x", LongType()),
            DEFAULTED,
            NestedField(5, "inner", StructType(NestedField(6, "y", IntegerType(), initial_default=7))),
            NestedField(7, "p", StringType()),
        ),
    ),
    NestedField(8, "gone", StructType(NestedField(9, "z", IntegerType(), initial_default=3))),
    NestedField(10, "top", DateType(), initial_default=date(2020, 1, 1)),
    NestedField(11, "part", IntegerType(), required=True),
)
STORED_INNER = NestedField(5, "inner", StructType(NestedField(-1, "u", IntegerType())))
STORED = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "s", StructType(NestedField(3, "x", IntegerType()), STORED_INNER)),
)
CONSTANTS = {7: "here", 11: 5}


@pytest.mark.parametrize(
    "predicate",
    [
        EqualTo("top", date(2020, 1, 1)),
        NotEqualTo("top", date(2020, 1, 1)),
        IsNull("top"),
        EqualTo("part", 5),
        GreaterThan("part", 5),
        EqualTo("s.d", date(2020, 1, 1)),
        NotEqualTo("s.d", date(2020, 1, 1)),
        NotEqualTo("s.d", date(2021, 1, 1)),
        IsNull("s.d"),
        NotNull("s.d"),
        Not(LessThan("s.d", date(2021, 1, 1))),
        EqualTo("s.inner.y", 7),
        NotEqualTo("s.inner.y", 7),
        NotEqualTo("s.inner.y", 8),
        IsNull("s.inner"),
        IsNull("s.inner.y"),
        StartsWith("s.p", "he"),
        Not(StartsWith("s.p", "he")),
        IsNull("gone"),
        EqualTo("gone.z", 3),
        NotEqualTo("gone.z", 3),
        LessThan("s.x", 2**40),
        Or(EqualTo("i", 1), And(EqualTo("s.inner.y", 7), Not(EqualTo("top", date(2021, 1, 1))))),
        Not(Or(EqualTo("i", 1), IsNull("s.d"))),
    ],
    ids=str,
)
def test_columns_that_a_file_lacks_act_by_their_constants_and_defaults(predicate: BooleanExpression) -> None:
    bound = bind(TABLE, predicate)
    translated = translate(bound, STORED, CONSTANTS)
    assert extract_field_ids(translated) <= {1, 2, 3, 5}
    evolve = RowOps().evolve(STORED, TABLE, CONSTANTS)
    structs = [None, *product([None, 1], [None, (0,)])]
    for row in product([None, 1, 2], structs):
        (evolved,) = evolve(RowBatch((row,))).rows
        assert holds(translated, STORED, row) is holds(bound, TABLE, evolved), (row, translated)


def test_a_struct_that_is_absent_but_has_a_default_is_made_of_the_defaults_of_its_fields() -> None:
    child = NestedField(2, "x", IntegerType(), initial_default=7)
    table = Schema(NestedField(1, "s", StructType(child)).model_copy(update={"initial_default": ()}))
    assert translate(bind(table, EqualTo("s.x", 7)), Schema(), {}) is AlwaysTrue()
    assert translate(bind(table, IsNull("s")), Schema(), {}) is AlwaysFalse()


PARTITION = partition_column(StructType(NestedField(1000, "a", IntegerType()), NestedField(1001, "b", StringType())))


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [
        (EqualTo("_file", "f.parquet"), True),
        (EqualTo("_file", "g.parquet"), False),
        (GreaterThan("_spec_id", 2), True),
        (EqualTo("_deleted", True), False),
        (EqualTo("_partition.a", 1), True),
        (IsNull("_partition.b"), True),
        (IsNull("_partition"), False),
        (NotEqualTo("_partition.b", "x"), True),
    ],
    ids=str,
)
def test_metadata_columns_of_a_file_fold_away(predicate: BooleanExpression, answer: bool) -> None:
    schema = Schema(FILE, SPEC_ID, DELETED, PARTITION)
    constants = {FILE.field_id: "f.parquet", SPEC_ID.field_id: 3, DELETED.field_id: False, PARTITION_ID: (1, None)}
    expected = AlwaysTrue() if answer else AlwaysFalse()
    assert translate(bind(schema, predicate), Schema(), constants) is expected


def test_conjuncts_on_late_columns_are_parted_from_the_rest() -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), POS)
    mixed = bind(schema, Or(EqualTo("a", 1), LessThan("_pos", 5)))
    early, late = bind(schema, EqualTo("a", 2)), bind(schema, GreaterThanOrEqual("_pos", 1))
    assert split(And(And(late, early), mixed), {POS.field_id}) == (early, And(late, mixed))
    assert split(AlwaysFalse(), {POS.field_id}) == (AlwaysFalse(), AlwaysTrue())
