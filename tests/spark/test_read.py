"""What executors read is what one process reads, in each format, with each kind of delete and type."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import UnsupportedError
from formatkit.spark import session
from formatkit.tck import naive
from formatkit.tck.rows import from_arrow
from formatkit.tck.scanned import ScannedTable
from support.iceberg_tables import local_path, new_catalog
from support.lies import change_entries, long_bound, set_bound
from support.spark_tables import EVERYTHING, everything, rows_of, seen_by_spark
from support.written_tables import ALL_FORMATS, new_table

ROWS = 18


Known: TypeAlias = ScannedTable[pa.RecordBatch]


@pytest.fixture(scope="module")
def table() -> Iterator[Known]:
    with everything("parquet") as made:
        yield made


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_every_type_and_kind_of_delete_comes_out_as_it_is(spark: SparkSession, file_format: str) -> None:
    with everything(file_format) as table:
        frame = formatkit.spark.read(spark, table.table, nanoseconds="integer", buckets=3)
        truth = naive.read(table.files, EVERYTHING, AlwaysTrue())
        assert len(truth) == ROWS
        assert rows_of(EVERYTHING, frame) == seen_by_spark(EVERYTHING, truth)


@pytest.mark.parametrize(
    ("where", "select"),
    [
        ("long > 1000000 and date is not null", ["long", "date"]),
        (None, ["_pos", "long", "_file", "_spec_id", "_row_id", "_last_updated_sequence_number"]),
        ("_pos < 4", ["struct.deep.u", "_deleted", "uuid"]),
        ("long < 0", ["long"]),
    ],
)
def test_filters_and_columns_are_those_of_the_scan(
    spark: SparkSession, table: Known, where: str | None, select: list[str]
) -> None:
    scan = formatkit.scan(table.table, where, select)
    expected = seen_by_spark(scan.schema, from_arrow(scan.schema, scan.to_arrow()))
    assert rows_of(scan.schema, formatkit.spark.read(spark, table.table, where, select, buckets=2)) == expected
    assert rows_of(scan.schema, scan.to_spark(spark, buckets=1, threads=2)) == expected


def test_each_bucket_is_one_partition_with_no_shuffle(spark: SparkSession, table: Known) -> None:
    frame = formatkit.spark.read(spark, table.table, select=["long"], buckets=3)
    counts = [len(rows) for rows in frame.rdd.glom().collect()]
    assert (len(counts), sum(counts)) == (3, ROWS)
    assert all(counts)
    assert "Exchange" not in frame._jdf.queryExecution().toString()


def test_large_plans_send_each_task_its_own_bucket(
    spark: SparkSession, table: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_MOST_BYTES_IN_FUNCTION", 0)
    frame = formatkit.spark.read(spark, table.table, select=["long"], buckets=3)
    counts = [len(rows) for rows in frame.rdd.glom().collect()]
    assert (len(counts), sum(counts)) == (3, ROWS)
    assert all(counts)


@pytest.mark.parametrize("limit", [0, 1, 7, 100])
def test_no_more_rows_than_the_limit(spark: SparkSession, table: Known, limit: int) -> None:
    frame = formatkit.spark.read(spark, table.table, select=["long"], limit=limit, buckets=3)
    assert len(frame.collect()) == min(limit, ROWS)


def test_rows_without_columns_are_counted(spark: SparkSession, table: Known) -> None:
    frame = formatkit.spark.read(spark, table.table, select=[], buckets=2)
    assert frame.columns == []
    assert frame.count() == ROWS


def test_an_empty_table_has_columns_and_one_empty_bucket(spark: SparkSession, tmp_path: Path) -> None:
    fields = [NestedField(1, "a", LongType()), NestedField(2, "b", StringType())]
    empty = new_table(new_catalog(tmp_path), *fields)
    frame = formatkit.spark.read(spark, empty)
    assert frame.dtypes == [("a", "bigint"), ("b", "string")]
    assert frame.rdd.getNumPartitions() == 1
    assert frame.collect() == []


def test_a_table_is_found_by_the_location_of_its_metadata(spark: SparkSession, table: Known) -> None:
    assert formatkit.spark.read(spark, table.table.metadata_location, select=["long"]).count() == ROWS


def test_one_dataframe_can_be_asked_twice(spark: SparkSession, table: Known) -> None:
    frame = formatkit.spark.read(spark, table.table, select=["long", "bool"], buckets=2)
    low, high = frame.filter("long < 1000000"), frame.filter("long >= 1000000")
    assert low.count() + high.count() == frame.count() == low.union(high).count() == ROWS
    assert frame.join(frame.withColumnRenamed("bool", "other"), "long").count() == ROWS


def test_what_was_counted_is_that_of_the_last_run(spark: SparkSession, table: Known) -> None:
    scan = formatkit.spark.SparkScan(spark, formatkit.scan(table.table, select=["long"]), buckets=3)
    assert scan.metrics().by_bucket == {}
    frame = scan.dataframe()
    for _ in range(2):
        frame.collect()
        total = scan.metrics().total
        assert (total["rows"], total["files"]) == (ROWS, 3)
        assert total["bytes"] > 0
    assert str(scan.metrics()).splitlines()[-1].split()[0] == "all"


def test_the_plan_tells_buckets_and_files(spark: SparkSession, table: Known) -> None:
    scan = formatkit.spark.SparkScan(spark, formatkit.scan(table.table, "long > 3", ["long"]), buckets=2)
    text = scan.explain()
    assert "buckets:[2] file_count:[3]" in text
    assert "long > 3" in text
    assert "buckets:[2] file_count:[3]" in scan.dataframe()._jdf.queryExecution().toString()


def test_an_error_in_a_worker_says_what_formatkit_says(spark: SparkSession) -> None:
    with everything("parquet") as table:
        frame = formatkit.spark.read(spark, table.table, select=["long"])
        location = table.files[1].location
        local_path(location).unlink()
        with pytest.raises(PythonException) as caught:
            frame.collect()
        assert "FileMissingError" in str(caught.value)
        assert location in str(caught.value)


def test_types_that_spark_lacks_show_before_anything_is_read(spark: SparkSession, table: Known) -> None:
    with pytest.raises(UnsupportedError, match="'ns' is timestamp_ns"):
        formatkit.spark.read(spark, table.table)


def test_batches_of_another_library_show_before_anything_is_read(spark: SparkSession, table: Known) -> None:
    scan = formatkit.scan(table.table, select=["long"], batch_type=pl.DataFrame)
    with pytest.raises(UnsupportedError, match="this scan gives DataFrame"):
        scan.to_spark(spark)


def test_a_missing_pyspark_is_named_with_its_extra() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import formatkit.spark"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install 'formatkit[spark]'" in outcome.stderr


def test_executors_verify_what_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    with new_catalog(tmp_path) as catalog:
        table = new_table(catalog, NestedField(1, "id", LongType()))
        formatkit.append(table, pa.table({"id": list(range(100))}))
        change_entries(table, lambda entry: set_bound(entry, "upper_bounds", 1, long_bound(10)))
        verify = {"read.verify-skipping": "true"}
        assert formatkit.scan(table, "id = 99").to_spark(spark).count() == 0
        frame = formatkit.scan(table, "id = 99", properties=verify).to_spark(spark)
        with pytest.raises(PythonException, match="MisleadingStatisticsError"):
            frame.collect()
        everything = formatkit.scan(table, properties=verify)
        assert formatkit.spark.aggregate(spark, everything, "max(id)").to_pylist() == [{"max(id)": 99}]
