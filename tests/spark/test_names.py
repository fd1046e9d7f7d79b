"""Plans call a table as SQL does, however it was found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

import formatkit.spark
from support.spark_plans import plan_of


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[Table]:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    for key, value in settings.items():
        spark.conf.set(f"spark.formatkit.catalog.prod.{key}", value)
    with load_catalog("prod", **settings) as catalog:
        catalog.create_namespace("db")
        made = catalog.create_table("db.sales", pa.schema([("id", pa.int64())]))
        made.append(pa.table({"id": [1]}))
        yield made
    for key in settings:
        spark.conf.unset(f"spark.formatkit.catalog.prod.{key}")


def test_a_table_keeps_its_name_in_plans(spark: SparkSession, table: Table) -> None:
    assert "formatkit prod.db.sales buckets" in plan_of(formatkit.spark.read(spark, table))
    assert "formatkit prod.db.sales buckets" in plan_of(formatkit.spark.read(spark, "prod.db.sales"))
    formatkit.spark.register(spark)
    assert "formatkit prod.db.sales buckets" in plan_of(spark.table("prod.db.sales"))


def test_a_metadata_file_has_a_short_name_in_plans(spark: SparkSession, table: Table) -> None:
    assert "formatkit sales@00001 buckets" in plan_of(formatkit.spark.read(spark, table.metadata_location))
