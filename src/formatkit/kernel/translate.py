"""Rewrites a predicate on table columns into one on the columns of a file that is true for the same rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    BoundIn,
    BoundIsNull,
    BoundLiteralPredicate,
    BoundNotIn,
    BoundNotNull,
    BoundPredicate,
    BoundReference,
    BoundUnaryPredicate,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.values import absent_value
from formatkit.errors import InternalError
from formatkit.kernel.evaluate import evaluate, passes_null
from formatkit.kernel.intervals import Bracket, bracket_decimal, bracket_float, bracket_integer
from formatkit.kernel.literals import INTEGER_RANGES, NANOS
from formatkit.kernel.names import Path
from formatkit.kernel.predicates import all_of, compare, conjuncts, leaves, member, path_of, rewrite

__all__ = ["split", "translate"]


def translate(
    predicate: BooleanExpression,
    schema: Schema,
    constants: Mapping[int, Any],
) -> BooleanExpression:
    """Rewrite a table predicate into terms of a file.

    Args:
        predicate: Bound to the table by `bind`.
        schema: The columns of the file that are there to be compared: names and types of the file, ids of the table.
        constants: Values, by id, of fields that `schema` lacks.

    Returns:
        A predicate whose literals have the file's types. It is true for a row of the file exactly if `predicate` is
        true for that row once it was promoted and filled with constants and defaults.
    """
    return rewrite(predicate, _Translator(schema, constants).leaf)


def split(predicate: BooleanExpression, late: Collection[int]) -> tuple[BooleanExpression, BooleanExpression]:
    """Part the conjuncts that a reader can evaluate from those that use one of the `late` columns."""
    early_parts: list[BooleanExpression] = []
    late_parts: list[BooleanExpression] = []
    for part in conjuncts(predicate):
        uses_late = any(leaf.term.ref().field.field_id in late for leaf in leaves(part))
        (late_parts if uses_late else early_parts).append(part)
    return all_of(early_parts), all_of(late_parts)


@dataclass(frozen=True)
class _Translator:
    schema: Schema
    constants: Mapping[int, Any]

    def leaf(self, leaf: BoundPredicate) -> BooleanExpression:
        path = path_of(leaf)
        stored = self._stored(path)
        if len(stored) == len(path):
            return self._present(leaf, path[-1].field_type, stored[-1])
        return self._absent(leaf, path, stored)

    def _stored(self, path: Path) -> list[NestedField]:
        """The part of the path that the file has."""
        found: list[NestedField] = []
        fields = self.schema.fields
        for field in path:
            column = next((column for column in fields if column.field_id == field.field_id), None)
            if column is None:
                break
            found.append(column)
            fields = column.field_type.fields if isinstance(column.field_type, StructType) else ()
        return found

    def _absent(self, leaf: BoundPredicate, path: Path, stored: list[NestedField]) -> BooleanExpression:
        value = absent_value(path[len(stored)], self.constants)
        for parent, child in zip(path[len(stored) :], path[len(stored) + 1 :], strict=False):
            value = _child_value(parent, child, value)
        holds, holds_for_null = evaluate(leaf, value), passes_null(type(leaf))
        if not stored or holds is holds_for_null:
            return AlwaysTrue() if holds else AlwaysFalse()
        # Under a null struct the field is null, whatever its constant or default.
        parent_reference = self._reference(stored[-1])
        return BoundNotNull(term=parent_reference) if holds else BoundIsNull(term=parent_reference)

    def _present(self, leaf: BoundPredicate, table_type: IcebergType, column: NestedField) -> BooleanExpression:
        if isinstance(column.field_type, UnknownType):
            return AlwaysTrue() if passes_null(type(leaf)) else AlwaysFalse()
        reference = self._reference(column)
        kind = type(leaf)
        if isinstance(leaf, BoundUnaryPredicate):
            return kind(term=reference)
        narrow = _narrowing(column.field_type, table_type)
        if isinstance(leaf, BoundIn | BoundNotIn):
            return member(type(leaf), reference, [narrow(value) for value in leaf.value_set])
        if isinstance(leaf, BoundLiteralPredicate):
            return compare(type(leaf), reference, narrow(leaf.literal.value))
        raise InternalError(f"cannot translate {kind.__name__}")

    def _reference(self, column: NestedField) -> BoundReference:
        # Optional, so that a null check is asked of the data and not of what the file says about itself.
        field = column.model_copy(update={"required": False})
        return BoundReference(field=field, accessor=self.schema.accessor_for_field(column.field_id))


def _child_value(parent: NestedField, child: NestedField, value: Any) -> Any:
    if value is None or not isinstance(parent.field_type, StructType):
        return None
    position = [field.field_id for field in parent.field_type.fields].index(child.field_id)
    return value[position]


def _narrowing(file_type: IcebergType, table_type: IcebergType) -> Callable[[Any], Bracket]:
    """How a value of the table's type lies among the values of the file's type."""
    if file_type == table_type:
        return Bracket.at
    if isinstance(file_type, DecimalType) and isinstance(table_type, DecimalType):
        precision, scale = file_type.precision, file_type.scale
        return lambda value: bracket_decimal(Decimal(value), precision, scale)
    narrowing = _NARROWINGS.get((type(file_type), type(table_type)))
    if narrowing is None:
        raise InternalError(f"cannot compare the stored type {file_type} with {table_type}")
    return narrowing


def _days(unit: type[IcebergType]) -> Callable[[int], Bracket]:
    return lambda value: bracket_integer(Fraction(value * NANOS[unit], NANOS[DateType]), *INTEGER_RANGES[DateType])


_NARROWINGS: dict[tuple[type[IcebergType], type[IcebergType]], Callable[[Any], Bracket]] = {
    (IntegerType, LongType): lambda value: bracket_integer(value, *INTEGER_RANGES[IntegerType]),
    (FloatType, DoubleType): bracket_float,
    (DateType, TimestampType): _days(TimestampType),
    (DateType, TimestampNanoType): _days(TimestampNanoType),
    (FixedType, UUIDType): Bracket.at,
    (BinaryType, StringType): lambda value: Bracket.at(value.encode()),
    (BinaryType, GeometryType): Bracket.at,
    (BinaryType, GeographyType): Bracket.at,
}
