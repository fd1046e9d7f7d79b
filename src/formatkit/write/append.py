"""Adds rows to a table."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from formatkit.registry import FormatRegistry
from formatkit.write.commit import Change, UncommittedFiles, commit
from formatkit.write.incoming import ArrowData
from formatkit.write.table_writer import write_data_files

__all__ = ["append"]


def append(
    table: Table,
    data: ArrowData,
    file_format: str | None = None,
    *,
    branch: str = "main",
    properties: Mapping[str, str] | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    target_file_bytes: int | None = None,
    registry: FormatRegistry | None = None,
) -> Snapshot | None:
    """Add rows to a table in one snapshot; a failure leaves the table as it was, and no file.

    Columns are matched with the table's schema by name; `formatkit.write.matching` has the rule.

    Args:
        table: A pyiceberg `Table` of any catalog; it shows the new snapshot afterwards.
        data: A record batch, table or reader, a Polars, pandas or DuckDB frame, or an iterable of these.
        file_format: The format of the files; `write.format.default` of the table if left out, else Parquet.
        branch: The branch to commit to; it is made from the main branch if it does not exist.
        properties: For this write, on top of the table's own `write.*` properties.
        snapshot_properties: What else the snapshot's summary is to say.
        target_file_bytes: About how long files get; `write.target-file-size-bytes` of the table if left out.
        registry: Where formats are looked up; those that are installed if left out.

    Returns:
        The snapshot, or None if there were no rows: then nothing is committed.
    """
    with UncommittedFiles(table.io) as files:
        base = table.metadata.snapshot_by_name(branch)
        added = write_data_files(
            table,
            data,
            file_format=file_format,
            properties=properties,
            target_file_bytes=target_file_bytes,
            registry=registry,
            files=files,
        )
        if not added:
            return None
        change = Change(
            operation=Operation.APPEND,
            added=added,
            base_snapshot_id=None if base is None else base.snapshot_id,
            properties=snapshot_properties or {},
        )
        return commit(table, change, branch=branch, files=files)
