"""Branches of a table, as targets of commits."""

from __future__ import annotations

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from formatkit.errors import ConfigurationError

__all__ = ["branch_head", "snapshot_that_says"]

_STAGED = "wap.id"


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


def snapshot_that_says(metadata: TableMetadata, branch: str, name: str, value: str) -> Snapshot | None:
    """The newest snapshot of a branch, its whole history included, or a staged one, whose summary says this."""
    on_branch = ancestors_of(branch_head(metadata, branch), metadata) if metadata.snapshots else ()
    for snapshot in (*on_branch, *(each for each in metadata.snapshots if _says(each, _STAGED))):
        if _says(snapshot, name, value):
            return snapshot
    return None


def _says(snapshot: Snapshot, name: str, value: str | None = None) -> bool:
    said = None if snapshot.summary is None else snapshot.summary.additional_properties.get(name)
    return said is not None and value in (None, said)
