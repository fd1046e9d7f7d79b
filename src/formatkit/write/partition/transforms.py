"""Iceberg's partition transforms for whole Arrow columns.

pyiceberg has them for single values, and for columns only with an optional native library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

from formatkit.batches.arrow.forms import as_type
from formatkit.batches.arrow.types import Column, storage_type
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.write.partition.murmur3 import hash_bytes, hash_longs

__all__ = ["ColumnTransform", "compile_transform"]

ColumnTransform = Callable[[Column], Column]

Longs = NDArray[np.int64]

_DAYS_PER_UNIT = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_HOURS_PER_DAY = 24
_DECIMAL_BYTES = 16
_DIGITS_OF_LONG = 18


def compile_transform(transform: Transform[Any, Any], source: IcebergType) -> ColumnTransform:
    """How to transform a column of this type, in any physical form.

    Buckets, years, months, days and hours become int32; truncated and unchanged values keep their type, in the form
    that Arrow computes with (uuid as its 16 bytes). Null stays null.

    Raises:
        UnsupportedError: The transform is unknown, or is not defined for the type.
    """
    compute = _compute(transform, source) if transform.can_transform(source) else None
    if compute is None:
        raise UnsupportedError(
            f"rows cannot be placed by {transform!r} of a column of type {source}; Iceberg does not define it, or this "
            "release does not know it"
        )
    arrow, name = storage_type(source), f"{transform}({source})"
    return lambda column: compute(as_type(column, arrow, name))


def _compute(transform: Transform[Any, Any], source: IcebergType) -> ColumnTransform | None:
    match transform:
        case IdentityTransform():
            return lambda column: column
        case VoidTransform():
            return lambda column: pa.nulls(len(column), column.type)
        case BucketTransform():
            return _bucket(transform.num_buckets, source)
        case TruncateTransform():
            return _truncate(transform, source)
        case YearTransform():
            return _calendar("Y", source)
        case MonthTransform():
            return _calendar("M", source)
        case DayTransform():
            return _on_longs(_days(source), pa.int32())
        case HourTransform():
            return _on_longs(_hours(source), pa.int32())
    return None


def _longs(column: Column) -> Longs:
    """The values as numbers; what stands for nulls is of no meaning."""
    plain = column.view(f"int{column.type.bit_width}")
    numbers = plain.fill_null(0) if plain.null_count else plain
    return numbers.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # type: ignore[no-any-return]


def _on_longs(compute: Callable[[Longs], Longs], result: pa.DataType) -> ColumnTransform:
    return lambda column: _with_nulls_of(column, compute(_longs(column)), result)


def _with_nulls_of(column: Column, values: NDArray[Any], result: pa.DataType) -> Column:
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    try:
        return pa.array(values, mask=nulls).cast(result)
    except pa.ArrowInvalid as error:
        raise InvalidDataError(f"a partition value does not fit {result}: {error}") from error


def _calendar(unit: str, source: IcebergType) -> ColumnTransform:
    days = _days(source)
    return _on_longs(lambda values: days(values).view("M8[D]").astype(f"M8[{unit}]").astype(np.int64), pa.int32())


def _days(source: IcebergType) -> Callable[[Longs], Longs]:
    if isinstance(source, DateType):
        return lambda values: values
    per_day = _DAYS_PER_UNIT[_unit(source)]
    return lambda values: values // per_day


def _hours(source: IcebergType) -> Callable[[Longs], Longs]:
    per_hour = _DAYS_PER_UNIT[_unit(source)] // _HOURS_PER_DAY
    return lambda values: values // per_hour


def _unit(source: IcebergType) -> str:
    return "ns" if isinstance(source, TimestampNanoType | TimestamptzNanoType) else "us"


def _bucket(buckets: int, source: IcebergType) -> ColumnTransform:
    hashes = _hashes(source)

    def compute(column: Column) -> Column:
        numbers = (hashes(column) & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)
        return _with_nulls_of(column, numbers.astype(np.int32), pa.int32())

    return compute


def _hashes(source: IcebergType) -> Callable[[Column], NDArray[np.uint32]]:
    match source:
        case StringType() | BinaryType():
            return _hash_variable
        case FixedType() | UUIDType():
            return _hash_fixed
        case DecimalType():
            return _hash_decimals
        case TimestampNanoType() | TimestamptzNanoType():
            # The same instant is in the same bucket, whatever unit it is stored in.
            return lambda column: hash_longs(_longs(column) // 1000)
    return lambda column: hash_longs(_longs(column))


def _hash_variable(column: Column) -> NDArray[np.uint32]:
    _, offsets, data = column.buffers()
    ends: Longs = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    values = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return hash_bytes(values, ends[:-1], np.diff(ends))


def _hash_fixed(column: Column) -> NDArray[np.uint32]:
    values, width = _fixed_bytes(column)
    return hash_bytes(values.reshape(-1), np.arange(len(column)) * width, np.full(len(column), width))


def _fixed_bytes(column: Column) -> tuple[NDArray[np.uint8], int]:
    """A row of bytes for each value."""
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], np.uint8)
    return data[column.offset * width : (column.offset + len(column)) * width].reshape(-1, width), width


def _hash_decimals(column: Column) -> NDArray[np.uint32]:
    """Iceberg hashes the unscaled value with its highest byte first, in as few bytes as hold it and its sign."""
    values = np.ascontiguousarray(_fixed_bytes(column)[0][:, ::-1])
    negative = values[:, :1] >> 7
    is_sign = (values[:, :-1] == negative * 255) & (values[:, 1:] >> 7 == negative)
    spare = np.logical_and.accumulate(is_sign, axis=1).sum(axis=1)
    starts = np.arange(len(values)) * _DECIMAL_BYTES + spare
    return hash_bytes(values.reshape(-1), starts, _DECIMAL_BYTES - spare)


def _truncate(transform: TruncateTransform[Any], source: IcebergType) -> ColumnTransform | None:
    width = transform.width
    match source:
        case StringType():
            return lambda column: pc.utf8_slice_codeunits(column, 0, width)
        case BinaryType():
            return lambda column: pc.binary_slice(column, 0, width)
        case IntegerType() | LongType():
            return _on_longs(lambda values: _truncated(values, width), storage_type(source))
        case DecimalType():
            return _truncate_decimals(transform, source)
    return None


def _truncated(values: Longs, width: int) -> Longs:
    truncated = values - values % width
    if (truncated > values).any():
        raise InvalidDataError(f"a value near the least long has no multiple of {width} below it to be truncated to")
    return truncated


def _truncate_decimals(transform: TruncateTransform[Any], source: DecimalType) -> ColumnTransform:
    arrow, width, limit = storage_type(source), transform.width, 10**source.precision
    scalar = transform.transform(source)

    def as_longs(column: Column) -> Column:
        halves = np.ascontiguousarray(_fixed_bytes(column)[0]).view(np.int64)
        values = np.where(column.is_valid().to_numpy(zero_copy_only=False), halves[:, 0], 0)
        truncated = _truncated(values, width)
        if (truncated <= -limit).any():
            raise InvalidDataError(f"a value of type {source} has no multiple of {width} of that type below it")
        unscaled = _with_nulls_of(column, truncated, pa.int64()).cast(pa.decimal128(19, 0))
        return pa.Array.from_buffers(arrow, len(unscaled), unscaled.buffers(), unscaled.null_count, unscaled.offset)

    def one_by_one(column: Column) -> Column:
        encoded = column.dictionary_encode()
        distinct = [scalar(value) for value in encoded.dictionary.to_pylist()]
        try:
            return pa.array(distinct, arrow).take(encoded.indices)
        except pa.ArrowInvalid as error:
            raise InvalidDataError(f"a value truncated to {width} does not fit {source}: {error}") from error

    return as_longs if source.precision <= _DIGITS_OF_LONG else one_by_one
