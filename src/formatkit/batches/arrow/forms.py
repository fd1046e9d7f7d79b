"""The many physical forms in which Arrow may hold one and the same column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formatkit.batches.arrow.types import ArrowType, Column
from formatkit.errors import InvalidDataError

__all__ = [
    "ListParts",
    "as_type",
    "build_list",
    "build_struct",
    "child_of",
    "decode",
    "list_parts",
    "no_form_of",
    "validity",
    "without_encoding",
    "without_offsets",
]


def without_encoding(column: Column) -> Column:
    """The column without its outermost extension, dictionary, run-end or view encoding; nested columns stay encoded."""
    while True:
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        elif isinstance(column, pa.DictionaryArray):
            column = without_encoding(column.dictionary).take(column.indices)
        elif isinstance(column, pa.RunEndEncodedArray):
            column = without_encoding(column.values).take(_runs(column))
        elif pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        elif pa.types.is_binary_view(column.type):
            column = column.cast(pa.binary())
        else:
            return column


def without_offsets(column: Column) -> Column:
    """A nested column, copied if it or a column inside of it begins in the midst of a buffer; flat ones as they are.

    Encoders take slices of flat columns, but many misread those of nested ones.
    """
    return pa.concat_arrays([column]) if pa.types.is_nested(column.type) and _has_offset(column) else column


def _has_offset(column: Column) -> bool:
    if column.offset:
        return True
    if isinstance(column, pa.StructArray):
        return any(_has_offset(column.field(i)) for i in range(column.type.num_fields))
    return isinstance(column, pa.ListArray | pa.MapArray) and _has_offset(column.values)


def _runs(column: Column) -> Column:
    """For each row the number of the run that it lies in."""
    ends = np.clip(column.run_ends.to_numpy().astype(np.int64) - column.offset, 0, len(column))
    return pa.array(np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)))


def decode(column: Column) -> Column:
    """The column without any encoding at any level, because many kernels of Arrow lack views and run-ends."""
    column = without_encoding(column)
    if isinstance(column, pa.StructArray):
        children = [decode(column.field(i)) for i in range(column.type.num_fields)]
        fields = [column.type.field(i).with_type(child.type) for i, child in enumerate(children)]
        return build_struct(pa.struct(fields), children, column)
    if is_list_like(column.type):
        parts = list_parts(column)
        values = decode(parts.values)
        if pa.types.is_map(column.type):
            return build_list(pa.map_(values.type.field(0), values.type.field(1)), parts, values)
        return build_list(pa.list_(column.type.value_field.with_type(values.type)), parts, values)
    return column


def is_list_like(arrow_type: ArrowType) -> bool:
    """Whether the type is any of Arrow's list types or a map."""
    return (
        pa.types.is_list(arrow_type)
        or pa.types.is_map(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
        or pa.types.is_list_view(arrow_type)
        or pa.types.is_large_list_view(arrow_type)
    )


def child_of(column: Column, position: int) -> Column:
    """A field of a struct, null where the struct is null."""
    return pc.struct_field(column, [position]) if column.null_count else column.field(position)


def validity(column: Column) -> Any:
    """The validity bitmap, beginning at bit zero whatever slice the column is."""
    if column.null_count == 0:
        return None
    if column.offset == 0:
        return column.buffers()[0]
    valid: Column = pc.invert(pc.is_null(column))
    return valid.buffers()[1]


def build_struct(struct_type: ArrowType, children: list[Column], like: Column) -> Column:
    """A struct of these children that is null where `like` is null."""
    return pa.Array.from_buffers(struct_type, len(like), [validity(like)], like.null_count, children=children)


class ListParts(NamedTuple):
    """A list column taken apart, so that its values can be exchanged for as many others."""

    length: int
    null_count: int
    validity: pa.Buffer | None
    offsets: pa.Buffer
    values: Column


def list_parts(column: Column) -> ListParts:
    """Take apart any kind of list, or a map as the list of its entries.

    The values are those of the column's own rows and nothing else: a slice may lie in far more values, and what lies
    under a null list is not data.
    """
    length, null_count, valid = len(column), column.null_count, validity(column)
    if isinstance(column, pa.MapArray):
        entries = column.values
        column = pa.Array.from_buffers(
            pa.list_(entries.type), length, column.buffers()[:2], null_count, column.offset, [entries]
        )
    if isinstance(column, pa.ListArray) and _is_compact(column):
        buffers: list[Any] = column.buffers()
        return ListParts(length, null_count, valid, buffers[1], column.values)
    sizes = pc.list_value_length(column).fill_null(0).to_numpy()
    if (total := sizes.sum(dtype=np.int64)) > np.iinfo(np.int32).max:
        message = f"a batch holds lists with {total} elements in all; read or write it in smaller batches"
        raise InvalidDataError(message)
    offsets = np.zeros(length + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return ListParts(length, null_count, valid, pa.py_buffer(offsets.data), _elements(column, sizes, offsets))


def _is_compact(column: Column) -> bool:
    """Whether every value belongs to a list that is not null."""
    if column.offset or column.offsets[0].as_py() or column.offsets[-1].as_py() != len(column.values):
        return False
    return column.null_count == 0 or pc.sum(pc.list_value_length(column), min_count=0).as_py() == len(column.values)


def _elements(column: Column, sizes: Any, offsets: Any) -> Column:
    """The elements of all rows one after the other. Arrow's flatten fails for some nested extension types."""
    if pa.types.is_fixed_size_list(column.type):
        starts = (np.arange(len(column)) + column.offset) * column.type.list_size
    else:
        starts = column.offsets.to_numpy()[: len(column)]
    shifts = (starts - offsets[:-1])[sizes > 0]
    if not shifts.size:
        return column.values.slice(0, 0)
    if (shifts == shifts[0]).all():
        return column.values.slice(shifts[0], offsets[-1])
    return column.values.take(pa.array(np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])))


