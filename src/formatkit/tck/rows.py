"""Plain rows as Arrow tables and back, one value at a time, with no help from the code that is judged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
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

from formatkit.contract.variant import Variant, VariantType

__all__ = ["comparable", "from_arrow", "to_arrow"]

_VARIANT = pa.struct(
    [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
)
_LEAVES: dict[type[IcebergType], pa.DataType] = {
    BooleanType: pa.bool_(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    DateType: pa.date32(),
    TimeType: pa.time64("us"),
    TimestampType: pa.timestamp("us"),
    TimestamptzType: pa.timestamp("us", tz="UTC"),
    TimestampNanoType: pa.timestamp("ns"),
    TimestamptzNanoType: pa.timestamp("ns", tz="UTC"),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    UUIDType: pa.uuid(),
    UnknownType: pa.null(),
}
# The published stubs lack the `mask` and field forms of these constructors.
_list_array: Any = pa.ListArray.from_arrays
_map_array: Any = pa.MapArray.from_arrays
_map_type: Any = pa.map_
_NANOS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def to_arrow(schema: Schema, rows: Sequence[dict[int, Any]], *, ids: bool = True) -> pa.Table:
    """The rows as a table whose fields carry Parquet field ids, unless `ids` is false."""
    columns = [_array([row[field.field_id] for row in rows], field.field_type, ids) for field in schema.fields]
    fields = [_field(field, array.type, ids) for field, array in zip(schema.fields, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def from_arrow(schema: Schema, table: pa.Table | pa.RecordBatch) -> list[dict[int, Any]]:
    """The rows of a table whose columns are the fields of the schema, by position at every level."""
    arrays: list[Any] = table.columns
    columns = [
        [_value(scalar, field.field_type) for scalar in array]
        for field, array in zip(schema.fields, arrays, strict=True)
    ]
    ids = [field.field_id for field in schema.fields]
    return [dict(zip(ids, values, strict=True)) for values in zip(*columns, strict=True)]


def comparable(rows: Iterable[Any]) -> list[str]:
    """The rows in a form where equal means equal: NaN equals NaN, and −0.0 is not 0.0."""
    return [repr(_sorted(row)) for row in rows]


def _sorted(value: Any) -> Any:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list() | tuple():
            return type(value)(_sorted(item) for item in value)
    return value


def _field(field: NestedField, arrow_type: pa.DataType, ids: bool) -> pa.Field[Any]:
    metadata = {"PARQUET:field_id": str(field.field_id)} if ids else None
    return pa.field(field.name, arrow_type, nullable=not field.required, metadata=metadata)


def _array(values: list[Any], iceberg_type: IcebergType, ids: bool) -> Any:
    match iceberg_type:
        case StructType():
            return _struct_array(values, iceberg_type, ids)
        case ListType():
            elements = _array([element for value in values for element in value or ()], iceberg_type.element_type, ids)
            arrow_type = pa.list_(_field(iceberg_type.element_field, elements.type, ids))
            return _list_array(_offsets(values), elements, type=arrow_type, mask=_nulls(values))
        case MapType():
            pairs = [pair for value in values for pair in value or ()]
            keys = _array([key for key, _ in pairs], iceberg_type.key_type, ids)
            items = _array([item for _, item in pairs], iceberg_type.value_type, ids)
            key_field = _field(iceberg_type.key_field, keys.type, ids)
            map_type = _map_type(key_field, _field(iceberg_type.value_field, items.type, ids))
            return _map_array(_offsets(values), keys, items, type=map_type, mask=_nulls(values))
        case DecimalType():
            return pa.array(values, pa.decimal128(iceberg_type.precision, iceberg_type.scale))
        case FixedType():
            return pa.array(values, pa.binary(len(iceberg_type)))
        case VariantType():
            parts = [value and {"metadata": value.metadata, "value": value.value} for value in values]
            return pa.array(parts, _VARIANT)
    return pa.array(values, _LEAVES[type(iceberg_type)])


def _struct_array(values: list[Any], struct: StructType, ids: bool) -> Any:
    children = []
    for child in struct.fields:
        # Arrow's Parquet writer looks for nulls in required children even below null parents.
        below_null = _filler(child.field_type) if child.required else None
        below = [below_null if value is None else value[child.field_id] for value in values]
        children.append(_array(below, child.field_type, ids))
    fields = [_field(child, array.type, ids) for child, array in zip(struct.fields, children, strict=True)]
    return pa.StructArray.from_arrays(children, fields=fields, mask=_nulls(values))


def _filler(iceberg_type: IcebergType) -> Any:
    match iceberg_type:
        case StructType():
            return {child.field_id: _filler(child.field_type) for child in iceberg_type.fields}
        case ListType() | MapType():
            return []
        case StringType():
            return ""
        case BinaryType():
            return b""
        case FixedType():
            return bytes(len(iceberg_type))
        case UUIDType():
            return bytes(16)
        case VariantType():
            return Variant.of(None)
        case BooleanType():
            return False
    return 0


def _offsets(values: list[Any]) -> Any:
    return pa.array(accumulate((len(value or ()) for value in values), initial=0), pa.int32())


def _nulls(values: list[Any]) -> Any:
    return pa.array([value is None for value in values], pa.bool_())


def _value(scalar: Any, iceberg_type: IcebergType) -> Any:
    if isinstance(scalar, pa.DictionaryScalar | pa.RunEndEncodedScalar):
        scalar = scalar.value
    if scalar is None or not scalar.is_valid:
        return None
    match iceberg_type:
        case StructType():
            children = enumerate(iceberg_type.fields)
            return {child.field_id: _value(scalar[index], child.field_type) for index, child in children}
        case ListType():
            return [_value(element, iceberg_type.element_type) for element in scalar.values]
        case MapType():
            return [
                (_value(pair[0], iceberg_type.key_type), _value(pair[1], iceberg_type.value_type))
                for pair in scalar.values
            ]
    return _leaf_value(scalar, iceberg_type)


def _leaf_value(scalar: Any, iceberg_type: IcebergType) -> Any:
    match iceberg_type:
        case DateType():
            return scalar.value
        case TimeType() | TimestampType() | TimestamptzType():
            return scalar.value * _NANOS_PER_UNIT[scalar.type.unit] // 1000
        case TimestampNanoType() | TimestamptzNanoType():
            return scalar.value * _NANOS_PER_UNIT[scalar.type.unit]
        case VariantType():
            return Variant(scalar["metadata"].as_py(), scalar["value"].as_py())
        case UUIDType():
            return getattr(scalar, "value", scalar).as_py()
    return scalar.as_py()
