"""Arrow columns made of Python values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, StructType, UUIDType

from formatkit.batches.arrow.types import ArrowType, Column, arrow_type, storage_type
from formatkit.batches.arrow.variant import variant_array
from formatkit.contract.values import internal_value
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError

__all__ = ["ConstantColumn", "column_of"]


def column_of(iceberg_type: IcebergType, values: Sequence[Any]) -> Column:
    """A canonical column of these values, internal or Python's own.

    Raises:
        InvalidDataError: A value is not one of the type.
    """
    return _column(iceberg_type, [internal_value(iceberg_type, value) for value in values])


def _column(iceberg_type: IcebergType, values: list[Any]) -> Column:
    # Arrow builds no nested columns with extension types in them, hence by hand.
    kind = arrow_type(iceberg_type)
    validity = _bitmap(values)
    match iceberg_type:
        case StructType():
            children = [
                _column(field.field_type, [None if value is None else value[i] for value in values])
                for i, field in enumerate(iceberg_type.fields)
            ]
            return pa.Array.from_buffers(kind, len(values), [validity], children=children)
        case ListType():
            elements = _column(iceberg_type.element_type, list(chain.from_iterable(v for v in values if v)))
            return pa.Array.from_buffers(kind, len(values), [validity, _offsets(values)], children=[elements])
        case MapType():
            pairs = list(chain.from_iterable(v for v in values if v))
            entries = pa.StructArray.from_arrays(
                [
                    _column(iceberg_type.key_type, [key for key, _ in pairs]),
                    _column(iceberg_type.value_type, [value for _, value in pairs]),
                ],
                fields=[kind.key_field, kind.item_field],
            )
            return pa.Array.from_buffers(kind, len(values), [validity, _offsets(values)], children=[entries])
    if isinstance(iceberg_type, VariantType):
        return variant_array(values)
    try:
        column = pa.array(values, storage_type(iceberg_type))
    except (pa.ArrowInvalid, UnicodeError) as error:
        message = f"a value cannot be stored as {iceberg_type}: {error}"
        raise InvalidDataError(message) from error
    return pa.ExtensionArray.from_storage(kind, column) if isinstance(iceberg_type, UUIDType) else column


def _bitmap(values: list[Any]) -> pa.Buffer | None:
    valid = np.fromiter((value is not None for value in values), bool, len(values))
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").data)


def _offsets(values: list[Any]) -> pa.Buffer:
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) if value else 0 for value in values], out=offsets[1:])
    return pa.py_buffer(offsets.data)


class ConstantColumn:
    """A column that has the same value in every row, as long as each batch needs it."""

    def __init__(self, iceberg_type: IcebergType, value: Any, kind: ArrowType = None) -> None:
        self._one = column_of(iceberg_type, [value])
        if kind is not None and pa.types.is_dictionary(kind):
            self._one = self._one.dictionary_encode()
        # The longest column so far: batches of a file have about the same length, so the others are slices of it.
        self._longest = self._one

    def of(self, length: int) -> Column:
        """The column with `length` rows."""
        longest = self._longest
        if length > len(longest):
            longest = self._one.take(pa.array(np.zeros(length, np.int32)))
            self._longest = longest
        return longest if length == len(longest) else longest.slice(0, length)
