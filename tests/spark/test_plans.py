"""Spark plans no Exchange where buckets are hashed as it would hash, and one wherever they are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import formatkit
import formatkit.spark
from formatkit.spark import versions
from formatkit.spark.declared import declare
from support.iceberg_tables import new_catalog
from support.spark_plans import (
    FIELDS,
    KEYS,
    ROWS,
    as_spark_reads,
    exchanges,
    plan_of,
    rows_as_arrow,
    scans,
    sorted_rows,
    table_of,
)
from support.written_tables import new_table, spec

BUCKETS = 4


@pytest.fixture(scope="module", autouse=True)
def shuffled_joins(spark: SparkSession) -> Iterator[None]:
    """Joins that would shuffle if they could not do without it."""
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before or "10485760")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return table_of(tmp_path_factory.mktemp("plans"))


@pytest.fixture(scope="module", params=["pushed", "declared"])
def frame(request: pytest.FixtureRequest, spark: SparkSession, table: Table) -> DataFrame:
    """A frame by way of the data source interface, and one by way of a plan around its rows."""
    if request.param == "pushed":
        return formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="key")
    scan = formatkit.scan(table)
    return declare(
        formatkit.spark.dataframe(spark, scan, buckets=BUCKETS, partitioned_by="key"),
        scan.buckets(BUCKETS, by=["key"]),
    )


@pytest.fixture(scope="module")
def truth(spark: SparkSession, table: Table) -> DataFrame:
    return as_spark_reads(spark, table)


def grouped(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg({"n": "sum", "x": "count"})


def grouped_by_more(frame: DataFrame) -> DataFrame:
    return frame.filter("n > 1").groupBy("key", "n").count()


def renamed_and_grouped(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key as k", "n").groupBy("k").count()


def joined(frame: DataFrame) -> DataFrame:
    return frame.filter("n > 2").join(frame.select("key", "x"), "key")


def outer_joined(frame: DataFrame) -> DataFrame:
    return frame.filter("key > 'c'").join(frame.selectExpr("key", "n as m"), "key", "full")


def windowed(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key", "n", "row_number() over (partition by key order by n) as place")


@pytest.mark.parametrize(
    "query", [grouped, grouped_by_more, renamed_and_grouped, joined, outer_joined, windowed], ids=lambda it: it.__name__
)
def test_nothing_is_shuffled_by_the_partition_columns(
    frame: DataFrame, truth: DataFrame, query: Callable[[DataFrame], DataFrame]
) -> None:
    asked = query(frame)
    assert exchanges(asked) == 0, plan_of(asked)
    assert exchanges(query(truth)) > 0
    assert sorted_rows(asked) == sorted_rows(query(truth))


# A filtered side of an inner join would prune the other one at run time, which Spark prefers.
@pytest.mark.parametrize(
    "query", [grouped, grouped_by_more, renamed_and_grouped, outer_joined, windowed], ids=lambda it: it.__name__
)
def test_queries_that_need_it_hash_rows_by_themselves(
    spark: SparkSession, table: Table, truth: DataFrame, query: Callable[[DataFrame], DataFrame]
) -> None:
    asked = query(formatkit.spark.read(spark, table))
    assert exchanges(asked) == 0, plan_of(asked)
    assert sorted_rows(asked) == sorted_rows(query(truth))
    assert exchanges(query(formatkit.spark.read(spark, table, partitioned_by=()))) > 0


def test_both_sides_of_a_join_are_hashed_into_as_many_buckets(
    spark: SparkSession, table: Table, truth: DataFrame
) -> None:
    def joined(one: DataFrame, other: DataFrame) -> DataFrame:
        return one.join(other.selectExpr("key as k", "n as m"), sf.expr("key = k and n < m"))

    asked = joined(formatkit.spark.read(spark, table, buckets=2), formatkit.spark.read(spark, table, buckets=5))
    assert exchanges(asked) == 0, plan_of(asked)
    assert sorted_rows(asked) == sorted_rows(joined(truth, truth))


def test_a_join_by_other_columns_too_is_shuffled(spark: SparkSession, table: Table, truth: DataFrame) -> None:
    def joined(frame: DataFrame) -> DataFrame:
        return frame.join(frame.select("key", "n", "x"), ["key", "n"])

    asked = joined(formatkit.spark.read(spark, table))
    assert exchanges(asked) == 2
    assert sorted_rows(asked) == sorted_rows(joined(truth))


def test_buckets_of_very_different_length_are_not_made(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path)
    formatkit.append(table, rows_as_arrow(table, ROWS[:5] * 10_000))
    frame = formatkit.spark.read(spark, table, buckets=3).groupBy("key").count()
    assert exchanges(frame) == 1
    assert {row["key"]: row["count"] for row in frame.collect()} == {key: 50_005 if key == "a" else 5 for key in KEYS}


def test_what_a_query_does_not_need_is_not_hashed(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, buckets=5)
    assert "partitioning:[unknown" in "".join(scans(frame.filter("n > 1")))
    assert "partitioning:[hash(key)" in "".join(scans(grouped(frame)))


def test_only_the_other_side_of_a_join_is_shuffled(spark: SparkSession, frame: DataFrame, truth: DataFrame) -> None:
    other = spark.createDataFrame([(key, i) for i, key in enumerate(KEYS)] * 2, "key string, w int")
    asked = frame.join(other, "key")
    assert exchanges(asked) == 1
    assert sorted_rows(asked) == sorted_rows(truth.join(other, "key"))


def test_other_columns_are_shuffled(frame: DataFrame, truth: DataFrame) -> None:
    asked = frame.groupBy("n").count()
    assert exchanges(asked) == 1
    assert sorted_rows(asked) == sorted_rows(truth.groupBy("n").count())


def test_each_row_is_where_sparks_own_hash_puts_it(frame: DataFrame) -> None:
    there = frame.selectExpr("spark_partition_id() as found", f"pmod(hash(key), {BUCKETS}) as right")
    assert there.filter("found != right").count() == 0
    assert there.count() == len(ROWS)


def test_later_filters_still_leave_out_files(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="key")
    asked = frame.filter("key in ('a', 'b')").groupBy("key").count()
    (scan,) = scans(asked)
    assert "file_count:[2]" in scan
    assert exchanges(asked) == 0
    assert sorted(map(tuple, asked.collect())) == [("a", 5), ("b", 5)]


def test_buckets_of_icebergs_hash_are_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path, spec((1, BucketTransform(4))))
    frame = formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="key")
    assert exchanges(grouped(frame)) == 1
    assert sorted_rows(grouped(frame)) == sorted_rows(grouped(as_spark_reads(spark, table)))


def test_files_of_a_spec_without_the_column_are_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path)
    with table.update_spec() as update:
        update.remove_field("part_0")
    formatkit.append(table, rows_as_arrow(table, ROWS))
    frame = formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="key")
    assert exchanges(grouped(frame)) == 1
    assert "unknown: key is no identity partition" in "".join(scans(grouped(frame)))
    assert sorted_rows(grouped(frame)) == sorted_rows(grouped(as_spark_reads(spark, table)))


def test_a_declared_order_needs_no_sort(spark: SparkSession, tmp_path: Path) -> None:
    order = SortOrder(SortField(2, IdentityTransform()))
    table = new_table(new_catalog(tmp_path), *FIELDS, partitions=spec((1, IdentityTransform())), sort_order=order)
    formatkit.append(table, rows_as_arrow(table, [row for row in ROWS if row["key"] == "a"]))
    frame = formatkit.spark.read(spark, table, buckets=1, partitioned_by="key")
    asked = frame.sortWithinPartitions("n")
    assert [row["n"] for row in asked.collect()] == [0, 1, 2, 3, 4]
    assert ("Sort [" in plan_of(asked)) is (not formatkit.scan(table).buckets(1, by=["key"]).ordering)


def test_another_version_of_spark_is_not_touched(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "TRIED_VERSIONS", ("3.5",))
    assert versions.obstacle(spark) == f"this is Spark {spark.version}; tried are 3.5"
    frame = formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="key")
    assert exchanges(grouped(frame)) == 1
    assert frame.filter("n = 1").count() == len(KEYS)


def test_parts_of_spark_that_are_not_as_they_were_are_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions._missing.cache_clear()
    monkeypatch.setitem(versions._CONSTRUCTORS, "org.apache.spark.sql.execution.LogicalRDD", "Seq")
    assert "LogicalRDD of this Spark is not the one that was tried" in (versions.obstacle(spark) or "")
    versions._missing.cache_clear()
    monkeypatch.setitem(versions._CONSTRUCTORS, "org.apache.spark.NoSuchClass", "")
    monkeypatch.delitem(versions._CONSTRUCTORS, "org.apache.spark.sql.execution.LogicalRDD")
    assert versions.obstacle(spark) == "this Spark has no org.apache.spark.NoSuchClass"
    versions._missing.cache_clear()


def test_this_version_is_tried(spark: SparkSession) -> None:
    assert versions.obstacle(spark) is None
