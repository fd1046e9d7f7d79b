"""One scan of one query, as Spark's planner sees it."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.schema import Schema
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.udf import _wrap_function

from formatkit.forks import cached
from formatkit.scan import Scan
from formatkit.scan.buckets import BucketReader, Buckets
from formatkit.scan.predicate_text import predicate_text
from formatkit.spark.declared import row_bytes
from formatkit.spark.filters import from_spark, translate
from formatkit.spark.java import JavaObject, construct, java_array, java_class, java_type, optional_long, scala_none
from formatkit.spark.metrics import BucketCounters, new_counters
from formatkit.spark.partition import partition_payloads, read_partitions
from formatkit.spark.sending import Sent
from formatkit.spark.session import give_work, java_function
from formatkit.spark.strategy import physical_plan
from formatkit.spark.types import Nanoseconds, spark_schema
from formatkit.spark.worker import ReadBucket

__all__ = ["ScanFactory", "ScanProxy", "Source"]

ScanFactory = Callable[[BooleanExpression, Sequence[str] | None, int | None], Scan]
"""Plans a scan: the rows to keep of those that the user asked for, the columns (None for all), the most rows."""

_SQL = "org.apache.spark.sql"
_CONNECTOR = f"{_SQL}.connector"
_READ = f"{_CONNECTOR}.read"
_PYTHON = f"{_SQL}.execution.datasources.v2.python"
# The length of the largest hashed bucket against that of all buckets in the mean.
_MAX_SKEW = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """What all scans of one DataFrame have in common."""

    spark: SparkSession
    factory: ScanFactory
    name: str
    schema: Schema
    table_schema: Schema
    partition_columns: tuple[str, ...]
    bucket_count: Callable[[Scan], int]
    partitioned_by: Sequence[str] | None
    nanoseconds: Nanoseconds

    @property
    def jvm(self) -> Any:
        return self.spark.sparkContext._jvm  # noqa: SLF001

    def java_class(self, name: str) -> Any:
        """A class of Java by its full name."""
        return java_class(self.jvm, name)

    def java_array(self, kind: str, items: Sequence[Any] = ()) -> Any:
        """An array of a class of Java."""
        return java_array(self.spark, self.java_class(kind), items)


@dataclass(frozen=True)
class _Plan:
    """What is read, in which buckets, and how."""

    scan: Scan
    buckets: Buckets
    reader: BucketReader[pa.RecordBatch]

    @property
    def description(self) -> str:
        told = [
            f"buckets:[{len(self.buckets)}] file_count:[{self.buckets.file_count}]",
            f"filter:[{predicate_text(self.reader.reader.request.predicate)}]",
            *([] if self.scan.limit is None else [f"limit:[{self.scan.limit}]"]),
            f"partitioning:[{self.buckets.partitioning}]",
        ]
        return " ".join(told)


class ScanProxy(JavaObject):
    """One scan of one query: a plan made once, and another one if Spark learns of a filter while the query runs."""

    class Java:  # noqa: D106 - where Py4J looks
        implements = (
            f"{_READ}.SupportsReportStatistics",
            f"{_READ}.SupportsRuntimeV2Filtering",
            # Tells `formatkit.spark.strategy` that this makes its own physical plan, and can hash its rows.
            "java.util.function.Function",
            "java.util.function.ToIntBiFunction",
            "java.util.function.IntConsumer",
        )

    def __init__(
        self, source: Source, where: BooleanExpression, columns: Sequence[str] | None, limit: int | None
    ) -> None:
        self._source = source
        self._where = where
        self._columns = columns
        self._limit = limit
        self._plan = self._planned(where)
        self._at_run_time = self._plan
        self._work: tuple[DataFrame, Any] | None = None
        self._keys: tuple[str, ...] = ()

    def _planned(self, where: BooleanExpression) -> _Plan:
        scan = self._source.factory(where, self._columns, self._limit)
        buckets = scan.buckets(self._source.bucket_count(scan), by=self._source.partitioned_by or None)
        return _Plan(scan, buckets, scan.bucket_reader())

    @cached
    def _schema(self) -> StructType:
        return spark_schema(self._plan.scan.schema, self._source.nanoseconds)

    @cached
    def _java_schema(self) -> Any:
        return java_type(self._source.spark, self._schema)

    @cached
    def _counters(self) -> BucketCounters | None:
        plan = self._plan
        files = f"{plan.buckets.file_count} files, {plan.scan.files_pruned} pruned"
        return new_counters(self._source.spark, f"formatkit {self._source.name}: {files}")

    def _function(self, plan: _Plan) -> ReadBucket:
        counters = self._counters
        return ReadBucket(plan.reader, self._source.nanoseconds, None if counters is None else counters.accumulator)

    def readSchema(self) -> Any:
        return self._java_schema

    def description(self) -> str:
        return f"formatkit {self._source.name} {self._at_run_time.description}"

    def estimateStatistics(self) -> _Statistics:
        buckets = self._plan.buckets
        rows = buckets.rows
        if rows is not None and self._limit is not None:
            rows = min(rows, self._limit * len(buckets))
        return _Statistics(self._source, rows, row_bytes(self._java_schema))

    def estimateSizeInBytes(self) -> Any:
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        return True

    def apply(self, relation: Any) -> Any:
        """The physical plan."""
        plan = self._plan
        if self._work is None:
            spark, function = self._source.spark, self._function(plan)
            rows = give_work(spark, plan.buckets, function)
            self._work = rows, java_function(spark, function, self._schema, self._java_schema, self._counters)
        name = f"formatkit {self._source.name} {plan.description}"
        return physical_plan(*self._work, plan.buckets, relation.output(), name)

    def applyAsInt(self, columns: Any, every: bool) -> int:
        """How many buckets there would be if rows were hashed by columns that somebody needs together.

        Args:
            columns: Names; None for what is computed.
            every: Whether all of them have to be hashed; else some of them will do.

        Returns:
            0 if rows cannot be hashed by them, or if some bucket would be far larger than others.
        """
        source, plan = self._source, self._plan
        wanted = list(columns)
        keys = tuple(dict.fromkeys(name for name in wanted if name in source.partition_columns))
        if self._work is not None or source.partitioned_by is not None or not keys or (every and list(keys) != wanted):
            return 0
        count = source.bucket_count(plan.scan)
        hashed = plan.scan.buckets(count, by=keys)
        if not hashed.partitioning.is_hash or max(each.bytes for each in hashed) * count > _MAX_SKEW * hashed.bytes:
            return 0
        self._keys = keys
        return count

    def accept(self, count: int) -> None:
        """Hash rows by the columns of the last question."""
        buckets = self._plan.scan.buckets(count, by=self._keys)
        self._plan = self._at_run_time = replace(self._plan, buckets=buckets)

    def filterAttributes(self) -> Any:
        there = {field.name for field in self._plan.scan.schema.fields}
        # Under such a filter Spark plans the scan itself, and what is declared would be lost.
        declared = self._plan.buckets.partitioning.is_hash
        names = [] if declared else [name for name in self._source.partition_columns if name in there]
        references = self._source.java_class(f"{_CONNECTOR}.expressions.FieldReference")
        columns = [references.column(name) for name in names]
        return self._source.java_array(f"{_CONNECTOR}.expressions.NamedReference", columns)

    def filter(self, predicates: Any) -> None:
        source = self._source
        predicate_utils = source.java_class(f"{_SQL}.internal.connector.PredicateUtils")
        where = self._where
        for java_filter in predicate_utils.toV1(predicates):
            where = And(where, translate(source.table_schema, from_spark(source.jvm, java_filter)).keep)
        self._at_run_time = self._planned(where)

    def pushedPredicates(self) -> Any:
        return self._source.java_array(f"{_CONNECTOR}.expressions.filter.Predicate")

    def supportsIterativePushdown(self) -> bool:
        return False

    def toBatch(self) -> _Batch:
        plan = self._at_run_time
        return _Batch(self._source, self._function(plan), plan.buckets, self._java_schema, self._counters)

    def supportedCustomMetrics(self) -> Any:
        return self._source.java_array(f"{_CONNECTOR}.metric.CustomMetric")

    def reportDriverMetrics(self) -> Any:
        return self._source.java_array(f"{_CONNECTOR}.metric.CustomTaskMetric")

    def columnarSupportMode(self) -> Any:
        return self._source.java_class(f"{_READ}.Scan$ColumnarSupportMode").UNSUPPORTED


class _Batch(JavaObject):
    """The scan for Spark's own node for scans, which alone runs filters that are known at run time only."""

    class Java:
        implements = (f"{_READ}.Batch",)

    def __init__(
        self, source: Source, function: ReadBucket, buckets: Buckets, schema: Any, counters: BucketCounters | None
    ) -> None:
        self._source = source
        self._function = function
        self._buckets = buckets
        self._schema = schema
        self._counters = counters

    def planInputPartitions(self) -> Any:
        partition = self._source.java_class(f"{_PYTHON}.PythonInputPartition")
        payloads = partition_payloads(self._function, self._buckets)
        partitions = [partition(i, payload) for i, payload in enumerate(payloads)]
        return self._source.java_array(f"{_READ}.InputPartition", partitions)

    def createReaderFactory(self) -> Any:
        context = self._source.spark.sparkContext
        returned = StructType.fromJson(json.loads(self._schema.json()))
        command = CloudPickleSerializer().dumps((Sent(read_partitions), returned))  # type: ignore[no-untyped-call]
        function = _wrap_function(context, Sent(read_partitions))
        if self._counters is not None and self._counters.is_named:
            function = self._counters.counting(function)
        runner = self._source.java_class(f"{_PYTHON}.UserDefinedPythonDataSource")(function)
        none = scala_none(self._source.jvm)
        factory = f"{_PYTHON}.PythonPartitionReaderFactory"
        return construct(self._source.jvm, factory, runner, command, self._schema, none, none)


class _Statistics(JavaObject):
    class Java:
        implements = (f"{_READ}.Statistics",)

    def __init__(self, source: Source, rows: int | None, bytes_a_row: int) -> None:
        self._source = source
        self._rows = rows
        self._bytes = None if rows is None else rows * bytes_a_row

    def sizeInBytes(self) -> Any:
        return optional_long(self._source.jvm, self._bytes)

    def numRows(self) -> Any:
        return optional_long(self._source.jvm, self._rows)

    def columnStats(self) -> Any:
        return self._source.java_class("java.util.HashMap")()