def build_list(list_type: ArrowType, parts: ListParts, values: Column) -> Column:
    """A list, or a map if `values` are its entries, of the same shape with other values."""
    return pa.Array.from_buffers(
        list_type, parts.length, [parts.validity, parts.offsets], parts.null_count, children=[values]
    )


def as_type(column: Column, arrow_type: ArrowType, name: str) -> Column:
    """The column in another form of the same values; `arrow_type` is a flat one without extension."""
    if column.type == arrow_type:
        return column
    column = without_encoding(column)
    if column.type == arrow_type:
        return column
    accepts = _FORMS.get(arrow_type.id)
    if accepts is None or not accepts(column.type, arrow_type):
        raise no_form_of(column.type, arrow_type, name)
    if pa.types.is_decimal128(column.type) and column.type.precision <= arrow_type.precision:
        # The same 16 bytes a value: nothing has to be computed.
        return pa.Array.from_buffers(arrow_type, len(column), column.buffers(), column.null_count, column.offset)
    try:
        return column.cast(arrow_type)
    except pa.ArrowInvalid as error:
        message = f"column {name!r} holds a value that does not fit {arrow_type}: {error}"
        raise InvalidDataError(message) from error


def no_form_of(found: ArrowType, wanted: ArrowType, name: str) -> InvalidDataError:
    """The error for a column that has another type than its schema says."""
    return InvalidDataError(f"column {name!r} is of the Arrow type {found}, which cannot be taken for {wanted}")


def _same_zone(found: ArrowType, wanted: ArrowType) -> bool:
    return pa.types.is_timestamp(found) and (found.tz is None) == (wanted.tz is None)


def _same_scale(found: ArrowType, wanted: ArrowType) -> bool:
    if pa.types.is_uint64(found):
        # What unsigned numbers of 64 bits are read as.
        return bool(wanted == pa.decimal128(20, 0))
    return pa.types.is_decimal(found) and found.scale == wanted.scale


def _is_binary(found: ArrowType, _: ArrowType) -> bool:
    return pa.types.is_binary(found) or pa.types.is_large_binary(found) or pa.types.is_fixed_size_binary(found)


_FORMS: dict[int, Callable[[ArrowType, ArrowType], bool]] = {
    pa.int32().id: lambda found, _: pa.types.is_integer(found),
    pa.int64().id: lambda found, _: pa.types.is_integer(found),
    pa.float32().id: lambda found, _: pa.types.is_float16(found),
    pa.float64().id: lambda found, _: pa.types.is_float16(found) or pa.types.is_float32(found),
    pa.decimal128(1).id: _same_scale,
    pa.date32().id: lambda found, _: pa.types.is_date(found),
    pa.time64("us").id: lambda found, _: pa.types.is_time(found),
    pa.timestamp("us").id: _same_zone,
    pa.string().id: lambda found, _: pa.types.is_large_string(found),
    pa.binary().id: _is_binary,
    pa.binary(1).id: _is_binary,
}
"""By the id of the wanted type: whether the found type holds the same kind of values."""
