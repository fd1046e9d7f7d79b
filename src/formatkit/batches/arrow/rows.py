"""Batches as rows of Python values, for checks and for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.batches.arrow.evolve import compile_evolution
from formatkit.batches.arrow.forms import ListParts, child_of, list_parts
from formatkit.batches.arrow.types import Column
from formatkit.batches.arrow.variant import variants
from formatkit.contract.variant import VariantType

__all__ = ["rows"]

_DAY_ZERO = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


def rows(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """The rows as tuples.

    Values are Python's own: date, time, datetime (aware for timestamptz), Decimal, UUID, bytes, str. Where Python has
    none they are Iceberg's integers: timestamp_ns always, a date or timestamp outside the years 1 to 9999. Variants
    are `Variant` objects, so that a variant null is not taken for a null row.
    """
    batch = compile_evolution(schema, schema, {})(batch)
    if not schema.fields:
        return iter([()] * batch.num_rows)
    return zip(*(_values(field.field_type, batch.column(i)) for i, field in enumerate(schema.fields)), strict=True)


def _values(iceberg_type: IcebergType, column: Column) -> list[Any]:
    match iceberg_type:
        case StructType():
            children = [_values(f.field_type, child_of(column, i)) for i, f in enumerate(iceberg_type.fields)]
            structs = list(zip(*children, strict=True)) if children else [()] * len(column)
            return _with_nulls(structs, column)
        case ListType():
            parts = list_parts(column)
            return _with_nulls(_sliced(_values(iceberg_type.element_type, parts.values), parts), column)
        case MapType():
            parts = list_parts(column)
            keys = _values(iceberg_type.key_type, parts.values.field(0))
            items = _values(iceberg_type.value_type, parts.values.field(1))
            return _with_nulls(_sliced(list(zip(keys, items, strict=True)), parts), column)
        case UUIDType():
            return [None if value is None else UUID(bytes=value) for value in column.storage.to_pylist()]
        case VariantType():
            return list(variants(column))
    convert = _CONVERTERS.get(type(iceberg_type))
    if convert is None:
        return list(column.to_pylist())
    physical = pa.int32() if isinstance(iceberg_type, DateType) else pa.int64()
    return [None if value is None else _or_int(convert, value) for value in column.cast(physical).to_pylist()]


def _with_nulls(values: list[Any], column: Column) -> list[Any]:
    if column.null_count == 0:
        return values
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def _sliced(values: list[Any], parts: ListParts) -> list[list[Any]]:
    bounds = memoryview(parts.offsets).cast("i")[: parts.length + 1] if parts.length else ()
    return [values[start:end] for start, end in pairwise(bounds)]


def _or_int(convert: Callable[[int], Any], value: int) -> Any:
    try:
        return convert(value)
    except (OverflowError, ValueError):
        return value


def _time(micros: int) -> time:
    seconds, micro = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micro)


_CONVERTERS: dict[type[IcebergType], Callable[[int], Any]] = {
    DateType: lambda days: _DAY_ZERO + timedelta(days),
    TimeType: _time,
    TimestampType: lambda micros: _EPOCH + timedelta(microseconds=micros),
    TimestamptzType: lambda micros: _EPOCH_UTC + timedelta(microseconds=micros),
    TimestampNanoType: lambda nanos: nanos,
    TimestamptzNanoType: lambda nanos: nanos,
}
