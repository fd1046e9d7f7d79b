"""What is asked of a DataFrame later on reaches the scan, and no query sees what another one asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, ListType, LongType, NestedField, StructType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import formatkit
import formatkit.spark
from support.iceberg_tables import new_catalog
from support.spark_plans import KEYS, ROWS, as_spark_reads, plan_of, rows_as_arrow, scans, sorted_rows, table_of
from support.written_tables import new_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return table_of(tmp_path_factory.mktemp("pushdown"))


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: Table) -> DataFrame:
    return formatkit.spark.read(spark, table, buckets=4)


@pytest.fixture(scope="module")
def truth(spark: SparkSession, table: Table) -> DataFrame:
    return as_spark_reads(spark, table)


@pytest.mark.parametrize(
    "condition",
    [
        "key = 'a' and n > 2",
        "key != 'a'",
        "key is null or x = 0",
        "x > 1",
        "not (x > 1)",
        "x = double('nan')",
        "pair.left in (1, 2) and key like 'b%'",
        "pair.right = '3'",
        "n % 2 = 1 and key in ('c', 'd')",
        "n > 100",
    ],
)
def test_filters_keep_the_rows_that_spark_itself_keeps(frame: DataFrame, truth: DataFrame, condition: str) -> None:
    assert sorted_rows(frame.filter(condition)) == sorted_rows(truth.filter(condition))


def test_filters_leave_out_files_and_are_shown(frame: DataFrame) -> None:
    (scan,) = scans(frame.filter("key = 'a' and n > 2"))
    assert "file_count:[1]" in scan
    assert "n > 2" in scan
    assert "key = 'a'" in scan


def test_spark_does_not_look_again_at_what_partitions_decide(frame: DataFrame) -> None:
    assert "Filter" not in plan_of(frame.filter("key = 'a'"))
    assert "Filter" in plan_of(frame.filter("n = 1"))


def test_only_the_columns_of_the_query_are_read(frame: DataFrame, truth: DataFrame) -> None:
    chosen = frame.select("n", "pair.right")
    read = chosen._jdf.queryExecution().optimizedPlan().collectLeaves().head().schema().simpleString()
    assert read == "struct<n:bigint,pair:struct<right:string>>"
    assert sorted_rows(chosen) == sorted_rows(truth.select("n", "pair.right"))


def test_rows_alone_need_no_column(frame: DataFrame) -> None:
    ones = frame.selectExpr("1")
    read = ones._jdf.queryExecution().optimizedPlan().collectLeaves().head().schema().simpleString()
    assert read == "struct<>"
    assert len(ones.collect()) == len(ROWS)


def test_limits_reach_the_scan(frame: DataFrame) -> None:
    few = frame.filter("key = 'b'").limit(2)
    (scan,) = scans(few)
    assert "limit:[2]" in scan
    assert len(few.collect()) == 2
    assert {row["key"] for row in few.collect()} == {"b"}


def test_filters_after_a_limit_come_after_it(spark: SparkSession, table: Table) -> None:
    first = formatkit.spark.read(spark, table, limit=5)
    kept = first.filter("key = 'f'")
    assert first.count() == 5
    assert kept.count() <= 5
    assert "filter:[true]" in "".join(scans(kept))


def test_a_filter_is_not_there_in_the_next_query(frame: DataFrame) -> None:
    assert frame.filter("n = 3").count() == len(KEYS)
    assert frame.count() == len(ROWS)


def test_two_filters_of_one_frame_in_one_query(frame: DataFrame) -> None:
    both = frame.filter("n = 1").union(frame.filter("n = 3"))
    assert sorted(row["n"] for row in both.collect()) == [1] * len(KEYS) + [3] * len(KEYS)


def test_a_frame_joined_with_itself(frame: DataFrame, truth: DataFrame) -> None:
    def joined(one: DataFrame) -> DataFrame:
        return one.alias("a").join(one.alias("b"), "n").filter("a.key = 'a' and b.x > 1").select("a.key", "b.n", "b.x")

    assert sorted_rows(joined(frame)) == sorted_rows(joined(truth))


def test_all_is_written_after_a_filtered_read(frame: DataFrame, tmp_path: Path) -> None:
    assert frame.filter("n = 1").count() == len(KEYS)
    frame.write.parquet(str(tmp_path / "copy"))
    assert frame.sparkSession.read.parquet(str(tmp_path / "copy")).count() == len(ROWS)


def test_what_is_cached_is_not_mistaken_for_more(frame: DataFrame) -> None:
    cached = frame.filter("n = 2").cache()
    try:
        assert cached.count() == len(KEYS)
        assert frame.count() == len(ROWS)
        assert frame.filter("n = 2").count() == len(KEYS)
    finally:
        cached.unpersist()


def test_temporary_views(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("pushed")
    found = spark.sql("select key, sum(n) as total from pushed where key > 'd' group by key order by key")
    assert "file_count:[2]" in "".join(scans(found))
    assert [tuple(row) for row in found.collect()] == [("e", 10), ("f", 10)]


def test_metadata_columns_are_there_when_they_are_named(frame: DataFrame) -> None:
    assert frame.columns == ["key", "n", "pair", "x"]
    found = frame.select("key", "_file", "_pos").filter("_pos = 4")
    assert found.count() == len(KEYS)
    assert all(row["_file"].endswith(".parquet") for row in found.collect())


def test_a_join_prunes_files_by_what_its_other_side_holds(spark: SparkSession, frame: DataFrame) -> None:
    small = spark.createDataFrame([("a", 1), ("b", 2), ("c", 3)], "key string, w int").filter("w = 2")
    joined = frame.join(sf.broadcast(small), "key")
    assert "dynamicpruning" in plan_of(joined)
    assert sorted(row["n"] for row in joined.collect()) == [0, 1, 2, 3, 4]
    executed = joined._jdf.queryExecution().executedPlan().toString()
    assert "file_count:[1]" in executed.split("Initial Plan")[0]


def test_a_join_with_a_filtered_table_of_ours_has_a_filter_at_run_time(frame: DataFrame, truth: DataFrame) -> None:
    def joined(one: DataFrame) -> DataFrame:
        return one.join(sf.broadcast(one.filter("x = double('nan') and pair.right = '2'").select("key", "x")), "key")

    asked = joined(frame)
    assert "dynamicpruning" in plan_of(asked)
    assert sorted_rows(asked) == sorted_rows(joined(truth))


def test_large_plans_are_sent_in_pieces(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch, truth: DataFrame
) -> None:
    monkeypatch.setattr("formatkit.spark.session._MOST_BYTES_IN_FUNCTION", 0)
    frame = formatkit.spark.read(spark, table, buckets=3).filter("n > 1")
    assert frame.rdd.getNumPartitions() == 3
    assert sorted_rows(frame) == sorted_rows(truth.filter("n > 1"))


def test_small_tables_are_broadcast(spark: SparkSession, frame: DataFrame) -> None:
    big = spark.range(10**9).selectExpr("id as n")
    assert "BroadcastHashJoin" in plan_of(big.join(frame.select("n", "x"), "n"))


def test_a_frame_stays_what_it_was_when_the_table_changes(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(tmp_path)
    frame = formatkit.spark.read(spark, table)
    formatkit.append(table, rows_as_arrow(table, ROWS[:3]))
    assert frame.count() == len(ROWS)
    assert formatkit.spark.read(spark, table).count() == len(ROWS) + 3


def test_parts_of_structs_that_were_selected_stay_the_only_ones(spark: SparkSession, tmp_path: Path) -> None:
    inner = StructType(NestedField(4, "a", IntegerType()), NestedField(5, "b", IntegerType()))
    fields = (
        NestedField(1, "n", LongType()),
        NestedField(2, "outer", StructType(NestedField(3, "inner", inner), NestedField(6, "c", IntegerType()))),
        NestedField(
            7,
            "list",
            ListType(
                8,
                StructType(NestedField(9, "a", IntegerType()), NestedField(10, "b", IntegerType())),
                element_required=False,
            ),
        ),
    )
    table = new_table(new_catalog(tmp_path), *fields)
    row = {"n": 1, "outer": {"inner": {"a": 1, "b": 2}, "c": 3}, "list": [{"a": 4, "b": 5}]}
    formatkit.append(table, rows_as_arrow(table, [row]))
    frame = formatkit.spark.read(spark, table, select=["n", "outer.inner.a", "outer.c", "list.element.b"])
    assert frame.drop("n").collect()[0].asDict(recursive=True) == {
        "outer": {"inner": {"a": 1}, "c": 3},
        "list": [{"b": 5}],
    }
    assert frame.select("outer.inner.a", "list.b").collect()[0].asDict() == {"a": 1, "b": [5]}
    whole = formatkit.spark.read(spark, table)
    assert whole.select("outer.inner").collect()[0].asDict(recursive=True) == {"inner": {"a": 1, "b": 2}}
    assert whole.select("outer.inner.b", "list.a").collect()[0].asDict() == {"b": 2, "a": [4]}
