"""`scan`: the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from formatkit.contract.fields import check_schema
from formatkit.contract.metadata_columns import partition_column
from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.errors import ConfigurationError, InvalidTableError
from formatkit.io import IoRuntime, with_runtime
from formatkit.kernel import MissingIds
from formatkit.registry import FormatRegistry
from formatkit.scan.build import build_scan
from formatkit.scan.options import DEFAULT_BUFFER_BYTES, ScanOptions
from formatkit.scan.plan import Plan
from formatkit.scan.scan import Scan
from formatkit.scan.sources import TableFiles
from formatkit.scan.verify import verifies_skipping

__all__ = ["scan", "scan_files"]

if TYPE_CHECKING:
    import typing_extensions
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from formatkit.scan.incremental.files import SnapshotFiles
    from formatkit.scan.incremental.snapshots import DeleteSnapshots, OverwriteSnapshots

    B = typing_extensions.TypeVar("B", default=pa.RecordBatch)
else:
    B = TypeVar("B")


def scan(
    table: Table,
    where: str | BooleanExpression | None = None,
    select: str | Iterable[str] = ("*",),
    limit: int | None = None,
    snapshot_id: int | None = None,
    case_sensitive: bool = True,
    registry: FormatRegistry | None = None,
    *,
    batch_rows: int = DEFAULT_BATCH_ROWS,
    threads: int | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    dictionary_columns: str | Iterable[str] = (),
    prefer_partition_constants: bool = False,
    missing_ids: MissingIds = "error",
    properties: Mapping[str, str] | None = None,
    batch_type: type[B] = pa.RecordBatch,  # type: ignore[assignment]  # the default of B
    runtime: IoRuntime | None = None,
    start_snapshot_id: int | None = None,
    end_snapshot_id: int | None = None,
    start_timestamp: int | None = None,
    end_timestamp: int | None = None,
    overwrite_snapshots: OverwriteSnapshots = "error",
    delete_snapshots: DeleteSnapshots = "error",
) -> Scan[B]:
    """Plan a scan of an Iceberg table. Reads metadata only; rows are read when they are asked for.

    Args:
        table: A pyiceberg `Table` or `StaticTable`. `formatkit.load_table` makes one of a metadata file.
        where: Which rows, as text (``"a > 1 and b is not null"``) or as a pyiceberg expression. The Iceberg
            expressions spec decides: ``!=`` and ``not in`` keep nulls.
        select: Which columns: names, ``a.b`` for a part of a struct, ``*`` for all, and the metadata columns ``_file``,
            ``_pos``, ``_spec_id``, ``_partition``, ``_deleted``, ``_row_id`` and ``_last_updated_sequence_number``.
        limit: The most rows to return; reading stops there.
        snapshot_id: An older snapshot, which is read with the schema that it was written with.
        case_sensitive: Whether case matters in names.
        registry: Where formats are looked up; everything that is installed by default.
        batch_rows: The most rows of a batch.
        threads: How many files or parts of files to read side by side; by default one a processor, 8 at most.
        buffer_bytes: How much decoded data may wait for the consumer when several threads read.
        dictionary_columns: String and binary columns that are wanted in dictionary form.
        prefer_partition_constants: Take the values of identity-partitioned columns from the table's metadata even
            where the file stores the column.
        missing_ids: What to do about files without field ids when the table has no name mapping: ``"error"``,
            ``"by-name"`` or ``"by-position"``.
        properties: For the readers; they win over the table's own ``read.*`` properties. ``read.verify-skipping``
            reads what is skipped as well, and raises `MisleadingStatisticsError` if a row of it matches.
        batch_type: What batches are made of.
        runtime: Where storage calls run; by default the current one.
        start_snapshot_id: Only rows that snapshots after this one appended, with the table's current schema, and as the
            snapshot that appended them shows them: whatever deleted them later does not matter.
        end_snapshot_id: Only rows that snapshots up to this one appended. It descends from the start, and is the
            current one by default.
        start_timestamp: Only rows of snapshots after this moment, in milliseconds; instead of `start_snapshot_id`.
        end_timestamp: Only rows of snapshots up to this moment; instead of `end_snapshot_id`.
        overwrite_snapshots: What to do about snapshots between start and end that replaced rows: raise an ``"error"``,
            ``"skip"`` them, or read their ``"added-files"``. Compaction adds no rows and is always skipped.
        delete_snapshots: What to do about those that removed rows: ``"error"`` or ``"skip"`` them.

    Raises:
        NonAppendSnapshotError: A snapshot between start and end did more than append, and nothing was said about that.
        SnapshotExpiredError: Not all snapshots between start and end are there any more.
        FormatNotRegisteredError: The table has files in a format that is not installed.
        InvalidTableError: The table's metadata contradicts itself.
        CorruptFileError: A manifest list or a manifest is damaged.
        UnsupportedError: The schema has too many levels, or the table has content that is not known.
        ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError, ConfigurationError: The arguments are wrong.
    """
    options = ScanOptions(
        batch_type=batch_type,
        where=where,
        select=select,
        limit=limit,
        case_sensitive=case_sensitive,
        registry=registry,
        batch_rows=batch_rows,
        threads=threads,
        buffer_bytes=buffer_bytes,
        dictionary_columns=dictionary_columns,
        prefer_partition_constants=prefer_partition_constants,
        missing_ids=missing_ids,
        properties=properties or {},
        runtime=runtime,
    )
    from formatkit.scan.incremental.snapshots import AppendRange, NonAppends

    appended = AppendRange(
        start_snapshot_id=start_snapshot_id,
        end_snapshot_id=end_snapshot_id,
        start_timestamp=start_timestamp,
        end_timestamp=end_timestamp,
        non_appends=NonAppends(overwrite_snapshots, delete_snapshots),
    )
    if not appended.is_asked_for:
        return scan_files(table, options, snapshot_id)
    if snapshot_id is not None:
        message = "snapshot_id asks for all rows of a snapshot, and start or end for those that some appended; give one"
        raise ConfigurationError(message, snapshot_id=snapshot_id)
    from formatkit.scan.load import sound_metadata

    with sound_metadata(table.metadata_location):
        head = _snapshot(table.metadata, None, table.metadata_location)
    with with_runtime(options.io_runtime):
        files = appended.files(table.metadata, table.io, head)
    return scan_files(table, options, parts=files)


def scan_files(
    table: Table,
    options: ScanOptions[B],
    snapshot_id: int | None = None,
    parts: Sequence[SnapshotFiles] | None = None,
) -> Scan[B]:
    """Plan a scan of all files of a snapshot, or of some files of several.

    Args:
        table: The table.
        options: What the caller wants.
        snapshot_id: The snapshot, with the schema that it was written with; by default the current one.
        parts: Files of snapshots, first to last, to be read with the table's schema; instead of a snapshot.
    """
    # Who has a table has loaded what planning needs; who reads a single file need not.
    from formatkit.scan.load import check_specs, sound_metadata
    from formatkit.scan.planner import TablePlanner, partition_type

    metadata, io = table.metadata, table.io
    read_properties = _read_properties(metadata) | dict(options.properties)
    verifies = verifies_skipping(read_properties)
    location = table.metadata_location
    with sound_metadata(location):
        snapshot = _snapshot(metadata, snapshot_id, location)
        schema = _schema(metadata, snapshot if snapshot_id is not None else None)
        check_schema(schema, location)
        check_specs(metadata, location)
        partition = partition_column(partition_type(metadata))
        name_mapping = metadata.name_mapping()

    read_properties = _read_properties(metadata) | dict(options.properties)

    def make_plan(predicate: BooleanExpression) -> Plan:
        with with_runtime(options.io_runtime):
            if verifies and options.limit != 0:
                from formatkit.scan.verify.planning import plan_verified

                return plan_verified(metadata, io, schema, predicate, snapshot, parts, location)
            with sound_metadata(location):
                planner = TablePlanner(metadata, io, schema, predicate, options.limit, read_properties)
            return planner.plan(snapshot, parts)

    return build_scan(
        options,
        schema,
        make_plan=make_plan,
        open_source=TableFiles(io, options.io_runtime),
        older_schemas=metadata.schemas[::-1],
        partition=partition,
        name_mapping=name_mapping,
        missing_ids=options.missing_ids,
        properties=read_properties,
    )


def _snapshot(metadata: TableMetadata, snapshot_id: int | None, location: str) -> Snapshot | None:
    if snapshot_id is None:
        current = metadata.current_snapshot()
        if current is None and metadata.current_snapshot_id is not None:
            # Without the snapshot the table would look empty.
            missing = metadata.current_snapshot_id
            message = f"{location}: the current snapshot {missing} is not among the snapshots of the table"
            raise InvalidTableError(message, location=location)
        return current
    snapshot = metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        known = ", ".join(str(each.snapshot_id) for each in metadata.snapshots) or "none"
        message = f"the table has no snapshot {snapshot_id}; it has: {known}"
        raise ConfigurationError(message, snapshot_id=snapshot_id)
    return snapshot


def _schema(metadata: TableMetadata, snapshot: Snapshot | None) -> Schema:
    """The snapshot's own schema, so that old names and old columns are there; else the table's."""
    if snapshot is not None and snapshot.schema_id is not None:
        for schema in metadata.schemas:
            if schema.schema_id == snapshot.schema_id:
                return schema
    return metadata.schema()


def _read_properties(metadata: TableMetadata) -> dict[str, str]:
    return {name: value for name, value in metadata.properties.items() if name.startswith("read.")}
