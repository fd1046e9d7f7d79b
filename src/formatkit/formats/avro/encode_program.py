"""Programs for `kernels.encode`: which buffers of a batch to write in which order, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.formats.avro.kernels import encode_codes as codes
from formatkit.formats.avro.write_defaults import avro_default, decimal_bytes

__all__ = ["Program", "list_depth"]

_NO_UNION, _NULL_LAST, _NULL_FIRST = -1, 0, 2
"""The byte that announces a value: its branch in the union, in zigzag form."""

_OFFSET_BYTES = 4
_FIXED_WIDTH: dict[type[IcebergType], tuple[int, int]] = {
    IntegerType: (codes.INT, 4),
    DateType: (codes.INT, 4),
    LongType: (codes.LONG, 8),
    TimeType: (codes.LONG, 8),
    TimestampType: (codes.LONG, 8),
    TimestamptzType: (codes.LONG, 8),
    TimestampNanoType: (codes.LONG, 8),
    TimestamptzNanoType: (codes.LONG, 8),
    FloatType: (codes.FIXED4, 4),
    DoubleType: (codes.FIXED8, 8),
    UUIDType: (codes.FIXED, 16),
}


class Program:
    """The program for one batch, which it keeps alive as long as it holds its addresses.

    Attributes:
        instructions: One row of eight integers for each.
        columns: The dotted name of the column that each instruction writes.
    """

    def __init__(self, fields: Sequence[NestedField], batch: pa.RecordBatch) -> None:
        self._instructions: list[list[int]] = []
        self.columns: list[str] = []
        self._arrays: list[Any] = []
        for field, column in zip(fields, batch.columns, strict=True):
            column.validate()
            self._field(field, column, field.name, avro_default(field) is None)
        self.instructions: npt.NDArray[np.int64] = np.array(self._instructions, np.int64).reshape(-1, 8)

    def _field(self, field: NestedField, array: Any, name: str, null_first: bool = True) -> None:
        present = _NO_UNION if field.required else _NULL_FIRST if null_first else _NULL_LAST
        self._arrays.append(array)
        match field.field_type:
            case UnknownType():
                pass
            case StructType() as struct:
                self._struct(struct.fields, array, name, present)
            case VariantType():
                position = self._add(codes.STRUCT, name, present, array)
                self._bytes(array.field(0), name, _NO_UNION)
                self._bytes(array.field(1), name, _NO_UNION)
                self._end(position)
            case ListType() as kind:
                self._list((kind.element_field,), (array.values,), array, name, present)
            case MapType() as kind:
                # Through the entries, since a map's own `keys` and `items` do not know that the entries are a slice.
                entries = array.values
                children = (entries.field(0), entries.field(1))
                self._list((kind.key_field, kind.value_field), children, array, name, present)
            case kind:
                self._leaf(kind, array, name, present)

    def _struct(self, fields: Sequence[NestedField], array: Any, name: str, present: int) -> None:
        position = self._add(codes.STRUCT, name, present, array)
        for i, child in enumerate(fields):
            self._field(child, array.field(i), f"{name}.{child.name}", avro_default(child) is None)
        self._end(position)

    def _list(
        self, fields: Sequence[NestedField], children: Sequence[Any], array: Any, name: str, present: int
    ) -> None:
        values = _address(array, 1, _OFFSET_BYTES)
        position = self._add(codes.LIST, name, present, array, values=values, size=len(array.values))
        for field, child in zip(fields, children, strict=True):
            self._field(field, child, f"{name}.{field.name}")
        self._instructions.append([codes.LIST_NEXT, _NO_UNION, 0, 0, 0, 0, 0, position + 1])
        self.columns.append(name)
        self._end(position)

    def _leaf(self, kind: IcebergType, array: Any, name: str, present: int) -> None:
        match kind:
            case BooleanType():
                self._add(codes.BOOLEAN, name, present, array, values=_address(array, 1, 0))
            case DecimalType():
                size = decimal_bytes(kind.precision)
                self._add(codes.DECIMAL, name, present, array, values=_address(array, 1, 16), size=size)
            case FixedType():
                self._add(codes.FIXED, name, present, array, values=_address(array, 1, len(kind)), size=len(kind))
            case _ if type(kind) in _FIXED_WIDTH:
                code, size = _FIXED_WIDTH[type(kind)]
                self._add(code, name, present, array, values=_address(array, 1, size), size=size)
            case _:
                self._bytes(array, name, present)

    def _bytes(self, array: Any, name: str, present: int) -> None:
        self._arrays.append(array)
        content = array.buffers()[2]
        self._add(
            codes.BYTES,
            name,
            present,
            array,
            values=_address(array, 1, _OFFSET_BYTES),
            data=content.address if content else 0,
            size=content.size if content else 0,
        )

    def _add(
        self, code: int, name: str, present: int, array: Any, *, values: int = 0, data: int = 0, size: int = 0
    ) -> int:
        position = len(self._instructions)
        has_nulls = present != _NO_UNION and array.null_count > 0
        validity = array.buffers()[0].address if has_nulls else 0
        self._instructions.append([code, present, validity, array.offset, values, data, size, position + 1])
        self.columns.append(name)
        return position

    def _end(self, position: int) -> None:
        self._instructions[position][7] = len(self._instructions)


def list_depth(fields: Sequence[NestedField]) -> int:
    """How many lists and maps lie within each other at most."""
    kinds = [field.field_type for field in fields]
    return max((isinstance(kind, ListType | MapType) + list_depth(child_fields(kind)) for kind in kinds), default=0)


def _address(array: Any, buffer: int, width: int) -> int:
    """Where the values of the first row are; 0 for an array without any."""
    stored = array.buffers()[buffer]
    return 0 if stored is None else stored.address + width * array.offset
