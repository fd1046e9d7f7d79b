"""Tables of pyiceberg as tables of Spark: what they tell about themselves, and how they are read."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType
from pyspark.sql import SparkSession

from formatkit.contract.fields import child_fields
from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.errors import ConfigurationError
from formatkit.scan import Scan, scan
from formatkit.spark.catalog.answers import Answers
from formatkit.spark.catalog.classes import nested_class
from formatkit.spark.catalog.schemas import java_transforms
from formatkit.spark.frames import bucket_count, executor_reader, partition_columns
from formatkit.spark.java import java_array, java_class, java_columns, java_type
from formatkit.spark.planned_scan import Source
from formatkit.spark.proxies import HIDDEN_COLUMNS, ScanBuilderProxy
from formatkit.spark.types import Nanoseconds, spark_schema
from formatkit.spark.worker import BATCH_ROWS

__all__ = ["ReadTable", "describe", "has_nanoseconds", "refuse_options", "table_source"]

_SQL = "org.apache.spark.sql"
_CATALOG = f"{_SQL}.connector.catalog"
_READING = ("BATCH_READ",)
_WRITING = ("BATCH_READ", "BATCH_WRITE", "STREAMING_WRITE", "TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC")
# Spark hands on what it has dealt with itself.
_OF_SPARK = ("versionasof", "timestampasof")
# A row that is changed keeps its id, and becomes younger.
_PRESERVED = {
    "_row_id": {"__preserve_on_delete": False, "__preserve_on_update": True, "__preserve_on_reinsert": True},
    "_last_updated_sequence_number": {
        "__preserve_on_delete": False,
        "__preserve_on_update": False,
        "__preserve_on_reinsert": False,
    },
}

WholeScan = Callable[[BooleanExpression, Sequence[str] | None, int | None], Scan]


def table_source(
    spark: SparkSession, table: Table, name: str, nanoseconds: Nanoseconds = "error", factory: WholeScan | None = None
) -> Source:
    """How the table, as it is now, is read.

    Args:
        spark: A classic session.
        table: The table.
        name: What plans call it.
        nanoseconds: As in `formatkit.spark.read`.
        factory: Plans scans, where it is not by filter, columns and limit alone.
    """
    # Every plan that Spark asks for later is one of the table as it is now.
    fixed = copy(table)
    arguments: dict[str, Any] = {"batch_rows": BATCH_ROWS, "threads": 1}
    shape = scan(fixed, None, ("*",), 0, **arguments)
    request = executor_reader(shape).reader.request
    table_schema = request.table_schema or shape.schema

    def plan(keep: BooleanExpression, columns: Sequence[str] | None, most: int | None) -> Scan:
        chosen = ("*",) if columns is None else columns
        return scan(fixed, And(request.predicate, keep), chosen, most, **arguments)

    return Source(
        spark=spark,
        factory=factory or plan,
        name=name,
        schema=plan(AlwaysFalse(), None, 0).schema,
        table_schema=table_schema,
        partition_columns=tuple(partition_columns(fixed, table_schema)),
        bucket_count=lambda each: bucket_count(spark, each),
        partitioned_by=None,
        nanoseconds=nanoseconds,
    )


class ReadTable(Answers):
    """A state of a table, for queries.

    Args:
        spark: A classic session.
        table: The table, at the state that is meant.
        name: Its whole name, with that of the catalog.
        nanoseconds: As in `formatkit.spark.read`.
    """

    def __init__(self, spark: SparkSession, table: Table, name: str, nanoseconds: Nanoseconds = "error") -> None:
        super().__init__(spark)
        self.table = table
        self.name = name
        self.nanoseconds: Nanoseconds = nanoseconds

    def newScanBuilder(self, options: Any) -> Any:
        refuse_options(options, "read", "say VERSION AS OF or TIMESTAMP AS OF, or use formatkit.spark.read(spark, …)")
        return ScanBuilderProxy(table_source(self.spark, self.table, self.name, self.nanoseconds))


def refuse_options(options: Any, what: str, instead: str, known: Sequence[str] = ()) -> None:
    """Raise `ConfigurationError` for an option that nothing here knows."""
    for key in options.asCaseSensitiveMap():
        if str(key).lower() not in (*_OF_SPARK, *known):
            raise ConfigurationError(f"the SQL catalog has no option {key} to {what} a table; {instead}")


def has_nanoseconds(schema: Schema) -> bool:
    """Whether Spark sees a column otherwise than it is, because it is finer than microseconds."""

    def within(kind: Any) -> bool:
        fine = isinstance(kind, TimestampNanoType | TimestamptzNanoType)
        return fine or any(within(child.field_type) for child in child_fields(kind))

    return any(within(field.field_type) for field in schema.fields)


def describe(
    spark: SparkSession,
    table: Table,
    name: str,
    nanoseconds: Nanoseconds = "error",
    *,
    writable: bool,
    properties: Mapping[str, str] | None = None,
) -> Any:
    """What a table tells Spark about itself, as an object of Java."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    metadata = table.metadata
    schema = metadata.schema()
    java_schema = java_type(spark, spark_schema(schema, nanoseconds))
    told = java_class(jvm, "java.util.TreeMap")()
    for key, value in {**_shown(table), **(properties or {})}.items():
        told.put(key, value)
    return nested_class(jvm, "Description")(
        name,
        str(metadata.table_uuid),
        f"{table.metadata_location}#{metadata.current_snapshot_id}",
        java_columns(spark, java_schema),
        java_transforms(spark, schema, metadata.spec()),
        told,
        _capabilities(spark, _WRITING if writable else _READING),
        _hidden_columns(spark, tuple(each for each in HIDDEN_COLUMNS if each not in schema.column_names)),
    )


def _shown(table: Table) -> dict[str, str]:
    metadata = table.metadata
    return {
        **metadata.properties,
        "provider": "iceberg",
        "location": metadata.location,
        "format-version": str(metadata.format_version),
    }


@lru_cache(maxsize=16)
def _capabilities(spark: SparkSession, names: tuple[str, ...]) -> Any:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    kinds = java_class(jvm, f"{_CATALOG}.TableCapability")
    made = java_class(jvm, "java.util.HashSet")()
    for name in names:
        made.add(getattr(kinds, name))
    return made


@lru_cache(maxsize=16)
def _hidden_columns(spark: SparkSession, names: tuple[str, ...]) -> Any:
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    made = []
    for name in names:
        (field,) = spark_schema(Schema(METADATA_COLUMNS[name]))
        told = json.dumps(_PRESERVED[name]) if name in _PRESERVED else None
        kind = java_type(spark, field.dataType)
        made.append(nested_class(jvm, "HiddenColumn")(name, kind, field.nullable, field.metadata.get("comment"), told))
    return java_array(spark, java_class(jvm, f"{_CATALOG}.MetadataColumn"), made)
