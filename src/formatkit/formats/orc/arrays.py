"""From the columns that pyarrow decodes to the one Arrow form in which batches are handed out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.types import (
    DecimalType,
    FixedType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.batches.arrow.decimals import check_decimals
from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError
from formatkit.formats.orc.failures import ContentError
from formatkit.formats.orc.projection import Wanted

__all__ = ["conform", "rebuilt", "with_validity"]

_DAY_MICROS = 24 * 3600 * 1_000_000


def conform(wanted: Wanted, array: Column) -> Column:
    """A decoded column as its canonical Arrow type; maps were decoded as lists.

    Raises:
        ContentError: It holds a value that its type cannot hold, or a null where it is required.
    """
    return _conform(wanted, array, parent_nulls=0)


def _conform(wanted: Wanted, array: Column, parent_nulls: int) -> Column:
    if wanted.field.required and array.null_count > parent_nulls:
        message = f"column {wanted.field.name!r} is required, but {array.null_count - parent_nulls} values are null"
        raise ContentError(message)
    match wanted.field.field_type:
        case StructType() | VariantType():
            return rebuilt(wanted.arrow, array, [array.buffers()[0]], _struct_children(wanted, array))
        case ListType():
            values = _conform(wanted.children[0], array.values, parent_nulls=0)
            return rebuilt(wanted.arrow, array, array.buffers()[:2], [values])
        case MapType():
            if nulls := array.values.field(0).null_count:
                found = f"column {wanted.field.name!r} holds maps with {nulls} null keys"
                raise InvalidDataError(f"{found}, which maps of Iceberg cannot have; leave the column out")
            entries = pa.StructArray.from_arrays(
                [_conform(child, array.values.field(i), parent_nulls=0) for i, child in enumerate(wanted.children)],
                fields=[wanted.arrow.key_field, wanted.arrow.item_field],
            )
            return rebuilt(wanted.arrow, array, array.buffers()[:2], [entries])
    return _conform_leaf(wanted, array)


def rebuilt(kind: ArrowType, like: Column, buffers: list[Any], children: list[Column]) -> Column:
    """A nested column with other children."""
    return pa.Array.from_buffers(kind, len(like), buffers, like.null_count, children=children)


def _struct_children(wanted: Wanted, array: Column) -> list[Column]:
    decoded = iter(range(array.type.num_fields))
    return [
        _conform(child, array.field(next(decoded)), array.null_count)
        if child.stored
        else pa.nulls(len(array), child.arrow)
        for child in wanted.children
    ]


def _conform_leaf(wanted: Wanted, array: Column) -> Column:
    try:
        match wanted.field.field_type:
            case TimestampType() | TimestamptzType():
                return _to_micros(array, wanted.arrow)
            case TimeType():
                return _to_times(array, wanted.arrow)
            case UUIDType():
                return pa.ExtensionArray.from_storage(wanted.arrow, _sized(array, 16))
            case FixedType() as fixed:
                return _sized(array, len(fixed))
            case StringType():
                _check_text(array)
            case DecimalType():
                array = _to_decimals(array, wanted)
        return array if array.type == wanted.arrow else array.cast(wanted.arrow)
    except pa.ArrowInvalid as error:
        message = f"column {wanted.field.name!r} holds a value that is no {wanted.field.field_type}: {error}"
        raise ContentError(message) from error


def _to_decimals(array: Column, wanted: Wanted) -> Column:
    if array.type == pa.int64():
        low = array.fill_null(0).to_numpy()
        words = np.stack([low, low >> 63], axis=1)
        array = with_validity(words, array, pa.decimal128(wanted.column.type.precision, wanted.column.type.scale))
    # The decoder makes decimals of more digits than their type has, if that is what is stored.
    check_decimals(array, wanted.field.name)
    return array


def _to_times(array: Column, wanted: ArrowType) -> Column:
    ends = pc.min_max(array)
    if array.null_count < len(array) and (ends["min"].as_py() < 0 or ends["max"].as_py() >= _DAY_MICROS):
        raise pa.ArrowInvalid(f"{ends} are not within a day")
    return array.view(wanted)


def _sized(array: Column, length: int) -> Column:
    return array.cast(pa.binary(length))


def _check_text(array: Column) -> None:
    """Refuse what is no UTF-8. Most text is ASCII, which is seen much faster than checked."""
    content = array.buffers()[2]
    if content is not None and content.size and np.frombuffer(content, np.int8).min() < 0:
        array.validate(full=True)


def _to_micros(array: Column, wanted: ArrowType) -> Column:
    """Nanoseconds that microseconds cannot hold are cut off towards the past, as Java does."""
    if array.type == wanted or len(array) == 0:
        return array.cast(wanted)
    nanos = array.buffers()[1]
    # Nobody else has seen what was just decoded, so it may be changed.
    micros = nanos if nanos.is_mutable else pa.allocate_buffer(nanos.size)
    values = np.frombuffer(nanos, np.int64, len(array))
    np.floor_divide(values, 1000, out=np.frombuffer(memoryview(micros), np.int64, len(array)))
    return with_validity(micros, array, wanted)


def with_validity(values: Any, like: Column, wanted: ArrowType) -> Column:
    """A column of these values, null where `like` is."""
    stored = values if isinstance(values, pa.Buffer) else pa.py_buffer(values)
    return pa.Array.from_buffers(wanted, len(like), [like.buffers()[0], stored], like.null_count)
