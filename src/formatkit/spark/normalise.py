"""Turns batches of a scan into batches that Spark takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    FixedType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UUIDType,
)

from formatkit.batches.arrow.forms import build_list, build_struct, list_parts, without_encoding
from formatkit.batches.arrow.types import ArrowType, Column, arrow_type
from formatkit.contract.variant import VariantType
from formatkit.spark.types import Nanoseconds, spark_arrow_schema

__all__ = ["Normalise", "empty_columns", "normaliser", "uuid_text"]

Normalise = Callable[[pa.RecordBatch], pa.RecordBatch]
_Convert = Callable[[Column], Column]
_NANOS_PER_MICRO = 1000
_UUID_BYTES = 16
_HYPHENS = (8, 13, 18, 23)
_UUID_LETTERS = 36


def normaliser(schema: Schema, nanoseconds: Nanoseconds = "error") -> Normalise:
    """Compile the way from batches of a scan of `schema` to batches that Spark takes.

    Values stay what they are, but for what `spark_schema` says of timestamps in nanoseconds. Dictionaries are decoded.
    """
    target = spark_arrow_schema(schema, nanoseconds)
    converts = [_convert(field.field_type, target.field(i).type) for i, field in enumerate(schema.fields)]

    def normalise(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not converts:
            return empty_columns(batch.num_rows)
        columns = [
            _plain(column) if convert is None else convert(column)
            for convert, column in zip(converts, batch.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=target)

    return normalise


def empty_columns(rows: int) -> pa.RecordBatch:
    """A batch of so many rows without a column."""
    no_columns: Any = pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.RecordBatch.from_struct_array(no_columns)


def uuid_text(column: Column) -> Column:
    """Sixteen bytes a value as text: ``f79c3e09-677c-4bbd-a479-3f349cb785e7``."""
    stored = without_encoding(column)
    octets = np.frombuffer(stored.buffers()[1] or b"", np.uint8)[stored.offset * _UUID_BYTES :]
    octets = octets[: len(stored) * _UUID_BYTES]
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    letters = np.full((len(stored), _UUID_LETTERS), ord("-"), np.uint8)
    nibbles = np.stack([octets >> 4, octets & 15], axis=1).reshape(len(stored), 2 * _UUID_BYTES)
    letters[:, [i for i in range(_UUID_LETTERS) if i not in _HYPHENS]] = digits[nibbles]
    offsets = np.arange(len(stored) + 1, dtype=np.int32) * _UUID_LETTERS
    buffers = [_validity(stored), pa.py_buffer(offsets.data), pa.py_buffer(letters.reshape(-1).data)]
    return pa.Array.from_buffers(pa.string(), len(stored), buffers, stored.null_count)


def _validity(column: Column) -> Any:
    if column.null_count == 0:
        return None
    valid: Column = pc.is_valid(column)
    return valid.buffers()[1]


def _plain(column: Column) -> Column:
    return without_encoding(column) if isinstance(column, pa.DictionaryArray) else column


def _convert(iceberg_type: IcebergType, target: ArrowType) -> _Convert | None:
    """How to change a column, or None if Spark takes it as it is."""
    match iceberg_type:
        case StructType():
            return _struct(iceberg_type, target)
        case ListType():
            return _list(iceberg_type, target)
        case MapType():
            return _map(iceberg_type, target)
        case UUIDType():
            return uuid_text
        case FixedType():
            return lambda column: column.cast(pa.binary())
        case TimeType():
            return lambda column: column.cast(target)
        case TimestampNanoType() | TimestamptzNanoType():
            return _nanoseconds(target)
        case VariantType():
            return lambda column: _variant(column, target)
    return None


def _struct(struct: StructType, target: ArrowType) -> _Convert | None:
    converts = [_convert(field.field_type, target.field(i).type) for i, field in enumerate(struct.fields)]
    if not any(converts) and target == arrow_type(struct):
        return None

    def convert(column: Column) -> Column:
        children = [_apply(each, column.field(i)) for i, each in enumerate(converts)]
        return build_struct(target, children, column)

    return convert


def _list(of: ListType, target: ArrowType) -> _Convert | None:
    element = _convert(of.element_type, target.value_type)
    if element is None:
        return None

    def convert(column: Column) -> Column:
        parts = list_parts(column)
        return build_list(target, parts, element(parts.values))

    return convert


def _map(of: MapType, target: ArrowType) -> _Convert | None:
    converts = [_convert(of.key_type, target.key_type), _convert(of.value_type, target.item_type)]
    if not any(converts):
        return None
    entry = pa.struct([target.key_field, target.item_field])

    def convert(column: Column) -> Column:
        parts = list_parts(column)
        children = [_apply(each, parts.values.field(i)) for i, each in enumerate(converts)]
        return build_list(target, parts, build_struct(entry, children, parts.values))

    return convert


def _apply(convert: _Convert | None, column: Column) -> Column:
    return column if convert is None else convert(column)


def _nanoseconds(target: ArrowType) -> _Convert:
    if pa.types.is_int64(target):
        return lambda column: column.view(pa.int64())
    return lambda column: _floored(column, target)


def _floored(column: Column, target: ArrowType) -> Column:
    """Microseconds. Division in Arrow goes towards zero, which for moments before 1970 is not down."""
    nanos = column.view(pa.int64())
    quotient = pc.divide(nanos, _NANOS_PER_MICRO)
    too_high = pc.greater(pc.multiply(quotient, _NANOS_PER_MICRO), nanos)
    return pc.subtract(quotient, too_high.cast(pa.int64())).view(target)


def _variant(column: Column, target: ArrowType) -> Column:
    """Spark wants the two parts in the other order, and its own mark on one of them."""
    return build_struct(target, [column.field(1), column.field(0)], column)
