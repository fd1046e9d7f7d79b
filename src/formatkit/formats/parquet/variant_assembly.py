"""Puts shredded variants together again.

Objects and arrays are built one by one in Python, since each has offsets of its own; the numbers, dates and times in
them are encoded a column at a time. A field of an object that is in both parts is taken from the typed one, as the spec
asks. Other contradictions between value and typed value are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from formatkit.batches.arrow.decimals import check_decimals
from formatkit.batches.arrow.forms import (
    as_type,
    build_list,
    build_struct,
    child_of,
    is_list_like,
    list_parts,
    without_encoding,
)
from formatkit.batches.arrow.types import Column, arrow_type
from formatkit.batches.arrow.variant import as_variant
from formatkit.contract.fields import child_fields
from formatkit.contract.variant import VariantType
from formatkit.contract.variant_decoding import field_names, object_fields
from formatkit.contract.variant_encoding import (
    NULL_VALUE,
    Primitive,
    array_value,
    binary_value,
    object_value,
    primitive_header,
    string_value,
)
from formatkit.errors import InvalidDataError

__all__ = ["holds_variant", "with_whole_variants"]

_VARIANT = arrow_type(VariantType())

Encoded = list[bytes | None]
"""One encoded value a row, None where it is missing."""


def holds_variant(kind: IcebergType) -> bool:
    """Whether the type is variant or has one below it."""
    return isinstance(kind, VariantType) or any(holds_variant(child.field_type) for child in child_fields(kind))


def with_whole_variants(column: Column, kind: IcebergType) -> Column:
    """A decoded column with the variants in it as metadata and value, whatever they were shredded into."""
    match kind:
        case VariantType():
            return _whole(column)
        case StructType():
            return _struct_with_whole_variants(column, kind)
        case ListType() if holds_variant(kind):
            parts = list_parts(column)
            values = with_whole_variants(parts.values, kind.element_type)
            return build_list(pa.list_(column.type.value_field.with_type(values.type)), parts, values)
        case MapType() if holds_variant(kind):
            parts = list_parts(column)
            items = with_whole_variants(parts.values.field(1), kind.value_type)
            fields = [column.type.key_field, column.type.item_field.with_type(items.type)]
            entries = pa.StructArray.from_arrays([parts.values.field(0), items], fields=fields)
            return build_list(pa.map_(*fields), parts, entries)
    return column


def _struct_with_whole_variants(column: Column, kind: StructType) -> Column:
    types = {field.name: field.field_type for field in kind.fields}
    fields = list(column.type)
    children = [
        with_whole_variants(column.field(i), types[field.name]) if field.name in types else column.field(i)
        for i, field in enumerate(fields)
    ]
    typed = [field.with_type(child.type) for field, child in zip(fields, children, strict=True)]
    return build_struct(pa.struct(typed), children, column)


def _whole(column: Column) -> Column:
    """A variant column of any layout in canonical form."""
    column = without_encoding(column)
    parts = {field.name: child_of(column, i) for i, field in enumerate(column.type)}
    if "typed_value" not in parts and parts["value"].null_count == column.null_count:
        return as_variant(column, "value")
    metadata = as_type(parts["metadata"], pa.binary(), "metadata")
    if metadata.null_count > column.null_count:
        raise InvalidDataError("a shredded variant has no metadata")
    values = _assembled(metadata.to_pylist(), parts)
    # A variant must have a value wherever it is not null itself.
    value = pa.array([NULL_VALUE if value is None else value for value in values], pa.binary())
    return build_struct(_VARIANT, [metadata.fill_null(b""), value], column)


def _assembled(metadata: Sequence[bytes], parts: dict[str, Column]) -> Encoded:
    """The values of a group of value and typed value."""
    plain: Encoded = parts["value"].to_pylist() if "value" in parts else [None] * len(metadata)
    typed = parts.get("typed_value")
    if typed is None:
        return plain
    if pa.types.is_struct(typed.type):
        return _objects(metadata, plain, typed)
    encoded = _arrays(metadata, typed) if is_list_like(typed.type) else _primitives(typed)
    if any(typed_value is not None and rest is not None for typed_value, rest in zip(encoded, plain, strict=True)):
        message = "a shredded variant is invalid: it has a value and a typed value, and only objects may have both"
        raise InvalidDataError(message)
    return [typed_value if typed_value is not None else rest for typed_value, rest in zip(encoded, plain, strict=True)]


def _parts(group: Column) -> dict[str, Column]:
    return {field.name: child_of(group, i) for i, field in enumerate(group.type)}


def _objects(metadata: Sequence[bytes], plain: Encoded, typed: Column) -> Encoded:
    names = tuple(sorted((field.name for field in typed.type), key=str.encode))
    columns = [_assembled(metadata, _parts(typed.field(name))) for name in names]
    rows = zip(*columns, strict=True) if columns else [()] * len(plain)
    present = typed.is_valid().to_pylist()
    return [
        _object(names_of, names, values, rest) if is_object else rest
        for names_of, values, rest, is_object in zip(metadata, rows, plain, present, strict=True)
    ]


def _object(metadata: bytes, names: tuple[str, ...], values: tuple[bytes | None, ...], rest: bytes | None) -> bytes:
    unshredded = () if rest is None else object_fields(metadata, rest)
    if unshredded is None:
        raise InvalidDataError("a shredded variant is invalid: it has shredded fields and a value that is no object")
    if not unshredded and None not in values:
        return object_value(_numbers(metadata, names), values)  # type: ignore[arg-type]  # none of them is None
    present = tuple(name for name, value in zip(names, values, strict=True) if value is not None)
    fields = dict(zip(_numbers(metadata, present), (value for value in values if value is not None), strict=True))
    all_names = field_names(metadata)
    shredded = frozenset(names)
    fields |= {number: value for number, value in unshredded if all_names[number] not in shredded}
    order = tuple(sorted(fields, key=lambda number: all_names[number].encode()))
    return object_value(order, [fields[number] for number in order])


@lru_cache(maxsize=256)
def _numbers(metadata: bytes, names: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers that the names have in the metadata."""
    numbers = {name: number for number, name in enumerate(field_names(metadata))}
    try:
        return tuple(numbers[name] for name in names)
    except KeyError as error:
        raise InvalidDataError(f"a shredded variant has a field {error} that its metadata lacks") from error


