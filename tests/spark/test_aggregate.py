"""Aggregates that are made before rows reach Spark."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

import formatkit
import formatkit.spark
from formatkit.errors import ColumnNotFoundError, ConfigurationError, UnsupportedError
from support.iceberg_tables import columns, local_path, new_catalog

SCHEMA = columns(
    id=pa.int64(), kind=pa.string(), small=pa.int32(), price=pa.decimal128(9, 2), weight=pa.float64(), day=pa.date32()
)
ROWS = 60


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Three files; every seventh kind is null."""
    catalog = new_catalog(tmp_path_factory.mktemp("aggregates"))
    created = catalog.create_table("db.t", schema=SCHEMA)
    for start in range(0, ROWS, 20):
        ids = range(start, start + 20)
        rows: dict[str, Any] = {
            "id": ids,
            "kind": [None if i % 7 == 0 else "abc"[i % 3] for i in ids],
            "small": [None if i % 5 == 0 else i for i in ids],
            "price": [Decimal(i) / 4 for i in ids],
            "weight": [i / 8 for i in ids],
            "day": [i % 4 for i in ids],
        }
        formatkit.append(created, pa.table(rows, schema=SCHEMA))
    return catalog.load_table("db.t")


def test_what_metadata_and_executors_know_is_one_answer(spark: SparkSession, table: Table) -> None:
    asked = ["count", "count(small)", "min(id)", "max(kind)", "max(price)", "min(day)"]
    scan = formatkit.scan(table)
    assert formatkit.spark.aggregate(spark, scan, *asked, buckets=2).equals(scan.aggregate(*asked))
    filtered = formatkit.scan(table, "kind = 'a' and id > 30")
    assert formatkit.spark.aggregate(spark, filtered, *asked, buckets=2).equals(filtered.aggregate(*asked))


def test_groups_are_those_that_spark_makes(spark: SparkSession, table: Table) -> None:
    made = formatkit.spark.group_in_buckets(
        spark,
        formatkit.scan(table),
        by=["kind", "day"],
        aggregates={
            "rows": "count",
            "smalls": "count(small)",
            "small": "sum(small)",
            "price": "sum(price)",
            "weight": "sum(weight)",
            "first": "min(id)",
            "last": "max(price)",
        },
        buckets=2,
    )
    frame = formatkit.spark.read(spark, table).groupBy("kind", "day")
    expected = frame.agg(
        sql.count("*").alias("rows"),
        sql.count("small").alias("smalls"),
        sql.sum("small").alias("small"),
        sql.sum("price").alias("price"),
        sql.sum("weight").alias("weight"),
        sql.min("id").alias("first"),
        sql.max("price").alias("last"),
    )
    assert [(each.name, each.dataType) for each in made.schema] == [(e.name, e.dataType) for e in expected.schema]
    assert sorted(map(str, made.collect())) == sorted(map(str, expected.collect()))


def test_sums_that_may_be_too_large_are_refused(spark: SparkSession, tmp_path: Any) -> None:
    created = new_catalog(tmp_path).create_table("db.large", schema=columns(k=pa.int32(), n=pa.int64()))
    created.append(pa.table({"k": [1, 1], "n": [1 << 62, 1 << 62]}, schema=columns(k=pa.int32(), n=pa.int64())))
    made = formatkit.spark.group_in_buckets(spark, formatkit.scan(created), "k", {"n": "sum(n)"})
    with pytest.raises(PythonException, match="too large for a long"):
        made.collect()


@pytest.mark.parametrize(
    ("by", "aggregate", "error"),
    [
        ("weight", "count", UnsupportedError),
        ("kind", "max(weight)", UnsupportedError),
        ("kind", "sum(kind)", UnsupportedError),
        ("kind", "avg(id)", ConfigurationError),
        ("kind", "sum(nothing)", ColumnNotFoundError),
        ("nothing", "count", ColumnNotFoundError),
    ],
)
def test_groups_that_would_differ_from_those_of_spark_are_refused(
    spark: SparkSession, table: Table, by: str, aggregate: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        formatkit.spark.group_in_buckets(spark, formatkit.scan(table), by, {"made": aggregate})


def test_numbers_need_neither_files_nor_executors(spark: SparkSession, tmp_path: Any) -> None:
    created = new_catalog(tmp_path).create_table("db.gone", schema=columns(n=pa.int64()))
    created.append(pa.table({"n": [3, 1, 2]}))
    scan = formatkit.scan(created)
    for task in scan.tasks:
        local_path(task.location).unlink()
    assert formatkit.spark.aggregate(spark, scan, "count", "max(n)").to_pylist() == [{"count": 3, "max(n)": 3}]
