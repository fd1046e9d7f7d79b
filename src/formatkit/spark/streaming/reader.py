"""What is behind ``spark.readStream.format("formatkit")``: new snapshots of a table as micro-batches.

Spark keeps one such reader in a Python process of its own for as long as a query runs, and asks it about offsets and
partitions. Executors get another one, which knows nothing: what a partition needs is in the partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from formatkit.errors import ConfigurationError, SchemaResolutionError, SnapshotExpiredError
from formatkit.spark.catalogs import Catalogs, PinnedTable, live_table
from formatkit.spark.sending import sent
from formatkit.spark.source import SourceTable, read_bucket
from formatkit.spark.streaming.offsets import Offset
from formatkit.spark.streaming.planning import Limits, StreamPlanner
from formatkit.spark.time_travel import at_version, with_schema
from formatkit.spark.types import Nanoseconds

if TYPE_CHECKING:
    from formatkit.scan.buckets import Bucket, BucketReader
    from formatkit.scan.manifests import ManifestEntry

__all__ = ["TableStreamReader"]


@dataclass(frozen=True, slots=True)
class _Work:
    """All that an executor needs to read a bucket."""

    reader: BucketReader[pa.RecordBatch]
    bucket: Bucket
    schema: StructType
    nanoseconds: Nanoseconds


class _PartitionReader(DataSourceStreamReader):
    """Reads partitions that carry all that they need."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        work: _Work = partition.value
        return read_bucket(work.reader, work.bucket, work.schema, work.nanoseconds)


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what snapshots add to a table, with the schema that the table had when the stream was loaded.

    Args:
        source: The table as it was when the stream was loaded, and what the user asks for.
        schema: The columns that Spark wants.
        catalogs: As in `formatkit.spark.catalogs`.
    """

    def __init__(self, source: SourceTable, schema: StructType, catalogs: Catalogs) -> None:
        _check_options(source)
        self._source = source
        self._schema = schema
        self._catalogs = catalogs
        # Now, because the metadata file of that moment may be gone while the stream goes on.
        self._columns = source.columns(schema)
        self._schema_id = source.schema_id
        self._live: Table | None = None
        self._shown: Table | None = None
        self._stops = False
        self._target: int | None = None
        self._listed: dict[tuple[int, bool], list[ManifestEntry]] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        options = self._source.options.stream
        return self._planner().beginning(options).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        options = self._source.options.stream
        # Spark takes one limit only. Whichever it is, all of them are kept.
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        head = self._head(self._table())
        self._target = None if head is None else head.snapshot_id
        self._stops = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        options = self._source.options.stream
        limits = Limits(options.max_rows, options.max_files, options.max_bytes)
        if isinstance(limit, ReadAllAvailable):
            limits = Limits()
        begin = Offset.from_json(start)
        end = self._planner(target=True).next(begin, limits, options.non_appends)
        # Spark compares texts: the same place has to be the same text.
        return start if end is begin else end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        table = self._table()
        parts = self._planner().files(Offset.from_json(start), Offset.from_json(end))
        if not parts:
            return []
        source = self._source
        planned = source.scan_parts(with_schema(table, self._schema_id), self._columns, parts)
        _check_columns(planned.schema, table)
        buckets = source.buckets(planned)
        reader = source.bucket_reader(planned)
        return [InputPartition(_Work(reader, each, self._schema, source.options.nanoseconds)) for each in buckets]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _PartitionReader().read(partition)

    def stop(self) -> None:
        if self._live is not None:
            self._live.catalog.close()

    def __reduce__(self) -> tuple[Any, ...]:
        # What travels is sent to executors, who only read partitions.
        return sent(_PartitionReader)

    def _planner(self, *, target: bool = False) -> StreamPlanner:
        table = self._table()
        head = self._head(table)
        if target and self._stops:
            head = self._until(table)
        return StreamPlanner(table.metadata, table.io, head, self._listed)

    def _until(self, table: Table) -> Snapshot | None:
        """The snapshot that was the last one when a query began that ends by itself."""
        if self._target is None:
            return None
        found = table.metadata.snapshot_by_id(self._target)
        if found is None:
            message = (
                f"the query was to read up to snapshot {self._target}, which has expired meanwhile; start it again"
            )
            raise SnapshotExpiredError(message)
        return found

    def _table(self) -> Table:
        """The table as it is now, with all of its snapshots: catalogs may show only some."""
        options = self._source.options
        if self._live is None:
            self._live = live_table(options.path, options.catalog, options.catalog_properties, self._catalogs)
        else:
            self._live.refresh()
        location = self._live.metadata_location
        if self._shown is None or self._shown.metadata_location != location:
            self._shown = PinnedTable(location, dict(self._live.io.properties)).load()
        return self._shown

    def _head(self, table: Table) -> Snapshot | None:
        return at_version(table, self._source.options.version).metadata.current_snapshot()


def _check_options(source: SourceTable) -> None:
    misplaced = source.options.stream.misplaced
    if misplaced:
        message = f"the option {misplaced[0]} is for tables that are read once; a stream has no use for it"
        raise ConfigurationError(message)


def _check_columns(read: Schema, table: Table) -> None:
    """Refuse to read columns that are not what they were when the stream was loaded.

    Raises:
        SchemaResolutionError: One was dropped, has another type, or may be null now.
    """
    now = index_by_id(table.schema())
    known = {id_ for schema in table.metadata.schemas for id_ in index_by_id(schema)}
    for id_, field in index_by_id(read).items():
        if id_ not in known:
            continue  # a metadata column
        current = now.get(id_)
        if current is None:
            change = "was dropped"
        elif current.field_type.is_primitive and current.field_type != field.field_type:
            change = f"is {current.field_type} now"
        elif field.required and not current.required:
            change = "may be null now"
        else:
            continue
        message = (
            f"the stream reads column {field.name!r} as {field.field_type}, and since it was loaded the column "
            f"{change}; start the query again, with the same checkpoint, to read the table as it is now"
        )
        raise SchemaResolutionError(message, column=field.name)
