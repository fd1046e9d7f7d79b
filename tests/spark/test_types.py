"""Each Iceberg type has one type in Spark, and columns of it one form that Spark takes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pyspark.sql.types as st
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    FixedType,
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
from pyspark.sql.pandas.types import from_arrow_schema

from formatkit.batches.arrow import arrow_schema
from formatkit.contract import VariantType
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.normalise import normaliser, uuid_text
from formatkit.spark.types import spark_arrow_schema, spark_schema
from formatkit.tck.rows import to_arrow
from support.every_type import EDGES, EVERY_TYPE

UUIDS = [bytes(range(16)), None, b"\xff" * 16, bytes(16)]


def one(iceberg_type: IcebergType, **facts: Any) -> Schema:
    return Schema(NestedField(1, "c", iceberg_type, **facts))


def sure_struct(field_id: int) -> StructType:
    return StructType(NestedField(field_id, "a", LongType(), required=True))


@pytest.mark.parametrize(
    ("iceberg_type", "spark_type"),
    [
        (UUIDType(), st.StringType()),
        (FixedType(4), st.BinaryType()),
        (GeometryType(), st.BinaryType()),
        (GeographyType(), st.BinaryType()),
        (TimeType(), st.TimeType(6)),
        (TimestampType(), st.TimestampNTZType()),
        (TimestamptzType(), st.TimestampType()),
        (UnknownType(), st.NullType()),
        (VariantType(), st.VariantType()),
        (ListType(2, UUIDType(), element_required=True), st.ArrayType(st.StringType(), containsNull=False)),
        (
            MapType(2, FixedType(1), 3, IntegerType(), value_required=False),
            st.MapType(st.BinaryType(), st.IntegerType()),
        ),
    ],
    ids=str,
)
def test_types_that_are_called_otherwise_in_spark(iceberg_type: IcebergType, spark_type: st.DataType) -> None:
    assert spark_schema(one(iceberg_type))["c"].dataType == spark_type


def test_required_columns_are_not_nullable_and_descriptions_are_comments() -> None:
    schema = Schema(
        NestedField(1, "key", LongType(), required=True, doc="the key"),
        NestedField(2, "sure", sure_struct(3), required=True),
        NestedField(4, "maybe", StructType(NestedField(5, "b", sure_struct(6), required=True))),
    )
    key, sure, maybe = spark_schema(schema)
    inside: Any = maybe.dataType
    assert (key.nullable, key.metadata) == (False, {"comment": "the key"})
    assert sure.dataType == st.StructType([st.StructField("a", st.LongType(), nullable=False)])
    assert inside["b"].nullable
    assert inside["b"].dataType["a"].nullable


@pytest.mark.parametrize("moment", [TimestampNanoType(), TimestamptzNanoType()])
def test_nanoseconds_are_refused_with_the_ways_out(moment: IcebergType) -> None:
    schema = one(StructType(NestedField(2, "at", moment)))
    with pytest.raises(UnsupportedError, match=r"'c\.at' is timestamp(tz)?_ns.*nanoseconds=\"floor\".*\"integer\""):
        spark_schema(schema)


def test_another_word_for_nanoseconds_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="'round'"):
        spark_schema(EVERY_TYPE, "round")  # type: ignore[arg-type]


def test_moments_are_cut_down_to_microseconds_also_before_1970() -> None:
    schema = one(TimestampNanoType())
    nanos = [0, 1, 999, 1000, -1, -1000, -1001, None, 2**63 - 1, -(2**63)]
    batch = pa.record_batch([pa.array(nanos, pa.int64()).view(pa.timestamp("ns"))], schema=arrow_schema(schema))
    floored = normaliser(schema, "floor")(batch).column(0)
    assert floored.type == pa.timestamp("us")
    assert floored.view(pa.int64()).to_pylist() == [None if each is None else each // 1000 for each in nanos]
    numbers = normaliser(schema, "integer")(batch).column(0)
    assert numbers.to_pylist() == nanos


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 3), (2, 2), (1, 2)])
def test_uuids_become_text_in_any_slice(start: int, stop: int) -> None:
    stored = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(UUIDS, pa.binary(16)))[start:stop]
    text = uuid_text(stored)
    text.validate(full=True)
    assert text.to_pylist() == [None if each is None else str(UUID(bytes=each)) for each in UUIDS[start:stop]]


@pytest.mark.parametrize("nanoseconds", ["floor", "integer"])
@pytest.mark.parametrize(("start", "length"), [(0, 4), (1, 2), (3, 1), (0, 0)])
def test_batches_have_exactly_the_schema_that_spark_checks(nanoseconds: Any, start: int, length: int) -> None:
    table = to_arrow(EVERY_TYPE, EDGES).combine_chunks().cast(arrow_schema(EVERY_TYPE))
    batch = table.to_batches()[0].slice(start, length)
    made = normaliser(EVERY_TYPE, nanoseconds)(batch)
    made.validate(full=True)
    assert made.num_rows == length
    assert made.schema.equals(spark_arrow_schema(EVERY_TYPE, nanoseconds), check_metadata=True)
    assert from_arrow_schema(made.schema, prefer_timestamp_ntz=True) == spark_schema(EVERY_TYPE, nanoseconds)


def test_columns_that_spark_takes_as_they_are_are_not_copied() -> None:
    schema = Schema(
        NestedField(1, "a", LongType()),
        NestedField(2, "b", ListType(3, StringType(), element_required=False)),
        NestedField(4, "c", StructType(NestedField(5, "d", BinaryType()))),
    )
    batch = pa.record_batch([[1], [["x"]], [{"d": b"y"}]], schema=arrow_schema(schema))
    made = normaliser(schema)(batch)
    for before, after in zip(batch.columns, made.columns, strict=True):
        pairs = zip(before.buffers(), after.buffers(), strict=True)
        assert all(one is two or (one and two and one.address == two.address) for one, two in pairs)


def test_dictionaries_are_decoded() -> None:
    schema = one(StringType())
    batch = pa.record_batch({"c": pa.array(["a", None, "a"]).dictionary_encode()})
    assert normaliser(schema)(batch).column(0).to_pylist() == ["a", None, "a"]


def test_batches_without_columns_keep_their_rows() -> None:
    batch = pa.record_batch({"a": [1, 2, 3]}).select([])
    assert normaliser(Schema())(batch).num_rows == 3
