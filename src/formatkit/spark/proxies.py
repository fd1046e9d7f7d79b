"""DataFrames whose later filters, selections and limits reach the scan.

Spark's optimizer asks a table of its data source interface, version 2, to leave out columns and rows. The table, its
scan builder and its scans are objects of Python here, which Spark calls through Py4J while it plans. Each query that is
planned gets a builder and a scan of its own, so that no query sees the filters of another one.
"""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType
from pyiceberg.types import StructType as IcebergStruct
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType
from pyspark.sql.udf import _wrap_function

from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.scan import Scan
from formatkit.spark.declared import row_bytes
from formatkit.spark.filters import Translated, from_spark, translate
from formatkit.spark.metrics import BucketCounters
from formatkit.spark.partition import partition_payloads, read_partitions
from formatkit.spark.session import map_each
from formatkit.spark.strategy import install_strategy, physical_plan
from formatkit.spark.types import Nanoseconds, spark_schema
from formatkit.spark.versions import obstacle, scala_none, scala_object
from formatkit.spark.worker import ReadBucket

if TYPE_CHECKING:
    from formatkit.scan.buckets import Buckets

__all__ = ["ScanFactory", "pushdown_dataframe"]

ScanFactory = Callable[[BooleanExpression, Sequence[str] | None, int | None], Scan]
"""Plans a scan: the rows to keep of those that the user asked for, the columns (None for all), the most rows."""

_READ = "org.apache.spark.sql.connector.read"
_CATALOG = "org.apache.spark.sql.connector.catalog"
_DELETED = "_deleted"
_HIDDEN_COLUMNS = ("_file", "_pos", "_spec_id", "_row_id", "_last_updated_sequence_number")


