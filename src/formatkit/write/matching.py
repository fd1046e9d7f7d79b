"""How incoming Arrow data is fitted to the schema that is written.

One rule: columns and struct fields are matched **by name**, exactly and in any order.

- A field that the data lacks takes its write default, else null; it is an error if the field is required and has none.
- A column that the schema lacks is an error, because it would be lost.
- A type may differ only if no value can change: narrower integers and floats, decimals of lower precision and the same
  scale, coarser time units, and Arrow's other encodings of the same type. Finer time units, 64-bit unsigned integers
  and binary for fixed or uuid are accepted as well, and each value is checked.
- A zone is neither added nor dropped, and zones other than UTC are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
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

from formatkit.batches.arrow.required import RequiredCheck
from formatkit.batches.arrow.types import arrow_type
from formatkit.batches.arrow.variant import has_variant_parts
from formatkit.contract import DataBatch, Step
from formatkit.contract.variant import VariantType
from formatkit.errors import MissingRequiredFieldError, SchemaResolutionError
from formatkit.write.derive import fits_int, is_any_list, is_utc, plain_type

__all__ = ["Matcher"]

is_type = pa.types


class Matcher:
    """Turns batches from anywhere into batches of one schema. Batches may differ in their Arrow schemas."""

    def __init__(self, target: Schema, ops: DataBatch[pa.RecordBatch]) -> None:
        self._target = target
        self._ops = ops
        self._steps: dict[pa.Schema, Step[pa.RecordBatch]] = {}
        self._rows = 0

    def match(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the canonical form of the schema.

        Raises:
            SchemaResolutionError: The data has a column that the schema lacks, or one of another type.
            MissingRequiredFieldError: The data lacks a required column that has no write default.
            InvalidDataError: A value cannot be stored, or a required one is null.
        """
        step = self._steps.get(batch.schema)
        if step is None:
            step = self._steps[batch.schema] = self._compile(batch.schema)
        matched = step(batch)
        self._rows += batch.num_rows
        return matched

    def _compile(self, source: pa.Schema) -> Step[pa.RecordBatch]:
        matching = _Matching()
        fields = matching.fields(list(source), self._target.fields, ())
        check = RequiredCheck(fields)
        evolve = self._ops.evolve(Schema(*fields), self._target, matching.write_values)
        known = pa.schema([_known(column, field.field_type) for column, field in zip(source, fields, strict=True)])
        has_null_types = any(map(_holds_null_type, source.types))

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            if has_null_types:
                batch = _cast(batch, known)
            check(batch, self._rows)
            return evolve(batch)

        return step


@dataclass
class _Matching:
    """Finds for each field of the data the one it belongs to.

    Attributes:
        write_values: For each field that the data lacks, by id, what is written.
    """

    write_values: dict[int, Any] = dataclass_field(default_factory=dict)

    def fields(self, source: list[Any], target: Iterable[NestedField], path: tuple[str, ...]) -> list[NestedField]:
        """The data's fields in their own order, with the ids and types that they get."""
        wanted = {field.name: field for field in target}
        names = [column.name for column in source]
        for name in names:
            if name not in wanted:
                raise SchemaResolutionError(
                    f"column {_dotted(path, name)!r} of the data is not in the schema, which has "
                    f"{', '.join(map(repr, wanted)) or 'no columns'} there; drop it or add it to the schema"
                )
            if names.count(name) > 1:
                raise SchemaResolutionError(f"the data has several columns {_dotted(path, name)!r}")
        for name, missing in wanted.items():
            if name not in names:
                self.write_values[missing.field_id] = _write_value(missing, _dotted(path, name))
        return [self._field(column.type, wanted[column.name], (*path, column.name)) for column in source]

    def _field(self, arrow: Any, wanted: NestedField, path: tuple[str, ...]) -> NestedField:
        kind = self._type(arrow, wanted.field_type, path)
        return NestedField(wanted.field_id, wanted.name, kind, required=wanted.required)

    def _type(self, arrow: Any, wanted: IcebergType, path: tuple[str, ...]) -> IcebergType:
        plain = plain_type(arrow)
        if is_type.is_null(plain):
            return wanted
        match wanted:
            case StructType() if is_type.is_struct(plain):
                children = [plain.field(i) for i in range(plain.num_fields)]
                return StructType(*self.fields(children, wanted.fields, path))
            case ListType() if is_any_list(plain):
                element = self._type(plain.value_type, wanted.element_type, (*path, "element"))
                return ListType(wanted.element_id, element, wanted.element_required)
            case MapType() if is_type.is_map(plain):
                key = self._type(plain.key_type, wanted.key_type, (*path, "key"))
                value = self._type(plain.item_type, wanted.value_type, (*path, "value"))
                return MapType(wanted.key_id, key, wanted.value_id, value, wanted.value_required)
        accepts = _ACCEPTED.get(type(wanted))
        if accepts is None or not accepts(plain, wanted):
            raise _wrong_type(arrow, plain, wanted, path)
        return wanted


