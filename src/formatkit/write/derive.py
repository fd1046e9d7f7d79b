"""An Iceberg schema for data that comes with an Arrow schema only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
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
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.variant import has_variant_parts
from formatkit.contract.fields import too_deep
from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, SchemaResolutionError

__all__ = ["derived_schema", "fits_int", "is_any_list", "is_utc", "plain_type"]

is_type = pa.types

_FIELD_ID = b"PARQUET:field_id"
_EXTENSION_NAME = b"ARROW:extension:name"
_VARIANT_NAMES = (b"arrow.parquet.variant", b"parquet.variant")
_UTC_NAMES = frozenset({"utc", "etc/utc", "z", "+00:00", "+0000", "gmt", "etc/gmt", "zulu", "uct", "etc/uct"})


def derived_schema(schema: pa.Schema) -> Schema:
    """The schema that stores such data without loss.

    Ids are those in the fields' metadata (``PARQUET:field_id``); fields without one get the next free numbers, in the
    order of Iceberg: the fields of a level before those below them. A struct of metadata and value is a variant if it
    bears the name of Arrow's extension type for it, as the type or in the metadata of its field.

    Raises:
        UnsupportedError: It has too many levels.
    """
    try:
        return Schema(*_fields(list(schema), _Ids(schema), ()))
    except RecursionError:
        raise too_deep() from None


class _Ids:
    """Keeps the ids that are there and hands out others."""

    def __init__(self, fields: Iterable[Any]) -> None:
        stored = [found for field in _walk(fields) if (found := _stored_id(field)) is not None]
        doubled = sorted({found for found in stored if stored.count(found) > 1})
        if doubled:
            raise ConfigurationError(f"the Arrow schema uses the field ids {doubled} more than once")
        self._free: Iterator[int] = itertools.count(max(stored, default=0) + 1)

    def of(self, field: Any) -> int:
        found = _stored_id(field)
        return next(self._free) if found is None else found


def _stored_id(field: Any) -> int | None:
    text = (field.metadata or {}).get(_FIELD_ID)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"field {field.name!r} has the field id {text!r}, which is no number") from None


def _walk(fields: Iterable[Any]) -> Iterator[Any]:
    for field in fields:
        yield field
        if _is_variant(field):
            continue
        kind = plain_type(field.type)
        yield from _walk(kind.field(i) for i in range(kind.num_fields) if not is_type.is_map(kind))
        if is_type.is_map(kind):
            yield from _walk((kind.key_field, kind.item_field))


def _fields(fields: list[Any], ids: _Ids, path: tuple[str, ...]) -> list[NestedField]:
    numbers = [ids.of(field) for field in fields]
    return [
        NestedField(number, field.name, _type(field, ids, (*path, field.name)), required=not field.nullable)
        for number, field in zip(numbers, fields, strict=True)
    ]


def _type(field: Any, ids: _Ids, path: tuple[str, ...]) -> IcebergType:
    arrow = field.type
    if _is_variant(field):
        return VariantType()
    if isinstance(arrow, pa.UuidType):
        return UUIDType()
    kind = plain_type(arrow)
    if is_type.is_struct(kind):
        return StructType(*_fields([kind.field(i) for i in range(kind.num_fields)], ids, path))
    if is_any_list(kind):
        number = ids.of(kind.value_field)
        element = _type(kind.value_field, ids, (*path, "element"))
        return ListType(number, element, element_required=not kind.value_field.nullable)
    if is_type.is_map(kind):
        key_id, value_id = ids.of(kind.key_field), ids.of(kind.item_field)
        key, value = _type(kind.key_field, ids, (*path, "key")), _type(kind.item_field, ids, (*path, "value"))
        return MapType(key_id, key, value_id, value, value_required=not kind.item_field.nullable)
    for holds, make in _FLAT:
        if holds(kind):
            return make(kind)
    raise SchemaResolutionError(
        f"column {'.'.join(path)!r} has the Arrow type {arrow}, for which Iceberg has no type; cast it before writing"
    )


def _is_variant(field: Any) -> bool:
    if isinstance(field.type, pa.BaseExtensionType):
        name: bytes | None = field.type.extension_name.encode()
    else:
        name = (field.metadata or {}).get(_EXTENSION_NAME)
    return name in _VARIANT_NAMES and has_variant_parts(plain_type(field.type))


def plain_type(arrow: Any) -> Any:
    """The type of the values, whatever dictionary, run-end or extension they are wrapped in."""
    while True:
        if isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        elif is_type.is_dictionary(arrow) or is_type.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        else:
            return arrow


def is_any_list(arrow: Any) -> bool:
    """Whether it is one of Arrow's list types; a map is not."""
    return (
        is_type.is_list(arrow)
        or is_type.is_large_list(arrow)
        or is_type.is_fixed_size_list(arrow)
        or is_type.is_list_view(arrow)
        or is_type.is_large_list_view(arrow)
    )


def fits_int(arrow: Any) -> bool:
    """Whether every value of the type is one of Iceberg's 32-bit `int`."""
    return is_type.is_integer(arrow) and (arrow.bit_width < 32 or arrow == pa.int32())


def is_utc(zone: str) -> bool:
    """Whether a time zone is another name of UTC."""
    return zone.lower() in _UTC_NAMES


def _timestamp(arrow: Any) -> IcebergType:
    if arrow.tz is None:
        return TimestampNanoType() if arrow.unit == "ns" else TimestampType()
    return TimestamptzNanoType() if arrow.unit == "ns" else TimestamptzType()


def _is_utc_or_naive(arrow: Any) -> bool:
    return is_type.is_timestamp(arrow) and (arrow.tz is None or is_utc(arrow.tz))


def _is_storable_decimal(arrow: Any) -> bool:
    return is_type.is_decimal(arrow) and arrow.precision <= 38 and arrow.scale >= 0


_FLAT: tuple[tuple[Callable[[Any], bool], Callable[[Any], IcebergType]], ...] = (
    (is_type.is_null, lambda _: UnknownType()),
    (is_type.is_boolean, lambda _: BooleanType()),
    (fits_int, lambda _: IntegerType()),
    (is_type.is_integer, lambda _: LongType()),
    (is_type.is_float64, lambda _: DoubleType()),
    (is_type.is_floating, lambda _: FloatType()),
    (_is_storable_decimal, lambda arrow: DecimalType(arrow.precision, arrow.scale)),
    (is_type.is_date, lambda _: DateType()),
    (is_type.is_time, lambda _: TimeType()),
    (_is_utc_or_naive, _timestamp),
    (lambda arrow: is_type.is_string(arrow) or is_type.is_large_string(arrow), lambda _: StringType()),
    (is_type.is_string_view, lambda _: StringType()),
    (is_type.is_fixed_size_binary, lambda arrow: FixedType(arrow.byte_width)),
    (lambda arrow: is_type.is_binary(arrow) or is_type.is_large_binary(arrow), lambda _: BinaryType()),
    (is_type.is_binary_view, lambda _: BinaryType()),
)
