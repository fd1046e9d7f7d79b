"""DataFrames whose later filters, selections and limits reach the scan.

Spark's optimizer asks a table of its data source interface, version 2, to leave out columns and rows. The table, its
scan builder and its scans are objects of Python here, which Spark calls through Py4J while it plans. Each query that is
planned gets a builder and a scan of its own, so that no query sees the filters of another one.
"""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IcebergType, ListType, StringType
from pyiceberg.types import MapType as IcebergMap
from pyiceberg.types import StructType as IcebergStruct
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.contract.variant import VariantType
from formatkit.scan import Scan
from formatkit.spark.filters import from_spark, translate
from formatkit.spark.java import (
    JavaObject,
    is_since,
    java_array,
    java_class,
    java_columns,
    java_type,
    scala_none,
    scala_object,
)
from formatkit.spark.planned_scan import ScanFactory, ScanProxy, Source
from formatkit.spark.pushdown.aggregates import AnsweredScan, answer
from formatkit.spark.session import FIRST_WITHOUT_COLUMNS
from formatkit.spark.strategy import install_strategy
from formatkit.spark.types import Nanoseconds, spark_schema
from formatkit.spark.versions import obstacle

__all__ = ["HIDDEN_COLUMNS", "ScanBuilderProxy", "ScanFactory", "pushdown_dataframe"]

_SQL = "org.apache.spark.sql"
_READ = f"{_SQL}.connector.read"
_CATALOG = f"{_SQL}.connector.catalog"
_DELETED = "_deleted"
HIDDEN_COLUMNS = ("_file", "_pos", "_spec_id", "_row_id", "_last_updated_sequence_number")


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
) -> DataFrame | None:
    """A DataFrame that plans a scan whenever Spark plans a query of it.

    Args:
        spark: A session.
        factory: Plans scans, always of the same snapshot.
        name: What Spark's plans call the table.
        table_schema: The columns that filters may name.
        partition_columns: Columns by which the table is partitioned, for filters that are known at run time only.
        bucket_count: How many buckets a scan is to have.
        partitioned_by: Columns whose equal values are to be in one bucket, the one that Spark's own hash says;
            None if each query decides.
        nanoseconds: As in `spark_schema`.

    Returns:
        None if this Spark cannot do it; `formatkit.spark.versions.obstacle` says why.
    """
    if obstacle(spark) is not None:
        return None
    source = Source(
        spark=spark,
        factory=factory,
        name=name,
        schema=factory(AlwaysFalse(), None, 0).schema,
        table_schema=table_schema,
        partition_columns=tuple(partition_columns),
        bucket_count=bucket_count,
        partitioned_by=partitioned_by,
        nanoseconds=nanoseconds,
    )
    jvm = source.jvm
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001
    install_strategy(spark)
    none = scala_none(jvm)
    relations = scala_object(jvm, f"{_SQL}.execution.datasources.v2.DataSourceV2Relation")
    relation = relations.create(_Table(source), none, none)
    datasets = scala_object(jvm, f"{_SQL}.classic.Dataset")
    return DataFrame(datasets.ofRows(spark._jsparkSession, relation), spark)  # noqa: SLF001


def _selection(name: str, wanted: DataType, offered: IcebergType | None, stored: IcebergType | None) -> list[str]:
    """The names that select what is wanted of a column.

    Args:
        name: The column.
        wanted: What the query needs of it.
        offered: What the DataFrame has of it.
        stored: What the table has of it; both are None for metadata columns.
    """
    match wanted, offered, stored:
        case StructType(), IcebergStruct(), IcebergStruct() if wanted.fields:
            there = {field.name: field.field_type for field in offered.fields}
            whole = {field.name: field.field_type for field in stored.fields}
            parts = {
                f"{name}.{field.name}": _selection(
                    f"{name}.{field.name}", field.dataType, there[field.name], whole[field.name]
                )
                for field in wanted
            }
            complete = len(parts) == len(whole)
        case ArrayType(), ListType(), ListType():
            element = f"{name}.element"
            parts = {element: _selection(element, wanted.elementType, offered.element_type, stored.element_type)}
            complete = True
        case MapType(), IcebergMap(), IcebergMap():
            # Keys are read whole: two of them may differ in a part that nobody asked for.
            value = f"{name}.value"
            parts = {value: _selection(value, wanted.valueType, offered.value_type, stored.value_type)}
            complete = True
        case _:
            return [name] if offered is None or offered == stored else _leaves(name, offered)
    if complete and all(selected == [part] for part, selected in parts.items()):
        return [name]
    return [each for selected in parts.values() for each in selected]


def _cheapest(schema: Schema) -> str:
    """A column for queries that need none, such as those that count rows."""
    wide = (IcebergStruct, ListType, IcebergMap, StringType, BinaryType, VariantType)
    return min(schema.fields, key=lambda field: isinstance(field.field_type, wide)).name


