"""Metadata tables: ``db.t.snapshots`` and so on, with the columns and types of Iceberg for Java."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyspark.sql.types as st
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.types import NestedField
from pyspark.sql import SparkSession

from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract.values import internal_value
from formatkit.scan.planner import PARTITION_FIELD_IDS, partition_type
from formatkit.spark.catalog.answers import Answers
from formatkit.spark.catalog.classes import nested_class
from formatkit.spark.java import java_array, java_class, java_columns, java_type
from formatkit.spark.normalise import normaliser
from formatkit.spark.types import spark_schema
from formatkit.write.commit.records import (
    ManifestReader,
    content_place,
    first_row_id,
    is_deletion_vector,
    is_live,
    named_data_file,
)
from formatkit.write.operations.partitions import partition_in_words

__all__ = ["METADATA_TABLES", "local_rows", "metadata_table"]

_CATALOG = "org.apache.spark.sql.connector.catalog"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class _Content:
    schema: st.StructType
    rows: Rows


def _snapshots(table: Table) -> _Content:
    schema = _struct(
        "committed_at timestamp not null, snapshot_id bigint not null, parent_id bigint, operation string, "
        "manifest_list string, summary map<string, string>"
    )
    rows: Rows = []
    for each in sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms):
        summary = each.summary
        rows.append(
            (
                _moment(each.timestamp_ms),
                each.snapshot_id,
                each.parent_snapshot_id,
                None if summary is None else summary.operation.value,
                each.manifest_list,
                None if summary is None else dict(summary.additional_properties),
            )
        )
    return _Content(schema, rows)


def _history(table: Table) -> _Content:
    schema = _struct(
        "made_current_at timestamp not null, snapshot_id bigint not null, parent_id bigint, "
        "is_current_ancestor boolean not null"
    )
    current = table.metadata.current_snapshot()
    ancestors = {each.snapshot_id for each in ancestors_of(current, table.metadata)} if current is not None else set()
    rows: Rows = []
    for entry in table.metadata.snapshot_log:
        snapshot = table.metadata.snapshot_by_id(entry.snapshot_id)
        parent = None if snapshot is None else snapshot.parent_snapshot_id
        rows.append((_moment(entry.timestamp_ms), entry.snapshot_id, parent, entry.snapshot_id in ancestors))
    return _Content(schema, rows)


def _refs(table: Table) -> _Content:
    schema = _struct(
        "name string not null, type string not null, snapshot_id bigint not null, max_reference_age_in_ms bigint, "
        "min_snapshots_to_keep int, max_snapshot_age_in_ms bigint"
    )
    rows: Rows = [
        (
            name,
            str(ref.snapshot_ref_type.value).upper(),
            ref.snapshot_id,
            ref.max_ref_age_ms,
            ref.min_snapshots_to_keep,
            ref.max_snapshot_age_ms,
        )
        for name, ref in sorted(table.metadata.refs.items())
    ]
    return _Content(schema, rows)


def _manifests(table: Table) -> _Content:
    schema = _struct(
        "content int not null, path string not null, length bigint not null, partition_spec_id int, "
        "added_snapshot_id bigint, added_data_files_count int, existing_data_files_count int, "
        "deleted_data_files_count int, added_delete_files_count int not null, "
        "existing_delete_files_count int not null, deleted_delete_files_count int not null, "
        "partition_summaries array<struct<contains_null: boolean not null, "
        "contains_nan: boolean, lower_bound: string, upper_bound: string>>"
    )
    rows: Rows = []
    reader = ManifestReader(table.metadata, table.io)
    for each in reader.lines(table.metadata.current_snapshot()):
        counts = (each.added_files_count or 0, each.existing_files_count or 0, each.deleted_files_count or 0)
        none, deletes = (0, 0, 0), each.content == ManifestContent.DELETES
        rows.append(
            (
                int(each.content),
                each.manifest_path,
                each.manifest_length,
                each.partition_spec_id,
                each.added_snapshot_id,
                *(none if deletes else counts),
                *(counts if deletes else none),
                _summaries(table, each),
            )
        )
    return _Content(schema, rows)


def _summaries(table: Table, manifest: ManifestFile) -> list[tuple[Any, ...]]:
    metadata = table.metadata
    kinds = {field.field_id - PARTITION_FIELD_IDS: field.field_type for field in partition_type(metadata).fields}
    found = []
    for field, summary in zip(
        metadata.specs()[manifest.partition_spec_id].fields, manifest.partitions or (), strict=False
    ):
        kind = kinds.get(field.field_id)
        bounds = [
            None if kind is None or bound is None else field.transform.to_human_string(kind, from_bytes(kind, bound))  # type: ignore[arg-type]
            for bound in (summary.lower_bound, summary.upper_bound)
        ]
        found.append((summary.contains_null, summary.contains_nan, *bounds))
    return found


def _live_files(table: Table) -> Iterator[tuple[DataFile, int, int | None]]:
    """The files of the current snapshot, with their spec and the snapshot that added them."""
    reader = ManifestReader(table.metadata, table.io)
    for manifest in reader.manifests(table.metadata.current_snapshot()):
        for entry in reader.entries(manifest):
            if is_live(entry):
                yield entry.data_file, manifest.partition_spec_id, entry.snapshot_id


_FILE_COLUMNS = (
    "record_count bigint not null, file_size_in_bytes bigint not null, column_sizes map<int, bigint>, "
    "value_counts map<int, bigint>, null_value_counts map<int, bigint>, nan_value_counts map<int, bigint>, "
    "lower_bounds map<int, binary>, upper_bounds map<int, binary>, key_metadata binary, split_offsets array<bigint>, "
    "equality_ids array<int>, sort_order_id int, first_row_id bigint, referenced_data_file string, "
    "content_offset bigint, content_size_in_bytes bigint"
)


def _files(table: Table) -> _Content:
    partitions = _Partitions(table)
    schema = _struct(
        "content int, file_path string not null, file_format string not null, spec_id int",
        partitions.column,
        _FILE_COLUMNS,
    )
    rows: Rows = []
    for file, spec_id, _ in _live_files(table):
        content = DataFileContent(file.content)
        rows.append(
            (
                int(content),
                file.file_path,
                str(getattr(file.file_format, "value", file.file_format)).upper(),
                spec_id,
                *partitions.value(file, spec_id),
                file.record_count,
                file.file_size_in_bytes,
                *(_map(file, name) for name in _MAPS),
                _field(file, "key_metadata"),
                _field(file, "split_offsets"),
                _field(file, "equality_ids"),
                _field(file, "sort_order_id"),
                first_row_id(file),
                named_data_file(file),
                *(content_place(file) if is_deletion_vector(file) else (None, None)),
            )
        )
    return _Content(schema, rows)


_MAPS = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)


def _map(file: DataFile, name: str) -> dict[int, Any] | None:
    found = _field(file, name)
    return None if found is None else dict(found)


def _field(file: DataFile, name: str) -> Any:
    return getattr(file, name, None)


def _partitions(table: Table) -> _Content:
    partitions = _Partitions(table)
    schema = _struct(
        "",
        partitions.column,
        f"{'spec_id int not null, ' if partitions.column else ''}record_count bigint not null, "
        "file_count int not null, total_data_file_size_in_bytes bigint not null, "
        "position_delete_record_count bigint not null, position_delete_file_count int not null, "
        "equality_delete_record_count bigint not null, "
        "equality_delete_file_count int not null, last_updated_at timestamp, last_updated_snapshot_id bigint",
    )
    found: dict[tuple[int, str], _PartitionFacts] = {}
    for file, spec_id, snapshot_id in _live_files(table):
        words = partition_in_words(table.metadata, file.partition, spec_id)
        key = (spec_id, words) if partitions.column else (0, "")
        if key not in found:
            found[key] = _PartitionFacts(partitions.value(file, spec_id), spec_id)
        found[key].add(table, file, snapshot_id)
    if not partitions.column and not found:
        found[0, ""] = _PartitionFacts((), 0)
    return _Content(schema, [each.row(with_spec=bool(partitions.column)) for each in found.values()])


class _PartitionFacts:
    """What the files of one partition add up to."""

    def __init__(self, partition: tuple[Any, ...], spec_id: int) -> None:
        self._partition = partition
        self._spec_id = spec_id
        self._counts = {content: [0, 0, 0] for content in DataFileContent}
        self._updated: tuple[int, int] | None = None

    def add(self, table: Table, file: DataFile, snapshot_id: int | None) -> None:
        counts = self._counts[DataFileContent(file.content)]
        counts[0] += file.record_count
        counts[1] += 1
        counts[2] += file.file_size_in_bytes
        snapshot = None if snapshot_id is None else table.metadata.snapshot_by_id(snapshot_id)
        if snapshot is not None:
            moment = (snapshot.timestamp_ms, snapshot.snapshot_id)
            self._updated = moment if self._updated is None else max(self._updated, moment)

    def row(self, *, with_spec: bool) -> tuple[Any, ...]:
        data, positions, equality = (self._counts[each] for each in DataFileContent)
        updated = (None, None) if self._updated is None else (_moment(self._updated[0]), self._updated[1])
        spec = (self._spec_id,) if with_spec else ()
        return (*self._partition, *spec, *data, *positions[:2], *equality[:2], *updated)


class _Partitions:
    """The column `partition` of a table, of all its specs together; none if it has no partitions."""

    def __init__(self, table: Table) -> None:
        self._metadata = table.metadata
        self._kind = partition_type(table.metadata)
        self._schema = Schema(NestedField(1, "partition", self._kind, required=False))
        self.column = spark_schema(self._schema, "integer").fields if self._kind.fields else []

    def value(self, file: DataFile, spec_id: int) -> tuple[Any, ...]:
        if not self.column:
            return ()
        fields = self._metadata.specs()[spec_id].fields
        given = {field.field_id: file.partition[i] for i, field in enumerate(fields)}
        values = {
            field.name: internal_value(field.field_type, given.get(field.field_id - PARTITION_FIELD_IDS))
            for field in self._kind.fields
        }
        batch = pa.RecordBatch.from_arrays(
            [pa.array([values], arrow_schema(self._schema).field(0).type)], schema=arrow_schema(self._schema)
        )
        (row,) = normaliser(self._schema, "integer")(batch).column(0).to_pylist()
        return (tuple((row or {}).values()),)


METADATA_TABLES: dict[str, Callable[[Table], _Content]] = {
    "snapshots": _snapshots,
    "history": _history,
    "refs": _refs,
    "manifests": _manifests,
    "files": _files,
    "partitions": _partitions,
}
"""By the last part of their name."""


def metadata_table(spark: SparkSession, table: Table, name: str, what: str) -> Any:
    """A metadata table as an object of Java.

    Args:
        spark: A classic session.
        table: Whose metadata.
        name: The whole name of the metadata table.
        what: Which one.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    answers = _MetadataTable(spark, METADATA_TABLES[what.lower()](table), name)
    capabilities = java_class(jvm, "java.util.HashSet")()
    capabilities.add(java_class(jvm, f"{_CATALOG}.TableCapability").BATCH_READ)
    described = nested_class(jvm, "Description")(
        name,
        f"{table.metadata.table_uuid}.{what.lower()}",
        f"{table.metadata_location}#{table.metadata.current_snapshot_id}",
        java_columns(spark, answers.java_schema),
        java_array(spark, java_class(jvm, "org.apache.spark.sql.connector.expressions.Transform")),
        java_class(jvm, "java.util.TreeMap")(),
        capabilities,
        java_array(spark, java_class(jvm, f"{_CATALOG}.MetadataColumn")),
    )
    return nested_class(jvm, "ReadTable")(answers, described)


class _MetadataTable(Answers):
    def __init__(self, spark: SparkSession, content: _Content, name: str) -> None:
        super().__init__(spark)
        self._content = content
        self._name = name
        self.java_schema = java_type(spark, content.schema)

    def newScanBuilder(self, _options: Any) -> Any:
        return local_rows(self.spark, self._content.schema, self._content.rows, self._name)


def local_rows(spark: SparkSession, schema: st.StructType, rows: Rows, title: str) -> Any:
    """A scan of rows that are here, as an object of Java."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    java_rows: Any = spark.createDataFrame(rows, schema, verifySchema=False)._jdf  # noqa: SLF001
    collected = java_rows.queryExecution().executedPlan().executeCollect()
    return nested_class(jvm, "LocalRows")(java_type(spark, schema), collected, title)


def _struct(before: str, between: Sequence[st.StructField] = (), after: str = "") -> st.StructType:
    fields = [field for text in (before,) if text for field in _parsed(text)]
    return st.StructType([*fields, *between, *(_parsed(after) if after else ())])


def _parsed(text: str) -> list[st.StructField]:
    parsed: Any = st.StructType.fromDDL(text)
    return list(parsed.fields)


def _moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
