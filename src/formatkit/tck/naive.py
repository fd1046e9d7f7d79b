"""The truth, one row at a time: how Iceberg says that rows evolve, and which of them a predicate keeps.

A row is plain Python: a struct is a dict by field id, a list a list, a map a list of pairs, and a leaf is Iceberg's
internal value (`formatkit.tck.literals.internal`). Speed is of no concern here; being obviously right is.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Or,
    Reference,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import TimestampLiteral
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
)

from formatkit.contract.metadata_columns import DELETED, FILE, LAST_UPDATED, PARTITION_ID, POS, ROW_ID, SPEC_ID
from formatkit.tck.literals import internal

__all__ = ["File", "MissingRequiredError", "evolve", "matches", "narrow", "read", "value_of"]

Row = dict[int, Any]
Fields = Schema | StructType

_NANOS_PER_MICRO = 1000
_MICROS_PER_DAY = 86_400_000_000


class MissingRequiredError(Exception):
    """A required field has no value in the file, in the partition or by default."""


@dataclass(frozen=True, kw_only=True)
class File:
    """A data file as the truth sees it: rows by the ids of the schema with which they were written."""

    schema: Schema
    rows: Sequence[Row]
    location: str = ""
    file_format: str = "parquet"
    constants: Mapping[int, Any] = field(default_factory=dict)
    spec_id: int = 0
    partition: Row | None = None
    first_row_id: int | None = None
    sequence_number: int | None = None
    deleted: Collection[int] = ()
    """Ordinals of the rows that the table deleted since; `formatkit.tck.deletions` finds them."""


def read(files: Iterable[File], table: Schema, predicate: BooleanExpression, output: Schema | None = None) -> list[Row]:
    """The rows of the files that match, in file order, as `output` (the table's schema if not given) sees them.

    `table` is what the predicate sees; it may end with metadata columns. Rows that were deleted are left out, unless
    the output or the predicate has the column `_deleted`, which tells them.
    """
    chosen = output or table
    marked = DELETED.field_id in chosen.field_ids or _asks_for(predicate, table, DELETED.field_id)
    rows = (row for file in files for row in _evolved_rows(file, table, marked=marked))
    struct = chosen.as_struct()
    return [narrow(row, struct) for row in rows if matches(row, table, predicate)]


def evolve(row: Row, source: Fields, target: Fields, constants: Mapping[int, Any] | None = None) -> Row:
    """The row of a file with schema `source`, as a table with schema `target` sees it."""
    return _evolve_struct(row, source, target, constants or {})


def narrow(value: Any, target: IcebergType) -> Any:
    """The value without the fields that `target` lacks."""
    if value is None:
        return None
    match target:
        case StructType():
            return {child.field_id: narrow(value[child.field_id], child.field_type) for child in target.fields}
        case ListType():
            return [narrow(element, target.element_type) for element in value]
        case MapType():
            return [(narrow(k, target.key_type), narrow(v, target.value_type)) for k, v in value]
    return value


def _evolved_rows(file: File, table: Schema, *, marked: bool) -> Iterable[Row]:
    own = StructType(*(column for column in table.fields if column.field_id not in _METADATA))
    injected = [column.field_id for column in table.fields if column.field_id in _METADATA]
    for position, row in enumerate(file.rows):
        if position in file.deleted and not marked:
            continue
        evolved = _evolve_struct(row, file.schema, own, file.constants)
        for field_id in injected:
            evolved[field_id] = _METADATA[field_id](file, position, row)
        yield evolved


def _row_id(file: File, position: int, row: Row) -> int | None:
    if file.first_row_id is None:
        return None
    stored = row.get(ROW_ID.field_id)
    return file.first_row_id + position if stored is None else int(stored)


def _last_updated(file: File, position: int, row: Row) -> int | None:
    if file.first_row_id is None:
        return None
    stored = row.get(LAST_UPDATED.field_id)
    return file.sequence_number if stored is None else int(stored)


_METADATA: dict[int, Callable[[File, int, Row], Any]] = {
    FILE.field_id: lambda file, position, row: file.location,
    POS.field_id: lambda file, position, row: position,
    DELETED.field_id: lambda file, position, row: position in file.deleted,
    SPEC_ID.field_id: lambda file, position, row: file.spec_id,
    PARTITION_ID: lambda file, position, row: file.partition,
    ROW_ID.field_id: _row_id,
    LAST_UPDATED.field_id: _last_updated,
}


def _evolve_struct(row: Row, source: Fields, target: Fields, constants: Mapping[int, Any]) -> Row:
    stored = {child.field_id: child for child in source.fields}
    evolved = {}
    for wanted in target.fields:
        if wanted.field_id in stored:
            source_type = stored[wanted.field_id].field_type
            evolved[wanted.field_id] = _evolve(row[wanted.field_id], source_type, wanted.field_type, constants)
        elif wanted.field_id in constants:
            evolved[wanted.field_id] = internal(constants[wanted.field_id], wanted.field_type)
        else:
            evolved[wanted.field_id] = _default(wanted)
    return evolved


def _evolve(value: Any, source: IcebergType, target: IcebergType, constants: Mapping[int, Any]) -> Any:
    if value is None:
        return None
    match source, target:
        case StructType(), StructType():
            return _evolve_struct(value, source, target, constants)
        case ListType(), ListType():
            return [_evolve(element, source.element_type, target.element_type, constants) for element in value]
        case MapType(), MapType():
            return [
                (
                    _evolve(k, source.key_type, target.key_type, constants),
                    _evolve(v, source.value_type, target.value_type, constants),
                )
                for k, v in value
            ]
        case DateType(), TimestampType():
            return value * _MICROS_PER_DAY
        case DateType(), TimestampNanoType():
            return value * _MICROS_PER_DAY * _NANOS_PER_MICRO
    return value


def _default(wanted: NestedField) -> Any:
    if wanted.initial_default is None:
        if wanted.required:
            raise MissingRequiredError(wanted.name)
        return None
    if isinstance(wanted.field_type, StructType):
        return {child.field_id: _default(child) for child in wanted.field_type.fields}
    return internal(wanted.initial_default, wanted.field_type)


def matches(row: Row, schema: Schema, predicate: BooleanExpression) -> bool:
    """Whether the row passes the predicate, by the two-valued logic of the Iceberg expressions spec.

    A bound predicate finds its column by id, any other by name.
    """
    match predicate:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            return matches(row, schema, predicate.left) and matches(row, schema, predicate.right)
        case Or():
            return matches(row, schema, predicate.left) or matches(row, schema, predicate.right)
        case Not():
            return not matches(row, schema, predicate.child)
        case UnboundPredicate() | BoundPredicate():
            return _test(row, schema, predicate)
    raise NotImplementedError(type(predicate).__name__)


def _asks_for(predicate: BooleanExpression, schema: Schema, field_id: int) -> bool:
    """Whether the predicate is about a column."""
    match predicate:
        case And() | Or():
            return _asks_for(predicate.left, schema, field_id) or _asks_for(predicate.right, schema, field_id)
        case Not():
            return _asks_for(predicate.child, schema, field_id)
        case UnboundPredicate() | BoundPredicate():
            return _column(schema, predicate).field_id == field_id
    return False


def _column(schema: Schema, predicate: UnboundPredicate | BoundPredicate) -> NestedField:
    if isinstance(predicate, BoundPredicate):
        return predicate.term.ref().field
    if isinstance(predicate.term, Reference):
        return schema.find_field(predicate.term.name)
    raise NotImplementedError(repr(predicate.term))


def _test(row: Row, schema: Schema, predicate: UnboundPredicate | BoundPredicate) -> bool:
    kind = predicate.as_unbound if isinstance(predicate, BoundPredicate) else type(predicate)
    column = _column(schema, predicate)
    value = value_of(row, schema, column.field_id)
    return _TESTS[kind](value, [_literal(literal, column.field_type) for literal in _literals(predicate)])


def _comparison(holds: Callable[[Any, Any], bool]) -> Callable[[Any, list[Any]], bool]:
    """An order comparison, which neither null nor NaN passes."""
    return lambda value, literals: (
        value is not None and not _is_nan(value) and holds(_ordered(value), _ordered(literals[0]))
    )


def _ordered(value: Any) -> Any:
    """Strings order by their UTF-8 bytes; everything else as Python orders it, bytes being unsigned there too."""
    return value.encode() if isinstance(value, str) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _equals_any(value: Any, literals: list[Any]) -> bool:
    return value is not None and any(value == literal for literal in literals)


def _starts_with(value: Any, literals: list[Any]) -> bool:
    return value is not None and value.startswith(literals[0])


_TESTS: dict[type[UnboundPredicate], Callable[[Any, list[Any]], bool]] = {
    IsNull: lambda value, _: value is None,
    NotNull: lambda value, _: value is not None,
    IsNaN: lambda value, _: _is_nan(value),
    NotNaN: lambda value, _: not _is_nan(value),
    EqualTo: _equals_any,
    In: _equals_any,
    NotEqualTo: lambda value, literals: not _equals_any(value, literals),
    NotIn: lambda value, literals: not _equals_any(value, literals),
    StartsWith: _starts_with,
    NotStartsWith: lambda value, literals: not _starts_with(value, literals),
    LessThan: _comparison(operator.lt),
    LessThanOrEqual: _comparison(operator.le),
    GreaterThan: _comparison(operator.gt),
    GreaterThanOrEqual: _comparison(operator.ge),
}


def value_of(row: Row, struct: Fields, field_id: int) -> Any:
    """The value of a field, wherever it is inside structs; null where a parent is null."""
    for child in struct.fields:
        value = row[child.field_id]
        if child.field_id == field_id:
            return value
        if isinstance(child.field_type, StructType) and _holds(child.field_type, field_id):
            return None if value is None else value_of(value, child.field_type, field_id)
    raise LookupError(field_id)


def _holds(struct: StructType, field_id: int) -> bool:
    return any(
        child.field_id == field_id or (isinstance(child.field_type, StructType) and _holds(child.field_type, field_id))
        for child in struct.fields
    )


def _literals(predicate: UnboundPredicate | BoundPredicate) -> Iterable[Any]:
    many = getattr(predicate, "literals", None)
    if many is not None:
        return list(many)
    one = getattr(predicate, "literal", None)
    return [] if one is None else [one]


def _literal(literal: Any, column_type: IcebergType) -> Any:
    if isinstance(literal, TimestampLiteral) and isinstance(column_type, TimestampNanoType | TimestamptzNanoType):
        return literal.value * _NANOS_PER_MICRO
    return internal(literal.value, column_type)
