"""The rows of one file as often as they are needed: whole, in parts, with and without a filter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType, StructType

from formatkit.contract.capability import Capability
from formatkit.contract.fields import child_fields
from formatkit.contract.format import FormatFile
from formatkit.contract.metadata_columns import POS, POSITION_DELETES
from formatkit.contract.options import DEFAULT_BATCH_ROWS, OpenOptions, Split
from formatkit.errors import UnsupportedError
from formatkit.io import InputLocation, IoRuntime
from formatkit.kernel import FileStream, read
from formatkit.kernel.names import Path, column_paths
from formatkit.registry import FormatRegistry
from formatkit.scan.build import build_scan
from formatkit.scan.files import read_file
from formatkit.scan.options import ScanOptions
from formatkit.scan.plan import Plan
from formatkit.scan.reading import TaskReader
from formatkit.scan.sources import TableFiles
from formatkit.scan.tasks import FileTask
from formatkit.scan.verify import VERIFY_SKIPPING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["FileRows", "OpenRows", "TableRows", "flat_columns", "optional", "rows_of_file"]


_WITHOUT_HISTORY: Mapping[str, Any] = {
    "snapshots": [],
    "snapshot_log": [],
    "metadata_log": [],
    "refs": {},
    "current_snapshot_id": None,
    "statistics": [],
    "partition_statistics": [],
}


@dataclass(frozen=True, kw_only=True)
class FileRows:
    """A file and the schema that it is read with.

    Attributes:
        task: The whole file, without deletes.
        schema: Its columns as the table, or the file itself, has them.
        reader: Reads it.
    """

    task: FileTask
    schema: Schema
    reader: TaskReader[pa.RecordBatch]

    @property
    def location(self) -> str:
        return self.task.location

    @contextmanager
    def opened(self) -> Iterator[OpenRows]:
        """The file, open. Raises what opening a file raises."""
        plugin = self.reader.plugins[self.task.file_format]
        source = self.reader.open_source(self.task)
        try:
            options = OpenOptions(properties=self.reader.request.properties)
            with closing(plugin.reader().open(source, options)) as file:
                splits = Capability.SPLIT in plugin.capabilities
                yield OpenRows(self, file, _chunks(file.split_offsets, source.size()) if splits else (None,))
        finally:
            if self.reader.owns_sources:
                source.close()


@dataclass(frozen=True)
class OpenRows:
    """A file that is open.

    Attributes:
        rows: What it is.
        file: What it says about itself.
        chunks: Its row groups, stripes or blocks as byte ranges; one None if it has none.
    """

    rows: FileRows
    file: FormatFile[pa.RecordBatch]
    chunks: Sequence[Split | None]

    def read(
        self,
        fields: Sequence[NestedField],
        predicate: BooleanExpression | None = None,
        *,
        split: Split | None = None,
        batch_rows: int = DEFAULT_BATCH_ROWS,
    ) -> FileStream[pa.RecordBatch]:
        """The rows with these columns, and with their positions last."""
        reader, task = self.rows.reader, self.rows.task
        request = replace(
            reader.request,
            schema=Schema(*fields, POS),
            predicate=AlwaysTrue() if predicate is None else predicate,
            location=task.location,
            partition_constants=task.partition_constants,
            split=split,
            batch_rows=batch_rows,
        )
        return read(self.file, reader.operations, request)


def _chunks(offsets: Sequence[int], size: int) -> Sequence[Split | None]:
    """Byte ranges that tile the file, a chunk in each."""
    inside = [offset for offset in offsets if 0 < offset < size]
    if len(inside) <= 1 or inside != sorted(set(inside)):
        return (None,)
    return [Split(start, end - start) for start, end in pairwise((0, *inside[1:], size))]


def rows_of_file(
    location: InputLocation, file_format: str | None, registry: FormatRegistry | None, runtime: IoRuntime
) -> FileRows:
    """The rows of a file that belongs to no table. Raises what `read_file` raises."""
    scan = read_file(
        location, select=(POS.name,), file_format=file_format, registry=registry, threads=1, runtime=runtime
    )
    reader = scan.bucket_reader().reader
    return FileRows(task=scan.tasks[0], schema=reader.request.table_schema or scan.schema, reader=reader)


@dataclass(frozen=True, kw_only=True)
class TableRows:
    """Makes the rows of files of a table, here or in another process.

    Attributes:
        metadata: The table's; its snapshots do not travel.
        files: Opens them.
        schema: What the table's files are read with.
        registry: Where formats are looked up; what is installed if left out.
    """

    metadata: TableMetadata
    files: TableFiles
    schema: Schema
    registry: FormatRegistry | None = None

    @property
    def io(self) -> FileIO:
        return self.files.io

    @property
    def runtime(self) -> IoRuntime | None:
        return self.files.runtime

    def __getstate__(self) -> dict[str, Any]:
        if self.registry is not None:
            message = (
                "a registry of your own cannot be sent to another process; install its formats with entry points and "
                "leave registry out, or let the job run here"
            )
            raise UnsupportedError(message)
        return {**self.__dict__, "metadata": self.metadata.model_copy(update=_WITHOUT_HISTORY)}

    def of(self, task: FileTask, schema: Schema | None = None) -> FileRows:
        """The rows of a file. Raises `FormatNotRegisteredError` if no plugin reads it.

        Args:
            task: The file.
            schema: Its columns, if they are not those of the table: those of position deletes are told by name where
                the file has no ids.
        """
        options = ScanOptions(
            batch_type=pa.RecordBatch, select=(POS.name,), threads=1, registry=self.registry, runtime=self.runtime
        )
        own = {name: value for name, value in self.metadata.properties.items() if name.startswith("read.")}
        scan = build_scan(
            options,
            schema or self.schema,
            make_plan=lambda _: Plan(tasks=(task,)),
            open_source=self.files,
            older_schemas=self.metadata.schemas[::-1],
            name_mapping=None if schema is POSITION_DELETES else self.metadata.name_mapping(),
            missing_ids="by-name" if schema is POSITION_DELETES else "error",
            properties=own | {VERIFY_SKIPPING: "false"},
        )
        return FileRows(task=task, schema=schema or self.schema, reader=scan.bucket_reader().reader)


def flat_columns(schema: Schema) -> Iterator[Path]:
    """The leaves that are inside of nothing but structs."""
    for path in column_paths(schema):
        if isinstance(path[-1].field_type, PrimitiveType) and all(
            isinstance(parent.field_type, StructType) for parent in path[:-1]
        ):
            yield path


def optional(field: NestedField) -> NestedField:
    """The same field, which may be null at every level of structs: nulls are to be found, not refused."""
    changed: dict[str, Any] = {"required": False}
    if isinstance(field.field_type, StructType):
        changed["field_type"] = StructType(*map(optional, child_fields(field.field_type)))
    return field.model_copy(update=changed)
