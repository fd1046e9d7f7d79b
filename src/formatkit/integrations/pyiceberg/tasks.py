"""pyiceberg's tasks: planned with all kinds of deletes, and read by formatkit, from wherever they come.

Copy-on-write deletes, incremental scans and other libraries plan files with `plan_files`, and read them with
`ArrowScan`.
"""
# ruff: noqa: SLF001 - what an `ArrowScan` was asked for is in its private attributes only

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, NestedField

from formatkit.contract.fields import child_fields
from formatkit.contract.values import internal_value
from formatkit.errors import UnsupportedError
from formatkit.integrations.pyiceberg.filters import arrow_filter
from formatkit.integrations.pyiceberg.offsets import Offsets
from formatkit.integrations.pyiceberg.scans import Rows, dictionary_names, rows_of
from formatkit.integrations.pyiceberg.watching import WatchingRegistry
from formatkit.io import open_source
from formatkit.kernel.names import column_paths, dotted
from formatkit.registry import FormatRegistry
from formatkit.scan import DeleteFile, FileTask
from formatkit.scan.build import build_scan
from formatkit.scan.options import ScanOptions
from formatkit.scan.plan import Plan
from formatkit.scan.tasks import POSITION_DELETES, PUFFIN

__all__ = ["PlannedTask", "plan_files", "rows_of_tasks"]

_ROWS_OF_ARROWS_BATCHES = 131_072
"""So many rows at the most have the batches that pyiceberg gets from Arrow."""


class PlannedTask(FileScanTask):
    """A task of pyiceberg that also knows what formatkit found out about the file, equality deletes included."""

    def __init__(self, file: DataFile, deletes: set[DataFile], residual: BooleanExpression, task: FileTask) -> None:
        super().__init__(file, deletes, residual)
        self.task = task


def plan_files(asked: DataScan, snapshot: Snapshot, registry: FormatRegistry) -> list[FileScanTask]:
    """The files that a scan reads. As in pyiceberg, the limit does not matter.

    Whoever asks may read more of these files than the filter says: copy-on-write finds them by its filter, and keeps
    the rows that do not match. The tasks thus bring all deletes of their files.
    """
    tasks = _whole_files(asked, registry)
    if asked.row_filter != AlwaysTrue() and _may_have_equality_deletes(snapshot):
        everything = _whole_files(asked.update(row_filter=AlwaysTrue()), registry)
        tasks = {location: replace(task, deletes=everything[location].deletes) for location, task in tasks.items()}
    deletes = {each.location for task in tasks.values() for each in task.deletes}
    files = _listed_files(snapshot, asked.io, tasks.keys() | deletes)
    return [
        PlannedTask(
            files[location],
            {files[each.location] for each in task.deletes},
            AlwaysTrue() if task.residual is AlwaysTrue() else asked.row_filter,
            task,
        )
        for location, task in tasks.items()
    ]


def _whole_files(asked: DataScan, registry: FormatRegistry) -> dict[str, FileTask]:
    found = rows_of(asked.update(limit=None), (), registry).scan.tasks
    return {task.location: replace(task, split=None) for task in found}


def _may_have_equality_deletes(snapshot: Snapshot) -> bool:
    """Of those a plan with a filter brings only the ones that can delete a row that matches."""
    return snapshot.summary is None or snapshot.summary.additional_properties.get("total-equality-deletes") != "0"


def rows_of_tasks(reading: ArrowScan, tasks: Iterable[FileScanTask], registry: FormatRegistry) -> Rows:
    """The rows of tasks that somebody planned."""
    metadata, io, projection = reading._table_metadata, reading._io, reading._projected_schema
    work = [_file_task(task, metadata) for task in tasks]
    schema = _whole_schema(projection, metadata)
    dictionaries = dictionary_names(projection, reading._dictionary_columns)
    offsets = Offsets(metadata.name_mapping())

    def make_plan(predicate: BooleanExpression) -> Plan:
        return Plan(tasks=tuple(replace(task, residual=predicate) for task in work), predicate=predicate)

    options = ScanOptions(
        batch_type=pa.RecordBatch,
        where=arrow_filter(reading._bound_row_filter),
        select=_leaf_names(projection),
        limit=None if reading._limit is None else max(reading._limit, 0),
        dictionary_columns=dictionaries,
        registry=WatchingRegistry(registry, offsets),
        batch_rows=_ROWS_OF_ARROWS_BATCHES,
    )
    runtime = options.io_runtime
    found = build_scan(
        options,
        schema,
        make_plan=make_plan,
        open_source=lambda file: open_source(file.location, io, file.size_bytes or None, runtime),
        older_schemas=metadata.schemas[::-1],
        name_mapping=metadata.name_mapping(),
    )
    return Rows(found, projection, offsets, dictionaries)


def _listed_files(snapshot: Snapshot, io: FileIO, wanted: Iterable[str]) -> dict[str, DataFile]:
    locations = set(wanted)
    entries = (entry for manifest in snapshot.manifests(io) for entry in manifest.fetch_manifest_entry(io))
    return {entry.data_file.file_path: entry.data_file for entry in entries if entry.data_file.file_path in locations}


def _whole_schema(projection: Schema, metadata: TableMetadata) -> Schema:
    """A schema of the table that has all columns of the projection, and those of the filter too where possible."""
    wanted = _columns(projection)
    schemas = (metadata.schema(), *metadata.schemas)
    return next((schema for schema in schemas if wanted.items() <= _columns(schema).items()), projection)


def _columns(schema: Schema) -> dict[str, tuple[int, IcebergType | None]]:
    """Ids, and the types of leaves, by name; what is selected of others may differ."""
    return {dotted(path): (path[-1].field_id, _leaf_type(path[-1])) for path in column_paths(schema)}


def _leaf_type(field: NestedField) -> IcebergType | None:
    return None if child_fields(field.field_type) else field.field_type


def _leaf_names(schema: Schema) -> list[str]:
    return [dotted(path) for path in column_paths(schema) if not child_fields(path[-1].field_type)]


def _file_task(task: FileScanTask, metadata: TableMetadata) -> FileTask:
    if isinstance(task, PlannedTask):
        return task.task
    file = task.file
    # Sizes and counts are left out: pyiceberg does not look at them, so tasks that others make may have any.
    return FileTask(
        location=file.file_path,
        file_format=_format(file),
        spec_id=file.spec_id,
        partition_constants=_constants(file, metadata),
        sequence_number=0,
        deletes=tuple(_delete_file(each) for each in task.delete_files),
    )


def _constants(file: DataFile, metadata: TableMetadata) -> Mapping[int, Any]:
    spec = metadata.specs()[file.spec_id]
    schema = metadata.schema()
    return {
        field.source_id: internal_value(schema.find_type(field.source_id), file.partition[position])
        for position, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform) and field.source_id in schema.field_ids
    }


def _delete_file(file: DataFile) -> DeleteFile:
    if file.content is not DataFileContent.POSITION_DELETES or _format(file) == PUFFIN:
        raise UnsupportedError(
            f"{file.file_path}: a task that was not planned by this process does not say which rows of this file of "
            "deletes apply; plan the files where formatkit is installed",
            location=file.file_path,
        )
    return DeleteFile(
        kind=POSITION_DELETES,
        location=file.file_path,
        file_format=_format(file),
        sequence_number=0,
        row_count=0,
        size_bytes=0,
    )


def _format(file: DataFile) -> str:
    return str(file.file_format.value).lower()
