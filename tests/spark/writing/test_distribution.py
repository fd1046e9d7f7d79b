"""Which task gets which rows: as few files as the mode promises, and values of transforms that equal Iceberg's."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import formatkit
import formatkit.spark
from formatkit.batches.arrow.types import storage_type
from formatkit.errors import ConfigurationError
from formatkit.spark.types import spark_schema
from formatkit.spark.writing.config import write_config
from formatkit.spark.writing.distribution import distribute, distribution_of, transformed
from formatkit.spark.writing.options import WriteOptions
from formatkit.write.partition import compile_transform
from support.spark_plans import plan_of
from support.written_tables import data_files, new_table, spec, table_rows

COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1, 1, 1),
    dt.datetime(1583, 2, 3, 4, 5),
    dt.datetime(2024, 2, 29, 23, 0, 0, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    None,
]
DATES = [None if each is None else each.date() for each in MOMENTS]
LONGS = [0, 1, -1, 9, -10, 2**62, -(2**62), None]
WORDS = ["", "a", "abc", "abcdefgh", "äöü€", "\U0001f600\U0001f601x", None]
UTC = [None if each is None else each.replace(tzinfo=dt.UTC) for each in MOMENTS]
CALENDAR: list[Transform[Any, Any]] = [YearTransform(), MonthTransform(), DayTransform()]
CASES: list[tuple[Any, list[Any], list[Transform[Any, Any]]]] = [
    (LongType(), LONGS, [BucketTransform(7), TruncateTransform(10)]),
    (IntegerType(), [0, -1, 5, 2**31 - 1, -(2**31) + 10, None], [BucketTransform(7), TruncateTransform(3)]),
    (StringType(), WORDS, [BucketTransform(7), TruncateTransform(2)]),
    (BinaryType(), [b"", b"\xff\x00a", b"ab", None], [BucketTransform(7), TruncateTransform(2)]),
    (DecimalType(9, 2), [Decimal("1.05"), Decimal("-1.05"), None], [BucketTransform(7), TruncateTransform(50)]),
    (UUIDType(), ["f79c3e09-677c-4bbd-a479-3f349cb785e7", None], [BucketTransform(7)]),
    (DateType(), DATES, [*CALENDAR, BucketTransform(7)]),
    (TimestampType(), MOMENTS, [*CALENDAR, HourTransform(), BucketTransform(7)]),
    (TimestamptzType(), UTC, [*CALENDAR, HourTransform(), BucketTransform(7)]),
]


@pytest.mark.parametrize(
    ("kind", "values", "transform"),
    [
        pytest.param(kind, values, transform, id=f"{transform}-{kind}")
        for kind, values, transforms in CASES
        for transform in transforms
    ],
)
def test_transformed_values_are_equal_and_in_order_where_those_of_iceberg_are(
    spark: SparkSession, kind: Any, values: list[Any], transform: Transform[Any, Any]
) -> None:
    schema = Schema(NestedField(1, "v", kind))
    columns = spark_schema(schema)
    stored = [bytes.fromhex(each.replace("-", "")) if isinstance(kind, UUIDType) and each else each for each in values]
    source = pa.array(stored, storage_type(kind))
    expected = compile_transform(transform, kind)(source).to_pylist()
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        frame = spark.createDataFrame([(each,) for each in values], columns)
        found = [row[0] for row in frame.select(transformed(f.col("v"), transform, kind)).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    pairs = [(mine, theirs) for mine, theirs in zip(found, expected, strict=True) if theirs is not None]
    assert [mine is None for mine in found] == [theirs is None for theirs in expected]
    for mine, theirs in pairs:
        for other, others in pairs:
            assert (mine == other, mine < other) == (theirs == others, theirs < others)


def rows_of(spark: SparkSession) -> DataFrame:
    return spark.range(0, 300, 1, 4).selectExpr("id", "concat('p', id % 3) part")


def test_rows_of_a_partition_go_to_one_task_by_hash(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, *COLUMNS, partitions=spec((2, IdentityTransform()), (1, BucketTransform(2))))
    formatkit.spark.write(rows_of(spark), table)
    assert len(data_files(table)) == 6
    formatkit.spark.write(rows_of(spark), table, "overwrite", distribution_mode="none")
    assert len(data_files(table)) == 24
    formatkit.spark.write(rows_of(spark), table, "overwrite", fanout_enabled=True)
    assert len(data_files(table)) == 6
    assert len(table_rows(table)) == 300


def test_files_of_a_sorted_table_do_not_overlap_by_range(spark: SparkSession, catalog: SqlCatalog) -> None:
    order = SortOrder(
        SortField(
            source_id=1,
            transform=IdentityTransform(),
            direction=SortDirection.DESC,
            null_order=NullOrder.NULLS_LAST,
        )
    )
    table = new_table(catalog, *COLUMNS, sort_order=order)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")  # or these few rows were one partition
    try:
        formatkit.spark.write(rows_of(spark), table)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    ranges = []
    for file in data_files(table):
        ids: list[Any] = formatkit.read_file(file.file_path).to_arrow()["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)
        ranges.append((min(ids), max(ids)))
    ranges.sort()
    assert len(ranges) > 1
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ranges))


def test_the_plan_has_what_the_mode_asks_for(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(
        catalog,
        NestedField(1, "in", StructType(NestedField(3, "day", DateType()))),
        NestedField(2, "part", StringType()),
        partitions=spec((3, MonthTransform()), (2, IdentityTransform())),
    )
    frame = spark.sql(
        "select named_struct('day', date_add(date'2020-01-01', cast(id as int))) `in`, concat('x', id) part "
        "from range(3)"
    )

    def plan(adaptive: bool = True, **options: Any) -> str:
        asked = WriteOptions(**options)
        config = write_config(table, asked)
        rows = distribute(frame, config, distribution_of(config, asked), adaptive=adaptive)
        assert rows.columns == ["in", "part"]
        return plan_of(rows)

    assert "REBALANCE_PARTITIONS_BY_COL" in plan()
    assert "Sort [" in plan()
    assert "hashpartitioning" in plan(adaptive=False)
    assert "rangepartitioning" in plan(distribution="range")
    assert "Exchange" not in plan(distribution="none")
    assert "Sort [" in plan(distribution="none")
    assert "Sort [" not in plan(distribution="none", fanout=True)


def test_the_table_says_how(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(
        catalog, *COLUMNS, partitions=spec((2, IdentityTransform())), properties={"write.distribution-mode": "none"}
    )
    assert distribution_of(write_config(table, WriteOptions()), WriteOptions()).mode == "none"
    table.catalog.drop_table("db.written")
    other = new_table(catalog, *COLUMNS, properties={"write.distribution-mode": "sideways"})
    with pytest.raises(ConfigurationError, match="sideways"):
        formatkit.spark.write(rows_of(spark), other)


def test_a_partition_column_that_the_data_lacks_is_no_key(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, *COLUMNS, partitions=spec((2, TruncateTransform(1)), (1, BucketTransform(2))))
    formatkit.spark.write(rows_of(spark).select("id"), table)
    assert len(data_files(table)) == 2


def test_the_session_keeps_its_settings(spark: SparkSession, catalog: SqlCatalog) -> None:
    name = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    before = spark.conf.get(name)
    table = new_table(catalog, *COLUMNS, partitions=spec((2, IdentityTransform())))
    formatkit.spark.write(rows_of(spark), table, advisory_partition_size=12345)
    assert spark.conf.get(name) == before
