"""Rows as JSON values, in the single-value form of the Iceberg spec where JSON has no form of its own.

Decimals, dates, times, timestamps and uuids are strings, fixed and binary values are hexadecimal, a map is
``{"keys": […], "values": […]}``. Structs are objects by name. NaN and the infinities are strings, because JSON has no
numbers for them. A variant is the value that it holds, in the same forms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from uuid import UUID

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

from formatkit.batches.arrow.variant import variants
from formatkit.contract.variant import Variant, VariantType
from formatkit.contract.variant_decoding import decode_variant
from formatkit.contract.variant_encoding import Primitive

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
        case VariantType():
            return [None if value is None else _variant(value) for value in variants(array)]
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


def _variant(value: Variant) -> Any:
    return decode_variant(value.metadata, value.value, _variant_leaf)


def _variant_leaf(kind: Primitive, value: Any) -> Any:
    if kind in _VARIANT_TEMPORAL:
        return _temporal_texts(_VARIANT_TEMPORAL[kind], np.array([value], np.int64))[0]
    encode = _VARIANT_LEAVES.get(kind)
    return value if encode is None else encode(value)


def _temporal(kind: IcebergType, array: Any) -> list[Any]:
    physical = pa.int32() if isinstance(kind, DateType) else pa.int64()
    texts = _temporal_texts(type(kind), array.cast(physical).fill_null(0).to_numpy())
    return [None if null else text for null, text in zip(array.is_null().to_pylist(), texts, strict=True)]


def _temporal_texts(kind: type[IcebergType], integers: Any) -> list[str]:
    texts: list[str] = np.datetime_as_string(integers.astype(f"datetime64[{_TEMPORAL_UNITS[kind]}]")).tolist()
    if kind is TimeType:
        return [text.partition("T")[2] for text in texts]
    return [f"{text}+00:00" for text in texts] if kind in (TimestamptzType, TimestamptzNanoType) else texts


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

_VARIANT_TEMPORAL: dict[Primitive, type[IcebergType]] = {
    Primitive.DATE: DateType,
    Primitive.TIME: TimeType,
    Primitive.TIMESTAMP: TimestampType,
    Primitive.TIMESTAMPTZ: TimestamptzType,
    Primitive.TIMESTAMP_NS: TimestampNanoType,
    Primitive.TIMESTAMPTZ_NS: TimestamptzNanoType,
}

_VARIANT_LEAVES: dict[Primitive, Callable[[Any], Any]] = {
    Primitive.FLOAT: _float,
    Primitive.DOUBLE: _double,
    Primitive.DECIMAL4: _decimal,
    Primitive.DECIMAL8: _decimal,
    Primitive.DECIMAL16: _decimal,
    Primitive.BINARY: bytes.hex,
    Primitive.UUID: lambda value: str(UUID(bytes=value)),
}
