"""Tables of which every row is known, with deletes of all kinds, and what Spark must see of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    UUIDType,
)
from pyspark.sql import DataFrame

from formatkit.contract import Variant, VariantType
from formatkit.registry import default_registry
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.kits import BatchKit, FormatKit, bridge_for
from formatkit.tck.naive import File, Row
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.scanned import ScannedTable
from support.every_type import EDGES, EVERY_TYPE

__all__ = ["EVERYTHING", "EVERY_DELETE", "KEY", "everything", "rows_of", "seen_by_spark"]

KEY = 3
NEW_TYPES = (
    NestedField(80, "variant", VariantType()),
    NestedField(81, "unknown", UnknownType()),
    NestedField(83, "variants", ListType(84, VariantType(), element_required=False)),
)
EVERYTHING = Schema(*EVERY_TYPE.fields, *NEW_TYPES)
_VARIANTS = [Variant.of({"a": [1, "x"], "b": None}), None, Variant.of(None), Variant.of("text")]
EVERY_DELETE: Sequence[Deletes] = (
    PositionDeletes(rows=[(0, 1), (0, 5)]),
    DeletionVector(file=1, positions=[0, 3]),
    EqualityDeletes(ids=(KEY,), schema=EVERY_TYPE.select("long"), rows=[{KEY: 2_000_001}, {KEY: 1_000_002}]),
)


def _file(number: int) -> File:
    rows = [
        {**edge, KEY: number * 1_000_000 + i, 80: variant, 81: None, 83: [variant]}
        for i, (edge, variant) in enumerate(zip(EDGES * 2, _VARIANTS * 2, strict=True))
    ]
    return File(schema=EVERYTHING, rows=rows, sequence_number=1, first_row_id=100 * number)


@contextmanager
def everything(file_format: str, deletes: Sequence[Deletes] = EVERY_DELETE) -> Iterator[ScannedTable[pa.RecordBatch]]:
    """A table of three files with every type, of 24 rows less the deleted ones; gone at the end of the block."""
    registry = default_registry()
    batches = BatchKit(operations=registry.batches(pa.RecordBatch), bridge=bridge_for(pa.RecordBatch))
    kit = ScanKit(format=FormatKit(plugin=registry.plugin(file_format, pa.RecordBatch), batches=batches))
    with kit.built([EVERYTHING], [_file(i) for i in range(3)], deletes=deletes, format_version=3) as table:
        yield table


def rows_of(schema: Schema, frame: DataFrame) -> list[str]:
    """The rows of a DataFrame of the columns `schema`, in an order that does not depend on partitions."""
    # `toArrow` adds a cast to this that fails where a variant is null.
    batches: Any = frame._collect_as_arrow(empty_list_if_zero_records=False)  # type: ignore[operator]
    return sorted(comparable(from_arrow(_spark_side(schema), pa.Table.from_batches(batches))))


def seen_by_spark(schema: Schema, rows: Sequence[Row]) -> list[str]:
    """The same of rows that are known: uuids are text there, and moments in nanoseconds are numbers."""
    return sorted(comparable([_seen(row, schema.as_struct()) for row in rows]))


def _spark_side(schema: Schema) -> Schema:
    return Schema(*(_spark_field(field) for field in schema.fields))


def _spark_field(field: NestedField) -> NestedField:
    return field.model_copy(update={"field_type": _spark_type(field.field_type)})


def _spark_type(iceberg_type: IcebergType) -> IcebergType:
    match iceberg_type:
        case StructType():
            return StructType(*map(_spark_field, iceberg_type.fields))
        case ListType():
            element = _spark_type(iceberg_type.element_type)
            return ListType(iceberg_type.element_id, element, iceberg_type.element_required)
        case MapType():
            kinds = _spark_type(iceberg_type.key_type), _spark_type(iceberg_type.value_type)
            return MapType(iceberg_type.key_id, kinds[0], iceberg_type.value_id, kinds[1], iceberg_type.value_required)
        case UUIDType():
            return StringType()
        case TimestampNanoType() | TimestamptzNanoType():
            return LongType()
    return iceberg_type


def _seen(value: Any, iceberg_type: IcebergType) -> Any:
    if value is None:
        return None
    match iceberg_type:
        case StructType():
            return {field.field_id: _seen(value[field.field_id], field.field_type) for field in iceberg_type.fields}
        case ListType():
            return [_seen(element, iceberg_type.element_type) for element in value]
        case MapType():
            return [(_seen(key, iceberg_type.key_type), _seen(item, iceberg_type.value_type)) for key, item in value]
        case UUIDType():
            return str(UUID(bytes=value))
    return value
