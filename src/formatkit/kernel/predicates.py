"""Building, taking apart and rewriting bound predicates. No node built here is a `Not`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from typing import Literal as OneOf

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
    BoundPredicate,
    BoundReference,
    Not,
    Or,
)
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    DateLiteral,
    DoubleLiteral,
    FixedLiteral,
    Literal,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
    literal,
)
from pyiceberg.schema import Accessor
from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    NestedField,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.kernel.intervals import Bracket

__all__ = [
    "MANY_CONDITIONS",
    "MAX_CONDITIONS",
    "BoundColumnComparison",
    "ColumnComparison",
    "ColumnReference",
    "Operator",
    "all_of",
    "any_of",
    "compare",
    "conjuncts",
    "leaves",
    "member",
    "negate",
    "operands",
    "path_of",
    "rewrite",
]

Operator = OneOf["=", "!=", "<", "<=", ">", ">="]

MAX_CONDITIONS = 5_000
"""So many conditions of a filter are planned and tested in seconds."""
MANY_CONDITIONS = 100
"""From so many comparisons of a column on, ``a = 1 or a = 2 or …`` is read as ``a in (1, 2, …)``."""

_LITERALS: dict[type[IcebergType], Callable[..., Literal[Any]]] = {
    FloatType: DoubleLiteral,
    DoubleType: DoubleLiteral,
    DateType: DateLiteral,
    TimeType: TimeLiteral,
    TimestampType: TimestampLiteral,
    TimestamptzType: TimestampLiteral,
    UUIDType: UUIDLiteral,
    FixedType: FixedLiteral,
    BinaryType: BinaryLiteral,
}


class ColumnReference(BoundReference):
    """A bound reference that also knows the structs above the field, outermost first and the field itself last.

    The reference's own `field` is optional as soon as one of the structs is, because a null struct has null children.
    """

    path: tuple[NestedField, ...]

    def __init__(self, path: tuple[NestedField, ...], accessor: Accessor) -> None:
        field = path[-1]
        if field.required and any(parent.optional for parent in path):
            field = field.model_copy(update={"required": False})
        super().__init__(field=field, accessor=accessor)
        self.path = path


class ColumnComparison(BooleanExpression):
    """A comparison of two columns by their names, which pyiceberg has no expression for."""

    operator: Operator
    left: str
    right: str

    def __invert__(self) -> BooleanExpression:
        return Not(self)


class BoundColumnComparison(BooleanExpression):
    """A comparison of two columns. Where one of them is null or NaN it is false, unless it is ``!=``.

    Attributes:
        negated: Whether it is true exactly where the comparison is false.
    """

    operator: Operator
    left: Any
    right: Any
    negated: bool = False

    def __invert__(self) -> BoundColumnComparison:
        return self.model_copy(update={"negated": not self.negated})

    @property
    def references(self) -> tuple[ColumnReference, ColumnReference]:
        return self.left, self.right


def path_of(leaf: BoundPredicate) -> tuple[NestedField, ...]:
    """The structs above the leaf's field and the field itself."""
    reference = leaf.term.ref()
    return reference.path if isinstance(reference, ColumnReference) else (reference.field,)


def operands(expression: BooleanExpression, kind: type[And] | type[Or]) -> Iterator[BooleanExpression]:
    """The operands of a chain of one connective, however it is nested, from left to right."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += (node.right, node.left)
        else:
            yield node


def conjuncts(expression: BooleanExpression) -> list[BooleanExpression]:
    """What must hold all at once; empty for `AlwaysTrue`."""
    return [part for part in operands(expression, And) if part is not AlwaysTrue()]


def all_of(parts: Iterable[BooleanExpression]) -> BooleanExpression:
    """The conjunction, balanced so that a long one does not nest deeply."""
    return _balanced(And, list(parts), AlwaysTrue())


def any_of(parts: Iterable[BooleanExpression]) -> BooleanExpression:
    """The disjunction, balanced so that a long one does not nest deeply."""
    return _balanced(Or, list(parts), AlwaysFalse())


def _balanced(
    kind: type[And] | type[Or], parts: list[BooleanExpression], neutral: BooleanExpression
) -> BooleanExpression:
    parts = [part for part in parts if part is not neutral]
    if not parts:
        return neutral
    return parts[0] if len(parts) == 1 else kind(*parts)


def rewrite(expression: BooleanExpression, leaf: Callable[[BoundPredicate], BooleanExpression]) -> BooleanExpression:
    """The same expression with every leaf replaced; the expression itself if none is another one afterwards."""
    if isinstance(expression, And | Or):
        parts = list(operands(expression, type(expression)))
        rewritten = [rewrite(part, leaf) for part in parts]
        if all(before is after for before, after in zip(parts, rewritten, strict=True)):
            return expression
        return all_of(rewritten) if isinstance(expression, And) else any_of(rewritten)
    if isinstance(expression, BoundPredicate):
        return leaf(expression)
    return expression


def leaves(expression: BooleanExpression) -> Iterator[BoundPredicate]:
    """Every leaf, from left to right."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, And | Or):
            waiting += (node.right, node.left)
        elif isinstance(node, BoundPredicate):
            yield node


def compare(kind: type[BoundLiteralPredicate], reference: BoundReference, value: Bracket) -> BooleanExpression:
    """`reference <kind> value`, where the value may lie between or outside what the column's type can hold."""
    if value.exact:
        return kind(term=reference, literal=_literal(reference, value.floor))
    if kind is BoundEqualTo:
        return AlwaysFalse()
    if kind is BoundNotEqualTo:
        return AlwaysTrue()
    inclusive: type[BoundLiteralPredicate]
    if kind in (BoundLessThan, BoundLessThanOrEqual):
        nearest, further, inclusive = value.floor, value.ceil, BoundLessThanOrEqual
    else:
        nearest, further, inclusive = value.ceil, value.floor, BoundGreaterThanOrEqual
    if nearest is None:
        return AlwaysFalse()
    if further is None:
        return _every_number(reference)
    return inclusive(term=reference, literal=_literal(reference, nearest))


def member(
    kind: type[BoundIn] | type[BoundNotIn], reference: BoundReference, values: Iterable[Bracket]
) -> BooleanExpression:
    """`reference in (...)`; a value that the column's type cannot hold equals nothing."""
    held = {value.floor: _literal(reference, value.floor) for value in values if value.exact}
    return kind(term=reference, literals=set(held.values()))


def negate(expression: BooleanExpression) -> BooleanExpression:
    """True exactly where the expression is false: null and NaN fail ``<`` and therefore pass its negation."""
    if isinstance(expression, And):
        return any_of([negate(part) for part in operands(expression, And)])
    if isinstance(expression, Or):
        return all_of([negate(part) for part in operands(expression, Or)])
    if isinstance(expression, BoundLessThan | BoundLessThanOrEqual | BoundGreaterThan | BoundGreaterThanOrEqual):
        return any_of([~expression, BoundIsNull(term=expression.term), BoundIsNaN(term=expression.term)])
    return ~expression


def _every_number(reference: BoundReference) -> BooleanExpression:
    return all_of([BoundNotNull(term=reference), BoundNotNaN(term=reference)])


def _literal(reference: BoundReference, value: object) -> Literal[Any]:
    build = _LITERALS.get(type(reference.field.field_type), literal)
    return build(value)
