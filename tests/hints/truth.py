"""The rows that files of these tests hold, questions about them, and the right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import Phase, settings
from hypothesis import strategies as st
from pyiceberg.expressions import And, BooleanExpression, Not, Or, Reference, UnboundPredicate
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from formatkit.tck import naive
from formatkit.tck.rows import to_arrow
from formatkit.tck.strategies import predicates
from support import filters as ex

__all__ = ["CHUNK", "ROWS", "SCHEMA", "SETTINGS", "asked", "filters", "found", "right", "table"]

COUNT, CHUNK = 32, 8
# What is drawn is short as it is, and shrinking it would read many files.
SETTINGS = settings(phases=(Phase.explicit, Phase.reuse, Phase.generate))
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "text", StringType()),
    NestedField(3, "number", DoubleType()),
    NestedField(4, "price", DecimalType(9, 2)),
    NestedField(5, "day", DateType()),
    NestedField(6, "flag", BooleanType()),
    NestedField(7, "raw", BinaryType()),
    NestedField(8, "moment", TimestampType()),
    NestedField(9, "small", IntegerType()),
    NestedField(10, "point", StructType(NestedField(11, "x", LongType()), NestedField(12, "y", StringType()))),
    NestedField(13, "tags", ListType(14, LongType(), element_required=False)),
)
_NAMES = ("id", "text", "number", "price", "day", "flag", "raw", "moment", "small", "point.x", "point.y")


def _row(i: int) -> dict[int, Any]:
    """Values ascend from chunk to chunk; one chunk has no text, another no price; NaN and both zeros are there."""
    chunk = i // CHUNK
    number = math.nan if i % 11 == 5 else -0.0 if i == 9 else 0.0 if i == 10 else chunk * 10 - 7 + i / 8
    return {
        1: i,
        2: None if i % 5 == 0 or chunk == 2 else f"{'abcä'[chunk]}{i:02d}",
        3: None if i % 7 == 3 else number,
        4: None if chunk == 1 else Decimal(i * 150 - 2000).scaleb(-2),
        5: i * 10 - 100,
        6: None if i % 6 == 1 else chunk % 2 == 0,
        7: None if i % 8 == 2 else bytes([i * 7, 0x80]),
        8: i * 3_600_000_000 - 10_000_000_000,
        9: None if chunk == 3 else 7 if chunk == 0 else i - 12,
        10: None if i % 9 == 4 else {11: None if i % 4 == 1 else i - 16, 12: f"y{i % 10}"},
        13: None if i % 10 == 6 else [i] * (i % 3),
    }


ROWS = [_row(i) for i in range(COUNT)]


@cache
def table(*, ids: bool = False) -> pa.Table:
    return to_arrow(SCHEMA, ROWS, ids=ids)


@cache
def _literals(name: str) -> list[Any]:
    """Values of a column as a user would write them."""
    column = table().column(name.partition(".")[0])
    inner = name.partition(".")[2]
    values = [value[inner] if inner and value is not None else value for value in column.to_pylist()]
    return sorted({value for value in values if value is not None and value == value})


@cache
def _leaf(name: str) -> st.SearchStrategy[BooleanExpression]:
    literal = st.sampled_from(_literals(name))
    operators = [ex.EqualTo, ex.NotEqualTo, ex.LessThan, ex.LessThanOrEqual, ex.GreaterThan, ex.GreaterThanOrEqual]
    compared = st.builds(lambda operator, value: operator(name, value), st.sampled_from(operators), literal)
    members = st.builds(
        lambda operator, values: operator(name, values),
        st.sampled_from([ex.In, ex.NotIn]),
        st.lists(literal, min_size=1, max_size=3),
    )
    return st.one_of(compared, compared, compared, members, st.sampled_from([ex.IsNull(name), ex.NotNull(name)]))


@cache
def filters(*names: str) -> st.SearchStrategy[BooleanExpression]:
    """Filters with values that are in the file; with those of the kit too unless columns are named."""
    own = st.sampled_from(names or _NAMES).flatmap(_leaf)
    mixed = st.one_of(own, own, st.builds(And, own, own), st.builds(Or, own, own), st.builds(Not, own))
    return mixed if names else st.one_of(mixed, mixed, mixed, predicates(SCHEMA, max_leaves=3))


def asked(schema: Schema, predicate: BooleanExpression) -> Schema:
    """The columns of a file that are compared, and those of a filter."""
    names = {name.partition(".")[0] for name in _named(predicate)} | {"id", "text", "tags"}
    return Schema(*(field for field in schema.fields if field.name in names))


def _named(predicate: BooleanExpression) -> set[str]:
    match predicate:
        case And(left=left, right=right) | Or(left=left, right=right):
            return _named(left) | _named(right)
        case Not(child=child):
            return _named(child)
        case UnboundPredicate(term=Reference(name=name)):
            return {name}
    return set()


def right(predicate: BooleanExpression) -> list[Any]:
    """The answer of the naive evaluator."""
    rows = [row for row in ROWS if naive.matches(row, SCHEMA, predicate)]
    return [(row[1], row[2], row[13]) for row in rows]


def found(batches: Sequence[pa.RecordBatch] | pa.Table) -> list[Any]:
    """The same of what was read."""
    tables = [batches] if isinstance(batches, pa.Table) else batches
    return [
        values
        for batch in tables
        for values in zip(*(batch.column(name).to_pylist() for name in ("id", "text", "tags")), strict=True)
    ]
