"""What a filter means in pyiceberg's scans, in terms of formatkit's.

pyiceberg lets Arrow evaluate filters, where a comparison with null is neither true nor false and drops the row;
formatkit follows the Iceberg spec, where ``a != 1`` is true of null. A filter must keep selecting the same rows after
`install`, and the same that pyiceberg's `delete` takes, so the difference is written into it.
"""

from __future__ import annotations

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIn,
    BoundIsNull,
    BoundNotIn,
    BoundNotNull,
    BoundPredicate,
    In,
    IsNull,
    Not,
    NotIn,
    NotNull,
    Or,
    UnboundPredicate,
)

from formatkit.kernel.predicates import all_of, any_of, operands

__all__ = ["arrow_filter"]

# Of these Arrow knows the answer for null too.
_DECIDED = (In, NotIn, IsNull, NotNull, BoundIn, BoundNotIn, BoundIsNull, BoundNotNull)


def arrow_filter(expression: BooleanExpression) -> BooleanExpression:
    """The filter under which formatkit keeps the rows that pyiceberg keeps."""
    return _where(expression, True)


def _where(expression: BooleanExpression, wanted: bool) -> BooleanExpression:
    """Where the expression is true, or where it is false; null is neither."""
    if isinstance(expression, Not):
        return _where(expression.child, not wanted)
    if isinstance(expression, And | Or):
        combine = all_of if isinstance(expression, And) is wanted else any_of
        return combine([_where(part, wanted) for part in operands(expression, type(expression))])
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return expression if wanted else ~expression
    decided = expression if wanted else Not(expression)
    if isinstance(expression, _DECIDED):
        return decided
    if isinstance(expression, BoundPredicate):
        return And(decided, BoundNotNull(term=expression.term))
    if isinstance(expression, UnboundPredicate):
        return And(decided, NotNull(term=expression.term))
    return decided
