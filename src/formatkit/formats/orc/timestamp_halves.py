"""Timestamps in two columns, seconds and the rest, which the encoder stores as other readers of ORC expect them.

ORC stores whole seconds, rounded down, and the nanoseconds since then. pyarrow rounds towards 1970 and stores negative
nanoseconds, which Java's readers refuse or misread. So a column that holds moments before 1970 with a part of a second
is encoded as a struct of two columns, and the streams of both then make up one column of timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.types import NestedField

from formatkit.batches.arrow.forms import build_struct
from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.formats.orc.timestamps import ORC_EPOCH, TIMESTAMP_TYPES

__all__ = ["halves_of", "halves_type", "has_timestamps", "misread_timestamps"]

_PER_SECOND = {"us": 1_000_000, "ns": 1_000_000_000}


def halves_type(timestamp: ArrowType) -> ArrowType:
    """The struct of a column of timestamps."""
    return pa.struct([("seconds", pa.int64()), ("rest", timestamp)])


def halves_of(column: Column) -> Column:
    """A column of timestamps as seconds since 2015, and timestamps within the first second of 1970."""
    per_second = _PER_SECOND[column.type.unit]
    moments = _moments(column)
    seconds = moments // per_second
    rest = moments - seconds * per_second
    # Readers subtract a second from those before 1970 of which a millisecond or more is left.
    carried = (seconds < 0) & (rest >= per_second // 1000)
    seconds += carried
    # A second that became zero is not corrected by readers. pyarrow's own form of it is understood at least by some.
    rest[carried & (seconds == 0)] -= per_second
    # Inside other structs the encoder stores what is below nulls of a struct too, unless it is null itself.
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    children = [pa.array(seconds - ORC_EPOCH, mask=nulls), pa.array(rest, mask=nulls).view(column.type)]
    return build_struct(halves_type(column.type), children, column)


def has_timestamps(field: NestedField) -> bool:
    """Whether there are timestamps in a column, at whatever level."""
    kind = field.field_type
    return isinstance(kind, TIMESTAMP_TYPES) or any(map(has_timestamps, child_fields(kind)))


def misread_timestamps(column: Column, field: NestedField) -> Iterator[int]:
    """The ids of the fields, at whatever level, that hold a timestamp which pyarrow stores in its own way."""
    if isinstance(field.field_type, TIMESTAMP_TYPES):
        if _is_misread(column):
            yield field.field_id
    elif not isinstance(field.field_type, VariantType):
        for child, inner in zip(_children(column), child_fields(field.field_type), strict=True):
            yield from misread_timestamps(child, inner)


def _children(column: Column) -> list[Column]:
    if isinstance(column, pa.MapArray):
        return [column.keys, column.items]
    if isinstance(column, pa.ListArray):
        return [column.values]
    return [column.field(i) for i in range(column.type.num_fields)]


def _is_misread(column: Column) -> bool:
    moments = _moments(column)
    per_second = _PER_SECOND[column.type.unit]
    # In the last second before 1970 the other form is no better, but for its first millisecond.
    latest = per_second // 1000 - per_second
    if not len(moments) or moments.min() >= latest:
        return False
    return bool((moments[moments < latest] % per_second).any())


def _moments(column: Column) -> NDArray[np.int64]:
    content = column.buffers()[1]
    if content is None:
        return np.zeros(len(column), np.int64)
    return np.frombuffer(content, np.int64, len(column), column.offset * 8)
