"""What is behind ``spark.read.format("formatkit")``.

Spark calls it in Python processes of its own: one finds the table, one plans a query, and the executors' read. Filters
of a DataFrame are left to Spark on purpose: its way of telling a source about them mixes up the queries of a DataFrame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from formatkit.errors import ConfigurationError
from formatkit.scan import Scan, scan
from formatkit.scan.buckets import DEFAULT_OPEN_COST, Bucket, Buckets
from formatkit.scan.incremental.files import SnapshotFiles
from formatkit.scan.options import ScanOptions
from formatkit.scan.table import scan_files
from formatkit.spark.catalogs import Catalogs, PinnedTable, pin_table
from formatkit.spark.normalise import normaliser
from formatkit.spark.options import SourceOptions, parse_options
from formatkit.spark.sending import sent
from formatkit.spark.time_travel import at_version, without_rows
from formatkit.spark.types import Nanoseconds, as_arrow, spark_schema
from formatkit.spark.worker import BATCH_ROWS, spark_batches

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from formatkit.scan.buckets import BucketReader

__all__ = ["BucketsReader", "SourceTable", "find_table", "read_bucket"]

_SPLIT_BYTES = 128 << 20
# A data source is not told how many cores there are.
_LEAST_BUCKETS = 8
_ABOUT_SNAPSHOTS = (
    "start_snapshot_id",
    "end_snapshot_id",
    "start_timestamp",
    "end_timestamp",
    "overwrite_snapshots",
    "delete_snapshots",
)


def find_table(options: Mapping[str, str], catalogs: Catalogs) -> SourceTable:
    """The table that these options name, as it is now."""
    asked = parse_options(options)
    return SourceTable(pin_table(asked, catalogs), asked)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table, and what a user wants of it. Survives pickling."""

    pinned: PinnedTable
    options: SourceOptions

    def schema(self) -> StructType:
        """The columns as Spark has them."""
        planned = self._scan(self.options.scan_arguments["select"], with_rows=False)
        return spark_schema(planned.schema, self.options.nanoseconds)

    def reader(self, schema: StructType) -> BucketsReader:
        """What reads the columns of `schema`: those of `schema()`, or some of them."""
        if self.options.only_streams:
            message = f"the option {self.options.only_streams[0]} is for streams (spark.readStream)"
            raise ConfigurationError(message)
        planned = self._scan(self.columns(schema))
        return BucketsReader(self.bucket_reader(planned), schema, self.options.nanoseconds, self.buckets(planned))

    @property
    def schema_id(self) -> int:
        """The schema that the table had at that moment."""
        return self.pinned.load().metadata.current_schema_id

    def columns(self, schema: StructType) -> tuple[str, ...]:
        """What to select for the columns that Spark wants: those of `schema()`, or some of them.

        Raises:
            ConfigurationError: The table does not have them, or not with these types.
        """
        own = self.schema()
        asked: tuple[str, ...] = self.options.scan_arguments["select"]
        names = asked if schema.names == own.names else _chosen(own, schema)
        _check_types(StructType([own[name] for name in schema.names]), schema)
        return names

    def scan_parts(self, table: Table, select: tuple[str, ...], parts: Sequence[SnapshotFiles]) -> Scan:
        """A scan of some files of the table, as it is now, that asks for what the user asks for."""
        arguments = {**self._arguments(about_snapshots=False), "select": select}
        return scan_files(table, ScanOptions(batch_type=pa.RecordBatch, **arguments), parts=parts)

    def bucket_reader(self, planned: Scan) -> BucketReader[pa.RecordBatch]:
        """What executors read buckets with."""
        return planned.bucket_reader(threads=self.options.scan_arguments.get("threads", 1))

    def _scan(self, select: tuple[str, ...], *, with_rows: bool = True) -> Scan:
        table = at_version(self.pinned.load(), self.options.version)
        arguments = {**self._arguments(about_snapshots=with_rows), "select": select}
        return scan(table if with_rows else without_rows(table), **arguments)

    def _arguments(self, *, about_snapshots: bool) -> dict[str, Any]:
        given = {
            name: value
            for name, value in self.options.scan_arguments.items()
            if about_snapshots or name not in _ABOUT_SNAPSHOTS
        }
        return {"batch_rows": BATCH_ROWS, "threads": 1, **given}

    def buckets(self, planned: Scan) -> Buckets:
        """What each Spark partition reads."""
        options = self.options
        open_cost = DEFAULT_OPEN_COST if options.open_cost is None else options.open_cost
        if planned.limit is not None:
            # Each bucket stops at the limit; there is nobody to count the rows of several.
            return planned.buckets(1)
        weight = sum(max(task.bytes_to_read, open_cost) for task in planned.tasks)
        count = max(1, -(-weight // (options.split_bytes or _SPLIT_BYTES)))
        if options.split_bytes is None:
            count = options.buckets or max(_LEAST_BUCKETS, count)
        return planned.buckets(count, open_cost=open_cost, split_bytes=options.split_bytes)


class BucketsReader(DataSourceReader):
    """Reads a bucket in each of Spark's partitions.

    Spark sends it to every task, so that it forgets the buckets on the way; each task has its own.
    """

    def __init__(
        self,
        reader: BucketReader[pa.RecordBatch],
        schema: StructType,
        nanoseconds: Nanoseconds,
        buckets: Buckets | None = None,
    ) -> None:
        self._reader = reader
        self._schema = schema
        self._nanoseconds = nanoseconds
        self._buckets = buckets

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(bucket) for bucket in self._buckets or ()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_bucket(self._reader, partition.value, self._schema, self._nanoseconds)

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(BucketsReader, self._reader, self._schema, self._nanoseconds)


def read_bucket(
    reader: BucketReader[pa.RecordBatch], bucket: Bucket, schema: StructType, nanoseconds: Nanoseconds
) -> Iterator[pa.RecordBatch]:
    """The rows of a bucket in exactly the form that Spark wants."""
    normalise = normaliser(reader.schema, nanoseconds)
    target = as_arrow(schema)
    with spark_batches(reader.batches(bucket), normalise) as batches:
        for batch in batches:
            yield batch if batch.schema.equals(target) else batch.cast(target)


def _chosen(own: StructType, asked: StructType) -> tuple[str, ...]:
    for name in asked.names:
        if name not in own.names:
            message = f"the given schema has a column {name!r}, and the table has: {', '.join(own.names)}"
            raise ConfigurationError(message)
    return tuple(asked.names)


def _check_types(own: StructType, asked: StructType) -> None:
    for mine, other in zip(own.fields, asked.fields, strict=True):
        if _is_narrower(mine, other):
            message = (
                f"the given schema has column {other.name!r} as {_words(other)}, and the table has it as "
                f"{_words(mine)}; let Spark cast it after reading"
            )
            raise ConfigurationError(message)


def _is_narrower(mine: StructField, other: StructField) -> bool:
    return mine.dataType.simpleString() != other.dataType.simpleString() or (mine.nullable and not other.nullable)


def _words(field: StructField) -> str:
    return f"{field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
