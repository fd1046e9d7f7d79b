"""Rows as JSON values, in the single-value form of the Iceberg spec where JSON has no form of its own.

Decimals, dates, times, timestamps and uuids are strings, fixed and binary values are hexadecimal, a map is
``{"keys": […], "values": […]}``. Structs are objects by name. NaN and the infinities are strings, because JSON has no
numbers for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

__all__ = ["json_rows"]

# Integers in these units; NumPy writes them for every year that fits, where Python's datetime stops at 9999.
_TEMPORAL_UNITS: dict[type[IcebergType], str] = {
    DateType: "D",
    TimeType: "us",
    TimestampType: "us",
    TimestamptzType: "us",
    TimestampNanoType: "ns",
    TimestamptzNanoType: "ns",
}


def json_rows(schema: Schema, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """One object for each row of a batch, whose columns are the fields of the schema by position."""
    if not schema.fields:
        return iter([{} for _ in range(batch.num_rows)])
    return _objects(schema.fields, batch.columns)


def _objects(fields: tuple[NestedField, ...], columns: list[Any]) -> Iterator[dict[str, Any]]:
    names = [field.name for field in fields]
    values = [_values(field.field_type, column) for field, column in zip(fields, columns, strict=True)]
    return (dict(zip(names, row, strict=True)) for row in zip(*values, strict=True))


def _values(kind: IcebergType, array: Any) -> list[Any]:
    match kind:
        case StructType():
            return _structs(kind, array)
        case ListType():
            elements = _values(kind.element_type, array.values)
            return _runs(array, lambda start, end: elements[start:end])
        case MapType():
            keys, items = _values(kind.key_type, array.keys), _values(kind.value_type, array.items)
            return _runs(array, lambda start, end: {"keys": keys[start:end], "values": items[start:end]})
    if type(kind) in _TEMPORAL_UNITS:
        return _temporal(kind, array)
    encode = _LEAVES.get(type(kind))
    values: list[Any] = array.to_pylist()
    return values if encode is None else [None if value is None else encode(value) for value in values]


def _structs(kind: StructType, array: Any) -> list[Any]:
    if not kind.fields:
        return [None if null else {} for null in array.is_null().to_pylist()]
    rows = _objects(kind.fields, array.flatten())
    return [None if null else row for null, row in zip(array.is_null().to_pylist(), rows, strict=True)]


def _runs(array: Any, run: Callable[[int, int], Any]) -> list[Any]:
    """What `run` makes of the part of the children that each row owns."""
    bounds = pairwise(array.offsets.to_pylist())
    nulls = array.is_null().to_pylist()
    return [None if null else run(start, end) for null, (start, end) in zip(nulls, bounds, strict=True)]


def _temporal(kind: IcebergType, array: Any) -> list[Any]:
    unit = _TEMPORAL_UNITS[type(kind)]
    integers = array.cast(pa.int32() if unit == "D" else pa.int64()).fill_null(0).to_numpy()
    texts = np.datetime_as_string(integers.astype(f"datetime64[{unit}]")).tolist()
    if isinstance(kind, TimeType):
        texts = [text.partition("T")[2] for text in texts]
    elif isinstance(kind, TimestamptzType | TimestamptzNanoType):
        texts = [f"{text}+00:00" for text in texts]
    return [None if null else text for null, text in zip(array.is_null().to_pylist(), texts, strict=True)]


def _double(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _float(value: float) -> float | str:
    # The shortest number that is this float: 0.1, where its double would be 0.10000000149011612.
    return _double(float(str(np.float32(value))))


def _decimal(value: Any) -> str:
    return f"{value:f}"


_LEAVES: dict[type[IcebergType], Callable[[Any], Any]] = {
    FloatType: _float,
    DoubleType: _double,
    DecimalType: _decimal,
    UUIDType: str,
    FixedType: bytes.hex,
    BinaryType: bytes.hex,
    GeometryType: bytes.hex,
    GeographyType: bytes.hex,
}
