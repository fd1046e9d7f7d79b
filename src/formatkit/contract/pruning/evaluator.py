"""Decides from statistics whether a chunk of rows can match a predicate: one evaluator for files, chunks and pages.

The values of a column fall into three classes: null, NaN, and the rest, which the bounds enclose. Each class is either
known to be absent or must be taken to be there. A leaf holds for all rows if it holds for every class that may be
there, and for none if it holds for no such class. Whatever is unknown leads to `Match.SOME`, never to an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    Or,
)
from pyiceberg.types import BinaryType, DoubleType, FloatType, IcebergType, StringType, UUIDType

from formatkit.contract.metrics import ColumnMetrics

__all__ = ["ChunkStatistics", "Match", "compile_match", "match"]

_SET_LIMIT = 200
"""Beyond this many literals a set is compared by its least and greatest only."""


class Match(Enum):
    """How many rows of a chunk match."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class ChunkStatistics:
    """What is known about a run of rows, by field id. A column that is absent here is unknown."""

    row_count: int | None = None
    columns: Mapping[int, ColumnMetrics] = field(default_factory=dict)


Judge = Callable[[ChunkStatistics], Match]
"""Which rows of a chunk match."""


def match(predicate: BooleanExpression, statistics: ChunkStatistics) -> Match:
    """Which rows match: none for certain, all for certain, or some (not known).

    Args:
        predicate: Bound, and free of `Not`. Columns are found by field id.
        statistics: What is known about the chunk. A chunk without rows matches nothing.
    """
    return compile_match(predicate)(statistics)


def compile_match(predicate: BooleanExpression) -> Judge:
    """The same for many chunks: looking at the predicate takes longer than looking at a chunk."""
    judge = _compile(predicate)
    return lambda statistics: Match.NONE if statistics.row_count == 0 else judge(statistics)


def _compile(node: BooleanExpression) -> Judge:
    if isinstance(node, And):
        return _both(_compile(node.left), _compile(node.right))
    if isinstance(node, Or):
        return _either(_compile(node.left), _compile(node.right))
    if isinstance(node, AlwaysTrue):
        return lambda _: Match.ALL
    if isinstance(node, AlwaysFalse):
        return lambda _: Match.NONE
    if isinstance(node, BoundPredicate):
        return _leaf(node)
    return lambda _: Match.SOME


def _both(left: Judge, right: Judge) -> Judge:
    def judge(statistics: ChunkStatistics) -> Match:
        found = left(statistics)
        if found is Match.NONE:
            return found
        other = right(statistics)
        return other if found is Match.ALL or other is Match.NONE else Match.SOME

    return judge


def _either(left: Judge, right: Judge) -> Judge:
    def judge(statistics: ChunkStatistics) -> Match:
        found = left(statistics)
        if found is Match.ALL:
            return found
        other = right(statistics)
        return other if found is Match.NONE or other is Match.ALL else Match.SOME

    return judge


_OPPOSITE = {Match.NONE: Match.ALL, Match.SOME: Match.SOME, Match.ALL: Match.NONE}


def _opposite(answer: Match) -> Match:
    return _OPPOSITE[answer]


def _certain(*, all_: bool, none: bool) -> Match:
    return Match.ALL if all_ else Match.NONE if none else Match.SOME


def _leaf(leaf: BoundPredicate) -> Judge:
    column = leaf.term.ref().field
    field_id, type_ = column.field_id, column.field_type
    floating = isinstance(type_, FloatType | DoubleType)
    of_null = Match.ALL if isinstance(leaf, _TRUE_FOR_NULL) else Match.NONE
    of_nan = Match.ALL if isinstance(leaf, _TRUE_FOR_NAN) else Match.NONE
    of_values = _judge_of_values(leaf, type_)

    def judge(statistics: ChunkStatistics) -> Match:
        metrics = statistics.columns.get(field_id, _UNKNOWN)
        rows = statistics.row_count if statistics.row_count is not None else metrics.value_count
        nulls = metrics.null_count if metrics.value_count in (None, rows) else None
        nans = metrics.nan_count if floating else 0
        filled = None if rows is None or nulls is None else max(rows - nulls, 0)
        answers = set()
        if nulls != 0:
            answers.add(of_null)
        if filled != 0 and nans != 0:
            answers.add(of_nan)
        if filled is None or filled > (nans or 0):
            try:
                answers.add(of_values(*_bounds(type_, metrics)))
            except (TypeError, IndexError):
                # Bounds of another type than the column's say nothing.
                answers.add(Match.SOME)
        return answers.pop() if len(answers) == 1 else Match.SOME

    return judge


