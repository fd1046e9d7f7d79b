"""Binds filters to a schema, exactly as the Iceberg expressions spec reads: two-valued, null- and NaN-aware."""

from __future__ import annotations

from collections.abc import Callable
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
    EqualTo,
    In,
    Not,
    NotEqualTo,
    NotIn,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import Literal
from pyiceberg.schema import Accessor, Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UnknownType,
)

from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.errors import ColumnNotFoundError, InvalidPredicateError
from formatkit.kernel.evaluate import passes_null
from formatkit.kernel.intervals import Bracket
from formatkit.kernel.literals import LiteralError, bracket_literal, comparable
from formatkit.kernel.names import Path, dotted, find_column, path_to
from formatkit.kernel.parsing import parse, too_many_conditions
from formatkit.kernel.predicates import (
    MANY_CONDITIONS,
    MAX_CONDITIONS,
    BoundColumnComparison,
    ColumnComparison,
    ColumnReference,
    all_of,
    any_of,
    compare,
    member,
    negate,
    operands,
)

__all__ = ["bind", "columns_of"]

# Chains of one connective count as one level, however long they are. Everything behind this may recurse.
_MAX_DEPTH = 100
_MAX_SHOWN_CHARACTERS = 200
# Types whose values can be compared with each other without rounding any.
_FAMILIES: dict[type[IcebergType], type[IcebergType]] = {
    IntegerType: DecimalType,
    LongType: DecimalType,
    FloatType: DoubleType,
    TimestampNanoType: TimestampType,
    TimestamptzNanoType: TimestamptzType,
    FixedType: BinaryType,
}


def bind(
    schema: Schema,
    predicate: BooleanExpression | str,
    *,
    case_sensitive: bool = True,
    compare_columns: bool = False,
) -> BooleanExpression:
    """Bind a filter to the columns of a schema.

    The result has no `Not`: a negation is true exactly where the negated filter is false, so ``not (x < 5)`` keeps null
    rows, as ``x != 5`` does. Literals take the type of the column; one that the type cannot hold (2**40 for an int, 1.5
    for a long) is rewritten so that no row changes sides. What was bound before is bound again, by field id.

    Args:
        schema: What the filter sees.
        predicate: A filter, as text or as an expression.
        case_sensitive: Whether case matters in names.
        compare_columns: Whether a column may be compared with a column. Only who evaluates `BoundColumnComparison`
            can ask for that, which scans do not.

    Raises:
        InvalidPredicateError: The text cannot be parsed, or a column is compared with a value of another kind.
        ColumnNotFoundError: The schema has no such column.
        AmbiguousColumnError: Several columns fit when case is ignored.
    """
    return _Binder(schema, case_sensitive, compare_columns).bound(predicate)


def columns_of(
    schema: Schema,
    predicate: BooleanExpression | str,
    *,
    case_sensitive: bool = True,
    compare_columns: bool = False,
) -> set[int]:
    """The ids of the columns that a filter names, those included that binding leaves nothing of."""
    binder = _Binder(schema, case_sensitive, compare_columns)
    binder.bound(predicate)
    return binder.field_ids


