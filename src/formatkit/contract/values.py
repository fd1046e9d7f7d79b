"""Iceberg's internal values, and how Python's own values become them.

Internal values are what literals, bounds and constants are made of: date as days, time and timestamp as microseconds,
timestamp_ns as nanoseconds since 1970 (all int), decimal as `Decimal` at the column's scale, uuid, fixed and binary as
bytes, a variant as `Variant`, a struct as a tuple by position, a list as a list, a map as a list of pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import c_float
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
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
    UUIDType,
)

from formatkit.contract.variant import Variant, VariantType
from formatkit.errors import InvalidDataError, MissingRequiredFieldError

__all__ = ["absent_value", "internal_value"]

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])


def internal_value(iceberg_type: IcebergType, value: Any) -> Any:
    """The internal value for `value`, which may be internal already or one of Python's own.

    Raises:
        InvalidDataError: The value is not one of the type.
    """
    if value is None:
        return None
    convert = _CONVERTERS.get(type(iceberg_type))
    try:
        internal = convert(iceberg_type, value) if convert else None
    except (TypeError, ValueError, ArithmeticError, LookupError) as error:
        message = f"{value!r} is not a value of the type {iceberg_type}: {error}"
        raise InvalidDataError(message) from error
    if internal is None:
        message = f"{value!r} is not a value of the type {iceberg_type}"
        raise InvalidDataError(message)
    return internal


def absent_value(field: NestedField, constants: Mapping[int, Any]) -> Any:
    """The internal value of a field that a file lacks: its constant, else its initial default, else null.

    Raises:
        MissingRequiredFieldError: The field is required and nothing gives it a value.
    """
    if field.field_id in constants:
        value = constants[field.field_id]
    elif isinstance(field.field_type, StructType) and field.initial_default is not None:
        # A struct's default only says that the struct is there; what is in it are the defaults of its fields.
        return tuple(absent_value(child, constants) for child in field.field_type.fields)
    else:
        value = field.initial_default
    if value is None and field.required:
        message = (
            f"Missing required field: {field.name} (id {field.field_id}); the file does not have it, and neither a "
            "partition value nor an initial default gives it a value"
        )
        raise MissingRequiredFieldError(message)
    return internal_value(field.field_type, value)


def _boolean(_: IcebergType, value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(bits: int) -> Callable[[IcebergType, Any], int | None]:
    limit = 1 << (bits - 1)

    def convert(_: IcebergType, value: Any) -> int | None:
        is_int = isinstance(value, int) and not isinstance(value, bool)
        return value if is_int and -limit <= value < limit else None

    return convert


_int32, _int64 = _integer(32), _integer(64)


def _float(_: IcebergType, value: Any) -> float:
    return c_float(value).value


def _double(_: IcebergType, value: Any) -> float:
    return float(value)


def _decimal(iceberg_type: DecimalType, value: Any) -> Decimal | None:
    if isinstance(value, float | str | bool):
        return None
    scaled = Decimal(value).quantize(Decimal(1).scaleb(-iceberg_type.scale), context=_EXACT)
    return scaled if len(scaled.as_tuple().digits) <= iceberg_type.precision else None


def _date(iceberg_type: IcebergType, value: Any) -> int | None:
    if isinstance(value, datetime):
        return None
    return (value - _EPOCH.date()).days if isinstance(value, date) else _int32(iceberg_type, value)


def _time(iceberg_type: IcebergType, value: Any) -> int | None:
    if isinstance(value, time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return _int64(iceberg_type, value)


def _timestamp(*, zoned: bool, per_micro: int) -> Callable[[IcebergType, Any], int | None]:
    def convert(iceberg_type: IcebergType, value: Any) -> int | None:
        if isinstance(value, datetime):
            if (value.tzinfo is not None) != zoned:
                return None
            naive = value.astimezone(UTC).replace(tzinfo=None) if zoned else value
            value = (naive - _EPOCH) // _MICROSECOND * per_micro
        return _int64(iceberg_type, value)

    return convert


def _string(_: IcebergType, value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _binary(_: IcebergType, value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _variant(_: IcebergType, value: Any) -> Variant | None:
    return value if isinstance(value, Variant) else None


def _fixed(iceberg_type: FixedType, value: Any) -> bytes | None:
    content = _binary(iceberg_type, value)
    return content if content is not None and len(content) == len(iceberg_type) else None


def _uuid(_: IcebergType, value: Any) -> bytes | None:
    if isinstance(value, UUID):
        return value.bytes
    content = _binary(_, value)
    return content if content is not None and len(content) == 16 else None


def _struct(iceberg_type: StructType, value: Any) -> tuple[Any, ...]:
    fields = iceberg_type.fields
    if isinstance(value, Mapping):
        return tuple(
            internal_value(field.field_type, value[field.name]) if field.name in value else absent_value(field, {})
            for field in fields
        )
    if len(value) != len(fields):
        message = f"it has {len(value)} fields instead of {len(fields)}"
        raise ValueError(message)
    return tuple(internal_value(field.field_type, value[position]) for position, field in enumerate(fields))


def _list(iceberg_type: ListType, value: Any) -> list[Any]:
    return [internal_value(iceberg_type.element_type, element) for element in value]


def _map(iceberg_type: MapType, value: Any) -> list[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, Mapping) else value
    return [
        (internal_value(iceberg_type.key_type, key), internal_value(iceberg_type.value_type, item))
        for key, item in pairs
    ]


_CONVERTERS: dict[type[IcebergType], Callable[[Any, Any], Any]] = {
    BooleanType: _boolean,
    IntegerType: _int32,
    LongType: _int64,
    FloatType: _float,
    DoubleType: _double,
    DecimalType: _decimal,
    DateType: _date,
    TimeType: _time,
    TimestampType: _timestamp(zoned=False, per_micro=1),
    TimestamptzType: _timestamp(zoned=True, per_micro=1),
    TimestampNanoType: _timestamp(zoned=False, per_micro=1000),
    TimestamptzNanoType: _timestamp(zoned=True, per_micro=1000),
    StringType: _string,
    BinaryType: _binary,
    GeometryType: _binary,
    GeographyType: _binary,
    FixedType: _fixed,
    UUIDType: _uuid,
    VariantType: _variant,
    StructType: _struct,
    ListType: _list,
    MapType: _map,
}
