"""The physical forms in which Polars may hold one and the same column, as expressions that bring them to one.

Conversions never fail: what does not fit becomes null, and a check, evaluated beside the conversion, finds it. A strict
cast would also look at what lies under null parents, which is no data, and name no column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import polars as pl
from polars.datatypes import DataTypeClass

from formatkit.errors import InvalidDataError

__all__ = ["Check", "Place", "as_flat", "as_list", "instance", "midnights", "no_form_of", "require"]


@dataclass(frozen=True)
class Place:
    """Where the values of a field are.

    Attributes:
        name: What people call it.
        value: The values, as they stand among the others of the same parent.
        flat: The same from the top of the batch, lists laid out end to end: every value that is data.
        dtype: What Polars has there.
    """

    name: str
    value: pl.Expr
    flat: pl.Expr
    dtype: pl.DataType

    @classmethod
    def top(cls, position: int, name: str, dtype: pl.DataType) -> Place:
        return cls(name, pl.nth(position), pl.nth(position), dtype)

    def child(self, position: int, name: str) -> Place:
        """A field of a struct, null where the struct is null."""
        assert isinstance(self.dtype, pl.Struct)  # noqa: S101
        dtype = self.dtype.fields[position].dtype
        return Place(name, self.value.struct[position], self.flat.struct[position], instance(dtype))

    def element(self, name: str) -> Place:
        """The elements of a list, null and empty lists left out."""
        assert isinstance(self.dtype, pl.List)  # noqa: S101
        flat = self.flat.explode(empty_as_null=False, keep_nulls=False)
        return Place(name, pl.element(), flat, instance(self.dtype.inner))

    def converted(self, convert: Callable[[pl.Expr], pl.Expr], dtype: pl.DataType) -> Place:
        return Place(self.name, convert(self.value), convert(self.flat), dtype)


@dataclass(frozen=True)
class Check:
    """Something that must not be: an expression of one value that is true, or greater than zero, if it is."""

    found: pl.Expr
    message: Callable[[int], str]


def require(batch: pl.DataFrame, checks: Iterable[Check]) -> None:
    """Raise `InvalidDataError` for the first thing found that must not be."""
    checks = list(checks)
    if not checks or not batch.height:
        return
    found = batch.select(check.found.alias(str(number)) for number, check in enumerate(checks)).row(0)
    for check, count in zip(checks, found, strict=True):
        if count:
            raise InvalidDataError(check.message(count))


def no_form_of(place: Place, wanted: pl.DataType) -> InvalidDataError:
    """The error for a column that has another type than its schema says."""
    message = f"column {place.name!r} is of the Polars type {place.dtype}, which cannot be taken for {wanted}"
    return InvalidDataError(message)


def as_list(place: Place, wanted: pl.DataType) -> Place:
    """A list of any kind, or a map as the list of its entries, as a plain list."""
    match place.dtype:
        case pl.List():
            return place
        case pl.Array():
            return place.converted(lambda values: values.arr.to_list(), pl.List(place.dtype.inner))
        case pl.Map():
            entry = pl.Struct({"key": place.dtype.key, "value": place.dtype.value})
            return place.converted(lambda values: values.map.entries(), pl.List(entry))
    raise no_form_of(place, wanted)


def as_flat(place: Place, wanted: pl.DataType) -> tuple[pl.Expr, list[Check]]:
    """The values as `wanted`, a type without children, and what must hold for them."""
    found = place.dtype
    if found == wanted:
        return place.value, []
    accepts = _ACCEPTS.get(type(wanted))
    if accepts is None or not accepts(found, wanted):
        raise no_form_of(place, wanted)
    if isinstance(found, pl.Datetime) and isinstance(wanted, pl.Datetime):
        return _as_datetime(place, found, wanted)
    return _cast(place, wanted)


def _cast(place: Place, wanted: pl.DataType) -> tuple[pl.Expr, list[Check]]:
    lost = (place.flat.is_not_null() & place.flat.cast(wanted, strict=False).is_null()).any()
    return place.value.cast(wanted, strict=False), [_misfit(place, lost, wanted)]


_PER_SECOND = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_PER_DAY = 86_400
_LONG_LIMIT = 2**63


def _as_datetime(place: Place, found: pl.Datetime, wanted: pl.Datetime) -> tuple[pl.Expr, list[Check]]:
    """Another unit, or another name for a zone."""
    numbers = place.converted(lambda values: values.to_physical(), pl.Int64())
    before, after = _PER_SECOND[found.time_unit], _PER_SECOND[wanted.time_unit]
    if before <= after:
        return _multiplied(numbers, after // before, wanted)
    remainder = (numbers.flat % (before // after) != 0).any()
    return (numbers.value // (before // after)).cast(wanted), [_misfit(place, remainder, wanted)]


def midnights(days: Place, wanted: pl.Datetime) -> tuple[pl.Expr, list[Check]]:
    """Dates as timestamps, and what must hold for them."""
    if not isinstance(days.dtype, pl.Date):
        raise no_form_of(days, wanted)
    numbers = days.converted(lambda values: values.to_physical().cast(pl.Int64), pl.Int64())
    return _multiplied(numbers, _SECONDS_PER_DAY * _PER_SECOND[wanted.time_unit], wanted)


def _multiplied(numbers: Place, factor: int, wanted: pl.DataType) -> tuple[pl.Expr, list[Check]]:
    """By arithmetic on the numbers that times are stored as: casts of times wrap around, or end in a panic."""
    if factor == 1:
        return numbers.value.cast(wanted), []
    limit = _LONG_LIMIT // factor
    outside = ((numbers.flat > limit) | (numbers.flat < -limit)).any()
    return (numbers.value * factor).cast(wanted), [_misfit(numbers, outside, wanted)]


def _misfit(place: Place, found: pl.Expr, wanted: pl.DataType) -> Check:
    return Check(found, lambda _: f"column {place.name!r} holds a value that does not fit {wanted}")


def instance(dtype: pl.DataType | DataTypeClass) -> pl.DataType:
    """A type as an object; Polars also takes classes for types."""
    return dtype if isinstance(dtype, pl.DataType) else dtype()


def _is_integer(found: pl.DataType, _: pl.DataType) -> bool:
    return found.is_integer()


def _is_narrower_float(found: pl.DataType, wanted: pl.DataType) -> bool:
    return isinstance(found, pl.Float16) or (isinstance(found, pl.Float32) and isinstance(wanted, pl.Float64))


def _same_scale(found: pl.DataType, wanted: pl.DataType) -> bool:
    return isinstance(found, pl.Decimal) and isinstance(wanted, pl.Decimal) and found.scale == wanted.scale


def _same_zone(found: pl.DataType, wanted: pl.DataType) -> bool:
    return (
        isinstance(found, pl.Datetime)
        and isinstance(wanted, pl.Datetime)
        and (found.time_zone is None) == (wanted.time_zone is None)
    )


_ACCEPTS: dict[type[pl.DataType], Callable[[pl.DataType, pl.DataType], bool]] = {
    pl.Int32: _is_integer,
    pl.Int64: _is_integer,
    pl.Float32: _is_narrower_float,
    pl.Float64: _is_narrower_float,
    pl.Decimal: _same_scale,
    pl.Datetime: _same_zone,
    pl.String: lambda found, _: isinstance(found, pl.Categorical | pl.Enum),
}
"""By the wanted type: whether the found type holds the same kind of values."""
