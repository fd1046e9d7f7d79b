"""How the types and attributes of an ORC file become an Iceberg schema."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyorc
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
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

from formatkit.contract.variant import VariantType
from support.orc_files import foreign, open_bytes, pyorc_bytes, pyorc_type, read_rows, written

NESTED = Schema(
    NestedField(
        1,
        "s",
        StructType(NestedField(2, "a", IntegerType(), required=True), NestedField(3, "b", StringType())),
        required=True,
    ),
    NestedField(4, "l", ListType(5, StructType(NestedField(6, "c", LongType())), element_required=True)),
    NestedField(7, "m", MapType(8, StringType(), 9, ListType(10, LongType(), element_required=False))),
)


def attributed(kind: pa.DataType, attributes: dict[str, str]) -> bytes:
    field: pa.Field[Any] = pa.field("a", kind, metadata=dict(attributes))
    return foreign(pa.table([pa.array([], kind)], schema=pa.schema([field])))


def test_ids_and_requiredness_are_stored_and_found_at_every_level() -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([{"a": 1, "b": None}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            pa.array([[{"c": 2}]]),
            pa.array([[("k", [1, None])]], pa.map_(pa.string(), pa.list_(pa.int64()))),
        ],
        ["s", "l", "m"],
    )
    data, _ = written(NESTED, [batch])
    assert open_bytes(data).schema == NESTED
    stored = pyorc_type(data)
    assert stored["s"].attributes == {"iceberg.id": "1", "iceberg.required": "true"}
    assert stored["s"]["a"].attributes == {"iceberg.id": "2", "iceberg.required": "true"}
    assert stored["l"].type.attributes == {"iceberg.id": "5", "iceberg.required": "true"}
    assert stored["l"].type["c"].attributes["iceberg.id"] == "6"
    assert stored["m"].key.attributes == {"iceberg.id": "8", "iceberg.required": "true"}
    assert stored["m"].value.type.attributes["iceberg.id"] == "10"


def test_ids_that_pyarrow_stores_under_the_name_of_parquet_are_found_at_every_level() -> None:
    plain = pa.table([pa.array([], field.type) for field in NESTED.as_arrow()], schema=NESTED.as_arrow())
    found = open_bytes(foreign(plain)).schema
    assert {name: found.find_field(name).field_id for name in found.column_names} == {
        name: NESTED.find_field(name).field_id for name in NESTED.column_names
    }


def test_the_id_of_iceberg_wins_over_the_one_under_the_name_of_parquet() -> None:
    file = open_bytes(attributed(pa.int64(), {"iceberg.id": "3", "PARQUET:field_id": "4"}))
    assert file.schema.find_field("a").field_id == 3


def test_fields_without_ids_have_unique_negative_ids() -> None:
    schema = open_bytes(foreign(pa.table({"a": [1], "b": [[{"c": 1}]]}))).schema
    assert len(set(schema.field_ids)) == 4
    assert all(field_id < 0 for field_id in schema.field_ids)
    assert not any(field.required for field in schema.fields)


@pytest.mark.parametrize(
    ("kind", "attributes", "expected"),
    [
        (pa.int64(), {}, LongType()),
        (pa.int64(), {"iceberg.long-type": "LONG"}, LongType()),
        (pa.int64(), {"iceberg.long-type": "TIME"}, TimeType()),
        (pa.int64(), {"iceberg.long-type": "something", "iceberg.required": "maybe"}, LongType()),
        (pa.binary(), {}, BinaryType()),
        (pa.binary(), {"iceberg.binary-type": "UUID"}, UUIDType()),
        (pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": "7"}, FixedType(7)),
        (pa.binary(), {"iceberg.binary-type": "FIXED"}, BinaryType()),
        (pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": "0"}, BinaryType()),
        (pa.binary(), {"iceberg.binary-type": "FIXED", "iceberg.length": "9" * 10_000}, BinaryType()),
        (pa.binary(), {"iceberg.binary-type": "something"}, BinaryType()),
        (pa.binary(), {"iceberg.binary-type": "GEOMETRY"}, GeometryType()),
        (pa.binary(), {"iceberg.binary-type": "GEOMETRY", "iceberg.crs": "x"}, GeometryType("x")),
        (pa.binary(), {"iceberg.binary-type": "GEOGRAPHY"}, GeographyType()),
        (pa.timestamp("us"), {}, TimestampType()),
        (pa.timestamp("us"), {"iceberg.timestamp-unit": "NANOS"}, TimestampNanoType()),
        (pa.timestamp("us", "UTC"), {"iceberg.timestamp-unit": "MICROS"}, TimestamptzType()),
        (pa.timestamp("us", "UTC"), {"iceberg.timestamp-unit": "NANOS"}, TimestamptzNanoType()),
        (pa.decimal128(20, 3), {}, DecimalType(20, 3)),
        (pa.int8(), {}, IntegerType()),
        (pa.int16(), {}, IntegerType()),
    ],
)
def test_attributes_refine_the_types_of_orc(kind: pa.DataType, attributes: dict[str, str], expected: Any) -> None:
    assert open_bytes(attributed(kind, attributes)).schema.find_type("a") == expected


def test_variants_are_structs_with_a_mark_and_parts_without_ids() -> None:
    schema = Schema(NestedField(1, "v", VariantType(), required=False))
    kind = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    column: Any = pa.array([{"metadata": b"\1\0\0", "value": b"\x0c\7"}, None], kind)
    data, result = written(schema, [pa.RecordBatch.from_arrays([column], ["v"])])
    stored = pyorc_type(data)["v"]
    assert stored.attributes["iceberg.struct-type"] == "VARIANT"
    assert stored["metadata"].attributes == stored["value"].attributes == {}
    file = open_bytes(data)
    assert file.schema == schema
    assert [row["v"] for row in read_rows(file)] == column.to_pylist()
    assert set(result.column_sizes or {}) == {1}


def test_small_integers_and_bounded_text_of_others_are_read() -> None:
    data = pyorc_bytes(
        "struct<t:tinyint,s:smallint,c:char(3),v:varchar(5)>", [(-128, 32767, "ab", "hello"), (None, None, None, None)]
    )
    file = open_bytes(data)
    assert [str(field.field_type) for field in file.schema.fields] == ["int", "int", "string", "string"]
    first, second = read_rows(file)
    assert {**first, "c": first["c"].rstrip()} == {"t": -128, "s": 32767, "c": "ab", "v": "hello"}
    assert set(second.values()) == {None}


def test_a_column_without_iceberg_type_is_unreadable_and_the_rest_is_read() -> None:
    data = pyorc_bytes(
        "struct<a:int,u:struct<>,s:struct<u:struct<>,b:int>,l:array<struct<>>>",
        [(1, (), ((), 2), [(), None]), (2, None, (None, 3), [])],
    )
    file = open_bytes(data)
    assert isinstance(file.schema.find_type("u"), UnknownType)
    assert set(file.unreadable) == {file.schema.find_field(name).field_id for name in ("u", "s.u", "l")}
    assert "no fields" in file.unreadable[file.schema.find_field("u").field_id]
    assert read_rows(file) == [
        {"a": 1, "u": None, "s": {"u": None, "b": 2}, "l": None},
        {"a": 2, "u": None, "s": {"u": None, "b": 3}, "l": None},
    ]


def test_a_name_that_occurs_twice_is_told_apart() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    file = open_bytes(foreign(table))
    assert [field.name for field in file.schema.fields] == ["a", "a#2"]
    assert read_rows(file) == [{"a": 1, "a#2": 2}]


def test_a_name_with_a_dot_is_told_apart_from_a_path() -> None:
    file = open_bytes(foreign(pa.table({"s": [{"a": 1, "a#2": 2}], "s.a": [3], "s.a#2": [4]})))
    assert [field.name for field in file.schema.fields] == ["s", "s.a#3", "s.a#2#2"]
    assert read_rows(file) == [{"s": {"a": 1, "a#2": 2}, "s.a#3": 3, "s.a#2#2": 4}]


@pytest.mark.parametrize("stored", ["x", "-1", "1.5", "", "99999999999999", "9" * 10_000, "1"])
def test_no_id_counts_if_one_is_no_number_or_stored_twice(stored: str) -> None:
    fields: list[Any] = [
        pa.field(name, pa.int64(), metadata={"iceberg.id": i}) for name, i in (("a", "1"), ("b", stored))
    ]
    file = open_bytes(foreign(pa.table([[1], [2]], schema=pa.schema(fields))))
    assert all(field.field_id < 0 for field in file.schema.fields)
    assert read_rows(file) == [{"a": 1, "b": 2}]


def test_rows_that_are_no_structs_are_one_column() -> None:
    file = open_bytes(pyorc_bytes("bigint", [1, None, 3]))
    assert read_rows(file) == [{"value": 1}, {"value": None}, {"value": 3}]
    assert read_rows(file, where="value is null") == [{"value": None}]
    assert read_rows(file, where="value > 1") == [{"value": 3}]


def test_the_description_names_writer_codec_and_stripes() -> None:
    facts = open_bytes(foreign(pa.table({"a": [1, 2]}), compression="zstd")).describe()
    assert facts["codec"] == "ZSTD"
    assert facts["rows_per_stripe"] == [2]
    assert facts["created_by"].startswith("ORC C++")
    assert (
        open_bytes(pyorc_bytes("struct<a:int>", [(1,)], compression=pyorc.CompressionKind.NONE)).describe()["codec"]
        == "NONE"
    )
