"""From values as pyarrow decodes them to values of the Iceberg type, where that is more than a cast.

INT96 and some decimals are decoded as bytes, maps with optional keys as lists; the digits of decimals are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import DecimalType, IcebergType, ListType, MapType, NestedField, StructType, TimestamptzType

from formatkit.batches.arrow.decimals import check_decimals
from formatkit.batches.arrow.forms import build_list, build_struct, list_parts, validity
from formatkit.batches.arrow.types import Column as ArrowColumn
from formatkit.errors import InvalidDataError
from formatkit.formats.parquet.elements import Kind, Physical
from formatkit.formats.parquet.schema import Column

__all__ = ["Convert", "conversion"]

Convert = Callable[[ArrowColumn], ArrowColumn]

_DECIMAL_BYTES = 16
_NANOS_OF_DAY = 86_400_000_000_000
_MICROS_OF_DAY = 86_400_000_000
_JULIAN_DAY_OF_1970 = 2_440_588
_FIRST_DAY, _FIRST_MICROS = divmod(-(1 << 63), _MICROS_OF_DAY)
_LAST_DAY, _LAST_MICROS = divmod((1 << 63) - 1, _MICROS_OF_DAY)
_INT96 = np.dtype([("nanos", "<i8"), ("day", "<i4")])
_MICROS = pa.timestamp("us", "UTC")


def conversion(column: Column, wanted: NestedField, name: str) -> Convert | None:
    """What turns decoded values of a column into those of the `wanted` part of it; None if they are the same."""
    if column.reason is not None:
        return None
    match wanted.field_type:
        case StructType(fields=fields):
            return _struct_conversion(column, fields, name)
        case ListType(element_field=element):
            inner = conversion(column.children[0], element, f"{name}.element")
            return None if inner is None else partial(_list, inner)
        case MapType(value_field=value):
            key_column, value_column = column.children
            key = conversion(key_column, key_column.field, f"{name}.key")
            item = conversion(value_column, value, f"{name}.value")
            optional = not key_column.field.required
            return partial(_map, key, item, name) if key or item or optional else None
        case kind:
            return _leaf_conversion(column, kind, name)


def _struct_conversion(column: Column, fields: Sequence[NestedField], name: str) -> Convert | None:
    wanted = {field.name: field for field in fields}
    children = [child for child in column.children if child.field.name in wanted and child.reason is None]
    names = [child.field.name for child in children]
    inner = [conversion(child, wanted[part], f"{name}.{part}") for child, part in zip(children, names, strict=True)]
    if not any(inner) and all(child.stored_name == part for child, part in zip(children, names, strict=True)):
        return None
    return partial(_struct, list(zip(names, inner, strict=True)))


def _leaf_conversion(column: Column, kind: IcebergType, name: str) -> Convert | None:
    element = column.element
    if element is None:
        return None
    match kind:
        case TimestamptzType() if element.physical is Physical.INT96:
            return partial(_timestamps, name)
        case DecimalType() if element.kind is Kind.DECIMAL:
            return partial(_decimals, pa.decimal128(kind.precision, kind.scale), name)
        case DecimalType():
            return lambda column: column.cast(pa.decimal128(kind.precision, kind.scale))
    return None


def _struct(children: Sequence[tuple[str, Convert | None]], column: ArrowColumn, /) -> ArrowColumn:
    if column.type.num_fields != len(children):
        # None of them is stored, and another one was decoded to know which structs are null.
        return column
    arrays, fields = [], []
    for number, (name, convert) in enumerate(children):
        array = column.field(number)
        arrays.append(array if convert is None else convert(array))
        fields.append(column.type.field(number).with_name(name).with_type(arrays[-1].type))
    return build_struct(pa.struct(fields), arrays, column)


def _list(convert: Convert, column: ArrowColumn, /) -> ArrowColumn:
    parts = list_parts(column)
    values = convert(parts.values)
    return build_list(pa.list_(column.type.value_field.with_type(values.type)), parts, values)


def _map(key: Convert | None, item: Convert | None, name: str, column: ArrowColumn, /) -> ArrowColumn:
    parts = list_parts(column)
    keys, items = parts.values.field(0), parts.values.field(1)
    if keys.null_count:
        message = f"map {name!r} has {keys.null_count} null keys, which no map of Iceberg has; leave the column out"
        raise InvalidDataError(message)
    keys, items = (part if convert is None else convert(part) for part, convert in ((keys, key), (items, item)))
    fields = [pa.field("key", keys.type, nullable=False), parts.values.type.field(1).with_type(items.type)]
    entries = build_struct(pa.struct(fields), [keys, items], parts.values)
    return build_list(pa.map_(*fields), parts, entries)


def _timestamps(name: str, column: ArrowColumn, /) -> ArrowColumn:
    """Microseconds of INT96: nanoseconds of a day, which may be less than none or more than a day, and a Julian day."""
    if pa.types.is_timestamp(column.type):
        return column
    stored = np.frombuffer(memoryview(column.buffers()[1]), _INT96, len(column), column.offset * _INT96.itemsize)
    more_days, nanos = np.divmod(stored["nanos"], _NANOS_OF_DAY)
    days = stored["day"].astype(np.int64) - _JULIAN_DAY_OF_1970 + more_days
    micros = nanos // 1000
    too_far = (days < _FIRST_DAY) | (days > _LAST_DAY)
    too_far |= (days == _FIRST_DAY) & (micros < _FIRST_MICROS) | (days == _LAST_DAY) & (micros > _LAST_MICROS)
    if too_far.any():
        too_far &= column.is_valid().to_numpy(zero_copy_only=False)
        if too_far.any():
            day = int(stored["day"][too_far][0])
            message = (
                f"column {name!r} holds an INT96 timestamp of the Julian day {day}, which is outside of what a "
                "timestamp in microseconds can hold; leave the column out"
            )
            raise InvalidDataError(message)
    values = days * _MICROS_OF_DAY + micros
    return pa.Array.from_buffers(_MICROS, len(column), [validity(column), _buffer(values)], column.null_count)


def _decimals(kind: pa.DataType, name: str, column: ArrowColumn, /) -> ArrowColumn:
    if not pa.types.is_decimal128(column.type):
        column = _decoded_decimals(kind, name, column)
    check_decimals(column, name)
    return column


def _decoded_decimals(kind: pa.DataType, name: str, column: ArrowColumn) -> ArrowColumn:
    """Decimals that are decoded as the numbers or the bytes that are stored."""
    count = len(column)
    wide = np.zeros((count, _DECIMAL_BYTES), np.uint8)
    if pa.types.is_integer(column.type):
        width = column.type.bit_width // 8
        stored = np.frombuffer(memoryview(column.buffers()[1]), f"<i{width}", count, column.offset * width)
        words = wide.view("<i8")
        words[:, 0] = stored
        words[:, 1] = words[:, 0] >> 63
    else:
        binary = column if pa.types.is_binary(column.type) else column.cast(pa.binary())
        starts, lengths, data = _spans(binary)
        valid = binary.is_valid().to_numpy(zero_copy_only=False)
        for length in np.unique(lengths[valid]).tolist():
            rows = np.flatnonzero(valid & (lengths == length))
            wide[rows] = _from_big_endian(data[starts[rows][:, None] + np.arange(length)], kind, name)
    return pa.Array.from_buffers(kind, count, [validity(column), _buffer(wide)], column.null_count)


def _spans(binary: ArrowColumn) -> tuple[Any, Any, Any]:
    """Where each value begins, how long it is, and the bytes of all."""
    _, offsets, data = binary.buffers()
    ends = np.frombuffer(memoryview(offsets), np.int32, len(binary) + 1, binary.offset * 4).astype(np.int64)
    return ends[:-1], np.diff(ends), np.frombuffer(memoryview(data) if data is not None else b"", np.uint8)


def _from_big_endian(stored: Any, kind: Any, name: str) -> Any:
    """Numbers of any length in the form of Arrow's decimals. Leading bytes may only repeat the sign."""
    count, length = stored.shape
    if not length:
        raise InvalidDataError(f"column {name!r} holds a decimal of no bytes")
    sign = np.where(stored[:, :1] > 0x7F, 0xFF, 0).astype(np.uint8)
    kept = min(length, _DECIMAL_BYTES)
    wide = np.empty((count, _DECIMAL_BYTES), np.uint8)
    wide[:, :kept] = stored[:, : -kept - 1 : -1]
    wide[:, kept:] = sign
    lost = (stored[:, : length - kept] != sign).any(axis=1) | ((wide[:, -1:] ^ sign) > 0x7F)[:, 0]
    if lost.any():
        value = int.from_bytes(stored[lost][0].tobytes(), "big", signed=True)
        message = (
            f"column {name!r} holds a decimal of more digits than decimal({kind.precision}, {kind.scale}) has: the "
            f"unscaled value {value}; leave the column out, or let its writer declare the type that its values need"
        )
        raise InvalidDataError(message)
    return wide


def _buffer(values: Any) -> pa.Buffer:
    return pa.py_buffer(values)
