"""Shreds variants as the Parquet specification has it, one value at a time, and writes them with pyarrow.

A layout says what values are shredded into: an Arrow type for a primitive, a dict for the fields of objects, a list of
one layout for the elements of arrays, None for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from formatkit.contract import Variant
from formatkit.contract.variant_encoding import array_value, metadata_of, object_value
from formatkit.formats.parquet.stored_schema import annotated_end
from formatkit.formats.parquet.thrift import i8, nested
from support.foreign_parquet import parquet_bytes

__all__ = ["as_variant_columns", "shredded_array", "shredded_type", "with_variant_ids"]

Layout = Any
MISSING = object()


def shredded_array(values: Sequence[Any], layout: Layout) -> Any:
    """A struct array of metadata, value and typed value; None stands for a null row, `Variant.of(None)` for null."""
    rows = [None if value is None else _row(_plain(value), layout) for value in values]
    return pa.array(rows, _storage(shredded_type(layout))).cast(shredded_type(layout))


def _storage(kind: Any) -> Any:
    """The type without extension types, of which pyarrow makes no nested arrays."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_storage(field.type)) for field in kind])
    return pa.list_(kind.value_field.with_type(_storage(kind.value_type))) if pa.types.is_list(kind) else kind


def shredded_type(layout: Layout) -> Any:
    return pa.struct([pa.field("metadata", pa.binary(), nullable=False), *_parts(layout)])


def as_variant_columns(table: pa.Table, *names: str, **options: Any) -> bytes:
    """A Parquet file of the table, whose columns have the ids 1, 2, …, with some of them annotated as variants."""
    ids = {name: number for number, name in enumerate(table.column_names, 1)}
    fields = [field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in table.schema]
    data = parquet_bytes(table.cast(pa.schema(fields)), **options)
    return with_variant_ids(data, *(ids[name] for name in names))


def with_variant_ids(data: bytes, *ids: int) -> bytes:
    """The same file with the groups of these field ids annotated as variants, which pyarrow cannot do."""
    return annotated_end(data, {field_id: nested(16, i8(1, 1)) for field_id in ids})


def _plain(value: Any) -> Any:
    return value.to_python() if isinstance(value, Variant) else value


def _parts(layout: Layout) -> list[Any]:
    value = pa.field("value", pa.binary())
    return [value] if layout is None else [value, pa.field("typed_value", _typed(layout))]


def _typed(layout: Layout) -> Any:
    match layout:
        case dict():
            return pa.struct(
                [pa.field(name, pa.struct(_parts(below)), nullable=False) for name, below in layout.items()]
            )
        case list():
            return pa.list_(pa.field("element", pa.struct(_parts(layout[0])), nullable=False))
    return layout


def _row(value: Any, layout: Layout) -> dict[str, Any]:
    names = sorted({name.encode() for name in _names(value)})
    numbers = {name.decode(): number for number, name in enumerate(names)}
    return {"metadata": metadata_of(names)} | _shred(value, layout, numbers)


def _names(value: Any) -> list[str]:
    match value:
        case dict():
            return [*value, *(name for child in value.values() for name in _names(child))]
        case list():
            return [name for child in value for name in _names(child)]
    return []


def _shred(value: Any, layout: Layout, numbers: Mapping[str, int]) -> dict[str, Any]:
    if value is MISSING:
        return {"value": None, "typed_value": None}
    if isinstance(layout, dict) and isinstance(value, dict):
        typed = {name: _shred(value.get(name, MISSING), below, numbers) for name, below in layout.items()}
        rest = {name: child for name, child in value.items() if name not in layout}
        return {"value": _fragment(rest, numbers) if rest else None, "typed_value": typed}
    if isinstance(layout, list) and isinstance(value, list):
        return {"value": None, "typed_value": [_shred(element, layout[0], numbers) for element in value]}
    if isinstance(layout, pa.DataType) and _fits(value, layout):
        return {"value": None, "typed_value": value.bytes if isinstance(value, UUID) else value}
    return {"value": _fragment(value, numbers), "typed_value": None}


def _fragment(value: Any, numbers: Mapping[str, int]) -> bytes:
    match value:
        case dict():
            fields = sorted((numbers[name], _fragment(child, numbers)) for name, child in value.items())
            return object_value(tuple(number for number, _ in fields), [child for _, child in fields])
        case list():
            return array_value([_fragment(element, numbers) for element in value])
    return Variant.of(value).value


def _fits(value: Any, kind: pa.DataType) -> bool:
    return any(holds(kind) and fits(value, kind) for holds, fits in _FITS)


def _is_decimal_of(value: Any, kind: Any) -> bool:
    if not isinstance(value, Decimal) or value.as_tuple().exponent != -kind.scale:
        return False
    return bool(len(value.as_tuple().digits) <= kind.precision)


def _is_integer_of(value: Any, kind: Any) -> bool:
    limit: int = 2 ** (kind.bit_width - 1)
    return type(value) is int and -limit <= value < limit


def _is_moment_of(value: Any, kind: Any) -> bool:
    return isinstance(value, datetime) and (value.tzinfo is None) == (kind.tz is None)


_FITS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any], bool]], ...] = (
    (pa.types.is_boolean, lambda value, _: isinstance(value, bool)),
    (pa.types.is_integer, _is_integer_of),
    (pa.types.is_floating, lambda value, _: isinstance(value, float)),
    (pa.types.is_decimal, _is_decimal_of),
    (pa.types.is_string, lambda value, _: isinstance(value, str)),
    (pa.types.is_binary, lambda value, _: isinstance(value, bytes)),
    (pa.types.is_date, lambda value, _: type(value) is date),
    (pa.types.is_time, lambda value, _: isinstance(value, time)),
    (pa.types.is_timestamp, _is_moment_of),
    (lambda kind: isinstance(kind, pa.UuidType), lambda value, _: isinstance(value, UUID)),
)
