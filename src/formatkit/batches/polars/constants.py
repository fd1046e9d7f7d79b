"""Polars columns made of Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
from pyiceberg.types import IcebergType, ListType, MapType, StructType, TimeType

from formatkit.batches.polars.types import NANOS_PER_MICRO, polars_type
from formatkit.contract.values import internal_value
from formatkit.contract.variant import Variant
from formatkit.errors import InvalidDataError

__all__ = ["constant", "series_of"]


def series_of(iceberg_type: IcebergType, values: Sequence[Any]) -> pl.Series:
    """A canonical column of these values, internal or Python's own.

    Raises:
        InvalidDataError: A value is not one of the type.
    """
    stored = [_stored(iceberg_type, internal_value(iceberg_type, value)) for value in values]
    kind = polars_type(iceberg_type)
    try:
        return pl.Series(values=stored, dtype=_stored_type(kind)).cast(kind)
    except (pl.exceptions.PolarsError, OverflowError, TypeError, UnicodeError) as error:
        message = f"a value cannot be stored as {iceberg_type}: {error}"
        raise InvalidDataError(message) from error


def constant(iceberg_type: IcebergType, value: Any) -> pl.Expr:
    """The same value for every row."""
    return pl.lit(series_of(iceberg_type, [value])).first()


def _stored(iceberg_type: IcebergType, value: Any) -> Any:
    """An internal value as Polars builds columns of it."""
    if value is None:
        return None
    match iceberg_type:
        case StructType(fields=fields):
            return {field.name: _stored(field.field_type, part) for field, part in zip(fields, value, strict=True)}
        case ListType(element_type=element):
            return [_stored(element, part) for part in value]
        case MapType(key_type=key_type, value_type=value_type):
            return [{"key": _stored(key_type, key), "value": _stored(value_type, part)} for key, part in value]
        case TimeType():
            return value * NANOS_PER_MICRO
    return {"metadata": value.metadata, "value": value.value} if isinstance(value, Variant) else value


def _stored_type(kind: pl.DataType) -> pl.DataType:
    """The type with numbers for dates and times, because Python's own types are too small for them."""
    match kind:
        case pl.Struct():
            return pl.Struct({field.name: _stored_type(field.dtype) for field in kind.fields})  # type: ignore[arg-type]
        case pl.List():
            return pl.List(_stored_type(kind.inner))  # type: ignore[arg-type]
        case pl.Date():
            return pl.Int32()
        case pl.Datetime() | pl.Time():
            return pl.Int64()
    return kind
