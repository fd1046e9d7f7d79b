"""What a file says about the values of a stripe, as far as it can be trusted.

Traps that were met: a NaN makes the bounds of its row group NaN, and such a row group is then left out of the bounds of
the stripe, so bounds of floats count only if the sum shows that there is no NaN. Bounds of {−0.0, 0.0} may be either
zero. Timestamps before 1970 are rounded up, and may be shifted by the time zone of the writer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning import ChunkStatistics
from formatkit.contract.storage import ByteSource
from formatkit.formats.orc.compression import decompress
from formatkit.formats.orc.failures import reading
from formatkit.formats.orc.protobuf import Message
from formatkit.formats.orc.schema import Column
from formatkit.formats.orc.tail import Kind, Stripe, Tail

__all__ = ["StripeStatistics"]

_INTEGERS, _DOUBLES, _STRINGS, _BUCKETS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 5, 6, 7, 9
_JAVA, _CPP = 0, 1
_FIRST_SOUND_WRITER_VERSION = 1
"""Writers before it (HIVE-8732) stored wrong upper bounds."""

_SECOND_MILLIS = 1000
_DAY_MILLIS = 24 * 3600 * _SECOND_MILLIS
_Bounds = tuple[Any, Any]
_UNKNOWN: _Bounds = (None, None)


class StripeStatistics:
    """The statistics of the stripes of one file, read when they are first asked for."""

    def __init__(self, source: ByteSource, tail: Tail) -> None:
        self._source = source
        self._tail = tail
        self._stored: Sequence[bytes] | None = None

    def of(self, stripe: Stripe, columns: Mapping[int, Column], wanted: Iterable[int]) -> ChunkStatistics:
        """The statistics of the `wanted` columns; those without usable statistics are left out."""
        wanted = list(wanted)
        metrics = {}
        if wanted:
            stored = self._column_statistics(stripe)
            for field_id in wanted:
                column = columns.get(field_id)
                if column is None or column.repeated or column.reason is not None or column.type_id >= len(stored):
                    continue
                with reading(self._tail.location):
                    metrics[field_id] = self._metrics(column, Message(stored[column.type_id]), stripe.rows)
        return ChunkStatistics(row_count=stripe.rows, columns=metrics)

    def _column_statistics(self, stripe: Stripe) -> list[bytes]:
        if self._stored is None:
            postscript = self._tail.postscript
            with reading(self._tail.location):
                section = self._source.read(*self._tail.statistics)
                content = decompress(section, postscript.codec, postscript.block_bytes)
                self._stored = Message(content).contents(1)
        if stripe.index >= len(self._stored):
            return []
        with reading(self._tail.location):
            return Message(self._stored[stripe.index]).contents(1)

    def _metrics(self, column: Column, stored: Message, rows: int) -> ColumnMetrics:
        values = stored.integer(1) if 1 in stored else None
        nulls = rows - values if values is not None and values <= rows else None
        lower, upper = _UNKNOWN
        if self._tail.postscript.writer_version >= _FIRST_SOUND_WRITER_VERSION:
            lower, upper = self._bounds(column, stored, values)
        return ColumnMetrics(value_count=rows, null_count=nulls, lower=lower, upper=upper)

    def _bounds(self, column: Column, stored: Message, values: int | None) -> _Bounds:
        kind = column.field.field_type
        match kind:
            case IntegerType() | LongType() | TimeType():
                numbers = Message(stored.content(_INTEGERS))
                return numbers.signed(1), numbers.signed(2)
            case FloatType() | DoubleType():
                return _float_bounds(Message(stored.content(_DOUBLES)))
            case StringType() if column.type.kind is not Kind.CHAR:
                return _text_bounds(Message(stored.content(_STRINGS)))
            case BooleanType():
                return _boolean_bounds(Message(stored.content(_BUCKETS)), values)
            case DecimalType():
                return _decimal_bounds(Message(stored.content(_DECIMALS)), kind)
            case DateType():
                days = Message(stored.content(_DATES))
                return days.signed(1), days.signed(2)
            case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
                return self._timestamp_bounds(kind, Message(stored.content(_TIMESTAMPS)))
        return _UNKNOWN

    def _timestamp_bounds(self, kind: IcebergType, moments: Message) -> _Bounds:
        """Bounds in UTC, widened by what writers are known to get wrong; none for other writers."""
        lowest, highest = moments.signed(3), moments.signed(4)
        if lowest is None or highest is None:
            return _UNKNOWN
        if self._tail.writer == _CPP:
            margin = 2 * _SECOND_MILLIS
        elif self._tail.writer == _JAVA:
            # It shifts timestamps without zone from its own zone to UTC, which is not the same in every year.
            margin = 2 * _SECOND_MILLIS if isinstance(kind, TimestamptzType | TimestamptzNanoType) else _DAY_MILLIS
        else:
            return _UNKNOWN
        per_milli = 1_000_000 if isinstance(kind, TimestampNanoType | TimestamptzNanoType) else 1_000
        return (lowest - margin) * per_milli, (highest + margin) * per_milli


def _float_bounds(numbers: Message) -> _Bounds:
    lowest, highest, total = numbers.double(1), numbers.double(2), numbers.double(3)
    if lowest is None or highest is None or total is None or math.isnan(lowest + highest + total):
        return _UNKNOWN
    # Zeros of both signs are equal.
    return lowest or -0.0, highest or 0.0


def _text_bounds(texts: Message) -> _Bounds:
    """Exact bounds, or shortened ones where the texts are long."""
    lower = texts.text(1) if 1 in texts else texts.text(4)
    upper = texts.text(2) if 2 in texts else texts.text(5)
    return lower, upper


def _boolean_bounds(buckets: Message, values: int | None) -> _Bounds:
    counts = buckets.integers(1)
    if values is None or not counts or counts[0] > values:
        return _UNKNOWN
    return counts[0] == values, counts[0] > 0


def _decimal_bounds(numbers: Message, kind: DecimalType) -> _Bounds:
    try:
        lower, upper = (None if text is None else Decimal(text) for text in (numbers.text(1), numbers.text(2)))
    except InvalidOperation:
        return _UNKNOWN
    if any(bound is not None and not bound.is_finite() for bound in (lower, upper)):
        return _UNKNOWN
    return lower, upper
