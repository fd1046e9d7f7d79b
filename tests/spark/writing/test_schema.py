"""What a DataFrame's columns become: names, casts of the session's policy, nullability, evolution."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pyspark.sql.types as st
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import (
    AmbiguousColumnError,
    ConfigurationError,
    FormatkitError,
    MissingRequiredFieldError,
    SchemaResolutionError,
)
from formatkit.spark.java import java_type, scala_object
from formatkit.spark.writing.schema import can_ansi_assign, can_up_cast
from support.written_tables import new_table, table_rows

FLAT = [
    st.BooleanType(),
    st.ByteType(),
    st.ShortType(),
    st.IntegerType(),
    st.LongType(),
    st.FloatType(),
    st.DoubleType(),
    st.DecimalType(9, 0),
    st.DecimalType(10, 0),
    st.DecimalType(10, 2),
    st.DecimalType(20, 0),
    st.DecimalType(38, 10),
    st.DateType(),
    st.TimestampType(),
    st.TimestampNTZType(),
    st.StringType(),
    st.BinaryType(),
    st.NullType(),
]


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Any]:
    """Changes settings of the session for one test."""
    names = []

    def change(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield change
    for name in names:
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(can_ansi_assign, "canANSIStoreAssign"), (can_up_cast, "canUpCast")], ids=["ANSI", "STRICT"]
)
def test_types_are_assigned_as_spark_itself_does(spark: SparkSession, ours: Any, theirs: str) -> None:
    jvm = spark.sparkContext._jvm
    cast = scala_object(jvm, "org.apache.spark.sql.catalyst.expressions.Cast")
    java = {kind.simpleString(): java_type(spark, kind) for kind in FLAT}
    found = {}
    for source, target in product(FLAT, FLAT[:-1]):
        key = (source.simpleString(), target.simpleString())
        found[key] = (ours(source, target), getattr(cast, theirs)(*(java[each] for each in key)))
    assert {key: both for key, both in found.items() if both[0] != both[1]} == {}


def test_columns_are_matched_by_name_in_any_order_and_case(
    spark: SparkSession, catalog: SqlCatalog, setting: Any
) -> None:
    table = new_table(catalog, NestedField(1, "Id", LongType()), NestedField(2, "word", StringType()))
    frame = spark.sql("select 'x' WORD, 1L id")
    formatkit.spark.write(frame, table)
    assert table_rows(table) == [(1, "x")]
    setting("spark.sql.caseSensitive", "true")
    with pytest.raises(SchemaResolutionError, match="'WORD'"):
        formatkit.spark.write(frame, table)
    both = spark.sql("select 1L Id, 2L id")
    setting("spark.sql.caseSensitive", "false")
    with pytest.raises(AmbiguousColumnError):
        formatkit.spark.write(both, table)


def test_values_are_cast_and_those_that_do_not_fit_are_errors(
    spark: SparkSession, catalog: SqlCatalog, setting: Any
) -> None:
    table = new_table(
        catalog,
        NestedField(1, "i", IntegerType()),
        NestedField(2, "s", StringType()),
        NestedField(3, "in", StructType(NestedField(4, "d", DecimalType(5, 2)))),
        NestedField(5, "l", ListType(6, IntegerType(), element_required=False)),
        NestedField(7, "m", MapType(8, StringType(), 9, DoubleType(), value_required=False)),
    )
    text = (
        "select {i} i, 7 s, if({i} is null, null, named_struct('D', 1.5D)) `in`, array(1L, null) l, "
        "map(1, cast(2.5 as decimal(3,1))) m"
    )
    expected = (1, "7", {"d": Decimal("1.50")}, [1, None], [("1", 2.5)])
    for ansi in ("true", "false"):
        setting("spark.sql.ansi.enabled", ansi)
        formatkit.spark.write(spark.sql(text.format(i="1L")), table, "overwrite")
        assert table_rows(table) == [expected]
        formatkit.spark.write(spark.sql(text.format(i="cast(null as bigint)")), table, "overwrite")
        assert table_rows(table) == [(None, "7", None, *expected[3:])]
        with pytest.raises(Exception, match=r"CAST_OVERFLOW|does not fit"):
            formatkit.spark.write(spark.sql(text.format(i="5000000000L")), table)
    setting("spark.sql.storeAssignmentPolicy", "STRICT")
    with pytest.raises(SchemaResolutionError, match="STRICT"):
        formatkit.spark.write(spark.sql("select 1L i"), table)
    setting("spark.sql.storeAssignmentPolicy", "LEGACY")
    with pytest.raises(ConfigurationError, match="LEGACY"):
        formatkit.spark.write(spark.sql("select 1 i"), table)


def test_types_that_spark_has_as_others(spark: SparkSession, catalog: SqlCatalog, setting: Any) -> None:
    setting("spark.sql.session.timeZone", "Asia/Kolkata")
    table = new_table(
        catalog,
        NestedField(1, "u", UUIDType()),
        NestedField(2, "f", FixedType(2)),
        NestedField(3, "t", TimeType()),
        NestedField(4, "at", TimestamptzType()),
        NestedField(5, "us", ListType(6, UUIDType(), element_required=False)),
        NestedField(7, "ats", StructType(NestedField(8, "at", TimestamptzType()))),
        NestedField(9, "d", DateType()),
        NestedField(10, "dict", MapType(11, StringType(), 12, TimestamptzType(), value_required=False)),
    )
    text = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
    frame = spark.sql(
        f"select '{text}' u, X'0102' f, time'10:11:12.123456' t, timestamp'2020-01-01 05:30:00' at, "
        f"array('{text}', null) us, named_struct('at', timestamp'2020-01-01 05:30:00') ats, date'2020-02-03' d, "
        "map('a', timestamp'2020-01-01 05:30:00') dict"
    )
    formatkit.spark.write(frame, table)
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    (row,) = formatkit.scan(table).to_arrow().to_pylist()
    assert row == {
        "u": uuid.UUID(text),
        "f": b"\1\2",
        "t": dt.time(10, 11, 12, 123456),
        "at": moment,
        "us": [uuid.UUID(text), None],
        "ats": {"at": moment},
        "d": dt.date(2020, 2, 3),
        "dict": [("a", moment)],
    }
    with pytest.raises(Exception, match="is uuid, and 'none'"):
        formatkit.spark.write(spark.sql("select 'none' u"), table)


def test_nanoseconds_of_microseconds(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, NestedField(1, "at", TimestampNanoType()), properties={"format-version": "3"})
    formatkit.spark.write(spark.sql("select timestamp_ntz'2020-01-01 00:00:00.000001' at"), table)
    assert formatkit.scan(table).to_arrow()["at"].cast(pa.int64()).to_pylist() == [1577836800000001000]


def test_columns_that_lack_or_are_too_many(spark: SparkSession, catalog: SqlCatalog, setting: Any) -> None:
    table = new_table(catalog, NestedField(1, "id", LongType(), required=True), NestedField(2, "n", LongType()))
    formatkit.spark.write(spark.sql("select 1L id"), table)
    assert table_rows(table) == [(1, None)]
    with pytest.raises(MissingRequiredFieldError):
        formatkit.spark.write(spark.sql("select 1L n"), table)
    with pytest.raises(SchemaResolutionError, match="merge_schema"):
        formatkit.spark.write(spark.sql("select 1L id, 2L m"), table)
    nullable = spark.sql("select if(id > 0, id, null) id from range(2)")
    with pytest.raises(Exception, match="required"):
        formatkit.spark.write(nullable, table)
    with pytest.raises(SchemaResolutionError, match="may be null"):
        formatkit.spark.write(nullable.filter("id > 0"), table, check_nullability=True)
    formatkit.spark.write(nullable.filter("id > 0"), table)
    with pytest.raises(SchemaResolutionError, match="another order"):
        formatkit.spark.write(spark.sql("select 1L n, 2L id"), table, check_ordering=True)


def test_schemas_are_merged_on_request(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(
        catalog,
        NestedField(1, "i", IntegerType()),
        NestedField(2, "f", FloatType()),
        NestedField(3, "d", DecimalType(5, 2)),
        NestedField(4, "in", StructType(NestedField(5, "a", IntegerType()))),
        NestedField(6, "l", ListType(7, StructType(NestedField(8, "a", IntegerType())), element_required=False)),
    )
    formatkit.spark.write(spark.sql("select 1 i"), table)
    frame = spark.sql(
        "select 5000000000L i, 0.1D f, cast(1.5 as decimal(9,2)) d, named_struct('b', 'x', 'A', 5000000000L) `in`, "
        "array(named_struct('a', 1, 'c', true)) l, map('k', 1) more"
    )
    formatkit.spark.write(frame, table, merge_schema=True)
    assert [str(field.field_type) for field in table.schema().fields[:3]] == ["long", "double", "decimal(9, 2)"]
    rows = formatkit.scan(table, "i > 1").to_arrow().to_pylist()
    assert rows == [
        {
            "i": 5_000_000_000,
            "f": 0.1,
            "d": Decimal("1.50"),
            "in": {"a": 5_000_000_000, "b": "x"},
            "l": [{"a": 1, "c": True}],
            "more": [("k", 1)],
        }
    ]
    version = table.metadata.current_schema_id
    formatkit.spark.write(spark.sql("select 1 i"), table, merge_schema=True)
    assert table.metadata.current_schema_id == version


def test_every_refusal_is_typed(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, NestedField(1, "id", LongType()))
    for text in ("select 'x' id", "select true id", "select array(1L) id", "select interval '1' day id"):
        with pytest.raises(FormatkitError):
            formatkit.spark.write(spark.sql(text), table)
