"""Tables as they were, and as their branches are."""

from __future__ import annotations

from copy import copy

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import ConfigurationError
from formatkit.spark.options import Version

__all__ = ["at_version", "with_schema", "without_rows"]


def at_version(table: Table, version: Version | None) -> Table:
    """The table with that state as its current one.

    A branch has the schema of the table; any other state has the schema that it was written with.

    Raises:
        ConfigurationError: The table has no such state.
    """
    if version is None or (version.value == MAIN_BRANCH and version.kind in ("branch", "name")):
        return table
    snapshot, is_branch = _find(table, version)
    changes = {"current_snapshot_id": snapshot.snapshot_id}
    schemas = {schema.schema_id for schema in table.metadata.schemas}
    if not is_branch and snapshot.schema_id in schemas:
        changes["current_schema_id"] = snapshot.schema_id
    return _changed(table, **changes)


def without_rows(table: Table) -> Table:
    """The table as if nothing had been written to it: planning a scan of it reads no manifest."""
    return _changed(table, current_snapshot_id=None)


def with_schema(table: Table, schema_id: int) -> Table:
    """The table with one of its earlier schemas.

    Raises:
        ConfigurationError: The table does not have it any more.
    """
    if table.metadata.schema_by_id(schema_id) is None:
        known = ", ".join(str(schema.schema_id) for schema in table.metadata.schemas)
        message = f"the table has no schema {schema_id} any more; it has: {known}. Start the query again"
        raise ConfigurationError(message)
    return _changed(table, current_schema_id=schema_id)


def _find(table: Table, version: Version) -> tuple[Snapshot, bool]:
    """The snapshot, and whether a branch led to it."""
    match version.kind:
        case "snapshot":
            known = [str(each.snapshot_id) for each in table.metadata.snapshots]
            return _found(table.metadata.snapshot_by_id(version.value), version, "snapshots", known), False
        case "moment":
            known = [f"{entry.snapshot_id} since {entry.timestamp_ms}" for entry in table.history()]
            return _found(table.snapshot_as_of_timestamp(version.value), version, "history", known), False
    kinds = {"branch": SnapshotRefType.BRANCH, "tag": SnapshotRefType.TAG}
    wanted = kinds.get(version.kind)
    refs = {name: ref for name, ref in table.refs().items() if wanted in (None, ref.snapshot_ref_type)}
    ref = refs.get(version.value)
    snapshot = table.metadata.snapshot_by_id(ref.snapshot_id) if ref is not None else None
    what = {"branch": "branches", "tag": "tags"}.get(version.kind, "branches and tags")
    found = _found(snapshot, version, what, sorted(refs))
    return found, ref is not None and ref.snapshot_ref_type == SnapshotRefType.BRANCH


def _found(snapshot: Snapshot | None, version: Version, what: str, known: list[str]) -> Snapshot:
    if snapshot is None:
        message = (
            f"the option {version.option} asks for {version.value}, which the table does not have; its {what}: "
            f"{', '.join(known) or 'none'}"
        )
        raise ConfigurationError(message)
    return snapshot


def _changed(table: Table, **metadata: int | None) -> Table:
    changed = copy(table)
    changed.metadata = table.metadata.model_copy(update=metadata)
    return changed