def _leaves(name: str, kind: IcebergType) -> list[str]:
    children = child_fields(kind)
    return [leaf for child in children for leaf in _leaves(f"{name}.{child.name}", child.field_type)] or [name]


class _Table(JavaObject):
    class Java:
        implements = (f"{_CATALOG}.SupportsRead", f"{_CATALOG}.SupportsMetadataColumns")

    def __init__(self, source: Source) -> None:
        self._source = source
        self._schema = java_type(source.spark, spark_schema(source.schema, source.nanoseconds))

    def name(self) -> str:
        return self._source.name

    def id(self) -> None:
        return None

    def version(self) -> None:
        return None

    def schema(self) -> Any:
        return self._schema

    def columns(self) -> Any:
        return java_columns(self._source.spark, self._schema)

    def partitioning(self) -> Any:
        return self._source.java_array(f"{_SQL}.connector.expressions.Transform")

    def properties(self) -> Any:
        return self._source.java_class("java.util.HashMap")()

    def constraints(self) -> Any:
        return self._source.java_array(f"{_CATALOG}.constraints.Constraint")

    def capabilities(self) -> Any:
        made = self._source.java_class("java.util.HashSet")()
        made.add(self._source.java_class(f"{_CATALOG}.TableCapability").BATCH_READ)
        return made

    def newScanBuilder(self, _options: Any) -> ScanBuilderProxy:
        return ScanBuilderProxy(self._source)

    def metadataColumns(self) -> Any:
        taken = {field.name for field in self._source.schema.fields}
        return _metadata_columns(self._source.spark, tuple(name for name in HIDDEN_COLUMNS if name not in taken))

    def canRenameConflictingMetadataColumns(self) -> bool:
        return False


@lru_cache(maxsize=64)
def _metadata_columns(spark: SparkSession, names: tuple[str, ...]) -> Any:
    """An array of columns, which Spark asks for in every query, and which takes many calls to make."""
    columns = [_MetadataColumn(spark, name) for name in names]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    return java_array(spark, java_class(jvm, f"{_CATALOG}.MetadataColumn"), columns)


class _MetadataColumn(JavaObject):
    class Java:
        implements = (f"{_CATALOG}.MetadataColumn",)

    def __init__(self, spark: SparkSession, name: str) -> None:
        (field,) = spark_schema(Schema(METADATA_COLUMNS[name]))
        self._field = field
        self._type = java_type(spark, field.dataType)

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


class ScanBuilderProxy(JavaObject):
    """Collects what one query wants; then plans a scan for it."""

    class Java:  # noqa: D106 - where Py4J looks
        implements = (
            f"{_READ}.SupportsPushDownRequiredColumns",
            f"{_READ}.SupportsPushDownFilters",
            f"{_READ}.SupportsPushDownLimit",
            f"{_READ}.SupportsPushDownAggregates",
        )

    def __init__(self, source: Source) -> None:
        self._source = source
        self._where: BooleanExpression = AlwaysTrue()
        self._columns: list[str] | None = None
        self._limit: int | None = None
        self._decided: list[Any] = []
        self._answers: dict[str, AnsweredScan | None] = {}
        self._answer: AnsweredScan | None = None

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
        return source.java_array(f"{_SQL}.sources.Filter", left)

    def pushedFilters(self) -> Any:
        return self._source.java_array(f"{_SQL}.sources.Filter", self._decided)

    def pruneColumns(self, schema: Any) -> None:
        offered = {field.name: field.field_type for field in self._source.schema.fields}
        stored = {field.name: field.field_type for field in self._source.table_schema.fields}
        names: list[str] = []
        for field in StructType.fromJson(json.loads(schema.json())):
            # A metadata column is the same in both.
            kind = offered.get(field.name)
            names += _selection(field.name, field.dataType, kind, stored.get(field.name, kind))
        if not names and not is_since(self._source.spark, *FIRST_WITHOUT_COLUMNS):
            names.append(_cheapest(self._source.schema))
        # Whether deleted rows are there depends on this column.
        if _DELETED in (field.name for field in self._source.schema.fields) and _DELETED not in names:
            names.append(_DELETED)
        self._columns = names

    def pushLimit(self, limit: int) -> bool:
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        return self._answered(aggregation) is not None

    def pushAggregation(self, aggregation: Any) -> bool:
        self._answer = self._answered(aggregation)
        return self._answer is not None

    def _answered(self, aggregation: Any) -> AnsweredScan | None:
        # Spark asks several times, and each answer takes a plan of the scan.
        text = aggregation.toString()
        if text not in self._answers:
            self._answers[text] = answer(self._source, self._where, aggregation)
        return self._answers[text]

    def build(self) -> ScanProxy | AnsweredScan:
        return self._answer or ScanProxy(self._source, self._where, self._columns, self._limit)
