"""The schema of data that comes without one."""

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

from formatkit.errors import ConfigurationError, SchemaResolutionError
from formatkit.write.derive import derived_schema

TYPES: list[tuple[Any, IcebergType]] = [
    (pa.null(), UnknownType()),
    (pa.bool_(), BooleanType()),
    (pa.int8(), IntegerType()),
    (pa.int16(), IntegerType()),
    (pa.int32(), IntegerType()),
    (pa.uint8(), IntegerType()),
    (pa.uint16(), IntegerType()),
    (pa.uint32(), LongType()),
    (pa.int64(), LongType()),
    (pa.uint64(), LongType()),
    (pa.float16(), FloatType()),
    (pa.float32(), FloatType()),
    (pa.float64(), DoubleType()),
    (pa.decimal32(5, 2), DecimalType(5, 2)),
    (pa.decimal128(38, 10), DecimalType(38, 10)),
    (pa.decimal256(38, 0), DecimalType(38, 0)),
    (pa.date32(), DateType()),
    (pa.date64(), DateType()),
    (pa.time32("ms"), TimeType()),
    (pa.time64("ns"), TimeType()),
    (pa.timestamp("s"), TimestampType()),
    (pa.timestamp("us"), TimestampType()),
    (pa.timestamp("ns"), TimestampNanoType()),
    (pa.timestamp("ms", "UTC"), TimestamptzType()),
    (pa.timestamp("ns", "+00:00"), TimestamptzNanoType()),
    (pa.string(), StringType()),
    (pa.large_string(), StringType()),
    (pa.string_view(), StringType()),
    (pa.binary(), BinaryType()),
    (pa.large_binary(), BinaryType()),
    (pa.binary_view(), BinaryType()),
    (pa.binary(7), FixedType(7)),
    (pa.uuid(), UUIDType()),
    (pa.json_(), StringType()),
    (pa.dictionary(pa.int8(), pa.large_string()), StringType()),
    (pa.run_end_encoded(pa.int32(), pa.float32()), FloatType()),
]


@pytest.mark.parametrize(("arrow", "kind"), TYPES, ids=[str(arrow) for arrow, _ in TYPES])
def test_each_arrow_type_has_its_iceberg_type(arrow: Any, kind: IcebergType) -> None:
    schema = pa.schema([pa.field("a", arrow), pa.field("l", pa.list_(arrow))])
    assert derived_schema(schema).as_struct() == StructType(
        NestedField(1, "a", kind, required=False),
        NestedField(2, "l", ListType(3, kind, element_required=False), required=False),
    )


def test_a_field_without_nulls_is_required() -> None:
    inner = pa.list_(pa.field("element", pa.int64(), nullable=False))
    schema = pa.schema([pa.field("a", inner, nullable=False)])
    assert derived_schema(schema).as_struct() == StructType(
        NestedField(1, "a", ListType(2, LongType(), element_required=True), required=True)
    )


LISTS = [
    pa.list_(pa.int64()),
    pa.large_list(pa.int64()),
    pa.list_(pa.int64(), 3),
    pa.list_view(pa.int64()),
    pa.large_list_view(pa.int64()),
]


@pytest.mark.parametrize("arrow", LISTS, ids=str)
def test_all_of_arrows_lists_are_lists(arrow: Any) -> None:
    assert derived_schema(pa.schema([("a", arrow)])).find_type("a.element") == LongType()


UNSTORABLE = [
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.decimal256(39, 0),
    pa.decimal128(5, -2),
    pa.timestamp("us", "Europe/Berlin"),
    pa.sparse_union([pa.field("x", pa.int8())]),
]


@pytest.mark.parametrize("arrow", UNSTORABLE, ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_types_that_iceberg_lacks_are_refused_by_name(arrow: Any, nested: bool) -> None:
    field = pa.field("deep", pa.list_(pa.field("element", arrow))) if nested else pa.field("flat", arrow)
    with pytest.raises(SchemaResolutionError, match="'deep.element'" if nested else "'flat'"):
        derived_schema(pa.schema([field]))


NESTED = pa.schema(
    [
        ("a", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int64()))])),
        ("b", pa.map_(pa.string(), pa.struct([("z", pa.int64())]))),
        ("c", pa.int64()),
    ]
)


def test_fresh_ids_number_a_level_before_the_one_below() -> None:
    assert {name: derived_schema(NESTED).find_field(name).field_id for name in ("a", "b", "c")} == {
        "a": 1,
        "b": 2,
        "c": 3,
    }
    schema = derived_schema(NESTED)
    deep = {
        name: schema.find_field(name).field_id
        for name in ("a.x", "a.y", "a.y.element", "b.key", "b.value", "b.value.z")
    }
    assert deep == {"a.x": 4, "a.y": 5, "a.y.element": 6, "b.key": 7, "b.value": 8, "b.value.z": 9}


def with_id(field: Any, number: object) -> Any:
    return field.with_metadata({"PARQUET:field_id": str(number)})


def test_ids_in_the_metadata_are_kept_and_others_follow_the_highest() -> None:
    element = with_id(pa.field("element", pa.int64()), 30)
    value = with_id(pa.field("value", pa.int64()), 40)
    map_type: Any = pa.map_
    schema = pa.schema(
        [
            with_id(pa.field("a", pa.list_(element)), 12),
            pa.field("b", pa.int64()),
            with_id(pa.field("c", map_type(pa.string(), value)), 5),
        ]
    )
    assert (
        derived_schema(schema).as_struct()
        == Schema(
            NestedField(12, "a", ListType(30, LongType(), element_required=False), required=False),
            NestedField(41, "b", LongType(), required=False),
            NestedField(5, "c", MapType(42, StringType(), 40, LongType(), value_required=False), required=False),
        ).as_struct()
    )


@pytest.mark.parametrize(
    ("first", "second", "complaint"), [(1, 1, r"\[1\] more than once"), (1, "one", "is no number")]
)
def test_ids_that_make_no_sense_are_refused(first: object, second: object, complaint: str) -> None:
    schema = pa.schema([with_id(pa.field("a", pa.int64()), first), with_id(pa.field("b", pa.int64()), second)])
    with pytest.raises(ConfigurationError, match=complaint):
        derived_schema(schema)
