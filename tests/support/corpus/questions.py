"""Every operator on every column of a file, and what the naive evaluator says about the rows that went in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from pyiceberg.expressions import And, BooleanExpression, Not, Or
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IcebergType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from formatkit.tck.naive import Row, matches, value_of
from support import filters

__all__ = ["answers", "questions"]

_COMPARISONS = (
    filters.EqualTo,
    filters.NotEqualTo,
    filters.LessThan,
    filters.LessThanOrEqual,
    filters.GreaterThan,
    filters.GreaterThanOrEqual,
)


def answers(schema: Schema, rows: Sequence[Row], where: BooleanExpression) -> list[int]:
    """The positions of the rows that match."""
    return [position for position, row in enumerate(rows) if matches(row, schema, where)]


def questions(schema: Schema, rows: Sequence[Row], seed: int) -> list[BooleanExpression]:
    """Every operator that suits a column, for each column and each leaf inside of structs, then a few of them joined.

    Literals are values of other rows and of the column's own, so that filters keep some rows, and others none.
    """
    random = Random(seed)
    single = [
        question
        for field_id, name, kind in _columns(schema.as_struct(), "")
        for question in _about(name, kind, _literals(schema, rows, field_id, kind), random)
    ]
    joined = [_joined(single, random) for _ in range(min(len(single), 20))]
    return single + joined


def _columns(struct: StructType, prefix: str) -> Iterator[tuple[int, str, IcebergType]]:
    for field in struct.fields:
        yield field.field_id, prefix + field.name, field.field_type
        if isinstance(field.field_type, StructType):
            yield from _columns(field.field_type, f"{prefix}{field.name}.")


def _literals(schema: Schema, rows: Sequence[Row], field_id: int, kind: IcebergType) -> list[Any]:
    """Distinct values of the column that may be literals, in the form that pyiceberg takes."""
    if not isinstance(kind, PrimitiveType):
        return []
    found = {value_of(row, schema, field_id) for row in rows}
    return [_literal(value, kind) for value in sorted(found - {None}, key=repr) if value == value]


def _literal(value: Any, kind: IcebergType) -> Any:
    match kind:
        case UUIDType():
            return UUID(bytes=value)
        case TimestampNanoType() | TimestamptzNanoType():
            micros, nanos = divmod(value, 1000)
            moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)
            zone = "+00:00" if isinstance(kind, TimestamptzNanoType) else ""
            return f"{moment.isoformat(timespec='microseconds')}{nanos:03}{zone}"
    return value


def _about(name: str, kind: IcebergType, literals: list[Any], random: Random) -> Iterator[BooleanExpression]:
    yield filters.IsNull(name)
    yield filters.NotNull(name)
    if isinstance(kind, FloatType | DoubleType):
        yield filters.IsNaN(name)
        yield filters.NotNaN(name)
    if not literals:
        return
    for operator in _COMPARISONS:
        yield operator(name, random.choice(literals))
    for operator in (filters.In, filters.NotIn):
        yield operator(name, random.sample(literals, min(len(literals), random.randint(2, 4))))
    if isinstance(kind, StringType):
        text = random.choice(literals)
        for operator in (filters.StartsWith, filters.NotStartsWith):
            yield operator(name, text[: random.randint(0, 4)])


def _joined(single: list[BooleanExpression], random: Random) -> BooleanExpression:
    left, right = random.choice(single), random.choice(single)
    return random.choice((And(left, right), Or(left, right), Not(left), And(Not(left), right), Or(Not(left), right)))
