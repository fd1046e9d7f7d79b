"""What one snapshot is to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import IsolationLevel, Operation

from formatkit.errors import ConfigurationError

__all__ = ["Change", "Command", "DeleteKey"]

DeleteKey = tuple[str, "int | None"]
"""A delete file's location and, for deletion vectors, the offset of the blob: one Puffin file holds several."""

Command = Literal["delete", "update", "merge"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """Files to add to and to take out of a table, at once.

    Attributes:
        operation: What the snapshot will be called: append, overwrite, delete, or replace if no row changes.
        added: Data files, of any partition spec of the table.
        added_deletes: Position and equality delete files, and deletion vectors.
        removed: Locations of data files. What deletes rows of these files only is removed with them.
        removed_deletes: Delete files that others take the place of.
        base_snapshot_id: The snapshot from which the change was derived; None if the table had none.
        data_sequence_number: The age of the rows in `added`, if it is not that of this snapshot. Rows that were only
            rewritten keep theirs, so that the equality deletes that others commit meanwhile still apply.
        referenced: Locations of the data files that position deletes in `added_deletes` name. Those of files whose
            `referenced_data_file` is set need not be repeated.
        conflict_filter: Rows that no other writer may have added since the base, bound to the table's schema. Only
            serializable isolation asks; None if it does not matter.
        command: Whose isolation level counts: `write.delete.isolation-level` and so on. If left out, it is "delete"
            for deletes and "update" for the others.
        isolation: The isolation level, if it is not that of the table.
        properties: What else the snapshot's summary is to say.
        once: The name of one of `properties`. The change is refused with `AlreadyCommittedError` if the branch has a
            snapshot that says the same there, even if that was committed a moment ago.
    """

    operation: Operation
    added: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed: frozenset[str] = frozenset()
    removed_deletes: frozenset[DeleteKey] = frozenset()
    base_snapshot_id: int | None = None
    data_sequence_number: int | None = None
    referenced: frozenset[str] = frozenset()
    conflict_filter: BooleanExpression | None = None
    command: Command | None = None
    isolation: IsolationLevel | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    once: str | None = None

    def __post_init__(self) -> None:
        if self.operation is Operation.APPEND and (self.added_deletes or self.removes):
            raise ConfigurationError("an append only adds data files; call the change an overwrite or a delete")

    @property
    def removes(self) -> bool:
        """Whether files are taken out of the table."""
        return bool(self.removed or self.removed_deletes)