def pushdown_dataframe(
    spark: SparkSession,
    factory: ScanFactory,
    *,
    name: str,
    table_schema: Schema,
    partition_columns: Iterable[str] = (),
    bucket_count: Callable[[Scan], int],
    partitioned_by: Sequence[str] | None = None,
    nanoseconds: Nanoseconds = "error",
    counters: BucketCounters | None = None,
) -> DataFrame | None:
    """A DataFrame that plans a scan whenever Spark plans a query of it.

    Args:
        spark: A session.
        factory: Plans scans, always of the same snapshot.
        name: What Spark's plans call the table.
        table_schema: The columns that filters may name.
        partition_columns: Columns by which the table is partitioned, for filters that are known at run time only.
        bucket_count: How many buckets a scan is to have.
        partitioned_by: Columns whose equal values are to be in one bucket, the one that Spark's own hash says.
        nanoseconds: As in `spark_schema`.
        counters: Where executors count.

    Returns:
        None if this Spark cannot do it; `formatkit.spark.versions.obstacle` says why.
    """
    if obstacle(spark) is not None:
        return None
    whole = factory(AlwaysTrue(), None, None)
    source = _Source(
        spark=spark,
        factory=factory,
        name=name,
        schema=whole.schema,
        table_schema=table_schema,
        partition_columns=tuple(partition_columns),
        bucket_count=bucket_count,
        partitioned_by=partitioned_by,
        nanoseconds=nanoseconds,
        counters=counters,
    )
    jvm = source.jvm
    ensure_callback_server_started(source.gateway)
    install_strategy(spark)
    none = scala_none(jvm)
    options = jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(jvm.java.util.HashMap())
    relations = scala_object(jvm.org.apache.spark.sql.execution.datasources.v2, "DataSourceV2Relation")
    relation = relations.create(_Table(source), none, none, options, none)
    datasets = scala_object(jvm.org.apache.spark.sql.classic, "Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, relation), spark)  # noqa: SLF001


@dataclass(frozen=True, kw_only=True, eq=False)
class _Source:
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
    counters: BucketCounters | None

    @property
    def jvm(self) -> Any:
        return self.spark.sparkContext._jvm  # noqa: SLF001

    @property
    def gateway(self) -> Any:
        return self.spark.sparkContext._gateway  # noqa: SLF001

    def java_type(self, kind: DataType) -> Any:
        return scala_object(self.jvm.org.apache.spark.sql.types, "DataType").fromJson(kind.json())

    def java_array(self, kind: Any, items: Sequence[Any] = ()) -> Any:
        array = self.gateway.new_array(kind, len(items))
        for i, item in enumerate(items):
            self.jvm.java.lang.reflect.Array.set(array, i, item)
        return array

    def optional_long(self, value: int | None) -> Any:
        optional = self.jvm.java.util.OptionalLong
        return optional.empty() if value is None else optional.of(value)


def _leaves(name: str, kind: DataType, of: IcebergType | None) -> list[str]:
    """The names that select a column, or those parts of a struct that are left of it."""
    if not isinstance(kind, StructType) or not isinstance(of, IcebergStruct):
        return [name]
    types = {field.name: field.field_type for field in of.fields}
    if set(kind.names) == set(types) or any("." in part for part in types):
        return [name]
    return [leaf for field in kind for leaf in _leaves(f"{name}.{field.name}", field.dataType, types[field.name])]


class _JavaObject:
    """What every object of Java can do, and Py4J leaves to ours."""

    def equals(self, other: Any) -> bool:
        return other is self

    def hashCode(self) -> int:
        return id(self) & 0x7FFFFFFF

    def toString(self) -> str:
        return f"formatkit {type(self).__name__.strip('_').lower()}"


# Defaults of Java's interfaces do not reach objects of Python: each class has every method that Spark may call.


class _Table(_JavaObject):
    class Java:
        implements = (f"{_CATALOG}.SupportsRead", f"{_CATALOG}.SupportsMetadataColumns")

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._schema = source.java_type(spark_schema(source.schema, source.nanoseconds))

    def name(self) -> str:
        return self._source.name

    def id(self) -> None:
        return None

    def version(self) -> None:
        return None

    def schema(self) -> Any:
        return self._schema

    def columns(self) -> Any:
        catalog = self._source.jvm.org.apache.spark.sql.connector.catalog
        return scala_object(catalog, "CatalogV2Util").structTypeToV2Columns(self._schema, True)

    def partitioning(self) -> Any:
        return self._source.java_array(self._source.jvm.org.apache.spark.sql.connector.expressions.Transform)

    def properties(self) -> Any:
        return self._source.jvm.java.util.HashMap()

    def constraints(self) -> Any:
        catalog = self._source.jvm.org.apache.spark.sql.connector.catalog
        return self._source.java_array(catalog.constraints.Constraint)

    def capabilities(self) -> Any:
        made = self._source.jvm.java.util.HashSet()
        made.add(self._source.jvm.org.apache.spark.sql.connector.catalog.TableCapability.BATCH_READ)
        return made

    def newScanBuilder(self, _options: Any) -> _Builder:
        return _Builder(self._source)

    def metadataColumns(self) -> Any:
        source = self._source
        taken = {field.name for field in source.schema.fields}
        hidden = [_MetadataColumn(source, name) for name in _HIDDEN_COLUMNS if name not in taken]
        return source.java_array(source.jvm.org.apache.spark.sql.connector.catalog.MetadataColumn, hidden)

    def canRenameConflictingMetadataColumns(self) -> bool:
        return False


class _MetadataColumn(_JavaObject):
    class Java:
        implements = (f"{_CATALOG}.MetadataColumn",)

    def __init__(self, source: _Source, name: str) -> None:
        (field,) = spark_schema(Schema(METADATA_COLUMNS[name]))
        self._field = field
        self._type = source.java_type(field.dataType)

    def name(self) -> str:
        return self._field.name

    def dataType(self) -> Any:
        return self._type

    def isNullable(self) -> bool:
        return self._field.nullable

    def comment(self) -> None:
        return None

    def transform(self) -> None:
        return None

    def metadataInJSON(self) -> None:
        return None


class _Builder(_JavaObject):
    """Collects what one query wants; then plans a scan for it."""

    class Java:
        implements = (
            f"{_READ}.SupportsPushDownRequiredColumns",
            f"{_READ}.SupportsPushDownFilters",
            f"{_READ}.SupportsPushDownLimit",
        )

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._where: BooleanExpression = AlwaysTrue()
        self._columns: list[str] | None = None
        self._limit: int | None = None
        self._decided: list[Any] = []

    def pushFilters(self, filters: Any) -> Any:
        source, left = self._source, []
        for java_filter in filters:
            asked = from_spark(source.jvm, java_filter)
            translated = translate(source.table_schema, asked)
            self._where = And(self._where, translated.keep)
            # Spark looks at all others once more. It costs little, and a join prunes the partitions of its other side
            # only if it sees a filter on this one.
            if translated.exact and asked.columns <= {(name,) for name in source.partition_columns}:
                self._decided.append(java_filter)
            else:
                left.append(java_filter)
        return source.java_array(source.jvm.org.apache.spark.sql.sources.Filter, left)

    def pushedFilters(self) -> Any:
        return self._source.java_array(self._source.jvm.org.apache.spark.sql.sources.Filter, self._decided)

    def pruneColumns(self, schema: Any) -> None:
        types = {field.name: field.field_type for field in self._source.schema.fields}
        wanted = StructType.fromJson(json.loads(schema.json()))
        names = [name for field in wanted for name in _leaves(field.name, field.dataType, types.get(field.name))]
        # Whether deleted rows are there depends on this column.
        if _DELETED in (field.name for field in self._source.schema.fields) and _DELETED not in names:
            names.append(_DELETED)
        self._columns = names

    def pushLimit(self, limit: int) -> bool:
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        return True

    def build(self) -> _Scan:
        return _Scan(self._source, self._where, self._columns, self._limit)


class _Scan(_JavaObject):
    """One scan of one query: a plan made once, and once more if Spark learns of a filter while the query runs."""

    class Java:
        implements = (
            f"{_READ}.SupportsReportStatistics",
            f"{_READ}.SupportsRuntimeV2Filtering",
            # Tells `formatkit.spark.strategy` that this makes its own physical plan.
            "java.util.function.Function",
        )

    def __init__(
        self, source: _Source, where: BooleanExpression, columns: Sequence[str] | None, limit: int | None
    ) -> None:
        self._source = source
        self._where = where
        self._columns = columns
        self._limit = limit
        self._frame: DataFrame | None = None
        self._plan()

    def _plan(self) -> None:
        source = self._source
        self._scan = source.factory(self._where, self._columns, self._limit)
        self._buckets: Buckets = self._scan.buckets(source.bucket_count(self._scan), by=source.partitioned_by)

    @cached_property
    def _java_schema(self) -> Any:
        return self._source.java_type(spark_schema(self._scan.schema, self._source.nanoseconds))

    def _function(self) -> ReadBucket:
        source = self._source
        return ReadBucket(self._scan.bucket_reader(), source.nanoseconds, source.counters)

    def readSchema(self) -> Any:
        return self._java_schema

    def description(self) -> str:
        told = [f"formatkit {self._source.name}", f"buckets:[{len(self._buckets)}]"]
        told.append(f"file_count:[{self._buckets.file_count}]")
        told.append(str(self._buckets.partitioning))
        return " ".join(told)

    def estimateStatistics(self) -> _Statistics:
        rows = self._buckets.rows
        if rows is not None and self._limit is not None:
            rows = min(rows, self._limit * len(self._buckets))
        return _Statistics(self._source, rows, row_bytes(self._java_schema))

    def estimateSizeInBytes(self) -> Any:
        return self.estimateStatistics().sizeInBytes()

    def reflectsFullyPushedDownFilters(self) -> bool:
        return True

    def apply(self, relation: Any) -> Any:
        """The physical plan."""
        if self._frame is None:
            schema = spark_schema(self._scan.schema, self._source.nanoseconds)
            self._frame = map_each(self._source.spark, self._buckets, self._function(), schema)
        return physical_plan(self._frame, self._buckets, relation.output(), self.description())

    def filterAttributes(self) -> Any:
        references = self._source.jvm.org.apache.spark.sql.connector.expressions
        there = {field.name for field in self._scan.schema.fields}
        names = [name for name in self._source.partition_columns if name in there]
        columns = [references.FieldReference.column(name) for name in names]
        return self._source.java_array(references.NamedReference, columns)

    def filter(self, predicates: Any) -> None:
        source = self._source
        connector = source.jvm.org.apache.spark.sql.internal.connector
        for java_filter in connector.PredicateUtils.toV1(predicates):
            kept: Translated = translate(source.table_schema, from_spark(source.jvm, java_filter))
            self._where = And(self._where, kept.keep)
        self._plan()

    def pushedPredicates(self) -> Any:
        predicates = self._source.jvm.org.apache.spark.sql.connector.expressions.filter.Predicate
        return self._source.java_array(predicates)

    def supportsIterativePushdown(self) -> bool:
        return False

    def toBatch(self) -> _Batch:
        return _Batch(self._source, self._function(), self._buckets, self._java_schema)

    def supportedCustomMetrics(self) -> Any:
        return self._source.java_array(self._source.jvm.org.apache.spark.sql.connector.metric.CustomMetric)

    def reportDriverMetrics(self) -> Any:
        return self._source.java_array(self._source.jvm.org.apache.spark.sql.connector.metric.CustomTaskMetric)

    def columnarSupportMode(self) -> Any:
        modes = getattr(self._source.jvm.org.apache.spark.sql.connector.read, "Scan$ColumnarSupportMode")
        return modes.UNSUPPORTED


class _Batch(_JavaObject):
    """The scan for Spark's own node for scans, which alone runs filters that are known at run time only."""

    class Java:
        implements = (f"{_READ}.Batch",)

    def __init__(self, source: _Source, function: ReadBucket, buckets: Buckets, schema: Any) -> None:
        self._source = source
        self._function = function
        self._buckets = buckets
        self._schema = schema

    def planInputPartitions(self) -> Any:
        jvm = self._source.jvm
        python = jvm.org.apache.spark.sql.execution.datasources.v2.python
        payloads = partition_payloads(self._function, self._buckets)
        partitions = [python.PythonInputPartition(i, payload) for i, payload in enumerate(payloads)]
        return self._source.java_array(jvm.org.apache.spark.sql.connector.read.InputPartition, partitions)

    def createReaderFactory(self) -> Any:
        jvm = self._source.jvm
        python = jvm.org.apache.spark.sql.execution.datasources.v2.python
        context = self._source.spark.sparkContext
        command = CloudPickleSerializer().dumps((read_partitions, StructType.fromJson(json.loads(self._schema.json()))))
        runner = python.UserDefinedPythonDataSource(_wrap_function(context, read_partitions))
        none = scala_none(jvm)
        return python.PythonPartitionReaderFactory(runner, command, self._schema, none, none)


class _Statistics(_JavaObject):
    class Java:
        implements = (f"{_READ}.Statistics",)

    def __init__(self, source: _Source, rows: int | None, bytes_a_row: int) -> None:
        self._source = source
        self._rows = rows
        self._bytes = None if rows is None else rows * bytes_a_row

    def sizeInBytes(self) -> Any:
        return self._source.optional_long(self._bytes)

    def numRows(self) -> Any:
        return self._source.optional_long(self._rows)

    def columnStats(self) -> Any:
        return self._source.jvm.java.util.HashMap()
