"""Prints bound predicates the way people write them."""

from __future__ import annotations

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
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, IcebergType, TimestampType, TimestamptzType, TimeType

from formatkit.kernel.names import dotted
from formatkit.kernel.predicates import operands, path_of

__all__ = ["predicate_text"]

_SHOWN_VALUES = 5
_MAX_SHOWN_CHARACTERS = 200
_WORDS: dict[type[BoundPredicate], str] = {
    BoundEqualTo: "=",
    BoundNotEqualTo: "!=",
    BoundLessThan: "<",
    BoundLessThanOrEqual: "<=",
    BoundGreaterThan: ">",
    BoundGreaterThanOrEqual: ">=",
    BoundIn: "in",
    BoundNotIn: "not in",
    BoundIsNull: "is null",
    BoundNotNull: "is not null",
    BoundIsNaN: "is nan",
    BoundNotNaN: "is not nan",
    BoundStartsWith: "starts with",
    BoundNotStartsWith: "not starts with",
}


def predicate_text(predicate: BooleanExpression) -> str:
    """The predicate on one line. Long sets and values are cut."""
    if isinstance(predicate, AlwaysTrue | AlwaysFalse):
        return "true" if isinstance(predicate, AlwaysTrue) else "false"
    if isinstance(predicate, And):
        return " and ".join(_inside_and(part) for part in operands(predicate, And))
    if isinstance(predicate, Or):
        return " or ".join(predicate_text(part) for part in operands(predicate, Or))
    if isinstance(predicate, BoundPredicate):
        return _leaf_text(predicate)
    return str(predicate)


def _inside_and(part: BooleanExpression) -> str:
    return f"({predicate_text(part)})" if isinstance(part, Or) else predicate_text(part)


def _leaf_text(leaf: BoundPredicate) -> str:
    type_ = leaf.term.ref().field.field_type
    words = [dotted(path_of(leaf)), _WORDS.get(type(leaf), type(leaf).__name__)]
    if isinstance(leaf, BoundLiteralPredicate):
        words.append(_value_text(type_, leaf.literal.value))
    elif isinstance(leaf, BoundSetPredicate):
        values = sorted(leaf.value_set)
        shown = [_value_text(type_, value) for value in values[:_SHOWN_VALUES]]
        more = [f"… {len(values) - _SHOWN_VALUES} more"] if len(values) > _SHOWN_VALUES else []
        words.append(f"({', '.join(shown + more)})")
    return " ".join(words)


def _value_text(type_: IcebergType, value: Any) -> str:
    if isinstance(type_, DateType | TimeType | TimestampType | TimestamptzType):
        try:
            return f"'{IdentityTransform().to_human_string(type_, value)}'"
        except (OverflowError, ValueError):
            return str(value)
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"
