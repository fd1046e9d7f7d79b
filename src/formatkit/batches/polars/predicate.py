"""Bound predicates, compiled into expressions that mark the matching rows of a batch.

The expressions spec is two-valued: a comparison with null is false, its negation true. In a mask null stands for false,
which `and`, `or` and the filter all respect, so only operators that are true for null must say so. For Polars NaN is
equal to itself and greater than every number; for Iceberg it is neither.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import polars as pl
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
    BoundUnaryPredicate,
    Not,
    Or,
)
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, PrimitiveType, StringType, UnknownType

from formatkit.batches.polars.columns import place_of
from formatkit.batches.polars.constants import constant, series_of
from formatkit.batches.polars.forms import Check, as_flat
from formatkit.batches.polars.types import polars_type
from formatkit.contract.fields import field_path
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError, InvalidPredicateError

__all__ = ["Mask", "compile_predicate"]

Mask = Callable[[pl.Schema], tuple[pl.Expr | bool, list[Check]]]
"""From the layout of batches to the mask, which may be the same for all rows, and what must hold for the values."""

_TRUE_FOR_NULL = (BoundIsNull, BoundNotNaN, BoundNotEqualTo, BoundNotIn, BoundNotStartsWith)

_COMPARISONS: dict[type[BoundPredicate], Callable[[Any, Any], Any]] = {
    BoundEqualTo: operator.eq,
    BoundNotEqualTo: operator.ne,
    BoundLessThan: operator.lt,
    BoundLessThanOrEqual: operator.le,
    BoundGreaterThan: operator.gt,
    BoundGreaterThanOrEqual: operator.ge,
}

Test = Callable[[pl.Expr], pl.Expr | bool]


def compile_predicate(schema: Schema, predicate: BooleanExpression) -> Mask:
    """The mask for batches of `schema`. `predicate` is bound."""
    match predicate:
        case And():
            return _joined(schema, predicate.left, predicate.right, decisive=False)
        case Or():
            return _joined(schema, predicate.left, predicate.right, decisive=True)
        case Not():
            return _negated(compile_predicate(schema, predicate.child))
        case AlwaysTrue() | AlwaysFalse():
            same = isinstance(predicate, AlwaysTrue)
            return lambda _: (same, [])
        case BoundPredicate():
            return _leaf(schema, predicate)
    message = f"only bound predicates can be evaluated, not {predicate!r}"
    raise InvalidPredicateError(message)


def _joined(schema: Schema, left: BooleanExpression, right: BooleanExpression, *, decisive: bool) -> Mask:
    """Both for a conjunction, either for a disjunction: one side that is `decisive` decides the whole."""
    sides = compile_predicate(schema, left), compile_predicate(schema, right)

    def mask(found: pl.Schema) -> tuple[pl.Expr | bool, list[Check]]:
        (first, first_checks), (second, second_checks) = (side(found) for side in sides)
        checks = first_checks + second_checks
        if isinstance(first, bool):
            return (first if first is decisive else second), checks
        if isinstance(second, bool):
            return (second if second is decisive else first), checks
        return (first | second if decisive else first & second), checks

    return mask


def _negated(child: Mask) -> Mask:
    # True exactly where the child is not: PyIceberg's rewriting of `not (x < 5)` into `x >= 5` would lose null and NaN.
    def mask(found: pl.Schema) -> tuple[pl.Expr | bool, list[Check]]:
        matches, checks = child(found)
        return (not matches if isinstance(matches, bool) else ~matches.fill_null(False)), checks

    return mask


def _leaf(schema: Schema, predicate: BoundPredicate) -> Mask:
    path, field = field_path(schema, predicate.term.ref().field.field_id)
    kind = field.field_type
    true_for_null = isinstance(predicate, _TRUE_FOR_NULL)
    if isinstance(kind, UnknownType):
        return lambda _: (true_for_null, [])
    try:
        test = _test(kind, predicate)
    except InvalidDataError as error:
        message = f"column {field.name!r} of type {kind} cannot be compared in {predicate}: {error}"
        raise InvalidPredicateError(message) from error
    converted = isinstance(kind, PrimitiveType) and not isinstance(predicate, BoundIsNull | BoundNotNull)

    def mask(found: pl.Schema) -> tuple[pl.Expr | bool, list[Check]]:
        place = place_of(path, field, found)
        values, checks = as_flat(place, polars_type(kind)) if converted else (place.value, [])
        matches = test(values)
        if not isinstance(matches, bool) and true_for_null:
            matches = matches.fill_null(True)
        return matches, checks

    return mask


def _test(kind: IcebergType, predicate: BoundPredicate) -> Test:
    """One operator: the mask of some values, null where it depends on whether null matches."""
    match predicate:
        case BoundUnaryPredicate():
            return _UNARY[type(predicate)]
        case BoundSetPredicate():
            return _membership(kind, predicate)
        case BoundStartsWith() | BoundNotStartsWith():
            prefix = internal_value(kind, predicate.literal.value)
            return _prefix(kind, prefix, negated=isinstance(predicate, BoundNotStartsWith))
        case BoundLiteralPredicate():
            return _comparison(kind, predicate)
    message = f"the operator {type(predicate).__name__} is not known"
    raise InvalidPredicateError(message)


def _comparison(kind: IcebergType, predicate: BoundLiteralPredicate) -> Test:
    value = internal_value(kind, predicate.literal.value)
    if _is_nan(value):
        return lambda _: isinstance(predicate, BoundNotEqualTo)
    compare, literal = _COMPARISONS[type(predicate)], constant(kind, value)
    if isinstance(value, float) and isinstance(predicate, BoundGreaterThan | BoundGreaterThanOrEqual):
        return lambda values: compare(values, literal) & values.is_not_nan()
    return lambda values: compare(values, literal)


def _membership(kind: IcebergType, predicate: BoundSetPredicate) -> Test:
    values = [internal_value(kind, literal.value) for literal in predicate.literals]
    members = series_of(kind, [value for value in values if not _is_nan(value)]).implode()
    if isinstance(predicate, BoundIn):
        return lambda values: values.is_in(members)
    return lambda values: ~values.is_in(members)


def _prefix(kind: IcebergType, prefix: Any, *, negated: bool) -> Test:
    def starts(values: pl.Expr) -> pl.Expr:
        matches = (
            values.str.starts_with(prefix) if isinstance(kind, StringType) else values.bin.starts_with(pl.lit(prefix))
        )
        return ~matches if negated else matches

    return starts


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


_UNARY: dict[type[BoundPredicate], Test] = {
    BoundIsNull: lambda values: values.is_null(),
    BoundNotNull: lambda values: values.is_not_null(),
    BoundIsNaN: lambda values: values.is_nan(),
    BoundNotNaN: lambda values: values.is_not_nan(),
}
