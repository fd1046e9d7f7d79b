"""The part of the tour that is a pipeline on Spark: read, evolve, merge, stream, compact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from showing import code, output, say, show_rows, step, verdict

import formatkit
import formatkit.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["run_pipeline"]

SALES = [(1, "DE", 10.0), (2, "FR", 20.0), (3, "IT", 30.0)]
CHANGES = [(2, "FR", 25.0, "SPRING"), (4, "DE", 40.0, None), (5, "IT", 50.0, "SPRING")]
LATE = [(6, "DE", 60.0, None), (7, "FR", 70.0, "SUMMER")]
MERGE = """MERGE INTO demo.shop.sales t USING changes s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


def run_pipeline(spark: SparkSession, catalog: Catalog, folder: Path) -> None:
    """Five steps, each of which commits once."""
    for key, value in catalog.properties.items():
        spark.conf.set(f"spark.formatkit.catalog.demo.{key}", value)
    formatkit.spark.register(spark)
    _make_tables(spark, catalog)
    _read_and_evolve(spark)
    _merge(spark)
    _stream(spark, catalog, folder)
    _compact(spark)
    _look_back(spark)


def _make_tables(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE demo.shop.sales (id BIGINT, country STRING, amount FLOAT) PARTITIONED BY (country)")
    rows = _rows(SALES, ("id", "country", "amount"))
    formatkit.append(catalog.load_table("shop.sales"), rows.set_column(2, "amount", rows["amount"].cast(pa.float32())))
    for name, given in (("changes", CHANGES), ("late", LATE)):
        spark.sql(f"CREATE TABLE demo.shop.{name} (id BIGINT, country STRING, amount DOUBLE, coupon STRING) USING avro")
        formatkit.append(catalog.load_table(f"shop.{name}"), _rows(given, ("id", "country", "amount", "coupon")))


def _read_and_evolve(spark: SparkSession) -> None:
    step("A pipeline on Spark, 1: read Avro files, evolve the table they go to")
    say(
        "Another team leaves Avro files in [bold]shop.changes[/]. They go to [bold]shop.sales[/], Parquet partitioned "
        "by country, whose amounts are floats, and which knows no coupons."
    )
    code('formatkit.spark.register(spark)  # pyiceberg\'s catalog "demo" is a catalog of SQL now')
    code('formatkit.spark.read(spark, "demo.shop.changes").createOrReplaceTempView("changes")')
    formatkit.spark.read(spark, "demo.shop.changes").createOrReplaceTempView("changes")
    for change in ("ADD COLUMN coupon STRING", "ALTER COLUMN amount TYPE DOUBLE"):
        code(f"ALTER TABLE demo.shop.sales {change}", "sql")
        spark.sql(f"ALTER TABLE demo.shop.sales {change}")


def _merge(spark: SparkSession) -> None:
    step("A pipeline on Spark, 2: merge")
    code(MERGE, "sql")
    plan = _scans_of(spark.sql(f"EXPLAIN {MERGE}"))
    spark.sql(MERGE)
    say("The plan reads both tables by formatkit. Executors write the files, and the driver commits them once:")
    output(plan)
    show_rows(("id", "country", "amount", "coupon"), spark.table("demo.shop.sales").orderBy("id").collect())


def _stream(spark: SparkSession, catalog: Catalog, folder: Path) -> None:
    step("A pipeline on Spark, 3: stream into it")
    text = """query = (
    spark.readStream.format("formatkit").load("demo.shop.late")
    .writeStream.format("formatkit").option("checkpointLocation", checkpoints)
    .trigger(availableNow=True).start("demo.shop.sales")
)"""
    code(text)
    rows = spark.readStream.format("formatkit").load("demo.shop.late")
    writing = rows.writeStream.format("formatkit").option("checkpointLocation", str(folder / "checkpoints"))
    writing.trigger(availableNow=True).start("demo.shop.sales").awaitTermination()
    expected = {row[0] for row in (*SALES, *CHANGES, *LATE)}
    found = formatkit.scan(catalog.load_table("shop.sales")).count()
    say(
        f"{verdict(found, len(expected))} rows are in the table, each of them once: a restart goes on where the "
        "checkpoint says, and a micro-batch that was committed is not committed again."
    )


def _compact(spark: SparkSession) -> None:
    step("A pipeline on Spark, 4: compact")
    call = "CALL demo.system.rewrite_data_files(table => 'shop.sales')"
    code(call, "sql")
    result = spark.sql(call)
    show_rows(result.columns, result.collect())


def _look_back(spark: SparkSession) -> None:
    code("SELECT operation, summary FROM demo.shop.sales.snapshots ORDER BY committed_at", "sql")
    snapshots = spark.sql("SELECT operation, summary FROM demo.shop.sales.snapshots ORDER BY committed_at").collect()
    steps = ("first rows", "merge", "stream", "compact")
    show_rows(
        ("step", "operation", "rows added", "files added", "files removed", "rows in all"),
        (
            (name, found.operation, *(_count(found.summary, key) for key in _COUNTS))
            for name, found in zip(steps, snapshots, strict=True)
        ),
    )
    say("One commit for each step. Each of them can still be read: [bold]VERSION AS OF[/], or formatkit.scan(…).")


_COUNTS = ("added-records", "added-data-files", "deleted-data-files", "total-records")


def _count(summary: dict[str, str], key: str) -> str:
    return summary.get(key, "0")


def _scans_of(explained: DataFrame) -> str:
    """The lines of a plan that read and write tables, without the numbers that Spark gives to columns."""
    lines = re.sub(r"#\d+L?", "", explained.collect()[0][0]).splitlines()
    shown = [line.strip(" :+-") for line in lines if "formatkit" in line.lower() and "formatkit(" not in line]
    return "\n".join(line if len(line) < 100 else f"{line[:97]}…" for line in shown)


def _rows(rows: list[tuple[Any, ...]], names: tuple[str, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
