"""Compares rows of two batches of one schema, in canonical form, value by value at any depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from formatkit.batches.arrow.forms import child_of, list_parts
from formatkit.contract.batch import Booleans

__all__ = ["same_rows"]


def same_rows(left: pa.RecordBatch, right: pa.RecordBatch) -> Booleans:
    """Which rows are equal in all columns: null equals null, NaN equals NaN, and -0.0 is not 0.0."""
    same: Booleans = np.ones(left.num_rows, np.bool_)
    for mine, other in zip(left.columns, right.columns, strict=True):
        same &= _same(mine, other)
    return same


def _same(left: Any, right: Any) -> Booleans:
    if isinstance(left, pa.ExtensionArray):
        return _same(left.storage, right.storage)
    if pa.types.is_null(left.type):
        return np.ones(len(left), np.bool_)
    valid, other_valid = (np.asarray(column.is_valid()) for column in (left, right))
    equal: Booleans = _same_values(left, right) | ~valid
    agree: Booleans = equal & (valid == other_valid)
    return agree


def _same_values(left: Any, right: Any) -> Booleans:
    """Whether values are equal, where both are not null; anything elsewhere."""
    kind = left.type
    if pa.types.is_struct(kind):
        children = [_same(child_of(left, i), child_of(right, i)) for i in range(kind.num_fields)]
        return np.logical_and.reduce(children) if children else np.ones(len(left), np.bool_)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return _same_lists(left, right)
    equal = pc.equal(left, right)
    if pa.types.is_floating(kind):
        bits = f"int{kind.bit_width}"
        both_nan = pc.and_(pc.is_nan(left), pc.is_nan(right))
        equal = pc.or_(pc.equal(left.view(bits), right.view(bits)), both_nan)
    return np.asarray(pc.fill_null(equal, False))


def _same_lists(left: Any, right: Any) -> Booleans:
    mine, other = list_parts(left), list_parts(right)
    starts, ends = _bounds(mine)
    other_starts, other_ends = _bounds(other)
    lengths = np.asarray(ends - starts)
    same: Booleans = lengths == other_ends - other_starts
    # Element by element, but only of lists of equal length.
    lengths = np.where(same, lengths, 0)
    before = np.concatenate(([0], np.cumsum(lengths)))
    inner = np.arange(before[-1]) - np.repeat(before[:-1], lengths)
    elements = _same(
        mine.values.take(pa.array(np.repeat(starts, lengths) + inner)),
        other.values.take(pa.array(np.repeat(other_starts, lengths) + inner)),
    )
    different = np.concatenate(([0], np.cumsum(~elements)))
    same &= different[before[1:]] == different[before[:-1]]
    return same


def _bounds(parts: Any) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    offsets = np.frombuffer(parts.offsets, np.int32)[: parts.length + 1]
    return offsets[:-1], offsets[1:]
