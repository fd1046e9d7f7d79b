"""Bound predicates, compiled once into functions that mark the matching rows of a batch.

The expressions spec is two-valued: a comparison with null is false, its negation true. In a mask null stands for false.
Kleene's `and` and `or` and the filter all respect that, so only operators that are true for null need a second pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
    BoundNotStartsWith,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    BoundUnaryPredicate,
    Not,
    Or,
)
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, PrimitiveType, UnknownType

from formatkit.batches.arrow.columns import column_finder
from formatkit.batches.arrow.forms import as_type, without_encoding
from formatkit.batches.arrow.types import Column, Mask, storage_type
from formatkit.contract.fields import field_path
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError, InvalidPredicateError

__all__ = ["compile_predicate"]

MaskOf = Callable[[pa.RecordBatch], Mask]
Test = Callable[[Column], Mask]

_TRUE_FOR_NULL = (BoundIsNull, BoundNotNaN, BoundNotEqualTo, BoundNotIn, BoundNotStartsWith)

_COMPARISONS: dict[type[BoundPredicate], Callable[[Any, Any], Mask]] = {
    BoundEqualTo: pc.equal,
    BoundNotEqualTo: pc.not_equal,
    BoundLessThan: pc.less,
    BoundLessThanOrEqual: pc.less_equal,
    BoundGreaterThan: pc.greater,
    BoundGreaterThanOrEqual: pc.greater_equal,
}


def compile_predicate(schema: Schema, predicate: BooleanExpression) -> MaskOf:
    """A function from a batch of `schema` to its mask. `predicate` is bound."""
    match predicate:
        case And():
            return _both(compile_predicate(schema, predicate.left), compile_predicate(schema, predicate.right))
        case Or():
            return _either(compile_predicate(schema, predicate.left), compile_predicate(schema, predicate.right))
        case Not():
            return _negated(compile_predicate(schema, predicate.child))
        case AlwaysTrue():
            return lambda batch: pa.repeat(True, batch.num_rows)
        case AlwaysFalse():
            return lambda batch: pa.repeat(False, batch.num_rows)
        case BoundPredicate():
            return _leaf(schema, predicate)
    message = f"only bound predicates can be evaluated, not {predicate!r}"
    raise InvalidPredicateError(message)


def _both(left: MaskOf, right: MaskOf) -> MaskOf:
    def mask(batch: pa.RecordBatch) -> Mask:
        matches = left(batch)
        return pc.and_kleene(matches, right(batch)) if matches.true_count else matches

    return mask


def _either(left: MaskOf, right: MaskOf) -> MaskOf:
    def mask(batch: pa.RecordBatch) -> Mask:
        matches = left(batch)
        return matches if matches.true_count == len(matches) else pc.or_kleene(matches, right(batch))

    return mask


def _negated(child: MaskOf) -> MaskOf:
    # True exactly where the child is not: PyIceberg's rewriting of `not (x < 5)` into `x >= 5` would lose null and NaN.
    return lambda batch: pc.invert(child(batch).fill_null(False))


def _leaf(schema: Schema, predicate: BoundPredicate) -> MaskOf:
    path, field = field_path(schema, predicate.term.ref().field.field_id)
    find = column_finder(path)
    true_for_null = isinstance(predicate, _TRUE_FOR_NULL)
    if isinstance(field.field_type, UnknownType):
        return lambda batch: pa.repeat(true_for_null, batch.num_rows)
    try:
        test = _test(field.field_type, predicate)
    except (InvalidDataError, pa.ArrowInvalid) as error:
        message = f"column {field.name!r} of type {field.field_type} cannot be compared in {predicate}: {error}"
        raise InvalidPredicateError(message) from error
    if isinstance(predicate, BoundIsNull | BoundNotNull) or not isinstance(field.field_type, PrimitiveType):
        values_of = without_encoding
    else:
        wanted = storage_type(field.field_type)

        def values_of(column: Column) -> Column:
            return as_type(column, wanted, field.name)

    def mask(batch: pa.RecordBatch) -> Mask:
        column = find(batch)
        if isinstance(column, pa.DictionaryArray) and len(column.dictionary) < len(column):
            return decided(_expand(decided(test(values_of(column.dictionary))), column.indices))
        return decided(test(values_of(column)))

    def decided(matches: Mask) -> Mask:
        return matches.fill_null(True) if true_for_null and matches.null_count else matches

    return mask


def _expand(matches: Mask, indices: Column) -> Mask:
    """The mask of the rows, given the mask of the dictionary's values; null where the index is null."""
    match matches.true_count:
        # Comparing integers is far cheaper than looking each of them up.
        case 0:
            return pc.not_equal(indices, indices)
        case 1:
            return pc.equal(indices, pa.scalar(matches.index(True).as_py(), indices.type))
    return matches.take(indices)


def _test(iceberg_type: IcebergType, predicate: BoundPredicate) -> Test:
    """The kernel for one operator: the mask of some values, null where it depends on whether null matches."""
    match predicate:
        case BoundUnaryPredicate():
            return _UNARY[type(predicate)]
        case BoundSetPredicate():
            return _membership(iceberg_type, predicate)
        case BoundStartsWith() | BoundNotStartsWith():
            prefix = internal_value(iceberg_type, predicate.literal.value)
            if isinstance(predicate, BoundStartsWith):
                return lambda values: pc.starts_with(values, prefix)
            return lambda values: pc.invert(pc.starts_with(values, prefix))
        case BoundLiteralPredicate():
            compare = _COMPARISONS[type(predicate)]
            literal = pa.scalar(internal_value(iceberg_type, predicate.literal.value), storage_type(iceberg_type))
            return lambda values: compare(values, literal)
    message = f"the operator {type(predicate).__name__} is not known"
    raise InvalidPredicateError(message)


def _membership(iceberg_type: IcebergType, predicate: BoundSetPredicate) -> Test:
    members = [internal_value(iceberg_type, literal.value) for literal in predicate.literals]
    if isinstance(iceberg_type, FloatType | DoubleType):
        # Arrow looks up bit patterns: it tells the zeros apart and would find NaN.
        members = [value for value in members if not math.isnan(value)]
        if 0.0 in members:
            members += [0.0, -0.0]
    options = pc.SetLookupOptions(pa.array(members, storage_type(iceberg_type)))
    if isinstance(predicate, BoundIn):
        return lambda values: pc.call_function("is_in", [values], options)
    return lambda values: pc.invert(pc.call_function("is_in", [values], options))


_UNARY: dict[type[BoundPredicate], Test] = {
    BoundIsNull: pc.is_null,
    BoundNotNull: pc.is_valid,
    BoundIsNaN: pc.is_nan,
    BoundNotNaN: lambda values: pc.invert(pc.is_nan(values)),
}
