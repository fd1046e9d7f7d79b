"""`delete`: rows of a table go."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from formatkit.registry import FormatRegistry
from formatkit.write.commit import UncommittedFiles, commit
from formatkit.write.operations.base import Base, BaseFiles
from formatkit.write.operations.copy_on_write import rewrite_without
from formatkit.write.operations.matches import Matches, find_matches
from formatkit.write.operations.merge_on_read import mark_deleted, refuse_version_1
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Mode, Removal, check_mode

__all__ = ["delete", "remove_rows"]


def delete(
    table: Table,
    where: str | BooleanExpression,
    mode: Mode = "merge-on-read",
    *,
    case_sensitive: bool = True,
    branch: str = "main",
    file_format: str | None = None,
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> Snapshot | None:
    """Delete the rows that match a filter, in one snapshot. The table object then shows it.

    Files of which all rows match are taken out of the table by their metadata alone.

    Args:
        table: A table of a catalog.
        where: Which rows, as text or as a pyiceberg expression; `AlwaysTrue()` for all of them. By the Iceberg
            expressions spec ``!=`` and ``not in`` match nulls.
        mode: ``"merge-on-read"`` writes which rows are deleted: position-delete files in tables of version 2, deletion
            vectors in version 3. ``"copy-on-write"`` writes the other rows of the files anew. The table's property
            `write.delete.mode` is for engines and is not looked at: what happens is what the call says.
        case_sensitive: Whether case matters in names.
        branch: The branch to change; one that is not there yet begins at the main branch.
        file_format: For new files; by default `write.delete.format.default` for deletes, and `write.format.default`.
        snapshot_properties: What the snapshot's summary is to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Returns:
        The new snapshot, or None if no row matches: then nothing is committed.

    Raises:
        CommitConflictError: Another writer changed the same files, or added rows that match.
        UnsupportedError: Merge-on-read of a table of version 1, which has no delete files.
        ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError, ConfigurationError: The arguments are wrong.
    """
    check_mode(mode)
    base = Base.of(table, branch, registry)
    predicate = base.bind(where, case_sensitive=case_sensitive)
    with UncommittedFiles(table.io) as files:
        output = Output(base, table.io, files, file_format)
        removal = remove_rows(base, find_matches(base, predicate), output, mode)
        if removal.is_empty:
            return None
        change = removal.change(
            base_snapshot_id=base.snapshot_id,
            conflict_filter=predicate,
            command="delete",
            properties=snapshot_properties or {},
        )
        return commit(table, change, branch=branch, files=files)


def remove_rows(base: BaseFiles, matches: Matches, output: Output, mode: Mode) -> Removal:
    """Write what takes rows out of a table."""
    with closing(matches.parts):
        if mode == "copy-on-write":
            return rewrite_without(base, matches, output)
        refuse_version_1(base)
        return mark_deleted(base, matches, output)
