"""`match` against brute force: every chunk that the statistics allow is built and evaluated row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Not, Or
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from formatkit.contract import ChunkStatistics, ColumnMetrics, Match, match
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
    NotNull,
    NotStartsWith,
    StartsWith,
)
from support.rowbatch import holds

NAN = float("nan")

DOMAINS: dict[str, tuple[IcebergType, list[Any]]] = {
    "int": (IntegerType(), [None, -1, 0, 1, 2]),
    "double": (DoubleType(), [None, NAN, float("-inf"), -0.0, 0.0, 1.5]),
    "float": (FloatType(), [None, NAN, -1.0, 0.0, 2.0]),
    "string": (StringType(), [None, "", "a", "ab", "abc", "b"]),
    "binary": (BinaryType(), [None, b"", b"a", b"\x80"]),
    "boolean": (BooleanType(), [None, False, True]),
    "decimal": (DecimalType(9, 2), [None, Decimal("-1.00"), Decimal("0.00"), Decimal("1.25")]),
}


def leaves(values: Sequence[Any]) -> Iterator[Any]:
    literals = [value for value in values if value is not None and value == value]
    for literal in literals:
        for kind in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual):
            yield kind("c", literal)
        if isinstance(literal, str):
            yield StartsWith("c", literal)
            yield NotStartsWith("c", literal)
    yield In("c", literals[:2])
    yield NotIn("c", literals[:2])
    yield In("c", literals[-2:])
    yield NotIn("c", literals[-2:])
    for unary in (IsNull, NotNull, IsNaN, NotNaN):
        yield unary("c")


def statistics_of(chunk: Sequence[Any]) -> Iterator[ChunkStatistics]:
    """Everything that may truthfully be known of a chunk, from all to nothing."""
    numbers = [value for value in chunk if value is not None and value == value]
    nulls, nans = sum(value is None for value in chunk), sum(value != value for value in chunk)
    lower, upper = (min(numbers), max(numbers)) if numbers else (None, None)
    for bounds in ((lower, upper), (lower, None), (None, upper), (None, None)):
        for counts in ((nulls, nans), (None, nans), (nulls, None), (None, None)):
            metrics = ColumnMetrics(
                value_count=len(chunk), null_count=counts[0], nan_count=counts[1], lower=bounds[0], upper=bounds[1]
            )
            yield ChunkStatistics(row_count=len(chunk), columns={1: metrics})
    yield ChunkStatistics(columns={1: metrics})
    yield ChunkStatistics(row_count=len(chunk))
    yield ChunkStatistics()


def truth(predicate: BooleanExpression, schema: Schema, chunk: Sequence[Any]) -> Match:
    answers = {holds(predicate, schema, (value,)) for value in chunk}
    return Match.SOME if len(answers) == 2 else Match.ALL if answers == {True} else Match.NONE


@pytest.mark.parametrize("name", DOMAINS)
def test_no_answer_is_ever_more_certain_than_the_truth(name: str) -> None:
    type_, values = DOMAINS[name]
    schema = Schema(NestedField(1, "c", type_))
    predicates = [bind(schema, leaf) for leaf in leaves(values)]
    checked = 0
    for chunk in (c for size in (1, 2, 3) for c in combinations_with_replacement(values, size)):
        for predicate in predicates:
            expected = truth(predicate, schema, chunk)
            for statistics in statistics_of(chunk):
                answer = match(predicate, statistics)
                assert answer in (expected, Match.SOME), (predicate, statistics, chunk)
                checked += answer is not Match.SOME
    assert checked > 100


@pytest.mark.parametrize("name", DOMAINS)
def test_exact_statistics_of_one_value_decide_every_leaf(name: str) -> None:
    type_, values = DOMAINS[name]
    schema = Schema(NestedField(1, "c", type_))
    for value in values:
        exact = next(statistics_of([value, value]))
        for leaf in leaves(values):
            predicate = bind(schema, leaf)
            expected = truth(predicate, schema, [value, value])
            undecidable = isinstance(value, str | bytes)
            assert match(predicate, exact) in ((expected, Match.SOME) if undecidable else (expected,))


@given(
    chunk=st.lists(st.none() | st.floats(width=32), min_size=1, max_size=6),
    literal=st.floats(allow_nan=False, width=32),
    slack=st.floats(min_value=0, max_value=10),
    known=st.tuples(st.booleans(), st.booleans()),
)
def test_loose_bounds_of_floats_stay_sound(
    chunk: list[float | None], literal: float, slack: float, known: tuple[bool, bool]
) -> None:
    schema = Schema(NestedField(1, "c", DoubleType()))
    numbers = [value for value in chunk if value is not None and value == value]
    metrics = ColumnMetrics(
        null_count=chunk.count(None) if known[0] else None,
        nan_count=sum(value != value for value in chunk) if known[1] else None,
        lower=min(numbers) - slack if numbers else None,
        upper=max(numbers) + slack if numbers else None,
    )
    statistics = ChunkStatistics(row_count=len(chunk), columns={1: metrics})
    for kind in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual):
        predicate = bind(schema, kind("c", literal))
        assert match(predicate, statistics) in (truth(predicate, schema, chunk), Match.SOME)


@given(
    chunk=st.lists(st.text(alphabet="ab\U0010ffff", max_size=4), min_size=1, max_size=4),
    prefix=st.text(alphabet="ab\U0010ffff", max_size=3),
    cut=st.integers(min_value=1, max_value=4),
)
def test_truncated_bounds_of_strings_stay_sound(chunk: list[str], prefix: str, cut: int) -> None:
    schema = Schema(NestedField(1, "c", StringType()))
    # Nothing is greater than the cut followed by the greatest character, so it is an upper bound like any other.
    upper = max(chunk) if len(max(chunk)) <= cut else max(chunk)[:cut] + "\U0010ffff" * 4
    metrics = ColumnMetrics(null_count=0, lower=min(chunk)[:cut], upper=upper)
    statistics = ChunkStatistics(row_count=len(chunk), columns={1: metrics})
    for leaf in (StartsWith("c", prefix), NotStartsWith("c", prefix), EqualTo("c", prefix), LessThan("c", prefix)):
        predicate = bind(schema, leaf)
        assert match(predicate, statistics) in (truth(predicate, schema, chunk), Match.SOME)


@pytest.mark.parametrize(
    ("leaf", "metrics", "expected"),
    [
        (GreaterThan("c", 0), ColumnMetrics(null_count=0, nan_count=0, lower=1.0, upper=2.0), Match.ALL),
        (GreaterThan("c", 0), ColumnMetrics(null_count=0, lower=1.0, upper=2.0), Match.SOME),
        (GreaterThan("c", 0), ColumnMetrics(nan_count=0, lower=1.0, upper=2.0), Match.SOME),
        (LessThan("c", 0), ColumnMetrics(lower=1.0, upper=2.0), Match.NONE),
        (NotEqualTo("c", 5), ColumnMetrics(lower=1.0, upper=2.0), Match.ALL),
        (NotEqualTo("c", 1), ColumnMetrics(null_count=0, nan_count=0, lower=1.0, upper=1.0), Match.NONE),
        (NotEqualTo("c", 1), ColumnMetrics(null_count=0, lower=1.0, upper=1.0), Match.SOME),
        (EqualTo("c", 0.0), ColumnMetrics(null_count=0, nan_count=0, lower=-0.0, upper=-0.0), Match.ALL),
        (IsNaN("c"), ColumnMetrics(nan_count=0), Match.NONE),
        (IsNaN("c"), ColumnMetrics(null_count=0, nan_count=4), Match.ALL),
        (IsNaN("c"), ColumnMetrics(lower=1.0, upper=2.0), Match.SOME),
        (NotNaN("c"), ColumnMetrics(nan_count=0), Match.ALL),
        (IsNull("c"), ColumnMetrics(null_count=4), Match.ALL),
        (NotNull("c"), ColumnMetrics(null_count=4), Match.NONE),
        (LessThan("c", 5), ColumnMetrics(null_count=1, nan_count=3), Match.NONE),
        # What cannot be believed decides nothing.
        (LessThan("c", 0), ColumnMetrics(lower=2.0, upper=1.0), Match.SOME),
        (EqualTo("c", 1), ColumnMetrics(lower=NAN, upper=2.0), Match.SOME),
        (EqualTo("c", 1), ColumnMetrics(lower=0.0, upper=NAN), Match.SOME),
        (LessThan("c", 0), ColumnMetrics(lower="1", upper="2"), Match.SOME),
        (LessThan("c", 0), ColumnMetrics(lower=b"1"), Match.SOME),
        (IsNull("c"), ColumnMetrics(value_count=9, null_count=4), Match.SOME),
        (LessThan("c", 1.5), ColumnMetrics(lower=2, upper=3), Match.NONE),
    ],
)
def test_a_leaf_on_a_double_column(leaf: Any, metrics: ColumnMetrics, expected: Match) -> None:
    schema = Schema(NestedField(1, "c", DoubleType()))
    assert match(bind(schema, leaf), ChunkStatistics(row_count=4, columns={1: metrics})) is expected


def uuid_bytes(high: int, low: int) -> bytes:
    return UUID(int=(high << 64) + low).bytes


@pytest.mark.parametrize(
    ("lower", "upper", "absent"),
    [
        # Java compares the halves as signed numbers: what it calls lower is the greater one.
        (uuid_bytes(0x80 << 56, 0), uuid_bytes(0x7F << 56, 0), None),
        # Equal first halves: rows between 0 and 0x80… lie below the lower bound.
        (uuid_bytes(1, 0x80 << 56), uuid_bytes(2, 0x80 << 56), uuid_bytes(0, 5)),
        (uuid_bytes(1, 5), uuid_bytes(2, 5), uuid_bytes(3, 0)),
    ],
)
def test_bounds_of_uuids_in_signed_order_lose_no_rows(lower: bytes, upper: bytes, absent: bytes | None) -> None:
    schema = Schema(NestedField(1, "c", UUIDType()))

    def signed(value: bytes) -> tuple[int, int]:
        return int.from_bytes(value[:8], signed=True), int.from_bytes(value[8:], signed=True)

    metrics = ColumnMetrics(null_count=0, lower=lower, upper=upper)
    statistics = ChunkStatistics(row_count=4, columns={1: metrics})
    edges = (0, 1, 5, 0x7F << 56, 0x80 << 56, 0x81 << 56, 2**64 - 1)
    inside = [
        value
        for value in (uuid_bytes(high, low) for high in (*edges, 2) for low in edges)
        if signed(lower) <= signed(value) <= signed(upper)
    ]
    assert len(inside) > 3
    for value in inside:
        assert match(bind(schema, EqualTo("c", value)), statistics) is Match.SOME
    if absent is not None:
        assert match(bind(schema, EqualTo("c", absent)), statistics) is Match.NONE


@pytest.mark.parametrize("size", [1, 200, 201, 10_000])
def test_sets_of_any_size_rule_out_chunks_beyond_their_ends(size: int) -> None:
    schema = Schema(NestedField(1, "c", IntegerType()))
    predicate = bind(schema, In("c", [2 * number for number in range(size)]))

    def answer(lower: int, upper: int) -> Match:
        metrics = ColumnMetrics(null_count=0, lower=lower, upper=upper)
        return match(predicate, ChunkStatistics(row_count=4, columns={1: metrics}))

    assert answer(2 * size, 2 * size + 5) is Match.NONE
    assert answer(-5, -1) is Match.NONE
    assert answer(0, 3) is Match.SOME


def test_combinations_follow_their_parts() -> None:
    schema = Schema(NestedField(1, "c", IntegerType()))
    metrics = ColumnMetrics(null_count=0, lower=1, upper=5)
    statistics = ChunkStatistics(row_count=4, columns={1: metrics})
    none, some, all_ = (bind(schema, leaf) for leaf in (LessThan("c", 1), LessThan("c", 3), LessThan("c", 9)))
    parts = {Match.NONE: none, Match.SOME: some, Match.ALL: all_}
    order = [Match.NONE, Match.SOME, Match.ALL]
    for left, right in ((a, b) for a in order for b in order):
        assert match(And(parts[left], parts[right]), statistics) is min(left, right, key=order.index)
        assert match(Or(parts[left], parts[right]), statistics) is max(left, right, key=order.index)
    assert match(AlwaysTrue(), statistics) is Match.ALL
    assert match(AlwaysFalse(), statistics) is Match.NONE
    assert match(Not(all_), statistics) is Match.SOME


@pytest.mark.parametrize("predicate", [AlwaysTrue(), AlwaysFalse()], ids=str)
def test_a_chunk_without_rows_matches_nothing(predicate: BooleanExpression) -> None:
    assert match(predicate, ChunkStatistics(row_count=0)) is Match.NONE


def test_nothing_is_known_about_structs_unless_it_is_given() -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "x", IntegerType()))))
    predicate = bind(schema, IsNull("s"))
    child = ColumnMetrics(null_count=4)
    assert match(predicate, ChunkStatistics(row_count=4, columns={2: child})) is Match.SOME
    assert match(predicate, ChunkStatistics(row_count=4, columns={1: ColumnMetrics(null_count=0)})) is Match.NONE
