"""How far a stream has read a table, as Spark keeps it in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from formatkit.errors import ConfigurationError
from formatkit.scan.incremental.snapshots import NonAppends

__all__ = ["NO_SNAPSHOT", "Offset"]

NO_SNAPSHOT = -1
"""In place of a snapshot's id: before the first snapshot of the table."""

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """A place in the history of a table. The rows between two of them are always the same.

    Attributes:
        snapshot_id: The snapshot that was read last.
        position: How many of its files were read, in the order of its manifests.
        complete: Whether the snapshot has nothing left to read. It may then expire.
        all_files: Whether all files of the snapshot are read, not only those that it added: where a stream begins at
            the oldest snapshot, whose predecessors may have expired.
        origin: Where the stream began; None if it begins here. Spark forgets it until the first micro-batch is
            committed and asks anew, and the answer may be another one then.
        non_appends: What was done about overwrites and deletes in the rows up to this place.
    """

    snapshot_id: int
    position: int = 0
    complete: bool = False
    all_files: bool = False
    origin: Offset | None = None
    non_appends: NonAppends = field(default_factory=NonAppends)

    @property
    def beginning(self) -> Offset:
        """Where the stream began."""
        return self.origin or self

    def moved(self, snapshot_id: int, position: int, *, complete: bool, non_appends: NonAppends) -> Offset:
        """A later place of the same stream."""
        return Offset(
            snapshot_id=snapshot_id,
            position=position,
            complete=complete,
            all_files=self.all_files and snapshot_id == self.snapshot_id,
            origin=self.beginning,
            non_appends=non_appends,
        )

    def to_json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        found = {"version": _VERSION, **self.place()}
        if self.origin is not None:
            found["origin"] = self.origin.place()
            found["overwrite-snapshots"] = self.non_appends.overwrite_snapshots
            found["delete-snapshots"] = self.non_appends.delete_snapshots
        return found

    def place(self) -> dict[str, Any]:
        """The place alone, without where the stream came from."""
        return {
            "snapshot-id": self.snapshot_id,
            "position": self.position,
            "complete": self.complete,
            "all-files": self.all_files,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Offset:
        """Raises `ConfigurationError` if it is no offset of ours."""
        try:
            if kept["version"] != _VERSION:
                raise ConfigurationError(
                    f"the checkpoint has an offset of version {kept['version']}; known is {_VERSION}"
                )
            here = cls._from_place(kept)
            if "origin" not in kept:
                return here
            policies = NonAppends(kept["overwrite-snapshots"], kept["delete-snapshots"])
            return replace(here, origin=cls._from_place(kept["origin"]), non_appends=policies)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ConfigurationError):
                raise
            message = f"the checkpoint has an offset that is none of this source: {dict(kept)!r}"
            raise ConfigurationError(message) from error

    @classmethod
    def _from_place(cls, kept: Mapping[str, Any]) -> Offset:
        return cls(
            snapshot_id=int(kept["snapshot-id"]),
            position=int(kept["position"]),
            complete=bool(kept["complete"]),
            all_files=bool(kept["all-files"]),
        )