class _Binder:
    def __init__(self, schema: Schema, case_sensitive: bool, compare_columns: bool) -> None:
        self._schema = schema
        self._case_sensitive = case_sensitive
        self._compare_columns = compare_columns
        self._references: dict[str | int, ColumnReference] = {}
        self._conditions = 0

    @property
    def field_ids(self) -> set[int]:
        return {reference.field.field_id for reference in self._references.values()}

    def bound(self, predicate: BooleanExpression | str) -> BooleanExpression:
        if isinstance(predicate, str):
            predicate = parse(predicate, compare_columns=self._compare_columns)
        return self.bind(predicate, negated=False, depth=0)

    def bind(self, node: BooleanExpression, *, negated: bool, depth: int) -> BooleanExpression:
        while isinstance(node, Not):
            node, negated = node.child, not negated
        if isinstance(node, And | Or):
            if depth == _MAX_DEPTH:
                message = f"`and` and `or` of the filter alternate more than {_MAX_DEPTH} levels deep; nest them less"
                raise InvalidPredicateError(message)
            combine = all_of if isinstance(node, And) is not negated else any_of
            return combine([self.bind(part, negated=negated, depth=depth + 1) for part in _parts(node)])
        if isinstance(node, AlwaysTrue | AlwaysFalse):
            return ~node if negated else node
        if isinstance(node, UnboundPredicate | BoundPredicate):
            return self._bind_leaf(node, negated=negated)
        if isinstance(node, ColumnComparison) and self._compare_columns:
            return self._bind_comparison(node, negated=negated)
        raise InvalidPredicateError(f"cannot use {type(node).__name__} as a filter")

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise too_many_conditions()

    def _bind_comparison(self, node: ColumnComparison, *, negated: bool) -> BooleanExpression:
        self._count()
        left, right = self._named(node.left), self._named(node.right)
        _check_comparable(left, right)
        return BoundColumnComparison(operator=node.operator, left=left, right=right, negated=negated)

    def _bind_leaf(self, leaf: UnboundPredicate | BoundPredicate, *, negated: bool) -> BooleanExpression:
        self._count()
        bound = _build(leaf, self._reference(leaf))
        return negate(bound) if negated else bound

    def _reference(self, leaf: UnboundPredicate | BoundPredicate) -> ColumnReference:
        if isinstance(leaf, BoundPredicate):
            field = leaf.term.ref().field
            return self._cached(field.field_id, lambda: self._path_by_id(field))
        if isinstance(leaf.term, Reference):
            return self._named(leaf.term.name)
        raise InvalidPredicateError(f"cannot use {leaf.term} in a filter; only columns can be compared")

    def _named(self, name: str) -> ColumnReference:
        return self._cached(name, lambda: find_column(self._schema, name, case_sensitive=self._case_sensitive))

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
            self._references[key] = ColumnReference(path, _accessor(self._schema, path))
        return self._references[key]


def _accessor(schema: Schema, path: Path) -> Accessor:
    """Finds a column in rows of the schema. The schema itself would make accessors for all of its columns first."""
    parents = [schema.fields, *(child_fields(field.field_type) for field in path[:-1])]
    accessor: Accessor | None = None
    for fields, field in zip(reversed(parents), reversed(path), strict=True):
        position = [other.field_id for other in fields].index(field.field_id)
        accessor = Accessor(position, accessor)
    assert accessor is not None  # noqa: S101 - a path has at least one field
    return accessor


def _parts(node: And | Or) -> list[BooleanExpression]:
    """The operands, where many comparisons of one column with ``=`` or ``!=`` are put together."""
    parts = list(operands(node, type(node)))
    if len(parts) < MANY_CONDITIONS:
        return parts
    single: type[Any] = NotEqualTo if isinstance(node, And) else EqualTo
    groups: dict[str, list[Any]] = {}
    for part in parts:
        if isinstance(part, single) and isinstance(part.term, Reference):
            groups.setdefault(part.term.name, []).append(part)
    several: type[Any] = NotIn if isinstance(node, And) else In
    merged = {name: group for name, group in groups.items() if len(group) >= MANY_CONDITIONS}
    kept = [part for part in parts if not (isinstance(part, single) and part.term.name in merged)]
    return [*(several(name, [part.literal for part in group]) for name, group in merged.items()), *kept]


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


def _check_comparable(left: ColumnReference, right: ColumnReference) -> None:
    """Raise unless the values of both columns have one order that is exact."""
    for reference in (left, right):
        if not isinstance(reference.field.field_type, UnknownType) and not comparable(reference.field.field_type):
            raise _mismatch(reference, "its values have no order; only `is null` and `is not null` can be asked of it")
    families = [_FAMILIES.get(type(each.field.field_type), type(each.field.field_type)) for each in (left, right)]
    if families[0] is not families[1] and UnknownType not in families:
        problem = f"it cannot be compared with column {dotted(right.path)!r}, which is {right.field.field_type}"
        raise _mismatch(left, f"{problem}; give both the same type")


def _bracket(reference: ColumnReference, literal: Literal[Any]) -> Bracket:
    try:
        return bracket_literal(reference.field.field_type, literal)
    except LiteralError as error:
        raise _mismatch(reference, f"it cannot be compared with {_shown(literal.value)}: {error}") from None


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no integers of thousands of digits
        return f"this {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}…"


def _mismatch(reference: ColumnReference, problem: str) -> InvalidPredicateError:
    return InvalidPredicateError(f"column {dotted(reference.path)!r} is {reference.field.field_type}: {problem}")
