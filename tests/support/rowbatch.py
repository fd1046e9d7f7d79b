"""A batch type without any library: rows as tuples of Iceberg's internal values, handled one at a time.

It shows that the kernel knows no Arrow, and being too plain to be wrong it is the truth that other batch types are
compared with. Structs are tuples by position, lists are lists, maps are lists of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
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
    BoundNotEqualTo,
    BoundNotIn,
    BoundNotNaN,
    BoundNotNull,
    BoundNotStartsWith,
    BoundPredicate,
    BoundStartsWith,
    Or,
)
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
)

from formatkit.contract.batch import Booleans, InjectedColumn, Longs, Step
from formatkit.contract.fields import key_paths
from formatkit.contract.metrics import ColumnMetrics, FileMetrics, MetricsMode
from formatkit.contract.promotion import is_promotion
from formatkit.contract.values import absent_value
from formatkit.errors import ColumnNotFoundError, IllegalPromotionError, InvalidDataError

__all__ = ["RowBatch", "RowOps", "holds"]

Row = tuple[Any, ...]

_MICROS_PER_DAY = 86_400_000_000
_LONG_LIMIT = 2**63


@dataclass(frozen=True)
class RowBatch:
    """Some rows; what their columns are the schema says that comes with them."""

    rows: tuple[Row, ...]


class RowOps:
    """`DataBatch[RowBatch]`, one row at a time."""

    batch_type = RowBatch

    def num_rows(self, batch: RowBatch) -> int:
        return len(batch.rows)

    def filter(self, schema: Schema, predicate: BooleanExpression) -> Step[RowBatch]:
        def step(batch: RowBatch) -> RowBatch:
            kept = tuple(row for row in batch.rows if holds(predicate, schema, row))
            return batch if len(kept) == len(batch.rows) else RowBatch(kept)

        return step

    def project(self, schema: Schema, field_ids: Sequence[int]) -> Step[RowBatch]:
        positions = {field.field_id: position for position, field in enumerate(schema.fields)}
        missing = [field_id for field_id in field_ids if field_id not in positions]
        if missing:
            raise ColumnNotFoundError(str(missing[0]), [field.name for field in schema.fields])
        picked = [positions[field_id] for field_id in field_ids]
        return lambda batch: RowBatch(tuple(tuple(row[position] for position in picked) for row in batch.rows))

    def evolve(self, source: Schema, target: Schema, constants: Mapping[int, Any]) -> Step[RowBatch]:
        _check_evolution(source.as_struct(), target.as_struct(), constants)

        def step(batch: RowBatch) -> RowBatch:
            rows = tuple(_evolve(row, source.as_struct(), target.as_struct(), constants) for row in batch.rows)
            return batch if rows == batch.rows else RowBatch(rows)

        return step

    def inject(self, schema: Schema, columns: Sequence[InjectedColumn]) -> Step[RowBatch]:
        positions = {field.field_id: position for position, field in enumerate(schema.fields)}

        def injected(row: Row) -> Row:
            values = list(row)
            for column in columns:
                value = column.value if column.plus is None else column.value + row[positions[column.plus]]
                position = positions.get(column.field.field_id)
                if position is None:
                    values.append(value)
                elif values[position] is None:
                    values[position] = value
            return tuple(values)

        return lambda batch: RowBatch(tuple(injected(row) for row in batch.rows))

    def longs(self, schema: Schema, field_id: int) -> Callable[[RowBatch], Longs]:
        return lambda batch: np.array([_value(row, schema.as_struct(), field_id) for row in batch.rows], np.int64)

    def distinct(self, schema: Schema, field_id: int) -> Callable[[RowBatch], tuple[Sequence[Any], Longs]]:
        def step(batch: RowBatch) -> tuple[Sequence[Any], Longs]:
            column = [_value(row, schema.as_struct(), field_id) for row in batch.rows]
            values = list(dict.fromkeys(column))
            return values, np.array([values.index(value) for value in column], np.int64)

        return step

    def locate(self, schema: Schema, keys: Sequence[RowBatch]) -> Callable[[RowBatch], Longs]:
        leaves = [field.field_id for _, field in key_paths(schema)]

        def key(row: Row) -> Row:
            return tuple(_identity(_value(row, schema.as_struct(), leaf)) for leaf in leaves)

        known: dict[Row, int] = {}
        for ordinal, row in enumerate(row for batch in keys for row in batch.rows):
            known.setdefault(key(row), ordinal)
        return lambda batch: np.array([known.get(key(row), -1) for row in batch.rows], np.int64)

    def mark(self, schema: Schema, field: NestedField) -> Callable[[RowBatch, Booleans], RowBatch]:
        return lambda batch, marks: RowBatch(
            tuple((*row, bool(marked)) for row, marked in zip(batch.rows, marks, strict=True))
        )

    def take_rows(self, batch: RowBatch, keep: Sequence[bool] | Booleans) -> RowBatch:
        return RowBatch(tuple(row for row, kept in zip(batch.rows, keep, strict=True) if kept))

    def slice(self, batch: RowBatch, offset: int, length: int) -> RowBatch:
        return RowBatch(batch.rows[offset : offset + length])

    def concat(self, schema: Schema, batches: Sequence[RowBatch]) -> RowBatch:
        return RowBatch(tuple(row for batch in batches for row in batch.rows))

    def collector(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> RowCollector:
        return RowCollector(schema, modes)

    def rows(self, schema: Schema, batch: RowBatch) -> Iterator[Row]:
        return iter(batch.rows)


class RowCollector:
    """Counts and untruncated bounds of leaves that are not inside lists or maps."""

    def __init__(self, schema: Schema, modes: Mapping[int, MetricsMode]) -> None:
        self._schema = schema
        self._modes = modes
        self._rows: list[Row] = []

    def update(self, batch: RowBatch) -> None:
        self._rows += batch.rows

    def finish(self) -> FileMetrics:
        columns = {}
        for field_id, mode in self._modes.items():
            values = [_value(row, self._schema.as_struct(), field_id) for row in self._rows]
            numbers = [value for value in values if value is not None and not _is_nan(value)]
            bounded = mode.bounds and bool(numbers)
            if mode.counts:
                columns[field_id] = ColumnMetrics(
                    value_count=len(values),
                    null_count=values.count(None),
                    nan_count=sum(map(_is_nan, values)),
                    lower=min(numbers) if bounded else None,
                    upper=max(numbers) if bounded else None,
                )
        return FileMetrics(row_count=len(self._rows), columns=columns)


def holds(predicate: BooleanExpression, schema: Schema, row: Row) -> bool:
    """Whether a bound predicate is true for a row."""
    match predicate:
        case AlwaysTrue():
            return True
        case AlwaysFalse():
            return False
        case And():
            return holds(predicate.left, schema, row) and holds(predicate.right, schema, row)
        case Or():
            return holds(predicate.left, schema, row) or holds(predicate.right, schema, row)
        case BoundPredicate():
            value = _value(row, schema.as_struct(), predicate.term.ref().field.field_id)
            return _TESTS[type(predicate)](predicate, value)
    raise NotImplementedError(repr(predicate))


_TESTS: dict[type[BoundPredicate], Callable[[Any, Any], bool]] = {
    BoundIsNull: lambda leaf, value: value is None,
    BoundNotNull: lambda leaf, value: value is not None,
    BoundIsNaN: lambda leaf, value: _is_nan(value),
    BoundNotNaN: lambda leaf, value: not _is_nan(value),
    BoundEqualTo: lambda leaf, value: value == leaf.literal.value,
    BoundNotEqualTo: lambda leaf, value: value != leaf.literal.value,
    BoundIn: lambda leaf, value: value in leaf.value_set,
    BoundNotIn: lambda leaf, value: value not in leaf.value_set,
    BoundStartsWith: lambda leaf, value: value is not None and value.startswith(leaf.literal.value),
    BoundNotStartsWith: lambda leaf, value: value is None or not value.startswith(leaf.literal.value),
    BoundLessThan: lambda leaf, value: value is not None and value < leaf.literal.value,
    BoundLessThanOrEqual: lambda leaf, value: value is not None and value <= leaf.literal.value,
    BoundGreaterThan: lambda leaf, value: value is not None and value > leaf.literal.value,
    BoundGreaterThanOrEqual: lambda leaf, value: value is not None and value >= leaf.literal.value,
}


def _identity(value: Any) -> Any:
    """Something that is equal for the same values only: both zeros differ, NaN equals itself."""
    return repr(value) if isinstance(value, float) else value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _value(row: Row, struct: StructType, field_id: int) -> Any:
    """The value of a field, looked for through structs; null under a null struct."""
    value: Any = row
    for position in _positions(struct, field_id):
        value = None if value is None else value[position]
    return value


def _positions(struct: StructType, field_id: int) -> list[int]:
    """Where a field is: its position at each level, or nothing if the struct lacks it."""
    for position, field in enumerate(struct.fields):
        if field.field_id == field_id:
            return [position]
        if isinstance(field.field_type, StructType) and (rest := _positions(field.field_type, field_id)):
            return [position, *rest]
    return []


def _check_evolution(source: IcebergType, target: IcebergType, constants: Mapping[int, Any]) -> None:
    if not is_promotion(source, target):
        raise IllegalPromotionError(f"cannot read {source} as {target}")
    match source, target:
        case StructType(), StructType():
            stored = {field.field_id: field for field in source.fields}
            for field in target.fields:
                if field.field_id in stored:
                    _check_evolution(stored[field.field_id].field_type, field.field_type, constants)
                else:
                    absent_value(field, constants)
        case ListType(), ListType():
            _check_evolution(source.element_type, target.element_type, constants)
        case MapType(), MapType():
            _check_evolution(source.key_type, target.key_type, constants)
            _check_evolution(source.value_type, target.value_type, constants)


def _evolve(value: Any, source: IcebergType, target: IcebergType, constants: Mapping[int, Any]) -> Any:
    if value is None:
        return None
    match source, target:
        case StructType(), StructType():
            stored = {field.field_id: (position, field) for position, field in enumerate(source.fields)}
            evolved = []
            for field in target.fields:
                if field.field_id in stored:
                    position, column = stored[field.field_id]
                    child = _evolve(value[position], column.field_type, field.field_type, constants)
                else:
                    child = absent_value(field, constants)
                if child is None and field.required:
                    raise InvalidDataError(f"null in the required field {field.name}")
                evolved.append(child)
            return tuple(evolved)
        case ListType(), ListType():
            return [_evolve(element, source.element_type, target.element_type, constants) for element in value]
        case MapType(), MapType():
            return [
                (
                    _evolve(key, source.key_type, target.key_type, constants),
                    _evolve(item, source.value_type, target.value_type, constants),
                )
                for key, item in value
            ]
        case DateType(), TimestampType():
            return _fitting(value * _MICROS_PER_DAY)
        case DateType(), TimestampNanoType():
            return _fitting(value * _MICROS_PER_DAY * 1_000)
    return value


def _fitting(value: int) -> int:
    if not -_LONG_LIMIT <= value < _LONG_LIMIT:
        raise InvalidDataError(f"{value} does not fit a timestamp")
    return value
