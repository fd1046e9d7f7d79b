"""Finds out whether other writers made a change impossible since its base.

Entries of manifests say which snapshot added them, whoever rewrote the manifest later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import IsolationLevel, Operation, Snapshot, ancestors_of

from formatkit.errors import CommitConflictError, ConfigurationError, InvalidTableError
from formatkit.forks import cached
from formatkit.scan.deletes.locations import canonical_location, spellings
from formatkit.scan.predicate_text import predicate_text
from formatkit.write.commit.change import Change
from formatkit.write.commit.matching import ConflictFilter
from formatkit.write.commit.records import (
    ManifestReader,
    is_deletion_vector,
    is_live,
    named_data_file,
    path_bounds,
    referenced_data_file,
)
from formatkit.write.commit.removal import Remover

__all__ = ["Conflicts"]

_AGAIN = "nothing was committed; refresh the table and run the operation again"


class Conflicts:
    """Compares a change with what the head of a branch has become since the change's base."""

    def __init__(self, change: Change, metadata: TableMetadata, head: Snapshot | None, reader: ManifestReader) -> None:
        self._change = change
        self._metadata = metadata
        self._head = head
        self._reader = reader

    def check(self) -> None:
        """Raise `CommitConflictError` if what others did since the base matters to the change."""
        change = self._change
        if not (change.removes or change.added_deletes or change.conflict_filter is not None) or not self._since:
            return
        self._check_added_rows()
        touched = self._find({canonical_location(each): each for each in change.removed | self._referenced})
        self._check_new_deletes(touched)

    def check_removal(self, remover: Remover) -> None:
        """Raise `CommitConflictError` if files that were to be removed are not there, or vectors would compete."""
        for location in sorted(remover.missing):
            raise self._gone(location)
        for location, _ in sorted(remover.missing_deletes, key=str):
            raise self._gone(location)
        for rival in remover.rivals:
            raise self._new_deletes(rival, referenced_data_file(rival.data_file) or "")

    @cached
    def _since(self) -> dict[int, Snapshot]:
        """The snapshots of others since the base, the newest first."""
        found: dict[int, Snapshot] = {}
        base = self._change.base_snapshot_id
        for snapshot in ancestors_of(self._head, self._metadata):
            if snapshot.snapshot_id == base:
                return found
            if snapshot.snapshot_id in found:
                message = f"snapshot {snapshot.snapshot_id} of the table is an ancestor of itself"
                raise InvalidTableError(message, snapshot_id=snapshot.snapshot_id)
            found[snapshot.snapshot_id] = snapshot
        if base is not None:
            message = (
                f"the table no longer descends from snapshot {base}, on which the change is based: it was rolled back, "
                f"or the snapshot has expired; {_AGAIN}"
            )
            raise CommitConflictError(message, snapshot_id=base)
        return found

    @cached
    def _referenced(self) -> frozenset[str]:
        named = (referenced_data_file(file) for file in self._change.added_deletes)
        return self._change.referenced | {location for location in named if location is not None}

    @cached
    def _manifests(self) -> list[ManifestFile]:
        return self._reader.manifests(self._head)

    def _of(self, content: ManifestContent) -> list[ManifestFile]:
        return [each for each in self._manifests if each.content == content]

    def _new_delete_files(self) -> Iterator[ManifestEntry]:
        """Live delete files that others added since the base."""
        for manifest in self._of(ManifestContent.DELETES):
            if manifest.added_snapshot_id in self._since:
                yield from (each for each in self._reader.live_entries(manifest) if each.snapshot_id in self._since)

    def _find(self, wanted: Mapping[str, str]) -> dict[str, ManifestEntry]:
        """Data files by their locations, in the spelling to compare; all of them must still be there."""
        found: dict[str, ManifestEntry] = {}
        if wanted:
            for manifest, locations in self._reader.locations(self._of(ManifestContent.DATA)):
                if not wanted.keys().isdisjoint(map(canonical_location, locations)):
                    entries = {
                        canonical_location(e.data_file.file_path): e for e in self._reader.live_entries(manifest)
                    }
                    found.update({location: entries[location] for location in entries.keys() & wanted.keys()})
        for location in sorted(wanted.keys() - found.keys()):
            raise self._gone(wanted[location])
        return found

    def _check_added_rows(self) -> None:
        if self._change.conflict_filter is None or self._isolation is not IsolationLevel.SERIALIZABLE:
            return
        matches = ConflictFilter(self._change.conflict_filter, self._metadata)
        for entry in self._added_rows():
            if matches.may_match(entry.data_file):
                location = entry.data_file.file_path
                message = (
                    f"snapshot {entry.snapshot_id} of another writer added {location}, which may hold rows that match "
                    f"{predicate_text(self._change.conflict_filter)}; {_AGAIN}"
                )
                raise CommitConflictError(message, snapshot_id=entry.snapshot_id, location=location)

    def _added_rows(self) -> Iterator[ManifestEntry]:
        """Files with rows that others added since the base; some may have been rewritten since then.

        Rewritten rows are not new. Where files that matter to the change were rewritten, they are gone.
        """
        for snapshot in self._since.values():
            if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
                for manifest in self._reader.own_manifests(snapshot):
                    if manifest.content == ManifestContent.DATA:
                        entries = self._reader.live_entries(manifest)
                        yield from (each for each in entries if each.snapshot_id == snapshot.snapshot_id)

    def _check_new_deletes(self, touched: Mapping[str, ManifestEntry]) -> None:
        """Deletes that others added to files of the change would be forgotten, or their rows brought back."""
        for delete in self._new_delete_files():
            named = named_data_file(delete.data_file)
            for location in touched if named is None else touched.keys() & {canonical_location(named)}:
                data = touched[location].data_file
                if not self._is_harmless(delete, location) and (named or self._may_apply(delete.data_file, data)):
                    raise self._new_deletes(delete, data.file_path)

    def _is_harmless(self, delete: ManifestEntry, location: str) -> bool:
        """Whether rows that others deleted stay deleted, though the change touches their file."""
        by_equality = delete.data_file.content == DataFileContent.EQUALITY_DELETES
        if location in self._removed:
            # Where nothing is written anew, nothing comes back; and rows that keep their age are still found.
            return not self._change.added or (by_equality and self._change.data_sequence_number is not None)
        # Changes that only delete rows do not disturb each other, unless one vector would take another's place.
        only_deletes = self._change.operation is Operation.DELETE and not self._change.added
        return only_deletes and (by_equality or location not in self._vector_targets)

    @cached
    def _removed(self) -> set[str]:
        return set(map(canonical_location, self._change.removed))

    @cached
    def _vector_targets(self) -> set[str]:
        vectors = filter(is_deletion_vector, self._change.added_deletes)
        return {canonical_location(named_data_file(each) or "") for each in vectors}

    def _may_apply(self, delete: DataFile, data: DataFile) -> bool:
        """Whether a delete file that names no data file, and is younger than one, may delete rows of it."""
        by_equality = delete.content == DataFileContent.EQUALITY_DELETES
        if by_equality and not self._metadata.specs()[delete.spec_id].fields:
            return True
        return _same_partition(delete, data) and (by_equality or _may_name(delete, data.file_path))

    @property
    def _isolation(self) -> IsolationLevel:
        if self._change.isolation is not None:
            return self._change.isolation
        default_command = "delete" if self._change.operation is Operation.DELETE else "update"
        name = f"write.{self._change.command or default_command}.isolation-level"
        level = self._metadata.properties.get(name, IsolationLevel.SERIALIZABLE.value)
        try:
            return IsolationLevel(level.lower())
        except ValueError:
            levels = " or ".join(repr(each.value) for each in IsolationLevel)
            raise ConfigurationError(f"table property {name} is {level!r}; it must be {levels}") from None

    def _gone(self, location: str) -> CommitConflictError:
        snapshot_id = self._remover_of(location)
        by = f"snapshot {snapshot_id} of another writer removed" if snapshot_id else "the table does not have"
        message = f"{by} {location}, to which the change refers; {_AGAIN}"
        return CommitConflictError(message, snapshot_id=snapshot_id, location=location)

    def _new_deletes(self, delete: ManifestEntry, location: str) -> CommitConflictError:
        message = (
            f"snapshot {delete.snapshot_id} of another writer deleted rows of {location}, which the change touches; "
            f"{_AGAIN}"
        )
        return CommitConflictError(message, snapshot_id=delete.snapshot_id, location=location)

    def _remover_of(self, location: str) -> int | None:
        """Whose snapshot removed a file; only messages ask."""
        for snapshot in self._since.values():
            for manifest in self._reader.own_manifests(snapshot):
                for entry in self._reader.entries(manifest):
                    if not is_live(entry) and entry.data_file.file_path == location:
                        return snapshot.snapshot_id
        return None


def _same_partition(first: DataFile, second: DataFile) -> bool:
    if first.spec_id != second.spec_id:
        return False
    pairs = ((first.partition[position], second.partition[position]) for position in range(len(first.partition)))
    # NaN is the same partition as NaN.
    return all(one == other or (one != one and other != other) for one, other in pairs)


def _may_name(deletes: DataFile, location: str) -> bool:
    """Whether position deletes may name a data file, of which each writer has its own spelling."""
    lower, upper = path_bounds(deletes)
    if lower is None or upper is None:
        return True
    # Writers that cut the upper bound off need not have made it larger.
    paths = [each.encode() for each in spellings(location)]
    return any(lower <= path and (path <= upper or path.startswith(upper)) for path in paths)
