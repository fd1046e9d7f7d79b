"""From filled buffers to Arrow columns, with the checks that are cheaper for a whole column than for each value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.formats.avro.failures import BlockError, UnfitValueError
from formatkit.formats.avro.slots import Filled

__all__ = ["Form", "Output"]

_N = TypeVar("_N", bound=np.generic)
_MICROS_OF_DAY = 86_400_000_000


class Form(Enum):
    """How buffers become a column."""

    NULL = auto()
    FIXED = auto()
    TIME = auto()
    BOOLEAN = auto()
    BYTES = auto()
    SYMBOL = auto()
    STRUCT = auto()
    LIST = auto()
    MAP = auto()


@dataclass(frozen=True, kw_only=True)
class Output:
    """One column of the batches, at any level.

    Attributes:
        form: How it is made.
        type: Its Arrow type.
        slots: Its buffers: values; data and ends; ends and the counter of elements.
        validity: The slot that says which values there are, if they may be missing.
        children: The columns below it.
        symbols: The texts of an enum.
    """

    form: Form
    type: ArrowType
    slots: tuple[int, ...] = ()
    validity: int | None = None
    children: Sequence[Output] = ()
    symbols: tuple[str, ...] = ()

    def column(self, filled: Sequence[Filled], length: int) -> Column:
        """The column of so many values.

        Raises:
            BlockError: A value is not one of the type: text that is not UTF-8, a time outside of the day.
            UnfitValueError: A value is none of Iceberg's: a decimal of too many digits, a null key.
        """
        if self.form is Form.NULL:
            return pa.nulls(length, self.type)
        validity, nulls = self._validity(filled)
        match self.form:
            case Form.STRUCT:
                children = [child.column(filled, length) for child in self.children]
                return _from_buffers(self.type, length, [validity], nulls, children)
            case Form.LIST | Form.MAP:
                return self._repeated(filled, length, validity, nulls)
            case Form.SYMBOL:
                values = _from_buffers(pa.int32(), length, [validity, filled[self.slots[0]].buffer], nulls)
                return pa.DictionaryArray.from_arrays(values, pa.array(self.symbols, self.type)).cast(self.type)
            case Form.BOOLEAN:
                return _from_buffers(self.type, length, [validity, _bits(filled[self.slots[0]])], nulls)
            case Form.BYTES:
                data, ends = (filled[slot].buffer for slot in self.slots)
                column = _from_buffers(self.type, length, [validity, ends, data], nulls)
            case _:
                column = self._fixed(length, validity, filled[self.slots[0]].buffer, nulls)
        return self._checked(column)

    def _validity(self, filled: Sequence[Filled]) -> tuple[pa.Buffer | None, int]:
        if self.validity is None or not (nulls := filled[self.validity].nulls):
            return None, 0
        return _bits(filled[self.validity]), nulls

    def _fixed(self, length: int, validity: pa.Buffer | None, values: pa.Buffer, nulls: int) -> Column:
        if isinstance(self.type, pa.ExtensionType):
            storage = _from_buffers(self.type.storage_type, length, [validity, values], nulls)
            return pa.ExtensionArray.from_storage(self.type, storage)
        return _from_buffers(self.type, length, [validity, values], nulls)

    def _repeated(self, filled: Sequence[Filled], length: int, validity: pa.Buffer | None, nulls: int) -> Column:
        ends, elements = filled[self.slots[0]].buffer, filled[self.slots[1]].count
        children = [child.column(filled, elements) for child in self.children]
        if self.form is Form.MAP:
            if children[0].null_count:
                raise UnfitValueError("holds a map with a null key")
            entries = pa.struct([self.type.key_field, self.type.item_field])
            children = [_from_buffers(entries, elements, [None], 0, children)]
        return _from_buffers(self.type, length, [validity, ends], nulls, children)

    def _checked(self, column: Column) -> Column:
        if pa.types.is_string(self.type) or pa.types.is_decimal(self.type):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                if pa.types.is_decimal(self.type):
                    raise UnfitValueError(_too_many_digits(column)) from error
                raise BlockError(f"a value is not a {self.type}: {error}") from error
        elif self.form is Form.TIME:
            micros = _numbers(column.buffers()[1], np.int64, len(column))
            if len(micros) and (micros.min() < 0 or micros.max() >= _MICROS_OF_DAY):
                raise BlockError("a time is outside of the day")
        return column


def _from_buffers(
    kind: Any, length: int, buffers: list[pa.Buffer | None], nulls: int, children: Sequence[Column] | None = None
) -> Column:
    return pa.Array.from_buffers(kind, length, buffers, nulls, 0, children)


def _too_many_digits(column: Column) -> str:
    """Which decimal of a column has more digits than its type."""
    kind = column.type
    widest = pa.decimal128(38, kind.scale)
    values = _from_buffers(widest, len(column), column.buffers(), column.null_count).to_pylist()
    value = next(each for each in values if each is not None and abs(each.scaleb(kind.scale)) >= 10**kind.precision)
    return f"holds a decimal of more digits than decimal({kind.precision}, {kind.scale}) has: {value}"


def _bits(flags: Filled) -> pa.Buffer:
    """One bit for each byte."""
    packed: Any = np.packbits(_numbers(flags.buffer, np.uint8, flags.count), bitorder="little")
    return pa.py_buffer(packed)


def _numbers(buffer: Any, kind: type[_N], count: int) -> np.ndarray[Any, np.dtype[_N]]:
    return np.frombuffer(buffer, kind, count)
