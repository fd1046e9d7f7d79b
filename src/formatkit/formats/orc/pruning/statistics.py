"""What a file claims about the values of a stripe, in Iceberg's terms and as far as it can be believed.

A file without row indexes may claim 0 values and no null for rows that are there: values and nulls must account for
all rows. Sums of integers must lie between their bounds.

Traps that were met: a NaN makes the bounds of its row group NaN, and such a row group is then left out of the bounds of
the stripe, so bounds of floats count only if the sum shows that there is no NaN. Bounds of {−0.0, 0.0} may be either
zero. Timestamps before 1970 are rounded up, and may be shifted by the time zone of the writer. Java's
writer stored wrong maxima of stripes before HIVE-8732, and wrong bounds of decimals of up to 18 digits before ORC-517.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
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
from formatkit.contract.pruning import ChunkStatistics, Gate, Hint, count_dropped
from formatkit.contract.storage import ByteSource
from formatkit.errors import CorruptFileError
from formatkit.forks import cached
from formatkit.formats.orc.compression import decompress
from formatkit.formats.orc.failures import reading
from formatkit.formats.orc.protobuf import Message, ProtobufError
from formatkit.formats.orc.schema import Column
from formatkit.formats.orc.tail import Kind, Stripe, Tail

__all__ = ["StatisticsSection", "StripeStatistics"]

_INTEGERS, _DOUBLES, _STRINGS, _BUCKETS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 5, 6, 7, 9
_JAVA, _CPP = 0, 1
_HIVE_8732, _ORC_517 = 1, 7
_FIRST_OF_OTHERS = 6
"""Versions of all writers but Java's begin with this one."""

_DECIMAL64_DIGITS = 18
_NO_BOUND = object()
"""Stands for a bound that its writer got wrong. It has no type that a bound can have, so the gate drops it."""

_IMPOSSIBLE = ColumnMetrics(value_count=-1)
"""Stands for statistics that cannot be decoded."""

_SECOND_MILLIS = 1000
_DAY_MILLIS = 24 * 3600 * _SECOND_MILLIS
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_Bounds = tuple[Any, Any]
_UNKNOWN: _Bounds = (None, None)


class StatisticsSection:
    """The statistics of all stripes of one file, read when they are first asked for."""

    def __init__(self, source: ByteSource, tail: Tail) -> None:
        self._source = source
        self.tail = tail

    @cached
    def stripes(self) -> Sequence[bytes] | None:
        """What is stored for each stripe; nothing if there are no statistics, None if they are damaged."""
        tail, postscript = self.tail, self.tail.postscript
        try:
            with reading(tail.location):
                section = self._source.read(*tail.statistics)
                stored = Message(decompress(section, postscript.codec, postscript.block_bytes)).contents(1)
        except CorruptFileError:
            return None
        return stored if len(stored) in (0, len(tail.stripes)) else None

    @cached
    def parents(self) -> Mapping[int, int]:
        """The type around each type, by number."""
        return {child: number for number, node in enumerate(self.tail.types) for child in node.subtypes}


