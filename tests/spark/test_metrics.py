"""What Spark's own pages show of a scan."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from support.iceberg_tables import new_catalog

DAYS, ROWS_A_DAY = 4, 10


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Days 0 to 3 in a partition each, ten rows a day."""
    catalog: InMemoryCatalog = new_catalog(tmp_path_factory.mktemp("metrics"))
    created = catalog.create_table(
        "db.days",
        Schema(NestedField(1, "day", LongType()), NestedField(2, "n", LongType())),
        partition_spec=PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day")),
    )
    days = [day for day in range(DAYS) for _ in range(ROWS_A_DAY)]
    formatkit.append(created, pa.table({"day": days, "n": range(len(days))}))
    return catalog.load_table("db.days")


def pages(spark: SparkSession, what: str) -> Any:
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}") as answer:
        return json.load(answer)


def last_stage(spark: SparkSession, name: str) -> tuple[dict[str, int], list[dict[str, int]]]:
    """What the page of the last stage with counters of that name shows: for the stage, and for each of its tasks."""
    for stage in pages(spark, "stages"):
        for shown in stage["accumulatorUpdates"]:
            if name in shown["name"]:
                page = pages(spark, f"stages/{stage['stageId']}/{stage['attemptId']}?details=true")
                tasks = [
                    counted(each["update"])
                    for task in page["tasks"].values()
                    for each in task["accumulatorUpdates"]
                    if each["id"] == shown["id"]
                ]
                return counted(shown["value"]), tasks
    raise AssertionError(f"no stage shows {name}")


def counted(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in (each.rsplit(" ", 1) for each in text.strip("[]").split(", "))}


def test_the_stage_page_shows_what_each_task_read(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, buckets=2)
    assert len(frame.filter("day >= 1").collect()) == 3 * ROWS_A_DAY
    stage, tasks = last_stage(spark, "days: 3 files, 1 pruned")
    assert (stage["files"], stage["rows"]) == (3, 3 * ROWS_A_DAY)
    assert sorted(task["files"] for task in tasks) == [1, 2]
    assert sum(task["rows"] for task in tasks) == 3 * ROWS_A_DAY
    assert {"bytes", "io_waited_us", "read_ms", "handover_ms"} <= stage.keys()


def test_queries_of_one_dataframe_count_apart(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, buckets=2)
    frame.filter("day = 0").collect()
    assert last_stage(spark, "days: 1 files, 3 pruned")[0]["rows"] == ROWS_A_DAY
    frame.filter("day = 0").select("n").collect()
    assert last_stage(spark, "days: 1 files, 3 pruned")[0]["rows"] == ROWS_A_DAY


def test_scans_under_a_filter_that_is_found_at_run_time_count_too(spark: SparkSession, table: Table) -> None:
    frame = formatkit.spark.read(spark, table, buckets=2)
    few = spark.createDataFrame([(2, "two")], "day bigint, word string").filter("word = 'two'")
    assert frame.join(few.hint("broadcast"), "day").count() == ROWS_A_DAY
    assert last_stage(spark, "days: 4 files, 0 pruned")[0]["rows"] == ROWS_A_DAY


def test_a_scan_of_its_own_counts_for_the_page_and_for_its_metrics(spark: SparkSession, table: Table) -> None:
    scan = formatkit.spark.SparkScan(spark, formatkit.scan(table), buckets=3)
    scan.dataframe().collect()
    stage, tasks = last_stage(spark, "formatkit: 4 files, 0 pruned")
    assert stage == scan.metrics().total
    assert len(tasks) == len(scan.metrics().by_bucket) == 3


def test_rows_without_columns_hand_over_no_bytes(spark: SparkSession, table: Table) -> None:
    formatkit.spark.read(spark, table, buckets=1).selectExpr("1").collect()
    stage, _ = last_stage(spark, "days: 4 files, 0 pruned")
    assert (stage["rows"], stage["arrow_bytes"]) == (DAYS * ROWS_A_DAY, 0)
