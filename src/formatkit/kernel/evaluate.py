"""Evaluates one condition on one value: the definition of what each operator means."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pyiceberg.expressions import (
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundIsNaN,
    BoundIsNull,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundStartsWith,
)

from formatkit.contract.values import internal_value
from formatkit.errors import InternalError

__all__ = ["evaluate", "passes_null"]

_PASS_NULL = (BoundIsNull, BoundNotEqualTo, BoundNotIn, BoundNotStartsWith, BoundNotNaN)

_TESTS: dict[type[BoundPredicate], Callable[[Any, Any], bool]] = {
    BoundNotNull: lambda leaf, value: True,
    BoundIsNull: lambda leaf, value: False,
    BoundIsNaN: lambda leaf, value: _is_nan(value),
    BoundNotNaN: lambda leaf, value: not _is_nan(value),
    BoundEqualTo: lambda leaf, value: value == leaf.literal.value,
    BoundNotEqualTo: lambda leaf, value: value != leaf.literal.value,
    BoundLessThan: lambda leaf, value: value < leaf.literal.value,
    BoundLessThanOrEqual: lambda leaf, value: value <= leaf.literal.value,
    BoundGreaterThan: lambda leaf, value: value > leaf.literal.value,
    BoundGreaterThanOrEqual: lambda leaf, value: value >= leaf.literal.value,
    BoundIn: lambda leaf, value: value in leaf.value_set,
    BoundNotIn: lambda leaf, value: value not in leaf.value_set,
    BoundStartsWith: lambda leaf, value: value.startswith(leaf.literal.value),
    BoundNotStartsWith: lambda leaf, value: not value.startswith(leaf.literal.value),
}


def passes_null(kind: type[BooleanExpression]) -> bool:
    """Whether a null value makes a condition of this kind true."""
    return issubclass(kind, _PASS_NULL)


def evaluate(leaf: BoundPredicate, value: Any) -> bool:
    """Whether the condition holds for a value of its column, given as Iceberg's internal value or as Python's own."""
    test = _TESTS.get(type(leaf))
    if test is None:
        raise InternalError(f"cannot evaluate {type(leaf).__name__}")
    if value is None:
        return passes_null(type(leaf))
    return test(leaf, internal_value(leaf.term.ref().field.field_type, value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
