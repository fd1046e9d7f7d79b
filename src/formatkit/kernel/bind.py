"""Binds filters to a schema, exactly as the Iceberg expressions spec reads: two-valued, null- and NaN-aware."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundIn,
    BoundIsNull,
    BoundLiteralPredicate,
    BoundNotIn,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundStartsWith,
    BoundUnaryPredicate,
    Not,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, MapType, NestedField, PrimitiveType, StringType, UnknownType

from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, InvalidPredicateError
from formatkit.kernel.evaluate import passes_null
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.literals import LiteralError, bracket_literal, comparable
from formatkit.kernel.names import Path, dotted, find_column, path_to
from formatkit.kernel.predicates import ColumnReference, all_of, any_of, compare, member, negate, operands

__all__ = ["bind", "columns_of"]


def bind(schema: Schema, predicate: BooleanExpression | str, *, case_sensitive: bool = True) -> BooleanExpression:
    """Bind a filter to the columns of a schema.

    The result has no `Not`: a negation is true exactly where the negated filter is false, so ``not (x < 5)`` keeps null
    rows, as ``x != 5`` does. Literals take the type of the column; one that the type cannot hold (2**40 for an int, 1.5
    for a long) is rewritten so that no row changes sides. What was bound before is bound again, by field id.

    Raises:
        InvalidPredicateError: The text cannot be parsed, or a column is compared with a value of another kind.
        ColumnNotFoundError: The schema has no such column.
        AmbiguousColumnError: Several columns fit when case is ignored.
    """
    return _Binder(schema, case_sensitive).bound(predicate)


def columns_of(schema: Schema, predicate: BooleanExpression | str, *, case_sensitive: bool = True) -> set[int]:
    """The ids of the columns that a filter names, those included that binding leaves nothing of."""
    binder = _Binder(schema, case_sensitive)
    binder.bound(predicate)
    return binder.field_ids


@lru_cache(maxsize=256)
def _parse(text: str) -> BooleanExpression:
    """The expression of a text, which costs about as much as planning a small table; services repeat themselves."""
    # The parser takes as long to load as a small file to be read, and expressions need none.
    from pyiceberg.expressions.parser import parse
    from pyparsing import ParseBaseException

    try:
        expression = parse(text)
    except ParseBaseException as error:
        marked = f"{text[: error.loc]} >>> {text[error.loc :]}"
        raise InvalidPredicateError(
            f"cannot parse the filter {text!r}: stopped at {marked!r}; expected a comparison such as "
            "`a = 1`, `b in ('x', 'y')`, `c is not null`, `d like 'x%'`, combined with and, or, not",
            text=text,
            position=error.loc,
        ) from error
    except ValueError as error:
        raise InvalidPredicateError(f"cannot parse the filter {text!r}: {error}", text=text) from error
    if not isinstance(expression, BooleanExpression):
        raise InvalidPredicateError(f"the filter {text!r} is not a condition; compare the column with a value")
    return expression


class _Binder:
    def __init__(self, schema: Schema, case_sensitive: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive
        self._references: dict[str | int, ColumnReference] = {}

    @property
    def field_ids(self) -> set[int]:
        return {reference.field.field_id for reference in self._references.values()}

    def bound(self, predicate: BooleanExpression | str) -> BooleanExpression:
        if isinstance(predicate, str):
            predicate = _parse(predicate)
        try:
            return self.bind(predicate, negated=False)
        except RecursionError:
            raise InvalidPredicateError("the filter is nested too deeply; use fewer levels of parentheses") from None

    def bind(self, node: BooleanExpression, *, negated: bool) -> BooleanExpression:
        if isinstance(node, Not):
            return self.bind(node.child, negated=not negated)
        if isinstance(node, And | Or):
            combine = all_of if isinstance(node, And) is not negated else any_of
            return combine([self.bind(part, negated=negated) for part in operands(node, type(node))])
        if isinstance(node, AlwaysTrue | AlwaysFalse):
            return ~node if negated else node
        if isinstance(node, UnboundPredicate | BoundPredicate):
            return self._bind_leaf(node, negated=negated)
        raise InvalidPredicateError(f"cannot use {type(node).__name__} as a filter")

    def _bind_leaf(self, leaf: UnboundPredicate | BoundPredicate, *, negated: bool) -> BooleanExpression:
        bound = _build(leaf, self._reference(leaf))
        return negate(bound) if negated else bound

    def _reference(self, leaf: UnboundPredicate | BoundPredicate) -> ColumnReference:
        if isinstance(leaf, BoundPredicate):
            field = leaf.term.ref().field
            return self._cached(field.field_id, lambda: self._path_by_id(field))
        if isinstance(leaf.term, Reference):
            name = leaf.term.name
            return self._cached(name, lambda: find_column(self._schema, name, case_sensitive=self._case_sensitive))
        raise InvalidPredicateError(f"cannot use {leaf.term} in a filter; only columns can be compared")

    def _path_by_id(self, field: NestedField) -> Path:
        path = path_to(self._schema, field.field_id)
        if path is None:
            raise ColumnNotFoundError(field.name, self._schema.column_names)
        return path

    def _cached(self, key: str | int, find: Callable[[], Path]) -> ColumnReference:
        if key not in self._references:
            path = find()
            if any(isinstance(parent.field_type, ListType | MapType) for parent in path[:-1]):
                message = f"column {dotted(path)!r} is inside a list or map, which filters cannot reach"
                raise InvalidPredicateError(message)
            self._references[key] = ColumnReference(path, self._schema.accessor_for_field(path[-1].field_id))
        return self._references[key]


def _build(leaf: Any, reference: ColumnReference) -> BooleanExpression:
    kind: type[BoundPredicate] = leaf.as_bound if isinstance(leaf, UnboundPredicate) else type(leaf)
    column = reference.field.field_type
    if isinstance(column, UnknownType):
        return AlwaysTrue() if passes_null(kind) else AlwaysFalse()
    if issubclass(kind, BoundIsNull | BoundNotNull):
        return kind(term=reference)
    if isinstance(column, VariantType) or not isinstance(column, PrimitiveType):
        raise _mismatch(reference, "only `is null` and `is not null` can be asked of it")
    if issubclass(kind, BoundUnaryPredicate):
        return kind(term=reference)
    if not comparable(column):
        raise _mismatch(reference, "its values have no order; only `is null` and `is not null` can be asked of it")
    if issubclass(kind, BoundStartsWith | BoundNotStartsWith) and not isinstance(column, StringType):
        raise _mismatch(reference, "`like` and `starts with` are for strings")
    if issubclass(kind, BoundIn | BoundNotIn):
        return member(kind, reference, [_bracket(reference, literal) for literal in leaf.literals])
    if issubclass(kind, BoundLiteralPredicate):
        return compare(kind, reference, _bracket(reference, leaf.literal))
    raise InvalidPredicateError(f"cannot use {type(leaf).__name__} in a filter")


def _bracket(reference: ColumnReference, literal: Literal[Any]) -> Bracket:
    try:
        return bracket_literal(reference.field.field_type, literal)
    except LiteralError as error:
        raise _mismatch(reference, f"it cannot be compared with {literal.value!r}: {error}") from None


def _mismatch(reference: ColumnReference, problem: str) -> InvalidPredicateError:
    return InvalidPredicateError(f"column {dotted(reference.path)!r} is {reference.field.field_type}: {problem}")
