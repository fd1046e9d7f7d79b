"""`read` and `dataframe`: the rows of a scan as a Spark DataFrame."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from formatkit.errors import UnsupportedError
from formatkit.scan import Scan, scan
from formatkit.spark.catalogs import catalogs_of, pin_table, shown_name
from formatkit.spark.declared import declare
from formatkit.spark.interpreter import check_interpreter
from formatkit.spark.metrics import ReadMetrics, new_counters
from formatkit.spark.options import parse_options
from formatkit.spark.proxies import pushdown_dataframe
from formatkit.spark.session import configuration_of, map_each, parallelism
from formatkit.spark.types import Nanoseconds, spark_schema
from formatkit.spark.versions import obstacle
from formatkit.spark.worker import BATCH_ROWS, ReadBucket

if TYPE_CHECKING:
    from formatkit.scan.buckets import BucketReader, Buckets

__all__ = ["SparkScan", "bucket_count", "dataframe", "executor_reader", "partition_columns", "read"]

_BUCKET_BYTES = 128 << 20


def read(
    spark: SparkSession,
    table: Table | str | os.PathLike[str],
    where: str | BooleanExpression | None = None,
    select: str | Iterable[str] = ("*",),
    limit: int | None = None,
    snapshot_id: int | None = None,
    *,
    buckets: int | None = None,
    partitioned_by: str | Sequence[str] | None = None,
    nanoseconds: Nanoseconds = "error",
    **scan_arguments: Any,
) -> DataFrame:
    """The rows of an Iceberg table as a DataFrame, which executors read when Spark asks for them.

    The table is read as it is now, whatever is committed later. On a classic session, filters, selections and limits
    of the DataFrame reach the scan: each query is planned with its own. Elsewhere only what is asked for here does.

    Args:
        spark: A session, classic or Connect.
        table: A pyiceberg table, the location of a table's metadata file, or a name in a catalog (``db.table``) that
            pyiceberg's configuration or ``spark.formatkit.catalog.<name>.<property>`` describes.
        where: Which rows; as in `formatkit.scan`.
        select: Which columns; as in `formatkit.scan`, metadata columns included.
        limit: The most rows to return.
        snapshot_id: An older snapshot.
        buckets: The most Spark partitions; by default one for each 128 MiB, and as many as there are cores at least,
            with `partitioned_by` as many as `spark.sql.shuffle.partitions` says.
        partitioned_by: Columns that the table is partitioned by (identity): rows that agree in them come in one Spark
            partition, the one that Spark's own hash would choose. Where the files do not allow it, partitions are as
            if it were left out, and `SparkScan.explain` says why. By default a query decides: a group-by, a join or a
            window gets such partitions if they are about equally large. An empty list means never.
        nanoseconds: What becomes of timestamps in nanoseconds, which Spark lacks: ``"error"``, ``"floor"`` to
            microseconds, or ``"integer"`` for the number of nanoseconds since 1970.
        scan_arguments: Whatever else `formatkit.scan` takes.

    Raises:
        UnsupportedError: Spark has no type for a column.
        FormatkitError: What `formatkit.scan` raises.
    """
    check_interpreter(spark)
    # Every plan that Spark asks for later is one of the table as it is now.
    found, name = _table(spark, table)
    fixed = copy(found)
    arguments = {"batch_rows": BATCH_ROWS, "threads": 1, **scan_arguments}
    # Nothing is planned yet: each query does that, with what it asks for.
    shape = scan(fixed, where, select, 0, snapshot_id, **arguments)
    request = executor_reader(shape).reader.request

    def plan(keep: BooleanExpression, columns: Sequence[str] | None, most: int | None) -> Scan:
        chosen = select if columns is None else columns
        return scan(fixed, And(request.predicate, keep), chosen, most, snapshot_id, **arguments)

    frame = pushdown_dataframe(
        spark,
        plan,
        name=name,
        table_schema=request.table_schema or shape.schema,
        partition_columns=partition_columns(fixed, request.table_schema or shape.schema),
        bucket_count=lambda each: buckets or bucket_count(spark, each, partitioned_by),
        partitioned_by=_names(partitioned_by),
        nanoseconds=nanoseconds,
    )
    if frame is not None:
        return frame if limit is None else frame.limit(limit)
    return dataframe(
        spark,
        scan(fixed, where, select, limit, snapshot_id, **arguments),
        buckets=buckets,
        partitioned_by=partitioned_by,
        nanoseconds=nanoseconds,
        threads=arguments["threads"],
    )


def dataframe(
    spark: SparkSession,
    scan: Scan,
    *,
    buckets: int | None = None,
    partitioned_by: str | Sequence[str] | None = None,
    nanoseconds: Nanoseconds = "error",
    threads: int = 1,
) -> DataFrame:
    """The rows of a scan as a DataFrame with one partition a bucket.

    Args:
        spark: A session, classic or Connect.
        scan: What to read.
        buckets: As in `read`.
        partitioned_by: As in `read`.
        nanoseconds: As in `read`.
        threads: How many files a task reads side by side. Spark runs as many tasks as there are cores, so that more
            than one helps only where storage is slow to answer.
    """
    chosen = SparkScan(
        spark, scan, buckets=buckets, partitioned_by=partitioned_by, nanoseconds=nanoseconds, threads=threads
    )
    return chosen.dataframe()


class SparkScan:
    """A scan and the buckets that Spark reads it in; for those who want to see the plan and what was counted.

    Attributes:
        buckets: What each Spark partition reads.
        schema: The columns as Spark has them.
    """

    def __init__(
        self,
        spark: SparkSession,
        scan: Scan,
        *,
        buckets: int | None = None,
        partitioned_by: str | Sequence[str] | None = None,
        nanoseconds: Nanoseconds = "error",
        threads: int = 1,
    ) -> None:
        self.schema: StructType = spark_schema(scan.schema, nanoseconds)
        self.buckets: Buckets = scan.buckets(
            buckets or bucket_count(spark, scan, partitioned_by), by=_names(partitioned_by) or None
        )
        self._spark = spark
        self._scan = scan
        self._nanoseconds = nanoseconds
        self._reader = executor_reader(scan, threads)
        self._counters = new_counters(spark, f"formatkit: {self.buckets.file_count} files, {scan.files_pruned} pruned")

    def dataframe(self) -> DataFrame:
        """The rows. Each call gives a DataFrame of its own; all of them count in the same `metrics`."""
        limit = self._scan.limit
        title = f"formatkit buckets:[{len(self.buckets)}] file_count:[{self.buckets.file_count}]"
        accumulator = None if self._counters is None else self._counters.accumulator
        function = ReadBucket(self._reader, self._nanoseconds, accumulator, title=title)
        frame = map_each(self._spark, self.buckets, function, self.schema, self._counters)
        if self.buckets.partitioning.is_hash:
            frame = declare(frame, self.buckets)
        # A reader stops at the limit in each bucket.
        return frame if limit is None or len(self.buckets) == 1 else frame.limit(limit)

    def explain(self) -> str:
        """The plan: buckets, files, partitioning, filters and formats, and why Spark's optimizer is not told, if so."""
        reason = obstacle(self._spark)
        told = "" if reason is None else f"{'optimizer':<10} not told anything: {reason}\n"
        return f"{self.buckets.explain()}\n{told}{self._scan.explain()}"

    def metrics(self) -> ReadMetrics:
        """What executors counted so far; empty on Spark Connect, which has no accumulators."""
        return ReadMetrics({} if self._counters is None else self._counters.value)


