"""Reading a table with Spark: formatkit against Spark's own reader and what one would write by hand.

    python benchmarks/spark.py --rows 8000000 --files 8 --rounds 5

All contestants read the same Parquet files in one session (`local[2]`). Times are the least of interleaved rounds, with
planning: wall time and processor time, the latter of all processes together, which is the one to look at on a busy
machine. The first rounds do not count: Java compiles what it runs often. A table of few rows shows what a query costs
whatever its size. What they compute is compared. Prints tables in Markdown. The ratios of scans are to the hand-written
function, those of groups to Spark's own reader.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, TimestamptzType
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

import formatkit
import formatkit.spark

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "region", IntegerType()),
    NestedField(3, "customer", LongType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "text", StringType()),
    NestedField(6, "at", TimestamptzType()),
)
DDL = "id long, region int, customer long, price double, text string, at timestamp"
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
REGIONS = 32
BUCKETS = 4
_BATCH_ROWS = 65_536  # pyarrow's own default
_FEW_ROWS = 800
_WARM_UPS = 3

Frame = Callable[[], DataFrame]
Query = Callable[[DataFrame], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        catalog = InMemoryCatalog("spark", warehouse=Path(folder).as_uri())
        catalog.create_namespace("db")
        plain = _made(catalog, "plain", PartitionSpec(), options.rows, options.files)
        small = _made(catalog, "small", PartitionSpec(), _FEW_ROWS, options.files)
        # Two commits, so that a partition has more than one file.
        partitioned = _made(catalog, "partitioned", BY_REGION, options.rows, 2)
        spark = _session(folder)
        try:
            _measure_scans(spark, small, options.rounds)
            _measure_scans(spark, plain, options.rounds)
            _measure_groups(spark, partitioned, options.rounds)
        finally:
            spark.stop()


def _measure_scans(spark: SparkSession, table: Table, rounds: int) -> None:
    size = sum(Path(file).stat().st_size for file in _files(table)) >> 20
    rows = formatkit.scan(table).count()
    _heading(f"{rows:,} rows of {len(SCHEMA.fields)} columns, {size} MiB in all", _readers(spark, table))
    for title, (columns, query) in QUERIES.items():
        _show(title, _readers(spark, table, columns), query, rounds, compared_to="by hand")


def _measure_groups(spark: SparkSession, table: Table, rounds: int) -> None:
    readers = _groupers(spark, table)
    _heading(f"The same rows, partitioned by region: {REGIONS} partitions in {len(_files(table))} files", readers)
    for title, query in GROUP_QUERIES.items():
        _show(title, readers, query, rounds, compared_to="spark.read.parquet")
    aggregates = _aggregates(spark, table)
    _heading("The sums made inside of the buckets", aggregates)
    _show("group by region: sum", aggregates, DataFrame.collect, rounds, compared_to="spark.read.parquet")


def _heading(title: str, columns: Iterable[str]) -> None:
    names = ["query", *columns]
    print(f"\n{title}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}", flush=True)


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _aggregate(frame: DataFrame) -> Any:
    return frame.agg(
        f.sum("id"), f.sum("region"), f.max("customer"), f.count("price"), f.max("text"), f.max("at")
    ).collect()


def _one_column(frame: DataFrame) -> Any:
    return frame.agg(f.sum("customer")).collect()


QUERIES: Mapping[str, tuple[Sequence[str] | None, Query]] = {
    "scan to noop": (None, _noop),
    "scan and aggregate six columns": (None, _aggregate),
    "sum of one column": (["customer"], _one_column),
}


def _sums(frame: DataFrame) -> Any:
    return sorted(frame.groupBy("region").agg(f.sum("id"), f.count("*")).collect())


def _distinct(frame: DataFrame) -> Any:
    return sorted(frame.groupBy("region").agg(f.countDistinct("customer")).collect())


def _window(frame: DataFrame) -> Any:
    ranked = frame.withColumn("rank", f.row_number().over(Window.partitionBy("region").orderBy("id")))
    return ranked.agg(f.sum("rank"), f.max("id")).collect()


GROUP_QUERIES: Mapping[str, Query] = {
    "group by region: sum": _sums,
    "group by region: distinct customers": _distinct,
    "window over region": _window,
}


def _readers(spark: SparkSession, table: Table, columns: Sequence[str] | None = None) -> dict[str, Frame]:
    files = _files(table)
    select = columns or ("*",)
    return {
        "formatkit.spark.read": lambda: formatkit.spark.read(spark, table, select=select, buckets=BUCKETS),
        "spark.read.parquet": lambda: spark.read.parquet(*files),
        "by hand": lambda: _by_hand(spark, files, columns),
        "naive data source": lambda: spark.read.format("naive").option("files", "\n".join(files)).load(),
    }


def _groupers(spark: SparkSession, table: Table) -> dict[str, Frame]:
    files = _files(table)
    return {
        "formatkit.spark.read": lambda: formatkit.spark.read(spark, table, buckets=BUCKETS, partitioned_by="region"),
        "spark.read.parquet": lambda: spark.read.parquet(*files),
    }


def _by_hand(spark: SparkSession, files: Sequence[str], columns: Sequence[str] | None) -> DataFrame:
    """What a user writes who knows Arrow and Spark well, and Iceberg not at all."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                for file in files[bucket::BUCKETS]:
                    with pq.ParquetFile(file) as opened:
                        yield from opened.iter_batches(_BATCH_ROWS, columns=columns)

    numbers = spark.range(0, BUCKETS, 1, BUCKETS)
    chosen = [field for field in DDL.split(", ") if columns is None or field.split()[0] in columns]
    # DataFrame.mapInArrow itself asks for pandas.
    udf = UserDefinedFunction(read, returnType=", ".join(chosen), evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = udf(numbers["id"])
    java_frame: Any = numbers._jdf  # noqa: SLF001
    return DataFrame(java_frame.mapInArrow(column._jc, False, None), spark)  # noqa: SLF001


class NaiveSource(DataSource):
    """The shortest data source that reads Parquet files into Arrow batches."""

    @classmethod
    def name(cls) -> str:
        return "naive"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: Any) -> DataSourceReader:
        return NaiveReader(self.options["files"].split("\n"))


