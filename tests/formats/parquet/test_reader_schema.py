"""Files as other writers leave them: types, ids, and lists and maps in every layout that was ever in use."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
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

from formatkit.batches.arrow.types import arrow_schema
from support.foreign_parquet import (
    BSON,
    BYTE_ARRAY,
    DATE,
    DECIMAL,
    ENUM,
    FIXED,
    INT32,
    INT64,
    INT_8,
    INT_16,
    INT_32,
    INT_64,
    JSON,
    LIST,
    MAP,
    MAP_KEY_VALUE,
    REPEATED,
    REQUIRED,
    TIME_MICROS,
    TIME_MILLIS,
    TIMESTAMP_MICROS,
    TIMESTAMP_MILLIS,
    UINT_8,
    UINT_16,
    UINT_32,
    UTF8,
    Node,
    group,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.parquet_reading import open_bytes, read_batches, read_rows


def one_column(values: list[Any], arrow_type: pa.DataType, stored: list[Node], *, required: bool = False) -> bytes:
    schema = pa.schema([pa.field("c", arrow_type, nullable=not required), pa.field("other", pa.int32())])
    table = pa.Table.from_arrays(
        [pa.array(values, arrow_type), pa.array(range(len(values)), pa.int32())], schema=schema
    )
    return with_schema(parquet_bytes(table, store_schema=False), stored, leaf("other", INT32))


MILLIS: Node = {1: {}}
NANOS: Node = {3: {}}


@pytest.mark.parametrize(
    ("stored_as", "stored", "column", "expected_type", "expected"),
    [
        (pa.int32(), [-1, None], leaf("c", INT32, converted=INT_8), IntegerType(), [-1, None]),
        (pa.int32(), [-1, None], leaf("c", INT32, converted=INT_16), IntegerType(), [-1, None]),
        (pa.int32(), [-1, None], leaf("c", INT32, converted=INT_32), IntegerType(), [-1, None]),
        (pa.int32(), [255, None], leaf("c", INT32, converted=UINT_8), IntegerType(), [255, None]),
        (pa.int32(), [65535, None], leaf("c", INT32, converted=UINT_16), IntegerType(), [65535, None]),
        (pa.int32(), [-1, None], leaf("c", INT32, converted=UINT_32), LongType(), [2**32 - 1, None]),
        (pa.int64(), [-1, None], leaf("c", INT64, converted=INT_64), LongType(), [-1, None]),
        (pa.int32(), [1], leaf("c", INT32, converted=DATE), DateType(), [date(1970, 1, 2)]),
        (pa.int32(), [1], leaf("c", INT32, converted=TIME_MILLIS), TimeType(), [time(0, 0, 0, 1000)]),
        (pa.int64(), [1], leaf("c", INT64, converted=TIME_MICROS), TimeType(), [time(0, 0, 0, 1)]),
        (
            pa.int64(),
            [-1],
            leaf("c", INT64, converted=TIMESTAMP_MILLIS),
            TimestamptzType(),
            [datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)],
        ),
        (
            pa.int64(),
            [-1],
            leaf("c", INT64, converted=TIMESTAMP_MICROS),
            TimestamptzType(),
            [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)],
        ),
        (
            pa.int64(),
            [1],
            leaf("c", INT64, logical={8: {1: False, 2: MILLIS}}),
            TimestampType(),
            [datetime(1970, 1, 1, 0, 0, 0, 1000)],
        ),
        (
            pa.int64(),
            [1000],
            leaf("c", INT64, logical={8: {1: False, 2: NANOS}}),
            TimestampNanoType(),
            [datetime(1970, 1, 1, 0, 0, 0, 1)],
        ),
        (
            pa.int64(),
            [1000],
            leaf("c", INT64, logical={8: {1: True, 2: NANOS}}),
            TimestamptzNanoType(),
            [datetime(1970, 1, 1, 0, 0, 0, 1, UTC)],
        ),
        (pa.binary(), [b"x", None], leaf("c", BYTE_ARRAY), BinaryType(), [b"x", None]),
        (pa.binary(), [b"x", None], leaf("c", BYTE_ARRAY, converted=UTF8), StringType(), ["x", None]),
        (pa.binary(), [b"x", None], leaf("c", BYTE_ARRAY, converted=ENUM), StringType(), ["x", None]),
        (pa.binary(), [b"{}", None], leaf("c", BYTE_ARRAY, converted=JSON), StringType(), ["{}", None]),
        (pa.binary(), [b"x", None], leaf("c", BYTE_ARRAY, converted=BSON), BinaryType(), [b"x", None]),
        (pa.binary(), [b"x"], leaf("c", BYTE_ARRAY, logical={17: {}}), GeometryType(), [b"x"]),
        (pa.binary(), [b"x"], leaf("c", BYTE_ARRAY, logical={17: {1: "EPSG:3857"}}), GeometryType("EPSG:3857"), [b"x"]),
        (
            pa.binary(),
            [b"x"],
            leaf("c", BYTE_ARRAY, logical={18: {2: 4}}),
            GeographyType("OGC:CRS84", "karney"),
            [b"x"],
        ),
        (
            pa.binary(),
            [b"\xff\x85"],
            leaf("c", BYTE_ARRAY, converted=DECIMAL, precision=5, scale=2),
            DecimalType(5, 2),
            [Decimal("-1.23")],
        ),
        (
            pa.binary(3),
            [b"\xff\xff\x85"],
            leaf("c", FIXED, length=3, converted=DECIMAL, precision=6, scale=2),
            DecimalType(6, 2),
            [Decimal("-1.23")],
        ),
        (
            pa.int32(),
            [-123],
            leaf("c", INT32, converted=DECIMAL, precision=9, scale=2),
            DecimalType(9, 2),
            [Decimal("-1.23")],
        ),
        (
            pa.int64(),
            [-123],
            leaf("c", INT64, converted=DECIMAL, precision=18, scale=2),
            DecimalType(18, 2),
            [Decimal("-1.23")],
        ),
        (pa.binary(3), [b"abc"], leaf("c", FIXED, length=3), FixedType(3), [b"abc"]),
        (
            pa.binary(16),
            [b"a" * 16],
            leaf("c", FIXED, length=16, logical={14: {}}),
            UUIDType(),
            [UUID(bytes=b"a" * 16)],
        ),
        (pa.binary(2), [b"\x00\x3e"], leaf("c", FIXED, length=2, logical={15: {}}), FloatType(), [1.5]),
        (pa.int32(), [None], leaf("c", INT32, logical={11: {}}), UnknownType(), [None]),
    ],
)
def test_every_stored_type_is_read_as_the_iceberg_type_that_holds_its_values(
    stored_as: pa.DataType, stored: list[Any], column: list[Node], expected_type: IcebergType, expected: list[Any]
) -> None:
    file = open_bytes(one_column(stored, stored_as, column))
    assert file.schema.fields[0].field_type == expected_type
    assert not file.unreadable
    batches = read_batches(file)
    assert [row["c"] for batch in batches for row in batch.to_pylist()] == expected
    assert batches[0].schema.equals(arrow_schema(file.schema), check_metadata=True)


def test_nested_values_are_converted_as_well() -> None:
    moments = [[datetime(2020, 1, 1)], None, []]
    table = pa.table({"l": pa.array(moments, pa.list_(pa.timestamp("ms"))), "s": [{"u": b"a" * 16}, None, {"u": None}]})
    table = table.set_column(1, "s", pa.array([{"u": 1}, None, {"u": None}], pa.struct([("u", pa.uint32())])))
    file = open_bytes(parquet_bytes(table))
    assert read_rows(file) == [
        {"l": [datetime(2020, 1, 1)], "s": {"u": 1}},
        {"l": None, "s": None},
        {"l": [], "s": {"u": None}},
    ]
    assert read_batches(file)[0].schema == arrow_schema(file.schema)


def test_int96_is_a_timestamp_in_utc_far_outside_the_range_of_nanoseconds() -> None:
    moments = [
        datetime(9999, 12, 31, 23, 59, 59, 999999),
        None,
        datetime(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 1),
    ]
    table = pa.table({"t": pa.array(moments, pa.timestamp("us")), "l": pa.array([[m] for m in moments])})
    file = open_bytes(parquet_bytes(table, use_deprecated_int96_timestamps=True))
    assert file.schema.fields[0].field_type == TimestamptzType()
    expected = [moment and moment.replace(tzinfo=UTC) for moment in moments]
    assert read_rows(file) == [{"t": moment, "l": [moment]} for moment in expected]


@pytest.mark.parametrize(
    ("stored_as", "value", "column", "reason"),
    [
        (
            pa.binary(30),
            b"x" * 30,
            leaf("c", FIXED, length=30, converted=DECIMAL, precision=60, scale=2),
            "DECIMAL(60, 2)",
        ),
        (
            pa.struct([("names", pa.binary()), ("value", pa.binary())]),
            {"names": b"", "value": b""},
            group("c", leaf("names", BYTE_ARRAY), leaf("value", BYTE_ARRAY), logical={16: {}}),
            "annotated as a variant, but 'c' has a field 'names'",
        ),
        (pa.int32(), 1, leaf("c", INT32, converted=DECIMAL, precision=5, scale=7), "DECIMAL(5, 7)"),
        (pa.binary(3), b"abc", leaf("c", FIXED, length=3, converted=DECIMAL, precision=0, scale=0), "DECIMAL(0, 0)"),
        (
            pa.list_(pa.field("x", pa.int64())),
            [1],
            group(
                "c",
                group("list", leaf("element", INT64, converted=DECIMAL, precision=39, scale=0), repetition=REPEATED),
                converted=LIST,
            ),
            "its elements are unreadable",
        ),
    ],
)
def test_a_column_without_an_iceberg_type_leaves_the_rest_of_the_file_readable(
    stored_as: pa.DataType, value: Any, column: list[Node], reason: str
) -> None:
    file = open_bytes(one_column([value, None], stored_as, column))
    unreadable = file.schema.find_field("c")
    assert unreadable.field_type == UnknownType()
    assert reason in file.unreadable[unreadable.field_id]
    assert read_rows(file) == [{"c": None, "other": 0}, {"c": None, "other": 1}]


def file_with_an_unreadable_child() -> bytes:
    rows = [{"a": 1, "u": 1}, None, {"a": None, "u": 2}]
    return parquet_bytes(pa.table({"s": pa.array(rows, pa.struct([("u", pa.decimal256(60)), ("a", pa.int64())]))}))


def test_an_unreadable_child_leaves_its_siblings_and_the_nullness_of_its_parent() -> None:
    file = open_bytes(file_with_an_unreadable_child())
    assert read_rows(file) == [{"s": {"u": None, "a": 1}}, {"s": None}, {"s": {"u": None, "a": None}}]


def test_the_nullness_of_a_struct_is_known_without_any_of_its_readable_children() -> None:
    file = open_bytes(file_with_an_unreadable_child())
    struct: Any = file.schema.find_type("s")
    only_unreadable = Schema(NestedField(1, "s", StructType(struct.fields[0])))
    assert read_rows(file, only_unreadable) == [{"s": {"u": None}}, {"s": None}, {"s": {"u": None}}]


REQUIRED_INTS = pa.list_(pa.field("x", pa.int32(), nullable=False))
INTS = pa.list_(pa.field("x", pa.int32()))
ONE_FIELD_STRUCTS = pa.list_(pa.field("x", pa.struct([("a", pa.int32())]), nullable=False))
STRUCTS = pa.list_(pa.field("x", pa.struct([("a", pa.int32()), ("b", pa.int32())]), nullable=False))
LISTS = pa.list_(pa.field("x", REQUIRED_INTS, nullable=False))


@pytest.mark.parametrize(
    ("values", "stored_as", "column"),
    [
        ([[1, 2], None, []], REQUIRED_INTS, group("c", leaf("array", INT32, REPEATED), converted=LIST)),
        ([[1, 2], None, []], REQUIRED_INTS, group("c", leaf("anything", INT32, REPEATED), logical={3: {}})),
        (
            [[1, None], None, []],
            INTS,
            group("c", group("bag", leaf("array_element", INT32), repetition=REPEATED), converted=LIST),
        ),
        ([[1, None], None, []], INTS, group("c", group("x", leaf("y", INT32), repetition=REPEATED), converted=LIST)),
        (
            [[{"a": 1}], None, []],
            ONE_FIELD_STRUCTS,
            group("c", group("array", leaf("a", INT32), repetition=REPEATED), converted=LIST),
        ),
        (
            [[{"a": 1}], None, []],
            ONE_FIELD_STRUCTS,
            group("c", group("c_tuple", leaf("a", INT32), repetition=REPEATED), converted=LIST),
        ),
        (
            [[{"a": 1, "b": None}], None, []],
            STRUCTS,
            group("c", group("element", leaf("a", INT32), leaf("b", INT32), repetition=REPEATED), converted=LIST),
        ),
        (
            [[[1], []], None, []],
            LISTS,
            group(
                "c",
                group("array", leaf("array", INT32, REPEATED), repetition=REPEATED, converted=LIST),
                converted=LIST,
            ),
        ),
    ],
)
def test_lists_are_found_by_their_structure(values: list[Any], stored_as: pa.DataType, column: list[Node]) -> None:
    file = open_bytes(one_column(values, stored_as, column))
    assert [row["c"] for row in read_rows(file)] == values


def test_a_list_whose_only_element_field_is_repeated_holds_structs() -> None:
    column = group("c", group("x", leaf("v", INT32, REPEATED), repetition=REPEATED), converted=LIST)
    file = open_bytes(one_column([[[1], []], None], LISTS, column))
    assert [row["c"] for row in read_rows(file)] == [[{"v": [1]}, {"v": []}], None]


@pytest.mark.parametrize(
    ("values", "stored_as", "column"),
    [
        ([[1, 2], [], [3]], REQUIRED_INTS, leaf("c", INT32, REPEATED, field_id=7)),
        (
            [[{"a": 1, "b": 2}], []],
            STRUCTS,
            group("c", leaf("a", INT32), leaf("b", INT32), repetition=REPEATED, field_id=7),
        ),
    ],
)
def test_a_repeated_field_without_annotation_is_a_required_list(
    values: list[Any], stored_as: pa.DataType, column: list[Node]
) -> None:
    file = open_bytes(one_column(values, stored_as, column, required=True))
    field = file.schema.find_field("c")
    assert (field.field_id, field.required) == (7, True)
    assert [row["c"] for row in read_rows(file)] == values


@pytest.mark.parametrize("inner", ["key_value", "map", "entries", "anything"])
@pytest.mark.parametrize(
    ("outer_annotation", "inner_annotation"), [(MAP, None), (MAP, MAP_KEY_VALUE), (MAP_KEY_VALUE, None)]
)
def test_maps_are_found_by_their_structure(inner: str, outer_annotation: int, inner_annotation: int | None) -> None:
    entries = group(
        inner,
        leaf("k", BYTE_ARRAY, REQUIRED, converted=UTF8, field_id=2),
        leaf("v", INT32, field_id=3),
        repetition=REPEATED,
        converted=inner_annotation,
    )
    values = [[("a", 1), ("b", None)], None, []]
    column = group("c", entries, converted=outer_annotation, field_id=1)
    file = open_bytes(one_column(values, pa.map_(pa.string(), pa.int32()), column))
    map_type: Any = file.schema.find_type("c")
    assert (map_type.key_id, map_type.value_id) == (2, 3)
    assert [row["c"] for row in read_rows(file)] == values


def test_ids_are_found_at_every_level_and_absent_ones_are_negative_and_unique() -> None:
    def numbered(name: str, kind: pa.DataType, number: int | None, *, nullable: bool = True) -> pa.Field[Any]:
        metadata = None if number is None else {"PARQUET:field_id": str(number)}
        return pa.field(name, kind, nullable=nullable, metadata=metadata)

    map_of: Any = pa.map_
    struct = pa.struct([numbered("x", pa.int32(), 9), numbered("y", pa.int32(), None)])
    schema = pa.schema(
        [
            numbered("l", pa.list_(numbered("element", struct, 4)), 3),
            numbered("m", map_of(numbered("key", pa.string(), 6, nullable=False), numbered("value", pa.int32(), 7)), 5),
            numbered("n", pa.int32(), None),
            numbered("zero", pa.int32(), 0),
        ]
    )
    found = open_bytes(parquet_bytes(schema.empty_table())).schema
    list_type: Any = found.find_type("l")
    map_type: Any = found.find_type("m")
    ids = [found.find_field("l").field_id, list_type.element_id]
    ids += [field.field_id for field in list_type.element_type.fields]
    ids += [found.find_field("m").field_id, map_type.key_id, map_type.value_id, found.find_field("n").field_id]
    assert ids[:3] == [3, 4, 9]
    assert ids[4:7] == [5, 6, 7]
    assert ids[3] < 0
    assert ids[7] < 0
    assert ids[3] != ids[7]
    assert found.find_field("zero").field_id == 0


def test_ids_say_nothing_if_one_is_stored_twice() -> None:
    columns = [leaf(name, INT64, field_id=field_id) for name, field_id in zip("abc", (4, 4, 5), strict=True)]
    data = with_schema(parquet_bytes(pa.table({"a": [1], "b": [2], "c": [3]})), *columns)
    file = open_bytes(data)
    assert all(field.field_id < 0 for field in file.schema.fields)
    assert read_rows(file) == [{"a": 1, "b": 2, "c": 3}]


def test_columns_of_the_same_name_are_told_apart() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    file = open_bytes(parquet_bytes(table))
    assert [field.name for field in file.schema.fields] == ["a", "a#2"]
    assert read_rows(file) == [{"a": 1, "a#2": "x"}]


@pytest.mark.parametrize(
    "name", ["with.dot", "with space", "1digit", "slash/slash", "🦆", "UPPER", "\x18\x0cARROW:schema"], ids=ascii
)
def test_any_column_name_is_found_again(name: str) -> None:
    table = pa.table({name: [1, 2], name.lower() + "'": [3, 4], "s": [{name: 5}, None]})
    file = open_bytes(parquet_bytes(table))
    assert [row[name] for row in read_rows(file)] == [1, 2]
    assert [row["s"] for row in read_rows(file)] == [{name: 5}, None]


@pytest.mark.parametrize(
    "stored",
    [
        pa.array(["a", None], pa.large_string()),
        pa.array(["a", None], pa.string_view()),
        pa.array(["a", None]).dictionary_encode(),
        pa.array([["a"], None], pa.large_list(pa.string())),
        pa.array([1, None], pa.duration("us")),
        pa.array([datetime(2020, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "America/Lima")),
        pa.array([UUID(bytes=b"a" * 16).bytes, None], pa.uuid()),
    ],
    ids=lambda array: str(array.type),
)
def test_the_arrow_schema_in_the_footer_changes_nothing(stored: pa.Array[Any]) -> None:
    table = pa.table({"c": stored})
    with_arrow, without = open_bytes(parquet_bytes(table)), open_bytes(parquet_bytes(table, store_schema=False))
    assert "ARROW:schema" in with_arrow.metadata
    assert "ARROW:schema" not in without.metadata
    assert with_arrow.schema == without.schema
    first, second = read_batches(with_arrow)[0], read_batches(without)[0]
    assert first.equals(second, check_metadata=True)
    assert first.schema == arrow_schema(with_arrow.schema)


def test_a_damaged_arrow_schema_in_the_footer_does_no_harm() -> None:
    data = parquet_bytes(pa.table({"c": [1, 2]}))
    start = data.rindex(b"ARROW:schema") + len("ARROW:schema") + 3
    damaged = data[:start] + b"A" * 100 + data[start + 100 :]
    assert read_rows(open_bytes(damaged)) == [{"c": 1}, {"c": 2}]