def executor_reader(scan: Scan, threads: int = 1) -> BucketReader[pa.RecordBatch]:
    """What executors read the buckets of a scan with, in batches that are worth their way to Spark.

    Raises:
        UnsupportedError: The scan gives batches that are not Arrow's.
    """
    # A scan with a limit has batches that are no larger than that already.
    reader = scan.bucket_reader(batch_rows=BATCH_ROWS if scan.limit is None else None, threads=threads)
    batch_type: type = reader.reader.operations.batch_type
    if batch_type is not pa.RecordBatch:
        raise UnsupportedError(f"Spark takes Arrow batches, and this scan gives {batch_type.__name__}")
    return reader


def _names(columns: str | Sequence[str] | None) -> Sequence[str] | None:
    return (columns,) if isinstance(columns, str) else columns


def partition_columns(table: Table, schema: Schema) -> list[str]:
    """The columns of the table that some spec partitions by as they are."""
    sources = {
        field.source_id
        for spec in table.metadata.partition_specs
        for field in spec.fields
        if isinstance(field.transform, IdentityTransform)
    }
    return [field.name for field in schema.fields if field.field_id in sources]


def _table(spark: SparkSession, table: Table | str | os.PathLike[str]) -> tuple[Table, str]:
    """The table, and what plans call it."""
    if isinstance(table, Table):
        return table, shown_name(table)
    pinned = pin_table(parse_options({"path": os.fspath(table)}), catalogs_of(configuration_of(spark)))
    loaded = pinned.load()
    return loaded, pinned.name or shown_name(loaded)


def bucket_count(spark: SparkSession, scan: Scan, partitioned_by: str | Sequence[str] | None = None) -> int:
    """How many buckets a scan is read in if nobody says.

    One for each 128 MiB, but enough to keep all cores busy. Where rows are hashed, as many as Spark itself makes: two
    tables are joined without a shuffle only if they are cut into the same number.
    """
    if partitioned_by:
        return int(spark.conf.get("spark.sql.shuffle.partitions") or parallelism(spark))
    size = sum(task.bytes_to_read for task in scan.tasks)
    return max(parallelism(spark), -(-size // _BUCKET_BYTES))
