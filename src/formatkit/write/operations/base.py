"""Where an operation starts from: the head of a branch, read with the table's current schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from formatkit.contract import BatchStream
from formatkit.contract.metadata_columns import DELETED, FILE, LAST_UPDATED, POS, ROW_ID
from formatkit.errors import UnsupportedError
from formatkit.kernel import bind
from formatkit.registry import FormatRegistry
from formatkit.scan import FileTask, Scan, scan
from formatkit.scan.buckets import Bucket, BucketReader

__all__ = ["ALL_COLUMNS", "Base", "BaseFiles", "FileRows", "FileScans", "RowStreams", "whole_files"]

ALL_COLUMNS = "*"
_MAIN = "main"
_FIRST_VERSION_WITH_LINEAGE = 3


class RowStreams(Protocol):
    """Rows that can be read."""

    def to_batches(self) -> BatchStream[pa.RecordBatch]: ...


class FileRows(Protocol):
    """The rows of files, of which some at a time are read."""

    @property
    def schema(self) -> Schema:
        """The columns of the batches."""
        ...

    def scan(self, locations: Iterable[str], /) -> RowStreams:
        """The rows of some files, one file after the other."""
        ...


class BaseFiles(Protocol):
    """As much of a `Base` as it takes to remove rows by their positions, in whatever process."""

    @property
    def metadata(self) -> TableMetadata: ...
    @property
    def registry(self) -> FormatRegistry | None: ...
    @property
    def catalog_properties(self) -> Mapping[str, Any]: ...
    @property
    def stored_columns(self) -> tuple[str, ...]: ...
    @property
    def stored_schema(self) -> Schema: ...
    def scan_files(self, select: Iterable[str], /) -> FileRows: ...


@dataclass(frozen=True, kw_only=True)
class Base:
    """The snapshot that an operation decides about. It stays the same while the table moves on.

    Attributes:
        metadata: The table's metadata, with the snapshot as the current one.
        snapshot: None if the branch has no rows yet.
        catalog_properties: The configuration of the table's catalog.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    registry: FormatRegistry | None
    catalog_properties: Mapping[str, Any]
    _pinned: Table

    @classmethod
    def of(cls, table: Table, branch: str, registry: FormatRegistry | None) -> Base:
        """The head of the branch; a branch that is not there yet begins where the main branch is.

        Raises:
            UnsupportedError: A column hides a metadata column that operations need.
        """
        metadata = table.metadata
        reference = metadata.refs.get(branch) or metadata.refs.get(_MAIN)
        snapshot_id = reference.snapshot_id if reference is not None else None
        _refuse_hidden_columns(metadata.schema())
        metadata = metadata.model_copy(update={"current_snapshot_id": snapshot_id})
        pinned = StaticTable(
            identifier=table.name(),
            metadata=metadata,
            metadata_location=table.metadata_location,
            io=table.io,
            catalog=NoopCatalog("pinned"),
        )
        return cls(
            metadata=metadata,
            snapshot=metadata.current_snapshot(),
            registry=registry,
            catalog_properties=table.catalog.properties,
            _pinned=pinned,
        )

    @property
    def snapshot_id(self) -> int | None:
        return self.snapshot.snapshot_id if self.snapshot is not None else None

    @property
    def schema(self) -> Schema:
        return self.metadata.schema()

    @property
    def has_lineage(self) -> bool:
        """Whether rows have ids that they keep when they are copied."""
        return self.metadata.format_version >= _FIRST_VERSION_WITH_LINEAGE

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """How a scan is asked for the columns of `stored_schema`."""
        return (ALL_COLUMNS, *((ROW_ID.name, LAST_UPDATED.name) if self.has_lineage else ()))

    @property
    def stored_schema(self) -> Schema:
        """What a copied row consists of: the table's columns, and its lineage where the table has any."""
        lineage = (ROW_ID, LAST_UPDATED) if self.has_lineage else ()
        schema = self.schema
        return Schema(
            *schema.fields,
            *lineage,
            schema_id=schema.schema_id,
            identifier_field_ids=schema.identifier_field_ids,
        )

    def bind(self, where: str | BooleanExpression | None, *, case_sensitive: bool) -> BooleanExpression:
        """The filter bound to the table's own columns; None stands for all rows."""
        return AlwaysTrue() if where is None else bind(self.schema, where, case_sensitive=case_sensitive)

    def scan(self, select: Iterable[str], where: BooleanExpression | None = None) -> Scan[pa.RecordBatch]:
        return scan(self._pinned, where=where, select=select, registry=self.registry)

    def scan_files(self, select: Iterable[str]) -> FileScans:
        """All rows, file by file. A scan with a filter will not do: it may know but those deletes that matter to it."""
        return FileScans(self.scan(select))


class FileScans:
    """A scan of which some files at a time are read.

    Attributes:
        schema: The columns of the output.
        files: One task for each file.
    """

    def __init__(self, everything: Scan[pa.RecordBatch]) -> None:
        self._scan = everything
        self._tasks: dict[str, list[FileTask]] = defaultdict(list)
        for task in everything.tasks:
            if task.is_skipped:
                continue
            self._tasks[task.location].append(task)
        self.schema = everything.schema

    @property
    def files(self) -> list[FileTask]:
        return [parts[0] for parts in self._tasks.values()]

    def __contains__(self, location: str) -> bool:
        """Whether the snapshot has such a file."""
        return location in self._tasks

    def scan(self, locations: Iterable[str]) -> Scan[pa.RecordBatch]:
        """The rows of some files, one file after the other."""
        return self._scan.of_tasks(task for location in locations for task in self._tasks[location])

    def tasks(self, locations: Iterable[str]) -> Iterator[FileTask]:
        """One task for each of some files."""
        return (self._tasks[location][0] for location in locations)

    def bucket(self, locations: Iterable[str]) -> Bucket:
        """The same for `reader`, in whatever process."""
        return self.scan(locations).buckets(1)[0]

    def reader(self, threads: int | None) -> BucketReader[pa.RecordBatch]:
        """What reads the buckets of this scan, with so many threads each, or with as many as it likes."""
        return self._scan.bucket_reader(threads=threads)


def whole_files(tasks: Iterable[FileTask]) -> Iterator[FileTask]:
    """One task for each file, whatever parts the files were cut into."""
    seen: set[str] = set()
    for task in tasks:
        if task.location not in seen and not task.is_skipped:
            seen.add(task.location)
            yield task


def _refuse_hidden_columns(schema: Schema) -> None:
    needed = {column.name for column in (FILE, POS, DELETED, ROW_ID, LAST_UPDATED)}
    for column in schema.fields:
        if column.name in needed:
            message = (
                f"the table has a column {column.name!r}, which hides the metadata column of this name; rename it to "
                "change rows of the table"
            )
            raise UnsupportedError(message)
