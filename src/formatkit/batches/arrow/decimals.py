"""Decimals of more digits than their type has, which an Arrow array can hold and no reader of it expects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formatkit.batches.arrow.forms import is_list_like, list_parts
from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.errors import InvalidDataError

__all__ = ["check_decimals", "decimals_fit", "holds_decimals"]

_WORD = 64


def holds_decimals(kind: ArrowType) -> bool:
    """Whether the type is a decimal or has one below it."""
    return pa.types.is_decimal128(kind) or any(holds_decimals(kind.field(i).type) for i in range(kind.num_fields))


def check_decimals(column: Column, name: str) -> None:
    """Raise `InvalidDataError` if a decimal in the column, nested ones included, has more digits than its type."""
    if not decimals_fit(column):
        wrong = next(_misfits(column))
        message = (
            f"column {name!r} holds a decimal of more digits than {_spelled(wrong.type)} has: {wrong[0].as_py()}; "
            "leave the column out, or let its writer declare the type that its values need"
        )
        raise InvalidDataError(message)


def decimals_fit(column: Column) -> bool:
    """Whether all decimals in a column, nested ones included, have at most the digits of their types."""
    return all(_fits(part) for part in _parts(column))


def _parts(column: Column) -> Iterator[Column]:
    """The decimal columns in a column."""
    if pa.types.is_decimal128(column.type):
        yield column
    elif isinstance(column, pa.StructArray):
        for number in range(column.type.num_fields):
            yield from _parts(column.field(number))
    elif is_list_like(column.type) and holds_decimals(column.type):
        yield from _parts(list_parts(column).values)


def _fits(column: Column) -> bool:
    if column.null_count == len(column):
        return True
    words = np.frombuffer(memoryview(column.buffers()[1]), "<i8").reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    return _surely_fit(words, column.type.precision) or next(_misfits(column), None) is None


def _surely_fit(words: Any, precision: int) -> bool:
    """Whether all values fit, by the extremes of one word; values where the column is null may make it doubtful."""
    low, high = words[:, 0], words[:, 1]
    limit: int = 10**precision
    first, last = int(high.min()), int(high.max())
    if limit < 1 << _WORD - 1:
        least = int(low.min())
        if int(low.max()) >= limit or least <= -limit:
            return False
        # The high word repeats the sign, so that no sign of the two differs.
        return first == last == 0 <= least or (first >= -1 and last <= 0 and int((low ^ high).min()) >= 0)
    return last < limit >> _WORD and first >= -(limit >> _WORD)


def _misfits(column: Column) -> Iterator[Column]:
    """For each decimal column in a column: the values that have too many digits, if there are any."""
    for part in _parts(column):
        # As a type that has every digit, since comparisons take values for valid.
        widest = pa.Array.from_buffers(
            pa.decimal128(38, part.type.scale), len(part), part.buffers(), part.null_count, part.offset
        )
        limit = pa.scalar(10**part.type.precision - 1, pa.decimal256(76, 0))
        unscaled = pa.Array.from_buffers(
            pa.decimal128(38, 0), len(part), part.buffers(), part.null_count, part.offset
        ).cast(pa.decimal256(76, 0))
        wrong = pc.greater(pc.abs(unscaled), limit)
        if pc.any(wrong).as_py():
            found: Column = widest.filter(wrong)
            yield pa.Array.from_buffers(part.type, len(found), found.buffers(), found.null_count, found.offset)


def _spelled(kind: ArrowType) -> str:
    return f"decimal({kind.precision}, {kind.scale})"
