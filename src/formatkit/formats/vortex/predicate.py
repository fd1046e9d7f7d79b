"""The part of a predicate that Vortex evaluates exactly as Iceberg means it, in Vortex's expressions.

Vortex's logic is three-valued and a filter drops rows for which it is null, so operators that are true for null say so.
Its order of floating-point numbers is total; the forms used here mean the same in either order:

    x < 0.0     x < −0.0                     because the zeros are equal in Iceberg
    x > 5.0     x > 5.0 and x <= infinity    because NaN, beyond infinity, is greater than nothing
    is NaN      x is not null and not (−infinity <= x <= infinity)

A string begins with a prefix if it lies between the prefix and the next string of that length; zones are skipped by
that too, which `like` would not do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any
from uuid import UUID

import pyarrow as pa
import vortex as vx
import vortex.expr as ve
from pyiceberg.expressions import (
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
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType, UnknownType, UUIDType

from formatkit.contract.truncation import truncated_upper
from formatkit.contract.values import internal_value
from formatkit.formats.vortex.schema import is_encoded

__all__ = ["push_down"]

_MOST_MEMBERS = 64
_INFINITY = math.inf

_COMPARISONS: dict[type[BoundPredicate], Callable[[Any, Any], Any]] = {
    BoundEqualTo: ve.eq,
    BoundLessThan: ve.lt,
    BoundLessThanOrEqual: ve.lt_eq,
    BoundGreaterThan: ve.gt,
    BoundGreaterThanOrEqual: ve.gt_eq,
}


class _NotPushedError(Exception):
    """Vortex cannot evaluate this exactly."""


def push_down(predicate: BooleanExpression, projection: Schema, stored: pa.Schema) -> tuple[Any, BooleanExpression]:
    """What Vortex evaluates, or None, and what is left to do.

    Args:
        predicate: Bound to the ids of `projection`, and free of `Not`.
        projection: The columns asked for, by the file's names.
        stored: The file's columns in Arrow's terms.
    """
    if isinstance(predicate, AlwaysTrue):
        return None, predicate
    if isinstance(predicate, And):
        left, left_rest = push_down(predicate.left, projection, stored)
        right, right_rest = push_down(predicate.right, projection, stored)
        pushed = [side for side in (left, right) if side is not None]
        return reduce(ve.and_, pushed) if pushed else None, And(left_rest, right_rest)
    try:
        return _Translation(projection, stored).expression(predicate), AlwaysTrue()
    except _NotPushedError:
        return None, predicate


class _Translation:
    def __init__(self, projection: Schema, stored: pa.Schema) -> None:
        self._projection = projection
        self._stored = stored

    def expression(self, predicate: BooleanExpression) -> Any:
        match predicate:
            case And():
                return ve.and_(self.expression(predicate.left), self.expression(predicate.right))
            case Or():
                return ve.or_(self.expression(predicate.left), self.expression(predicate.right))
            case BoundPredicate():
                return self._leaf(predicate)
        raise _NotPushedError

    def _leaf(self, predicate: BoundPredicate) -> Any:
        field_id = predicate.term.ref().field.field_id
        field, value, found = self._column(field_id, self._projection.as_struct(), None, pa.struct(list(self._stored)))
        if isinstance(predicate, BoundIsNull):
            return ve.is_null(value)
        if isinstance(predicate, BoundNotNull):
            return ve.is_not_null(value)
        if not isinstance(field.field_type, PrimitiveType) or not is_encoded(found, field.field_type):
            raise _NotPushedError
        test = _FloatTest if pa.types.is_floating(found) else _TextTest if pa.types.is_string(found) else _Test
        return test(field, value, found).expression(predicate)

    def _column(self, field_id: int, struct: StructType, parent: Any, stored: Any) -> tuple[NestedField, Any, Any]:
        """The field with an id, its value in a row, and its Arrow type."""
        for field in struct.fields:
            position = stored.get_field_index(field.name)
            if position < 0 or isinstance(field.field_type, UnknownType):
                continue
            value = ve.column(field.name) if parent is None else ve.get_item(field.name, parent)
            found = stored.field(position).type
            if field.field_id == field_id:
                return field, value, found
            if isinstance(field.field_type, StructType):
                try:
                    return self._column(field_id, field.field_type, value, found)
                except _NotPushedError:
                    continue
        raise _NotPushedError


class _Test:
    """The operators on one column of an ordinary type."""

    def __init__(self, field: NestedField, value: Any, found: Any) -> None:
        self.field = field
        self.value = value
        # Extension types are known by their field only.
        row: Any = vx.DType.from_arrow(pa.schema([pa.field(field.name, found)]))
        (self._dtype,) = row.fields()
        self._is_uuid = isinstance(field.field_type, UUIDType)

    def expression(self, predicate: BoundPredicate) -> Any:
        match predicate:
            case BoundNotEqualTo():
                return self.or_null(ve.not_eq(self.value, self.literal(predicate.literal.value)))
            case BoundIn() | BoundNotIn():
                return self.membership(predicate)
            case BoundLiteralPredicate() if type(predicate) in _COMPARISONS:
                return self.compare(type(predicate), predicate.literal.value)
        raise _NotPushedError

    def compare(self, operator: type[BoundPredicate], value: Any) -> Any:
        return _COMPARISONS[operator](self.value, self.literal(value))

    def membership(self, predicate: BoundSetPredicate) -> Any:
        if len(predicate.literals) > _MOST_MEMBERS:
            raise _NotPushedError
        members = [literal.value for literal in predicate.literals]
        found = reduce(ve.or_, (self.compare(BoundEqualTo, member) for member in members))
        return found if isinstance(predicate, BoundIn) else self.or_null(ve.not_(found))

    def or_null(self, expression: Any) -> Any:
        return ve.or_(ve.is_null(self.value), expression)

    def literal(self, value: Any) -> Any:
        try:
            internal = internal_value(self.field.field_type, value)
            return ve.literal(self._dtype, UUID(bytes=internal) if self._is_uuid else internal)
        except RuntimeError:
            # Vortex's own timestamps end before Iceberg's.
            raise _NotPushedError from None


class _FloatTest(_Test):
    """The operators on floating-point numbers, as they are in IEEE 754."""

    def expression(self, predicate: BoundPredicate) -> Any:
        match predicate:
            case BoundIsNaN():
                # Of a column without values Vortex takes even the opposite of null for true.
                return ve.and_(ve.is_not_null(self.value), ve.not_(self._is_number()))
            case BoundNotNaN():
                return self.or_null(self._is_number())
            case BoundNotEqualTo():
                return self.or_null(ve.not_(self.compare(BoundEqualTo, predicate.literal.value)))
        return super().expression(predicate)

    def compare(self, operator: type[BoundPredicate], value: Any) -> Any:
        low, high = (-0.0, 0.0) if value == 0 else (value, value)
        if operator is BoundEqualTo:
            return self._between(low, high)
        if operator is BoundLessThan:
            return ve.and_(ve.gt_eq(self.value, self.literal(-_INFINITY)), ve.lt(self.value, self.literal(low)))
        if operator is BoundLessThanOrEqual:
            return self._between(-_INFINITY, high)
        if operator is BoundGreaterThan:
            return ve.and_(ve.gt(self.value, self.literal(high)), ve.lt_eq(self.value, self.literal(_INFINITY)))
        return self._between(low, _INFINITY)

    def _is_number(self) -> Any:
        return self._between(-_INFINITY, _INFINITY)

    def _between(self, low: float, high: float) -> Any:
        return ve.and_(ve.gt_eq(self.value, self.literal(low)), ve.lt_eq(self.value, self.literal(high)))


class _TextTest(_Test):
    """The operators on strings, which Vortex orders by bytes as Iceberg does."""

    def expression(self, predicate: BoundPredicate) -> Any:
        match predicate:
            case BoundStartsWith():
                return self._between(predicate.literal.value)
            case BoundNotStartsWith():
                return self.or_null(ve.not_(self._between(predicate.literal.value)))
        return super().expression(predicate)

    def _between(self, prefix: str) -> Any:
        from_prefix = ve.gt_eq(self.value, self.literal(prefix))
        # The next string of that length is the upper bound of anything longer.
        following = truncated_upper(prefix + "a", len(prefix))
        if following is None:
            return from_prefix
        return ve.and_(from_prefix, ve.lt(self.value, self.literal(following)))
