"""Turns a change into a snapshot."""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from formatkit.errors import UnsupportedError
from formatkit.write.commit.change import Change
from formatkit.write.commit.cleanup import UncommittedFiles

__all__ = ["commit"]


def commit(table: Table, change: Change, *, branch: str = "main", files: UncommittedFiles | None = None) -> Snapshot:
    """Commit a change; the table object then shows it."""
    if change.operation is not Operation.APPEND:
        raise UnsupportedError(f"{change.operation.value} cannot be committed")
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=dict(change.properties), branch=branch)
        with update.fast_append() as append:
            for file in change.added:
                append.append_data_file(file)
    if files is not None:
        files.keep()
    snapshot = table.snapshot_by_name(branch)
    assert snapshot is not None
    return snapshot