_UNKNOWN = ColumnMetrics()
_TRUE_FOR_NULL = (BoundIsNull, BoundNotEqualTo, BoundNotIn, BoundNotStartsWith, BoundNotNaN)
_TRUE_FOR_NAN = (BoundNotNull, BoundNotEqualTo, BoundNotIn, BoundIsNaN)
_TRUE_FOR_VALUES = (BoundNotNull, BoundNotNaN)
_NEGATIONS: dict[type[BoundPredicate], type[BoundPredicate]] = {
    BoundNotEqualTo: BoundEqualTo,
    BoundNotIn: BoundIn,
    BoundNotStartsWith: BoundStartsWith,
    # Among values that are neither null nor NaN these are opposites, too.
    BoundGreaterThanOrEqual: BoundLessThan,
    BoundGreaterThan: BoundLessThanOrEqual,
}


def _bounds(type_: IcebergType, metrics: ColumnMetrics) -> tuple[Any, Any]:
    """The bounds as far as they can be believed."""
    lower, upper = metrics.lower, metrics.upper
    # NaN is no bound; nothing equals it, itself included.
    lower = lower if lower == lower else None
    upper = upper if upper == upper else None
    if lower is not None and upper is not None and lower > upper:
        return None, None
    if isinstance(type_, UUIDType):
        # Java orders the halves as signed numbers. The first half shows as inverted bounds. Where values share it,
        # the second half may be out of order unnoticed, unless its sign excludes that.
        if lower is not None and lower[8] >= 0x80:
            lower = lower[:8] + bytes(8)
        if upper is not None and upper[8] < 0x80:
            upper = upper[:8] + b"\xff" * 8
    return lower, upper


def _judge_of_values(leaf: BoundPredicate, type_: IcebergType) -> Callable[[Any, Any], Match]:
    """The answer for the values that are neither null nor NaN, from their bounds."""
    if isinstance(leaf, _TRUE_FOR_VALUES):
        return lambda _lower, _upper: Match.ALL
    if isinstance(leaf, BoundIsNull | BoundIsNaN):
        return lambda _lower, _upper: Match.NONE
    kind = _NEGATIONS.get(type(leaf), type(leaf))
    if isinstance(leaf, BoundSetPredicate):
        judge = partial(_match_in, leaf.value_set, type_)
    elif isinstance(leaf, BoundLiteralPredicate):
        judge = partial(_match_literal, kind, leaf.literal.value, type_)
    else:
        return lambda _lower, _upper: Match.SOME
    return judge if kind is type(leaf) else lambda lower, upper: _opposite(judge(lower, upper))


def _match_literal(kind: type[BoundPredicate], value: Any, type_: IcebergType, lower: Any, upper: Any) -> Match:
    if kind is BoundLessThan:
        return _certain(all_=upper is not None and upper < value, none=lower is not None and lower >= value)
    if kind is BoundLessThanOrEqual:
        return _certain(all_=upper is not None and upper <= value, none=lower is not None and lower > value)
    if kind is BoundEqualTo:
        return _match_in({value}, type_, lower, upper)
    if kind is BoundStartsWith:
        return _match_prefix(value, lower, upper)
    return Match.SOME


def _match_in(values: set[Any], type_: IcebergType, lower: Any, upper: Any) -> Match:
    if len(values) > _SET_LIMIT:
        values = {min(values), max(values)}
        outside = (lower is not None and max(values) < lower) or (upper is not None and min(values) > upper)
        return Match.NONE if outside else Match.SOME
    inside = {value for value in values if (lower is None or value >= lower) and (upper is None or value <= upper)}
    # Bounds of strings and binary are often cut, and not every writer takes care to round the upper one up.
    single = lower is not None and lower == upper and not isinstance(type_, StringType | BinaryType)
    return _certain(all_=single and bool(inside), none=not inside)


def _match_prefix(prefix: str, lower: str | None, upper: str | None) -> Match:
    length = len(prefix)
    return _certain(
        all_=lower is not None and upper is not None and lower[:length] == prefix == upper[:length],
        none=(upper is not None and upper[:length] < prefix) or (lower is not None and lower[:length] > prefix),
    )
