"""Filters that are text: the language of pyiceberg's parser, in time and memory that a filter is worth."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, BoundIn, BoundNotIn, EqualTo, In, Not, NotIn, Or
from pyiceberg.expressions.parser import parse as pyicebergs_parse
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType
from pyparsing import ParseBaseException

import formatkit
from formatkit.errors import ColumnNotFoundError, InvalidPredicateError
from formatkit.kernel import bind
from formatkit.kernel.parsing import parse

SCHEMA = Schema(NestedField(1, "a", LongType()), NestedField(2, "s", StringType()), NestedField(3, "d", DoubleType()))
SECONDS = 20.0  # of processor time; a second or two where nothing else runs

assert settings.default is not None
EXAMPLES = settings.default.max_examples * 4

COLUMNS = st.sampled_from(["a", "b_$1", "a.b", "a . b", '"x y"', '"a\\tb"', '"\\\\"', "in", "and", "null", "true"])
TEXTS = st.sampled_from(["'x'", "''", "'it''s'", "'p%'", "'p\\%'", "'a\\x41'", "'\t'", "'%p'", "'é'"])
NUMBERS = st.sampled_from(["1", "-2", "+3", "1.5", ".5", "-2.", "٣", "1e5", "00"])
LITERALS = st.one_of(TEXTS, NUMBERS, st.sampled_from(["true", "FALSE"]))
OPERATORS = st.sampled_from(["<", "<=", ">", ">=", "=", "==", "!=", "<>"])


def joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts)).map("".join)


LISTS = st.one_of(*(st.lists(kind, min_size=1, max_size=4).map(" , ".join) for kind in (TEXTS, NUMBERS, LITERALS)))
PREDICATES = st.one_of(
    joined(COLUMNS, OPERATORS, LITERALS),
    joined(LITERALS, OPERATORS, COLUMNS),
    joined(COLUMNS, st.sampled_from([" is null", " IS NOT null", " is nan", " is not NaN"])),
    joined(COLUMNS, st.sampled_from([" in (", " NOT IN ("]), LISTS, ")"),
    joined(COLUMNS, st.sampled_from([" like ", " not like "]), TEXTS),
    joined(COLUMNS, " between ", LITERALS, " and ", LITERALS),
    st.sampled_from(["true", "false"]),
)
FILTERS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        joined("(", inner, ")"),
        joined("not ", inner),
        st.lists(inner, min_size=2, max_size=4).map(" and ".join),
        st.lists(inner, min_size=2, max_size=4).map(" or\n".join),
    ),
    max_leaves=5,
)
SOUP = st.lists(
    st.one_of(
        COLUMNS, LITERALS, OPERATORS, st.sampled_from(["and", "or", "not", "is", "null", "in", "(", ")", ",", ".", " "])
    ),
    max_size=8,
).map(" ".join)


def outcome(parser: Callable[[str], BooleanExpression], text: str) -> str:
    try:
        return repr(parser(text))
    except (ParseBaseException, ValueError):
        return "refused"


@settings(max_examples=EXAMPLES)
@given(st.one_of(FILTERS, FILTERS, SOUP), st.integers(0, 60), st.sampled_from(["", " ", "(", "'", "not ", "1"]))
def test_a_text_means_what_it_means_to_pyiceberg(text: str, position: int, put_in: str) -> None:
    for each in (text, text[:position] + put_in + text[position:]):
        assert outcome(parse, each) == outcome(pyicebergs_parse, each), each


def test_the_text_may_have_thousands_of_characters_that_pyiceberg_chokes_on() -> None:
    assert bind(SCHEMA, "(" * 900 + "a = 1" + ")" * 900) == bind(SCHEMA, "a = 1")
    assert bind(SCHEMA, "not " * 100_001 + "a = 1") == bind(SCHEMA, "a != 1")


LARGE: dict[str, tuple[str, bool]] = {
    "or": (" or ".join(f"a = {number}" for number in range(70_000)), True),
    "and": (" and ".join(f"a != {number}" for number in range(70_000)), True),
    "in": (f"a in ({', '.join(map(str, range(150_000)))})", True),
    "texts": (f"s not in ({', '.join(map(repr, map(str, range(150_000))))})", True),
    "parentheses": ("(" * 1_000_000 + "a = 1" + ")" * 1_000_000, False),
    "open parentheses": ("(" * 1_000_000, False),
    "not": ("not " * 250_000 + "a = 1", True),
    "ranges": (" or ".join(f"a < {number}" for number in range(70_000)), False),
    "patterns": (" or ".join(f"s like '{number}%'" for number in range(50_000)), False),
    "nested": ("a = 1 or (a = 2 and (" * 20_000 + "a = 3" + "))" * 20_000, False),
    "nested a little": ("a = 1 or (a = 2 and (" * 60 + "a = 3" + "))" * 60, False),
    "backslashes": ('"' + "\\" * 1_000_000, False),
    "escapes": ("s = '" + "\\xaa" * 250_000, False),
    "digits": ("a = " + "9" * 1_000_000, False),
    "digits after the point": ("a = 1." + "9" * 1_000_000, False),
    "digits in a text": ("d < '1." + "9" * 1_000_000 + "'", False),
    "an unfinished chain": ("a = 1 or " * 100_000, False),
    "one name": ("x" * 1_000_000, False),
    "five megabytes": ("a = 1 or " * 600_000 + "a = 1", False),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_filter_of_a_megabyte_is_answered_or_refused_within_seconds(name: str) -> None:
    text, answered = LARGE[name]
    started = time.process_time()
    if answered:
        bind(SCHEMA, text)
    else:
        with pytest.raises(InvalidPredicateError) as caught:
            bind(SCHEMA, text)
        assert len(str(caught.value)) < 2_000
    assert time.process_time() - started < SECONDS


def test_a_column_of_a_megabyte_is_named_in_short() -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        bind(SCHEMA, '"' + "x" * 1_000_000 + '" = 1')
    assert len(str(caught.value)) < 2_000


def equal(column: str, value: object) -> BooleanExpression:
    kind: Any = EqualTo
    made: BooleanExpression = kind(column, value)
    return made


def chain(kind: type[And] | type[Or], length: int) -> BooleanExpression:
    expression: BooleanExpression = equal("a", -1)
    for number in range(length):
        expression = kind(expression, equal("a", number))
    return expression


def test_long_chains_of_objects_are_bound_without_recursion() -> None:
    bound = bind(SCHEMA, chain(Or, 6_000))
    assert isinstance(bound, BoundIn)
    assert len(bound.value_set) == 6_001
    negated = bind(SCHEMA, Not(chain(Or, 6_000)))
    assert isinstance(negated, BoundNotIn)
    with pytest.raises(InvalidPredicateError, match="more than 5,000 conditions"):
        bind(SCHEMA, chain(And, 6_000))


def test_a_number_that_python_does_not_write_is_refused_in_words() -> None:
    with pytest.raises(InvalidPredicateError, match="cannot be compared with this int"):
        bind(SCHEMA, equal("s", 10**5_000))


def test_deeply_nested_objects_are_refused() -> None:
    expression: BooleanExpression = equal("a", 1)
    for _ in range(5_000):
        expression = Or(equal("a", 2), And(equal("a", 3), expression))
    with pytest.raises(InvalidPredicateError, match="100 levels"):
        bind(SCHEMA, expression)


@pytest.mark.parametrize(("text", "kind"), [("a = {} or ", In), ("a != {} and ", NotIn), ("d = {}.5 or ", In)])
def test_many_comparisons_of_a_column_are_read_as_a_set(text: str, kind: type[BooleanExpression]) -> None:
    long = "".join(text.format(number) for number in range(150)) + "s = 'x'"
    connective: type[And] | type[Or] = And if kind is NotIn else Or
    parsed = parse(long)
    assert isinstance(parsed, connective)
    assert isinstance(parsed.left, kind)
    assert parsed.right == equal("s", "x")
    assert bind(SCHEMA, pyicebergs_parse(long)) == bind(SCHEMA, long)


def test_a_scan_with_seventy_thousand_alternatives_has_the_right_rows(tmp_path: Path) -> None:
    formatkit.write_file(tmp_path / "rows.parquet", pa.table({"a": range(200_000)}))
    where = " or ".join(f"{number} = a" for number in range(0, 140_000, 2))
    found = formatkit.read_file(tmp_path / "rows.parquet", where=where)
    assert found.to_arrow()["a"].to_pylist() == list(range(0, 140_000, 2))
    assert len(str(found.explain())) < 5_000


def test_true_stands_alone() -> None:
    assert parse("((false))") is AlwaysFalse()
    for text in ("true and a = 1", "not true", "a = 1 or (true)"):
        with pytest.raises(InvalidPredicateError, match="stand alone"):
            parse(text)
