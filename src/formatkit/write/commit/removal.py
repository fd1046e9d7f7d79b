"""Takes files out of the manifests of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile

from formatkit.scan.deletes.locations import canonical_location
from formatkit.write.commit.change import Change, DeleteKey
from formatkit.write.commit.manifests import ManifestFiles
from formatkit.write.commit.records import ManifestReader, delete_key, is_deletion_vector, referenced_data_file

__all__ = ["Remover"]


class Remover:
    """Rewrites the manifests that list files which a change removes; the others stay as they are.

    Attributes:
        removed: The files that were taken out, with those that nothing can apply to any more.
        missing: Data files that were to be removed but are not in the table.
        missing_deletes: The same of delete files.
        rivals: Deletion vectors that would apply beside those that the change adds.
    """

    def __init__(self, change: Change, reader: ManifestReader, output: ManifestFiles) -> None:
        self._change = change
        self._reader = reader
        self._output = output
        self._removed_locations = set(map(canonical_location, change.removed))
        self._vector_targets = {_target(file) for file in change.added_deletes if is_deletion_vector(file)}
        self.removed: list[DataFile] = []
        self.missing: set[str] = set(change.removed)
        self.missing_deletes: set[DeleteKey] = set(change.removed_deletes)
        self.rivals: list[ManifestEntry] = []

    def data_manifests(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """What is left of data manifests."""
        if not self.missing:
            return list(manifests)
        kept: list[ManifestFile] = []
        for manifest, locations in self._reader.locations(manifests):
            if self.missing.isdisjoint(locations):
                kept.append(manifest)
            else:
                kept += self._rewritten(manifest, lambda entry: entry.data_file.file_path in self._change.removed)
                self.missing -= locations
        return kept

    def delete_manifests(self, manifests: Iterable[ManifestFile], oldest_data: int) -> list[ManifestFile]:
        """What is left of delete manifests.

        Args:
            manifests: Their lines in the list.
            oldest_data: The lowest sequence number of the data files that are left. Older deletes apply to none.
        """
        kept: list[ManifestFile] = []
        for manifest in manifests:
            if self._change.removes or self._vector_targets:
                kept += self._rewritten(manifest, lambda entry: self._is_obsolete(entry, oldest_data))
            else:
                kept.append(manifest)
        return kept

    def _is_obsolete(self, entry: ManifestEntry, oldest_data: int) -> bool:
        file = entry.data_file
        key = delete_key(file)
        if key in self._change.removed_deletes:
            self.missing_deletes.discard(key)
            return True
        target = _target(file)
        if target in self._removed_locations:
            return True
        if self._change.removes and (entry.sequence_number or 0) < oldest_data:
            return True
        if is_deletion_vector(file) and target in self._vector_targets:
            self.rivals.append(entry)
        return False

    def _rewritten(self, manifest: ManifestFile, gone: Callable[[ManifestEntry], bool]) -> list[ManifestFile]:
        entries = list(self._reader.live_entries(manifest))
        verdicts = [gone(entry) for entry in entries]
        if not any(verdicts):
            return [manifest]
        self.removed += [entry.data_file for entry, is_gone in zip(entries, verdicts, strict=True) if is_gone]
        marked = (
            self._output.deleted(entry) if is_gone else self._output.kept(entry)
            for entry, is_gone in zip(entries, verdicts, strict=True)
        )
        return self._output.write(manifest.content, manifest.partition_spec_id, marked)


def _target(delete: DataFile) -> str | None:
    """The one data file whose rows are deleted, in the spelling to compare."""
    location = referenced_data_file(delete)
    return None if location is None else canonical_location(location)
