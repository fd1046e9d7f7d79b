"""Conditions of clauses, compiled into functions that mark rows of a batch: filters that also compare columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, Or
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.forms import as_type
from formatkit.batches.arrow.predicate import compile_predicate
from formatkit.batches.arrow.types import storage_type
from formatkit.contract.batch import Booleans
from formatkit.contract.fields import field_path
from formatkit.kernel.predicates import BoundColumnComparison, ColumnReference, Operator

__all__ = ["compile_condition"]

MarksOf = Callable[[pa.RecordBatch], Booleans]

_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NANOS_PER_MICRO = pa.scalar(1000, pa.decimal128(4, 0))


def compile_condition(schema: Schema, condition: BooleanExpression) -> MarksOf:
    """A function from a batch of `schema` to the rows for which a bound condition is true."""
    match condition:
        case And():
            left, right = compile_condition(schema, condition.left), compile_condition(schema, condition.right)
            return lambda batch: left(batch) & right(batch)
        case Or():
            left, right = compile_condition(schema, condition.left), compile_condition(schema, condition.right)
            return lambda batch: left(batch) | right(batch)
        case BoundColumnComparison():
            return _comparison(schema, condition)
    mask = compile_predicate(schema, condition)
    return lambda batch: _marks(mask(batch))


def _comparison(schema: Schema, condition: BoundColumnComparison) -> MarksOf:
    kinds = [reference.field.field_type for reference in condition.references]
    left, right = (_values(schema, reference) for reference in condition.references)
    inverted = condition.negated is not (condition.operator == "!=")
    if any(isinstance(kind, UnknownType) for kind in kinds):
        return lambda batch: np.full(batch.num_rows, inverted)
    convert_left, convert_right = _conversion(kinds[0], kinds[1]), _conversion(kinds[1], kinds[0])
    compare = _COMPARE[condition.operator]

    def marks(batch: pa.RecordBatch) -> Booleans:
        found = _marks(compare(convert_left(left(batch)), convert_right(right(batch))))
        return ~found if inverted else found

    return marks


def _marks(mask: Any) -> Booleans:
    return np.asarray(mask.fill_null(False), np.bool_)


def _values(schema: Schema, reference: ColumnReference) -> Callable[[pa.RecordBatch], Any]:
    path, field = field_path(schema, reference.field.field_id)
    find, kind = column_finder(path), storage_type(field.field_type)
    return lambda batch: as_type(find(batch), kind, field.name)


def _conversion(own: IcebergType, other: IcebergType) -> Callable[[Any], Any]:
    """The way to a type in which values of both types are compared exactly."""
    if own == other:
        return lambda values: values
    integers, nanos = (IntegerType, LongType), (TimestampNanoType, TimestamptzNanoType)
    if isinstance(own, integers) and isinstance(other, integers):
        return lambda values: values.cast(pa.int64())
    if isinstance(own, DecimalType) or isinstance(other, DecimalType):
        scale = max(kind.scale for kind in (own, other) if isinstance(kind, DecimalType))
        return lambda values: values.cast(pa.decimal256(76, scale))
    if isinstance(own, FloatType | DoubleType):
        return lambda values: values.cast(pa.float64())
    if isinstance(own, nanos) or isinstance(other, nanos):
        # Nanoseconds of far years do not fit into 64 bits.
        factor = pa.scalar(1, pa.decimal128(4, 0)) if isinstance(own, nanos) else _NANOS_PER_MICRO
        return lambda values: pc.multiply(values.cast(pa.int64()).cast(pa.decimal128(19, 0)), factor)
    if isinstance(own, FixedType) or isinstance(other, FixedType):
        return lambda values: values.cast(pa.binary())
    return lambda values: values