class NaiveReader(DataSourceReader):
    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(self._files[bucket::BUCKETS]) for bucket in range(BUCKETS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for file in partition.value:
            yield from pq.read_table(file).to_batches(_BATCH_ROWS)


def _aggregates(spark: SparkSession, table: Table) -> dict[str, Frame]:
    def sums(batches: Iterator[pa.RecordBatch]) -> pa.Table:
        parts = [_sums_of(pa.Table.from_batches([batch])) for batch in batches]
        whole = pa.concat_tables(parts).group_by("region").aggregate([("id_sum", "sum"), ("id_count", "sum")])
        return whole.rename_columns(["region", "total", "rows"])

    def in_bucket() -> DataFrame:
        scan = formatkit.scan(table, select=["region", "id"])
        ddl = "region int, total long, rows long"
        return formatkit.spark.map_buckets(spark, scan, sums, ddl, buckets=BUCKETS, partitioned_by="region")

    files = _files(table)
    return {
        "map_buckets": in_bucket,
        "spark.read.parquet": lambda: spark.read.parquet(*files).groupBy("region").agg(f.sum("id"), f.count("*")),
    }


def _sums_of(batch: pa.Table) -> pa.Table:
    return batch.group_by("region").aggregate([("id", "sum"), ("id", "count")])


def _show(title: str, readers: Mapping[str, Frame], query: Query, rounds: int, compared_to: str) -> None:
    wall: dict[str, float] = dict.fromkeys(readers, float("inf"))
    processor: dict[str, float] = dict.fromkeys(readers, float("inf"))
    for number in range(rounds + _WARM_UPS):
        answers = {}
        for name, frame in readers.items():
            began, spent = time.perf_counter(), _processor_seconds()
            answers[name] = query(frame())
            if number >= _WARM_UPS:
                wall[name] = min(wall[name], time.perf_counter() - began)
                now = _processor_seconds()
                processor[name] = min(processor[name], sum(now[each] - spent.get(each, 0) for each in now))
        expected = _sorted(answers[compared_to])
        wrong = [name for name, answer in answers.items() if _sorted(answer) != expected]
        if wrong:
            raise SystemExit(f"{title}: {', '.join(wrong)} and {compared_to} disagree")
    cells = [
        f"{wall[name]:.2f} s ({wall[name] / wall[compared_to]:.2f}), "
        f"{processor[name]:.2f} s ({processor[name] / processor[compared_to]:.2f})"
        for name in readers
    ]
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def _processor_seconds() -> dict[int, float]:
    """What this process and all below it have used, by their numbers: Python here, Java, and Python's workers."""
    parents, seconds = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            facts = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            parents[process] = int(facts[1])
            seconds[process] = (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")
    ours, found = {os.getpid()}, 0
    while found < len(ours):
        found = len(ours)
        ours |= {process for process, parent in parents.items() if parent in ours}
    return {process: seconds[process] for process in ours}


def _sorted(answer: Any) -> Any:
    return answer and sorted(tuple(row) for row in answer)


def _made(catalog: InMemoryCatalog, name: str, spec: PartitionSpec, rows: int, commits: int) -> Table:
    table = catalog.create_table(f"db.{name}", SCHEMA, partition_spec=spec)
    size = rows // commits
    for number in range(commits):
        formatkit.append(table, _rows(number * size, size))
    return catalog.load_table(f"db.{name}")


def _rows(start: int, count: int) -> pa.Table:
    random = np.random.default_rng(start)
    ids = np.arange(start, start + count)
    words = pa.array([f"customer wrote comment {i:06d}" for i in range(50_000)])
    moments = pa.array(1_700_000_000_000_000 + ids * 1_000, pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "id": ids,
            "region": pa.array(random.integers(0, REGIONS, count), pa.int32()),
            "customer": random.integers(0, 1_000_000, count),
            "price": np.round(random.gamma(2.0, 20.0, count), 2),
            "text": pc.take(words, pa.array(random.integers(0, len(words), count))),
            "at": moments,
        }
    )


def _files(table: Table) -> list[str]:
    return sorted(task.location.removeprefix("file://") for task in formatkit.scan(table).tasks)


def _session(folder: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("formatkit-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", folder)
        .config("spark.sql.warehouse.dir", folder)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(BUCKETS))
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(NaiveSource)
    return session


if __name__ == "__main__":
    main()
