"""Branches of a table, as targets of commits."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import ConfigurationError

__all__ = ["branch_head"]


def branch_head(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The snapshot on which the next one of a branch is built; a new branch starts at the head of main."""
    reference = metadata.refs.get(branch)
    if reference is None:
        if branch != MAIN_BRANCH and metadata.current_snapshot() is None:
            message = f"branch {branch!r} cannot start from a table without snapshots; write to {MAIN_BRANCH!r} first"
            raise ConfigurationError(message)
        return metadata.current_snapshot()
    if reference.snapshot_ref_type is not SnapshotRefType.BRANCH:
        raise ConfigurationError(f"{branch!r} is a tag, which never moves; write to a branch")
    return metadata.snapshot_by_id(reference.snapshot_id)