def _arrays(metadata: Sequence[bytes], typed: Column) -> Encoded:
    parts = list_parts(typed)
    offsets = np.frombuffer(memoryview(parts.offsets), np.int32, parts.length + 1).tolist()
    rows = zip(metadata, offsets, offsets[1:], strict=False)
    names_of = [names for names, start, end in rows for _ in range(end - start)]
    # An array has no missing elements, so one without any value is null.
    elements = [NULL_VALUE if element is None else element for element in _assembled(names_of, _parts(parts.values))]
    bounds = zip(offsets, offsets[1:], typed.is_valid().to_pylist(), strict=False)
    return [array_value(elements[start:end]) if valid else None for start, end, valid in bounds]


def _primitives(typed: Column) -> Encoded:
    typed = without_encoding(typed)
    kind = typed.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        encode = string_value if pa.types.is_string(kind) else binary_value
        # As bytes, since nobody has checked yet that they are UTF-8.
        return [None if value is None else encode(value) for value in typed.cast(pa.binary()).to_pylist()]
    valid = typed.is_valid().to_pylist()
    if pa.types.is_boolean(kind):
        headers = [bytes([primitive_header(truth)]) for truth in (Primitive.FALSE, Primitive.TRUE)]
        return [None if value is None else headers[value] for value in typed.to_pylist()]
    content, header = _content(typed)
    encoded = np.empty((len(typed), len(header) + content.shape[1]), np.uint8)
    encoded[:, : len(header)] = list(header)
    encoded[:, len(header) :] = content
    data, width = encoded.tobytes(), encoded.shape[1]
    return [data[row * width : (row + 1) * width] if is_valid else None for row, is_valid in enumerate(valid)]


def _content(typed: Column) -> tuple[Any, bytes]:
    """The bytes of each value, a row each, and what stands before them."""
    kind = typed.type
    if pa.types.is_decimal(kind):
        decimal, width = next((choice, width) for most, choice, width in _DECIMALS if kind.precision <= most)
        check_decimals(typed, "typed_value")
        wide = typed.cast(pa.decimal128(_MAX_PRECISION, kind.scale))
        return _bytes_of(wide, wide.type.byte_width)[:, :width], bytes([primitive_header(decimal), kind.scale])
    if pa.types.is_fixed_size_binary(kind):
        return _bytes_of(typed, kind.byte_width), bytes([primitive_header(Primitive.UUID)])
    primitive = next(primitive for is_kind, primitive in _FIXED if is_kind(kind))
    return _bytes_of(typed, kind.bit_width // 8), bytes([primitive_header(primitive)])


def _bytes_of(column: Column, width: int) -> Any:
    """What a column of values of one width stores, also where it is null."""
    stored = column.buffers()[1]
    if stored is None:
        return np.zeros((len(column), width), np.uint8)
    content = np.frombuffer(memoryview(stored), np.uint8, len(column) * width, column.offset * width)
    return content.reshape(len(column), width)


_MAX_PRECISION = 38
_DECIMALS = ((9, Primitive.DECIMAL4, 4), (18, Primitive.DECIMAL8, 8), (_MAX_PRECISION, Primitive.DECIMAL16, 16))

_FIXED: tuple[tuple[Callable[[Any], bool], Primitive], ...] = (
    (pa.types.is_int8, Primitive.INT8),
    (pa.types.is_int16, Primitive.INT16),
    (pa.types.is_int32, Primitive.INT32),
    (pa.types.is_int64, Primitive.INT64),
    (pa.types.is_float32, Primitive.FLOAT),
    (pa.types.is_float64, Primitive.DOUBLE),
    (pa.types.is_date32, Primitive.DATE),
    (pa.types.is_time64, Primitive.TIME),
    (lambda kind: kind == pa.timestamp("us"), Primitive.TIMESTAMP),
    (lambda kind: kind == pa.timestamp("ns"), Primitive.TIMESTAMP_NS),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "us", Primitive.TIMESTAMPTZ),
    (lambda kind: pa.types.is_timestamp(kind) and kind.unit == "ns", Primitive.TIMESTAMPTZ_NS),
)
