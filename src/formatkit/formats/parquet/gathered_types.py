"""Values as Parquet stores them, as Arrow arrays of the types that pyarrow decodes them to."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formatkit.formats.parquet.elements import Annotation, Element, Kind, Physical, Unit

__all__ = ["arrow_array", "arrow_type", "arrow_values", "stored_dtype"]

_DECIMAL_BYTES = 16
_UNITS: dict[Unit, Literal["ms", "us", "ns"]] = {Unit.MILLIS: "ms", Unit.MICROS: "us", Unit.NANOS: "ns"}

_Values = npt.NDArray[Any]


def arrow_type(element: Element) -> pa.DataType | None:
    """The type of a column, or None if its values are not simply those that are stored."""
    physical, annotation = element.physical, element.annotation
    if annotation is not None and annotation.kind is Kind.DECIMAL:
        fits = physical in (Physical.INT32, Physical.INT64) or (
            physical is Physical.FIXED and 0 < element.length <= _DECIMAL_BYTES
        )
        return pa.decimal128(annotation.precision, annotation.scale) if fits else None
    match physical:
        case Physical.BOOLEAN if annotation is None:
            return pa.bool_()
        case Physical.FLOAT if annotation is None:
            return pa.float32()
        case Physical.DOUBLE if annotation is None:
            return pa.float64()
        case Physical.INT32 | Physical.INT64:
            return _integer_based(physical, annotation)
        case Physical.BYTE_ARRAY if annotation is None or annotation.kind is Kind.STRING:
            return pa.binary() if annotation is None else pa.string()
        case Physical.FIXED if element.length > 0 and (annotation is None or annotation.kind is Kind.UUID):
            return pa.binary(element.length)
    return None


def _integer_based(physical: Physical, annotation: Annotation | None) -> pa.DataType | None:
    narrow = physical is Physical.INT32
    if annotation is None:
        return pa.int32() if narrow else pa.int64()
    match annotation.kind:
        case Kind.INTEGER if not narrow:
            return pa.uint64()
        case Kind.DATE if narrow:
            return pa.date32()
        case Kind.TIME if not narrow and annotation.unit is Unit.MICROS:
            return pa.time64("us")
        case Kind.TIMESTAMP if not narrow:
            unit = _UNITS[annotation.unit]
            return pa.timestamp(unit, "UTC") if annotation.utc else pa.timestamp(unit)
    return None


def stored_dtype(element: Element) -> np.dtype[Any]:
    """What a page stores of each value, if all have the same width."""
    match element.physical:
        case Physical.BOOLEAN:
            return np.dtype(np.bool_)
        case Physical.INT32:
            return np.dtype("<i4")
        case Physical.INT64:
            return np.dtype("<i8")
        case Physical.FLOAT:
            return np.dtype("<f4")
        case Physical.DOUBLE:
            return np.dtype("<f8")
        case _:
            return np.dtype((np.void, element.length))


def arrow_values(element: Element, values: _Values) -> _Values:
    """Stored values of the same width as an Arrow array holds them."""
    annotation = element.annotation
    if annotation is None or annotation.kind is not Kind.DECIMAL:
        return values
    return _big_endian_decimals(values, element.length) if element.physical is Physical.FIXED else _decimals(values)


def arrow_array(
    kind: pa.DataType,
    values: _Values,
    count: int,
    valid: npt.NDArray[np.bool_] | None,
    offsets: npt.NDArray[np.int32] | None = None,
) -> pa.Array[Any]:
    """An array of type `kind`; where `valid` is false, it is null."""
    buffers = [None if valid is None or valid.all() else _buffer(np.packbits(valid, bitorder="little"))]
    if offsets is not None:
        buffers.append(_buffer(offsets))
    return pa.Array.from_buffers(kind, count, [*buffers, _buffer(values)])


def _buffer(values: _Values) -> pa.Buffer:
    return pa.py_buffer(values.data)


def _decimals(values: _Values) -> _Values:
    wide = np.empty((len(values), 2), "<i8")
    wide[:, 0] = values
    wide[:, 1] = wide[:, 0] >> 63
    return wide


def _big_endian_decimals(values: _Values, length: int) -> _Values:
    stored = values.view(np.uint8).reshape(-1, length)
    wide = np.empty((len(values), _DECIMAL_BYTES), np.uint8)
    wide[:, :length] = stored[:, ::-1]
    wide[:, length:] = np.where(stored[:, :1] > 0x7F, 0xFF, 0)
    return wide
