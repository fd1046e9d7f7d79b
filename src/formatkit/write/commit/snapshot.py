"""Builds the snapshot of a change on top of the newest state of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import UNASSIGNED_SEQ, DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from formatkit.errors import AlreadyCommittedError
from formatkit.write.commit.branches import branch_head, snapshot_that_says
from formatkit.write.commit.change import Change
from formatkit.write.commit.cleanup import UncommittedFiles
from formatkit.write.commit.conflicts import Conflicts
from formatkit.write.commit.manifests import ManifestFiles
from formatkit.write.commit.merging import merge
from formatkit.write.commit.records import ManifestReader
from formatkit.write.commit.removal import Remover
from formatkit.write.commit.summary import summarise

__all__ = ["Proposal", "propose"]


@dataclass(frozen=True)
class Proposal:
    """What the catalog is asked to do."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    snapshot: Snapshot


def propose(
    table: Table, change: Change, branch: str, snapshot_id: int, files: UncommittedFiles, *, staged: bool = False
) -> Proposal:
    """Check a change against what happened since its base, and write the metadata of its snapshot.

    Args:
        table: The newest known state.
        change: What to do.
        branch: Where to do it.
        snapshot_id: The id of the snapshot, the same in all attempts.
        files: Gets what is written.
        staged: Whether the branch stays where it is.
    """
    _refuse_twice(table, change, branch)
    parent = branch_head(table.metadata, branch)
    return _proposal(table, branch, _Builder(table, change, parent, snapshot_id, files).build(), staged)


def _refuse_twice(table: Table, change: Change, branch: str) -> None:
    if change.once is None:
        return
    value = change.properties[change.once]
    found = snapshot_that_says(table.metadata, branch, change.once, value)
    if found is not None:
        message = f"snapshot {found.snapshot_id} has {change.once} {value!r} already; nothing was committed"
        raise AlreadyCommittedError(message, snapshot_id=found.snapshot_id)


class _Builder:
    def __init__(
        self, table: Table, change: Change, parent: Snapshot | None, snapshot_id: int, files: UncommittedFiles
    ) -> None:
        self._metadata = table.metadata
        self._change = change
        self._parent = parent
        self._snapshot_id = snapshot_id
        self._files = files
        self._sequence_number = table.metadata.next_sequence_number()
        self._reader = ManifestReader(table.metadata, table.io)
        self._output = ManifestFiles(table, snapshot_id, files)
        self._remover = Remover(change, self._reader, self._output)

    def build(self) -> Snapshot:
        conflicts = Conflicts(self._change, self._metadata, self._parent, self._reader)
        conflicts.check()
        manifests = list(self._manifests())
        conflicts.check_removal(self._remover)
        lineage = isinstance(self._metadata, TableMetadataV3)
        first_row_id = (self._metadata.next_row_id or 0) if isinstance(self._metadata, TableMetadataV3) else 0
        parent_id = self._parent.snapshot_id if self._parent else None
        location, added_rows = self._output.write_list(
            manifests, parent_id=parent_id, sequence_number=self._sequence_number, next_row_id=first_row_id
        )
        # Those that were merged into others are no longer needed.
        self._files.discard(needed={location, *(each.manifest_path for each in manifests)})
        return Snapshot.model_validate(
            {
                "snapshot-id": self._snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": self._sequence_number,
                "manifest-list": location,
                "summary": self._summary(),
                "schema-id": self._metadata.current_schema_id,
                "first-row-id": first_row_id if lineage else None,
                "added-rows": added_rows if lineage else None,
            }
        )

    def _manifests(self) -> Iterator[ManifestFile]:
        present = self._reader.manifests(self._parent)
        data = [
            *self._added(ManifestContent.DATA, self._change.added, self._change.data_sequence_number),
            *self._remover.data_manifests(_of(ManifestContent.DATA, present)),
        ]
        deletes = [
            *self._added(ManifestContent.DELETES, self._change.added_deletes, None),
            *self._remover.delete_manifests(_of(ManifestContent.DELETES, present), self._oldest(data)),
        ]
        for group in (data, deletes):
            yield from merge(
                group,
                snapshot_id=self._snapshot_id,
                properties=self._metadata.properties,
                reader=self._reader,
                output=self._output,
            )

    def _added(
        self, content: ManifestContent, files: Sequence[DataFile], sequence_number: int | None
    ) -> Iterator[ManifestFile]:
        by_spec: dict[int, list[DataFile]] = defaultdict(list)
        for file in files:
            by_spec[file.spec_id].append(file)
        for spec_id, group in by_spec.items():
            yield from self._output.write(
                content, spec_id, (self._output.added(file, sequence_number) for file in group)
            )

    def _oldest(self, manifests: Iterable[ManifestFile]) -> int:
        """The lowest sequence number that a data file may have."""
        live = (each for each in manifests if each.has_added_files() or each.has_existing_files())
        numbers = [each.min_sequence_number for each in live]
        return min((number for number in numbers if number != UNASSIGNED_SEQ), default=self._sequence_number)

    def _summary(self) -> Summary:
        previous = None
        if self._parent is not None:
            previous = self._parent.summary.additional_properties if self._parent.summary else {}
        return summarise(
            self._change.operation,
            (*self._change.added, *self._change.added_deletes),
            self._remover.removed,
            metadata=self._metadata,
            previous=previous,
            properties=self._change.properties,
        )


def _proposal(table: Table, branch: str, snapshot: Snapshot, staged: bool) -> Proposal:
    present = table.metadata.refs.get(branch)
    requirements = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": branch, "snapshot-id": present.snapshot_id if present else None}),
    )
    if staged:
        return Proposal(requirements, (AddSnapshotUpdate(snapshot=snapshot),), snapshot)
    # How long the branch keeps its snapshots is part of the reference, which is replaced as a whole.
    retention = present.model_dump(by_alias=True, exclude={"snapshot_id", "snapshot_ref_type"}) if present else {}
    move = {**retention, "ref-name": branch, "type": "branch", "snapshot-id": snapshot.snapshot_id}
    updates = (AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate.model_validate(move))
    return Proposal(requirements, updates, snapshot)


def _of(content: ManifestContent, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    return [each for each in manifests if each.content == content]