def _write_value(missing: NestedField, name: str) -> Any:
    value = missing.write_default
    if value is None:
        if missing.required:
            raise MissingRequiredFieldError(
                f"column {name!r} is required and has no write default, but the data lacks it; add it to the data"
            )
        return None
    if isinstance(missing.field_type, StructType):
        # A struct's default says that the struct is there; what is in it are the defaults of its fields.
        return tuple(_write_value(child, f"{name}.{child.name}") for child in missing.field_type.fields)
    return value


def _wrong_type(arrow: Any, plain: Any, wanted: IcebergType, path: tuple[str, ...]) -> SchemaResolutionError:
    advice = "cast it before writing"
    if is_type.is_timestamp(plain):
        if plain.tz is not None and not is_utc(plain.tz):
            advice = "Iceberg stores instants in UTC; cast it to the zone UTC before writing"
        elif isinstance(wanted, TimestampType | TimestampNanoType | TimestamptzType | TimestamptzNanoType):
            advice = "say which zone is meant before writing"
    return SchemaResolutionError(
        f"column {_dotted(path)!r} has the Arrow type {arrow}, which is not written as {wanted}; {advice}"
    )


def _dotted(path: tuple[str, ...], *names: str) -> str:
    return ".".join((*path, *names))


def _without_null_type(arrow: Any, wanted: IcebergType) -> Any:
    """The Arrow type with Arrow's own null type, which says nothing about values, replaced by what is wanted."""
    if is_type.is_null(arrow):
        return arrow_type(wanted)
    match wanted:
        case StructType() if is_type.is_struct(arrow):
            pairs = zip((arrow.field(i) for i in range(arrow.num_fields)), wanted.fields, strict=True)
            return pa.struct([_known(child, field.field_type) for child, field in pairs])
        case ListType() if is_any_list(arrow) and _holds_null_type(arrow.value_type):
            return pa.list_(_known(arrow.value_field, wanted.element_type))
        case MapType() if is_type.is_map(arrow):
            key = _known(arrow.key_field, wanted.key_type)
            return pa.map_(key, _known(arrow.item_field, wanted.value_type), arrow.keys_sorted)
    return arrow


def _known(child: Any, wanted: IcebergType) -> Any:
    return child.with_type(_without_null_type(child.type, wanted))


def _cast(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """The batch with those columns cast that are of another type; casts refuse some columns of the same type."""
    pairs = zip(batch.columns, wanted, strict=True)
    columns = [column if column.type == field.type else column.cast(field.type) for column, field in pairs]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _holds_null_type(arrow: Any) -> bool:
    return is_type.is_null(arrow) or any(_holds_null_type(arrow.field(i).type) for i in range(arrow.num_fields))


def _is_string(arrow: Any, _: Any = None) -> bool:
    return is_type.is_string(arrow) or is_type.is_large_string(arrow) or is_type.is_string_view(arrow)


def _is_binary(arrow: Any, _: Any = None) -> bool:
    return is_type.is_binary(arrow) or is_type.is_large_binary(arrow) or is_type.is_binary_view(arrow)


def _is_fixed(arrow: Any, length: int) -> bool:
    return _is_binary(arrow) or (is_type.is_fixed_size_binary(arrow) and arrow.byte_width == length)


def _is_decimal(arrow: Any, wanted: DecimalType) -> bool:
    return is_type.is_decimal(arrow) and arrow.scale == wanted.scale and arrow.precision <= wanted.precision


def _is_naive(arrow: Any, _: Any) -> bool:
    return is_type.is_timestamp(arrow) and arrow.tz is None


def _is_zoned(arrow: Any, _: Any) -> bool:
    return is_type.is_timestamp(arrow) and arrow.tz is not None and is_utc(arrow.tz)


_ACCEPTED: Mapping[type[IcebergType], Callable[[Any, Any], bool]] = {
    BooleanType: lambda arrow, _: is_type.is_boolean(arrow),
    IntegerType: lambda arrow, _: fits_int(arrow),
    LongType: lambda arrow, _: is_type.is_integer(arrow),
    FloatType: lambda arrow, _: is_type.is_float16(arrow) or is_type.is_float32(arrow),
    DoubleType: lambda arrow, _: is_type.is_floating(arrow),
    DecimalType: _is_decimal,
    DateType: lambda arrow, _: is_type.is_date(arrow),
    TimeType: lambda arrow, _: is_type.is_time(arrow),
    TimestampType: _is_naive,
    TimestampNanoType: _is_naive,
    TimestamptzType: _is_zoned,
    TimestamptzNanoType: _is_zoned,
    StringType: _is_string,
    BinaryType: _is_binary,
    GeometryType: _is_binary,
    GeographyType: _is_binary,
    UUIDType: lambda arrow, _: _is_fixed(arrow, 16),
    VariantType: lambda arrow, _: has_variant_parts(arrow),
    FixedType: lambda arrow, wanted: _is_fixed(arrow, len(wanted)),
}
"""By the wanted type: whether values of a flat Arrow type are written as it."""
