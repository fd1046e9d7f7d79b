"""Count, min and max that the table's metadata tells are known when Spark has planned; the others are read."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from support.iceberg_tables import new_catalog
from support.spark_plans import plan_of
from support.written_tables import new_table, spec

FIELDS = (
    NestedField(1, "key", StringType()),
    NestedField(2, "n", LongType(), required=True),
    NestedField(3, "i", IntegerType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "amount", DecimalType(12, 2)),
    NestedField(6, "day", DateType()),
    NestedField(7, "at", TimestampType()),
    NestedField(8, "moment", TimestamptzType()),
    NestedField(9, "flag", BooleanType()),
    NestedField(10, "none", LongType()),
)


def _row(number: int) -> dict[str, Any]:
    return {
        "key": "ab"[number % 2],
        "n": number,
        "i": None if number % 3 == 0 else number,
        "x": number + 0.5,
        "amount": Decimal(number) / 4,
        "day": date(1969, 12, 30 + number % 2),
        "at": datetime(1960, 1, 1, 0, 0, 0, number + 1),
        "moment": datetime(2020, 1, 1, number, tzinfo=UTC),
        "flag": number > 3,
        "none": None,
    }


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = new_table(
        new_catalog(tmp_path_factory.mktemp("aggregates")), *FIELDS, partitions=spec((1, IdentityTransform()))
    )
    formatkit.append(made, pa.Table.from_pylist([_row(n) for n in range(10)], formatkit.scan(made).arrow_schema))
    return made


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: Table) -> DataFrame:
    return formatkit.spark.read(spark, table)


def is_planned(frame: DataFrame) -> bool:
    """Whether the answer is in the plan, so that no task of Python runs."""
    return "LocalTableScan" in plan_of(frame) and "MapInArrow" not in plan_of(frame)


NAMES = [field.name for field in FIELDS]
EXACT = [name for name in NAMES if name != "key"]


@pytest.mark.parametrize("name", EXACT)
def test_extremes_and_counts_are_those_of_the_rows(spark: SparkSession, frame: DataFrame, name: str) -> None:
    asked = ("count(*)", f"count({name})", f"min({name})", f"max({name})", f"max({name}) > min({name})")
    found = frame.selectExpr(*asked)
    rows = spark.createDataFrame(frame.collect(), frame.schema).selectExpr(*asked)
    assert is_planned(found)
    assert found.collect() == rows.collect()


def test_count_needs_no_task(frame: DataFrame) -> None:
    assert frame.count() == 10
    assert is_planned(frame.selectExpr("count(1)", "count(key)"))
    assert is_planned(frame.filter("key = 'a'").selectExpr("count(*)"))
    assert frame.filter("key = 'a'").count() == 5


@pytest.mark.parametrize(
    "expression",
    [
        "min(key)",
        "count(distinct n)",
        "sum(n)",
        "avg(n)",
        "max(n + 1)",
        "count(i) filter (where n > 2)",
    ],
)
def test_what_metadata_cannot_tell_is_read(spark: SparkSession, frame: DataFrame, expression: str) -> None:
    rows = spark.createDataFrame(frame.collect(), frame.schema).selectExpr(expression)
    assert not is_planned(frame.selectExpr(expression))
    assert frame.selectExpr(expression).collect() == rows.collect()


def test_rows_are_read_under_a_filter_that_metadata_does_not_decide(frame: DataFrame) -> None:
    assert frame.filter("n > 3").count() == 6
    assert frame.filter("n > 3").selectExpr("min(n)", "max(n)").collect() == [(4, 9)]
    assert frame.groupBy("key").count().orderBy("key").collect() == [("a", 5), ("b", 5)]


def test_deleted_rows_do_not_count(spark: SparkSession, tmp_path: Path) -> None:
    made = new_table(new_catalog(tmp_path), *FIELDS)
    formatkit.append(made, pa.Table.from_pylist([_row(n) for n in range(10)], formatkit.scan(made).arrow_schema))
    formatkit.delete(made, "n = 9")
    found = formatkit.spark.read(spark, made).selectExpr("count(*)", "max(n)")
    assert not is_planned(found)
    assert found.collect() == [(9, 8)]


def test_marked_rows_count_where_they_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    made = new_table(new_catalog(tmp_path), *FIELDS)
    formatkit.append(made, pa.Table.from_pylist([_row(n) for n in range(10)], formatkit.scan(made).arrow_schema))
    formatkit.delete(made, "n = 9")
    assert formatkit.spark.read(spark, made, select=("n", "_deleted")).count() == 10


def test_an_empty_table_has_no_extremes(spark: SparkSession, tmp_path: Path) -> None:
    made = new_table(new_catalog(tmp_path), *FIELDS)
    assert formatkit.spark.read(spark, made).selectExpr("count(*)", "min(n)", "max(at)").collect() == [(0, None, None)]


def test_a_filter_of_the_read_itself_counts(spark: SparkSession, table: Table) -> None:
    assert formatkit.spark.read(spark, table, "n < 4").count() == 4
    assert formatkit.spark.read(spark, table, "key = 'b'").selectExpr("min(n)", "max(n)").collect() == [(1, 9)]


def test_a_limit_counts(spark: SparkSession, table: Table) -> None:
    assert formatkit.spark.read(spark, table, limit=3).count() == 3
    assert formatkit.spark.read(spark, table).limit(4).count() == 4
