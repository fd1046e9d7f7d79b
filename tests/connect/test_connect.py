"""What can be had on Spark Connect, where no JVM is within reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimeType
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import UnsupportedError
from formatkit.spark.session import is_connect
from support.iceberg_tables import new_catalog
from support.written_tables import new_table, spec

KEYS, ROWS = 3, 30


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return _table(tmp_path_factory, "left", "n", LongType(), range(ROWS))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return _table(tmp_path_factory, "right", "word", StringType(), map("word {}".format, range(KEYS)))


def _table(paths: pytest.TempPathFactory, name: str, column: str, kind: Any, values: Any) -> Table:
    """Partitioned by a key, which is 0, 1, 2, 0, …"""
    key = NestedField(1, "key", LongType())
    partitions = spec((1, IdentityTransform()))
    made = new_table(new_catalog(paths.mktemp(name)), key, NestedField(2, column, kind), partitions=partitions)
    listed = list(values)
    formatkit.append(made, pa.table({"key": [i % KEYS for i in range(len(listed))], column: listed}))
    return made.refresh()


def test_this_is_spark_connect(spark: SparkSession) -> None:
    assert is_connect(spark)


def test_rows_columns_and_filters_of_read(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, "n >= 10", ["n", "_pos"], buckets=2)
    assert frame.columns == ["n", "_pos"]
    assert sorted(row.n for row in frame.collect()) == list(range(10, ROWS))
    assert frame.filter("n < 12").count() == 2


def test_batches_that_are_not_those_of_arrow_are_refused_here(spark: SparkSession, table: Table) -> None:
    with pytest.raises(UnsupportedError, match="Arrow"):
        formatkit.spark.read(spark, table, batch_type=pl.DataFrame)


def test_counters_are_empty_and_the_plan_says_why_nothing_is_declared(spark: SparkSession, table: Table) -> None:
    scan = formatkit.spark.SparkScan(spark, formatkit.scan(table), buckets=2, partitioned_by="key")
    assert scan.dataframe().count() == ROWS
    assert scan.metrics().by_bucket == {}
    assert "Spark Connect has no optimizer" in scan.explain()


def test_functions_run_inside_of_buckets(spark: SparkSession, table: Table) -> None:
    def count(batches: Any) -> pa.Table:
        return pa.table({"rows": [sum(batch.num_rows for batch in batches)]})

    frame = formatkit.spark.map_buckets(
        spark, formatkit.scan(table), count, "rows bigint", partitioned_by="key", buckets=2
    )
    assert sum(row.rows for row in frame.collect()) == ROWS


def test_groups_and_answers_of_metadata(spark: SparkSession, table: Table) -> None:
    scan = formatkit.scan(table)
    groups = formatkit.spark.group_in_buckets(spark, scan, "key", {"rows": "count", "last": "max(n)"}, buckets=2)
    assert sorted(map(tuple, groups.collect())) == [(key, ROWS // KEYS, ROWS - KEYS + key) for key in range(KEYS)]
    asked = formatkit.scan(table, "n > 5")
    assert formatkit.spark.aggregate(spark, asked, "count(n)", "min(n)").to_pylist() == [{"count(n)": 24, "min(n)": 6}]


def test_tables_join_bucket_by_bucket(spark: SparkSession, table: Table, words: Table) -> None:
    pairs = formatkit.spark.co_bucketed(spark, formatkit.scan(table), formatkit.scan(words), on="key", buckets=2)
    rows = pairs.join("left").collect()
    assert sorted((row.key, row.n, row.word) for row in rows) == sorted(
        (n % KEYS, n, f"word {n % KEYS}") for n in range(ROWS)
    )


def test_the_data_source_reads_and_refuses(spark: SparkSession, table: Table) -> None:
    source = spark.read.format("formatkit").option("filter", "n < 4")
    assert sorted(row.n for row in source.load(table.metadata_location).collect()) == [0, 1, 2, 3]
    with pytest.raises(PySparkException, match="nonsense"):
        spark.read.format("formatkit").option("nonsense", "1").load(table.metadata_location).collect()


def test_times_arrive_where_the_session_allows_them(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = _table(tmp_path_factory, "times", "at", TimeType(), pa.array([1, 2], pa.time64("us")).to_pylist())
    frame = formatkit.spark.read(spark, made)
    with pytest.raises(PySparkException, match="TIME"):
        frame.collect()
    spark.conf.set("spark.sql.timeType.enabled", "true")
    assert sorted(row.at.microsecond for row in frame.collect()) == [1, 2]


def test_a_sql_catalog_is_refused_in_words_that_name_the_way_to_write(spark: SparkSession, tmp_path: Path) -> None:
    formatkit.spark.register(spark)
    with pytest.raises(UnsupportedError, match=r"no SQL catalog fk .*formatkit\.spark\.write"):
        formatkit.spark.register(spark, fk=new_catalog(tmp_path))
