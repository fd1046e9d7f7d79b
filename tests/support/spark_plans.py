"""Tables for tests of Spark's plans, and what is to be read in those plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType
from pyspark.sql import DataFrame, SparkSession

import formatkit
from support.iceberg_tables import local_path, new_catalog
from support.written_tables import data_files, new_table, spec

__all__ = [
    "FIELDS",
    "KEYS",
    "ROWS",
    "as_spark_reads",
    "exchanges",
    "plan_of",
    "rows_as_arrow",
    "scans",
    "sorted_rows",
    "table_of",
]

KEYS = ["a", "b", "c", "d", "e", "f", None]
FIELDS = (
    NestedField(1, "key", StringType()),
    NestedField(2, "n", LongType(), required=True),
    NestedField(3, "pair", StructType(NestedField(4, "left", IntegerType()), NestedField(5, "right", StringType()))),
    NestedField(6, "x", DoubleType()),
)
_ODD = [1.5, None, float("nan"), -0.0, float("inf")]
ROWS: list[dict[str, Any]] = [
    {"key": key, "n": i, "pair": {"left": i, "right": str(i)}, "x": _ODD[i % 5]} for key in KEYS for i in range(5)
]


def table_of(directory: Path, partitions: PartitionSpec | None = None) -> Table:
    """A table of `ROWS`, by default with one file a key."""
    table = new_table(new_catalog(directory), *FIELDS, partitions=partitions or spec((1, IdentityTransform())))
    formatkit.append(table, rows_as_arrow(table, ROWS))
    return table


def rows_as_arrow(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=formatkit.scan(table).arrow_schema)


def as_spark_reads(spark: SparkSession, table: Table) -> DataFrame:
    """The table's files by Spark's own reader, which knows nothing of Iceberg."""
    # With it, Spark's reader takes statistics for the truth about NaN, of which they say nothing.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    return spark.read.parquet(*(str(local_path(file.file_path)) for file in data_files(table)))


def plan_of(frame: DataFrame) -> str:
    """The physical plan."""
    jvm: Any = frame.sparkSession.sparkContext._jvm
    text: str = jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple")
    return text


def exchanges(frame: DataFrame) -> int:
    """How many shuffles the plan has."""
    return plan_of(frame).count("Exchange hashpartitioning")


def scans(frame: DataFrame) -> list[str]:
    """The lines of the plan that say what formatkit reads."""
    return [line for line in plan_of(frame).splitlines() if "formatkit " in line]


def sorted_rows(frame: DataFrame) -> list[str]:
    """The rows, in an order that does not depend on partitions."""
    return sorted(map(str, frame.collect()))
