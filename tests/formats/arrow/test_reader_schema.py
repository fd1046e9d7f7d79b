from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
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
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow import arrow_schema
from formatkit.contract.variant import VariantType
from formatkit.errors import CorruptFileError
from formatkit.formats.arrow.reader import ArrowDataFile
from support.arrow_files import LAYOUTS, foreign, opened, rows_of, written

EVERY_KIND = Schema(
    NestedField(1, "plain", LongType(), required=True),
    NestedField(2, "uuid", UUIDType()),
    NestedField(3, "fixed", FixedType(16)),
    NestedField(4, "geometry", GeometryType("EPSG:4326")),
    NestedField(5, "geography", GeographyType("OGC:CRS84", "karney")),
    NestedField(6, "variant", VariantType()),
    NestedField(7, "struct", StructType(NestedField(20, "uuid", UUIDType(), required=True))),
    NestedField(8, "list", ListType(21, GeometryType("OGC:CRS84"), element_required=True)),
    NestedField(9, "map", MapType(22, UUIDType(), 23, ListType(24, VariantType()), value_required=False)),
    NestedField(10, "unknowns", ListType(25, UnknownType(), element_required=False)),
)


def without_rows(schema: pa.Schema, layout: str = "file") -> ArrowDataFile:
    columns: list[Any] = [pa.nulls(0, field.type) for field in schema]
    return opened(foreign([pa.RecordBatch.from_arrays(columns, schema=schema)], layout))


def ids(field: Any, number: int, key: str = "PARQUET:field_id") -> Any:
    return field.with_metadata({key: str(number)})


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_type_comes_back_with_its_ids(layout: str) -> None:
    schema = arrow_schema(EVERY_KIND)
    columns: list[Any] = [pa.array([0]), *(pa.nulls(1, field.type) for field in list(schema)[1:])]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    data, _ = written(EVERY_KIND, [batch], properties={"write.arrow.layout": layout})
    assert opened(data).schema.as_struct() == EVERY_KIND.as_struct()


@pytest.mark.parametrize("key", ["PARQUET:field_id", "iceberg.id"])
def test_ids_are_found_at_every_level_under_either_key(key: str) -> None:
    struct = pa.struct([ids(pa.field("x", pa.int32()), 7, key)])
    entry = ids(pa.field("key", pa.string(), nullable=False), 4, key), ids(pa.field("value", struct), 5, key)
    schema = pa.schema(
        [
            ids(pa.field("m", pa.map_(*entry)), 2, key),
            ids(pa.field("l", pa.list_(ids(pa.field("item", pa.int64()), 9, key))), 3, key),
        ]
    )
    assert without_rows(schema).schema.field_ids == {2, 3, 4, 5, 7, 9}


def test_fields_without_ids_get_unique_negative_ones() -> None:
    schema = pa.schema([pa.field("a", pa.list_(pa.int32())), ids(pa.field("b", pa.int32()), 4), ("c", pa.int32())])
    found = without_rows(schema).schema
    assert [field.field_id for field in found.fields if field.name == "b"] == [4]
    negative = [field_id for field_id in found.field_ids if field_id != 4]
    assert len(negative) == 3
    assert all(field_id < 0 for field_id in negative)


def test_an_id_of_minus_one_is_none() -> None:
    schema = pa.schema([ids(pa.field("a", pa.int32()), -1), ids(pa.field("b", pa.int32()), -1)])
    assert len(without_rows(schema).schema.field_ids) == 2


@pytest.mark.parametrize("text", ["seven", "", "2147483648"])
def test_an_id_that_cannot_be_one_is_corrupt(text: str) -> None:
    field = pa.field("a", pa.int32()).with_metadata({"PARQUET:field_id": text})
    with pytest.raises(CorruptFileError, match="'a' has the id"):
        without_rows(pa.schema([field]))


def test_an_id_for_two_columns_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match=r"\[3\] for several columns"):
        without_rows(pa.schema([ids(pa.field("a", pa.int32()), 3), ids(pa.field("b", pa.int32()), 3)]))


def test_a_name_that_occurs_twice_is_told_apart() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    file = opened(foreign([batch]))
    assert [field.name for field in file.schema.fields] == ["a", "a#2"]
    assert rows_of(file, projection=Schema(file.schema.fields[1])) == [("x",)]


@pytest.mark.parametrize(
    ("arrow", "iceberg"),
    [
        (pa.bool_(), BooleanType()),
        (pa.int8(), IntegerType()),
        (pa.uint16(), IntegerType()),
        (pa.uint32(), LongType()),
        (pa.float16(), FloatType()),
        (pa.float64(), DoubleType()),
        (pa.decimal32(5, 2), DecimalType(5, 2)),
        (pa.decimal64(12, 2), DecimalType(12, 2)),
        (pa.decimal256(38, 4), DecimalType(38, 4)),
        (pa.date64(), DateType()),
        (pa.time32("ms"), TimeType()),
        (pa.time64("ns"), TimeType()),
        (pa.timestamp("s"), TimestampType()),
        (pa.timestamp("ms", "Europe/Berlin"), TimestamptzType()),
        (pa.timestamp("ns"), TimestampNanoType()),
        (pa.timestamp("ns", "+02:00"), TimestamptzNanoType()),
        (pa.string_view(), StringType()),
        (pa.large_string(), StringType()),
        (pa.dictionary(pa.int8(), pa.string()), StringType()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LongType()),
        (pa.large_binary(), BinaryType()),
        (pa.binary_view(), BinaryType()),
        (pa.binary(3), FixedType(3)),
        (pa.null(), UnknownType()),
        (pa.json_(), StringType()),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.decimal128(5, -2), None),
        (pa.decimal256(40, 2), None),
        (pa.duration("s"), None),
        (pa.month_day_nano_interval(), None),
        (pa.dense_union([pa.field("a", pa.int32())]), None),
    ],
    ids=str,
)
def test_foreign_types_are_read_as_what_holds_all_their_values(arrow: Any, iceberg: IcebergType | None) -> None:
    file = without_rows(pa.schema([pa.field("a", arrow)]))
    field = file.schema.fields[0]
    assert field.field_type == (UnknownType() if iceberg is None else iceberg)
    assert (field.field_id in file.unreadable) == (iceberg is None)


@pytest.mark.parametrize(
    "arrow", [pa.large_list(pa.int32()), pa.list_(pa.int32(), 2), pa.list_view(pa.int32())], ids=str
)
def test_every_kind_of_list_is_a_list(arrow: Any) -> None:
    kind = without_rows(pa.schema([pa.field("a", arrow)])).schema.fields[0].field_type
    assert isinstance(kind, ListType)
    assert kind.element_type == IntegerType()


def test_a_reference_system_that_is_spelled_out_leaves_plain_bytes() -> None:
    description = '{"crs": {"type": "GeodeticCRS"}}'
    annotation: dict[Any, Any] = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": description}
    field = pa.field("a", pa.binary()).with_metadata(annotation)
    assert without_rows(pa.schema([field])).schema.fields[0].field_type == BinaryType()


def test_an_unreadable_column_does_not_spoil_the_others() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1], pa.duration("s")), pa.array([2])], names=["no", "yes"])
    batch = pa.record_batch({"a": pa.array([5], pa.duration("s")), "b": pa.array([7]), "c": inner})
    file = opened(foreign([batch]))
    assert len(file.unreadable) == 2
    assert all("duration" in reason for reason in file.unreadable.values())
    assert rows_of(file) == [(None, 7, (None, 2))]