class StripeStatistics:
    """The statistics of some columns in the stripes of a file.

    Args:
        section: Where they are stored.
        columns: The columns by the ids that the predicate uses.
        wanted: The ids of those in question.
        counters: Where to count what is dropped.
    """

    def __init__(
        self,
        section: StatisticsSection,
        columns: Mapping[int, Column],
        wanted: Iterable[int],
        counters: MutableMapping[str, int],
    ) -> None:
        self._section = section
        self._tail = section.tail
        self._counters = counters
        found = {field_id: columns.get(field_id) for field_id in wanted}
        self._columns = {
            field_id: column
            for field_id, column in found.items()
            if column is not None and not column.repeated and column.reason is None
        }
        self._gate = Gate({id_: column.field.field_type for id_, column in self._columns.items()}, counters)
        self._stored: Sequence[bytes] = ()
        if self._columns:
            stored = section.stripes
            if stored is None:
                count_dropped(counters, Hint.STATISTICS)
            self._stored = stored or ()

    def of(self, stripe: Stripe) -> ChunkStatistics:
        """The statistics of one of them; columns without any are left out."""
        if not self._stored:
            return ChunkStatistics(row_count=stripe.rows)
        try:
            stored = Message(self._stored[stripe.index]).contents(1)
        except ProtobufError:
            stored = []
        if len(stored) != len(self._tail.types):
            count_dropped(self._counters, Hint.STATISTICS)
            return ChunkStatistics(row_count=stripe.rows)
        claims = {id_: self._claim(column, stored, stripe.rows) for id_, column in self._columns.items()}
        return self._gate.statistics(stripe.rows, claims)

    def _claim(self, column: Column, stored: Sequence[bytes], rows: int) -> ColumnMetrics:
        try:
            found = Message(stored[column.type_id])
            values = found.integer(1) if 1 in found else None
            lower, upper = self._bounds(column, found, values)
            if self._is_wrong_about(column.field.field_type):
                lower, upper = (None if bound is None else _NO_BOUND for bound in (lower, upper))
            if values is None:
                return ColumnMetrics(value_count=rows, lower=lower, upper=upper)
            if values == 0 and _has_bounds(found):
                return _IMPOSSIBLE
            _check_sum(column, found, lower, upper, values)
            accounted = self._rows_accounted_for(column.type_id, stored, found, values, rows)
        except ProtobufError:
            return _IMPOSSIBLE
        return ColumnMetrics(value_count=accounted, null_count=rows - values, lower=lower, upper=upper)

    def _rows_accounted_for(self, type_id: int, stored: Sequence[bytes], found: Message, values: int, rows: int) -> int:
        """How many rows the counts are about: values, nulls, and rows whose struct is null; -1 if there are none."""
        parent = self._section.parents.get(type_id)
        around = rows if parent is None else self._values_of_struct(parent, stored, rows)
        if around is None:
            around = values
        if values > around or around > rows:
            return -1
        if 10 not in found:
            return rows
        if not found.integer(10):
            return rows - around + values
        # Some writers count rows whose struct is null as nulls.
        return rows if values < around or parent else rows + 1

    def _values_of_struct(self, type_id: int, stored: Sequence[bytes], rows: int) -> int | None:
        """In how many rows a struct is not null: None if it does not say so, more than all if that cannot be true."""
        found = Message(stored[type_id])
        if 1 not in found:
            return None
        values = found.integer(1)
        if type_id == 0:
            # Rows are never null. Without row indexes, all columns may claim to have no values.
            return values if values == rows else rows + 1
        return values if self._rows_accounted_for(type_id, stored, found, values, rows) == rows else rows + 1

    def _is_wrong_about(self, kind: IcebergType) -> bool:
        """Whether the writer is known for wrong bounds of a type."""
        version = self._tail.postscript.writer_version
        if self._tail.writer != _JAVA:
            return version < _FIRST_OF_OTHERS
        decimal64 = isinstance(kind, DecimalType) and kind.precision <= _DECIMAL64_DIGITS
        return version < (_ORC_517 if decimal64 else _HIVE_8732)

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
                return _decimal_bounds(Message(stored.content(_DECIMALS)))
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
        if not _LEAST <= lowest * per_milli <= highest * per_milli <= _MOST:
            return _NO_BOUND, _NO_BOUND
        return max((lowest - margin) * per_milli, _LEAST), min((highest + margin) * per_milli, _MOST)


def _has_bounds(stored: Message) -> bool:
    """Whether a bound is stored, even one that says nothing here, such as NaN."""
    kinds = (_INTEGERS, _DOUBLES, _STRINGS, _DECIMALS, _DATES, _TIMESTAMPS)
    return any(bound in Message(stored.content(kind)) for kind in kinds for bound in (1, 2))


def _check_sum(column: Column, stored: Message, lower: Any, upper: Any, values: int) -> None:
    """Raise `ProtobufError` if integers between the bounds cannot have the sum that is stored with them."""
    if type(lower) is int and type(upper) is int and isinstance(column.field.field_type, IntegerType | LongType):
        total = Message(stored.content(_INTEGERS)).signed(3)
        if total is not None and not lower * values <= total <= upper * values:
            raise ProtobufError(f"{values} integers from {lower} to {upper} have no sum of {total}")


def _float_bounds(numbers: Message) -> _Bounds:
    lowest, highest, total = numbers.double(1), numbers.double(2), numbers.double(3)
    # A NaN among the values shows in their sum only.
    return _UNKNOWN if total is None or math.isnan(total) else (lowest, highest)


def _text_bounds(texts: Message) -> _Bounds:
    """Exact bounds, or shortened ones where the texts are long."""
    lower = texts.text(1) if 1 in texts else texts.text(4)
    upper = texts.text(2) if 2 in texts else texts.text(5)
    return lower, upper


def _boolean_bounds(buckets: Message, values: int | None) -> _Bounds:
    counts = buckets.integers(1)
    if values is None or not counts:
        return _UNKNOWN
    if counts[0] > values:
        raise ProtobufError(f"{counts[0]} of {values} values are true")
    return (counts[0] == values, counts[0] > 0) if values else _UNKNOWN


def _decimal_bounds(numbers: Message) -> _Bounds:
    try:
        lower, upper = (None if text is None else Decimal(text) for text in (numbers.text(1), numbers.text(2)))
    except InvalidOperation as error:
        raise ProtobufError("a bound is no number") from error
    return lower, upper
