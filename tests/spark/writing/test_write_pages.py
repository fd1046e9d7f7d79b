"""What Spark's own pages show of a write."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

import formatkit.spark
from support.written_tables import new_table


def test_rows_files_and_bytes_are_shown(spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, NestedField(1, "id", LongType()))
    result = formatkit.spark.write(spark.range(0, 10, 1, 2), table)
    # The last stage comes first.
    shown = next(
        each["value"]
        for stage in pages(spark, "stages")
        for each in stage["accumulatorUpdates"]
        if each["name"] == "formatkit write test.db.written"
    )
    assert shown == f"[bytes_written {result.bytes}, files_written 2, rows_written 10]"


def pages(spark: SparkSession, what: str) -> Any:
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{what}") as answer:
        return json.load(answer)
