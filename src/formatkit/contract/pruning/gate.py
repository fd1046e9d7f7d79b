"""Decides what can be believed of statistics before anything is skipped by them.

Statistics are claims: writers get them wrong, and files are damaged. Whatever cannot be true is dropped, which costs
time and never a row. It is counted by kind, and it is never an error, because the rows themselves are sound.

| claim | what is dropped if it cannot be true |
| --- | --- |
| a count of nulls or NaN outside of 0 … rows | the counts |
| bounds of another type, outside of the type's range, NaN, or in the wrong order | the bounds |
| another number of values than rows, more nulls and NaN than rows, nulls in a required column, NaN in a type that has
  none, bounds of a column without values | everything about the column, because the parts contradict each other |

Claims that are possible in themselves pass, true or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from decimal import Decimal
from enum import StrEnum
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
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
    UUIDType,
)

from formatkit.contract.metrics import ColumnMetrics
from formatkit.contract.pruning.evaluator import ChunkStatistics

__all__ = ["NOTHING", "ColumnGate", "Gate", "Hint", "count_dropped"]


class Hint(StrEnum):
    """What was dropped, as `ReadResult.counters` and `explain()` name it."""

    STATISTICS = "statistics_dropped"
    COLUMN_INDEXES = "column_indexes_dropped"
    OFFSET_INDEXES = "offset_indexes_dropped"
    BLOOM_FILTERS = "bloom_filters_dropped"
    MANIFEST_METRICS = "manifest_metrics_dropped"
    PARTITION_SUMMARIES = "partition_summaries_dropped"


def count_dropped(counters: MutableMapping[str, int], hint: Hint) -> None:
    """Count one more of a kind. Counters have no entry for what was never dropped."""
    counters[hint.value] = counters.get(hint.value, 0) + 1


class Gate:
    """Makes statistics of what is claimed about the columns of chunks.

    Args:
        types: The types of the columns by field id. Each column has one value a row, null or not.
        counters: Where to count what is dropped.
        required: The ids of those in which a row cannot be null: neither the column nor a struct around it is optional.
        hint: As what to count it.
    """

    def __init__(
        self,
        types: Mapping[int, IcebergType],
        counters: MutableMapping[str, int],
        *,
        required: Iterable[int] = (),
        hint: Hint = Hint.STATISTICS,
    ) -> None:
        never_null = frozenset(required)
        self._columns = {
            field_id: ColumnGate(type_, required=field_id in never_null) for field_id, type_ in types.items()
        }
        self._counters = counters
        self._hint = hint

    def statistics(self, rows: int, claims: Mapping[int, ColumnMetrics]) -> ChunkStatistics:
        """What can be believed of claims, by field id, about a chunk of so many rows."""
        believed = {}
        for field_id, claim in claims.items():
            believed[field_id] = found = self._columns[field_id].admit(claim, rows)
            if found is not claim:
                count_dropped(self._counters, self._hint)
        return ChunkStatistics(row_count=rows, columns=believed)


class ColumnGate:
    """The gate for claims about one column.

    Args:
        type_: The type of the column. Bounds are Iceberg's internal values of it.
        required: Whether no row can be null.
        nested: Whether the column is inside of a struct. Some writers do not count rows whose struct is null.
    """

    def __init__(self, type_: IcebergType, *, required: bool = False, nested: bool = False) -> None:
        self._is_bound = _bound_check(type_)
        self._has_nan = isinstance(type_, FloatType | DoubleType)
        self._required = required
        self._nested = nested

    def admit(self, claim: ColumnMetrics, rows: int) -> ColumnMetrics:
        """The claim itself if all of it can be true of so many rows, or what is left of it."""
        values, nulls, nans = claim.value_count, claim.null_count, claim.nan_count
        lower, upper = claim.lower, claim.upper
        if values != rows and values is not None:
            if not self._nested or not _is_count(values, rows):
                return NOTHING
            # How many of the rows are null is not known then, and that is how the evaluator takes it.
            nulls = nans = None
        sound = True
        if (nulls is not None and not _is_count(nulls, rows)) or (nans is not None and not _is_count(nans, rows)):
            nulls, nans, sound = None, None, False
        if nulls or nans:
            left = rows - (nulls or 0) - (nans or 0)
            if left < 0 or (nulls and self._required) or (nans and not self._has_nan):
                return NOTHING
        else:
            left = rows
        if lower is not None or upper is not None:
            if not left:
                return NOTHING
            if not self._are_bounds(lower, upper):
                lower, upper, sound = None, None, False
        if sound:
            return claim
        return ColumnMetrics(value_count=values, null_count=nulls, nan_count=nans, lower=lower, upper=upper)

    def _are_bounds(self, lower: Any, upper: Any) -> bool:
        is_bound = self._is_bound
        if lower is None or upper is None:
            return is_bound(upper if lower is None else lower)
        return is_bound(lower) and is_bound(upper) and bool(lower <= upper)


NOTHING = ColumnMetrics()
"""What is left of a claim that contradicts itself."""


def _is_count(number: Any, rows: int) -> bool:
    return type(number) is int and 0 <= number <= rows


def _integers(least: int, most: int) -> Callable[[Any], bool]:
    return lambda bound: type(bound) is int and least <= bound <= most


_INT = _integers(-(1 << 31), (1 << 31) - 1)
_LONG = _integers(-(1 << 63), (1 << 63) - 1)
_UUID_BYTES = 16
_CHECKS: dict[type[IcebergType], Callable[[Any], bool]] = {
    BooleanType: lambda bound: type(bound) is bool,
    IntegerType: _INT,
    LongType: _LONG,
    # NaN is no bound; it does not equal itself.
    FloatType: lambda bound: type(bound) is float and bound == bound,
    DoubleType: lambda bound: type(bound) is float and bound == bound,
    DateType: _INT,
    TimeType: _integers(0, 86_400_000_000 - 1),
    TimestampType: _LONG,
    TimestamptzType: _LONG,
    TimestampNanoType: _LONG,
    TimestamptzNanoType: _LONG,
    StringType: lambda bound: type(bound) is str,
    BinaryType: lambda bound: type(bound) is bytes,
    UUIDType: lambda bound: type(bound) is bytes and len(bound) == _UUID_BYTES,
}


def _bound_check(type_: IcebergType) -> Callable[[Any], bool]:
    """Tells whether a value can be a bound of a column of this type."""
    if isinstance(type_, DecimalType):
        limit = Decimal(10) ** (type_.precision - type_.scale)
        return lambda bound: type(bound) is Decimal and bound.is_finite() and -limit < bound < limit
    if isinstance(type_, FixedType):
        length = len(type_)
        return lambda bound: type(bound) is bytes and len(bound) <= length
    # Nothing has an order but these.
    return _CHECKS.get(type(type_), lambda _: False)
