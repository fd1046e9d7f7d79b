"""Which files of a snapshot are read: all that it shows, or those that it added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import InvalidTableError
from formatkit.scan.manifests import Manifest, ManifestEntry, read_manifest_list, read_manifests

__all__ = ["SnapshotFiles"]


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """Data files of a snapshot, with the deletes that apply to them in this snapshot.

    Attributes:
        snapshot: The snapshot.
        only_added: Whether it is only the files that the snapshot added. Deletes are then those that it added, too:
            position deletes of the same commit apply to its files, and nothing that was committed later does.
        locations: Which of these files; all of them by default.
    """

    snapshot: Snapshot
    only_added: bool = False
    locations: frozenset[str] | None = None

    @property
    def description(self) -> str:
        """The same for the same files only."""
        digest = "all" if self.locations is None else _digest(sorted(self.locations))
        return f"{'added by' if self.only_added else 'in'} {self.snapshot.snapshot_id}: {digest}"

    def manifests(self, io: FileIO) -> list[Manifest]:
        """The manifests that list the files and the deletes; they are those of the snapshot itself, whatever follows.

        Raises:
            InvalidTableError: The manifest list does not say which snapshot wrote a manifest.
        """
        id_ = self.snapshot.snapshot_id
        listed = read_manifest_list(self.snapshot.manifest_list, io)
        if not self.only_added:
            return listed
        for each in listed:
            if each.snapshot_id is None:
                message = f"the manifest list of snapshot {id_} does not say which snapshot wrote {each.location}"
                raise InvalidTableError(message, location=each.location)
        return [replace(each, only_added=True) for each in listed if each.snapshot_id == id_]

    def entries(self, io: FileIO) -> list[ManifestEntry]:
        """The data files, in an order that never changes."""
        manifests = [each for each in self.manifests(io) if not each.holds_deletes and each.live_files != 0]
        return [each for each in read_manifests(manifests, io, metrics=False) if self._has(each)]

    def _has(self, entry: ManifestEntry) -> bool:
        return self.locations is None or entry.location in self.locations


def _digest(locations: Sequence[str]) -> str:
    digest = blake2b(digest_size=8)
    for location in locations:
        digest.update(location.encode(errors="surrogatepass") + b"\0")
    return digest.hexdigest()
