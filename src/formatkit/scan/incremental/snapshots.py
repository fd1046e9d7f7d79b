"""Which snapshots lie between two points in the history of a table, and which of them have rows to read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Operation, Snapshot

from formatkit.errors import ConfigurationError, NonAppendSnapshotError, SnapshotExpiredError
from formatkit.scan.incremental.files import SnapshotFiles

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["AppendRange", "DeleteSnapshots", "NonAppends", "OverwriteSnapshots", "ancestors", "snapshots_after"]

OverwriteSnapshots = Literal["error", "skip", "added-files"]
DeleteSnapshots = Literal["error", "skip"]
_POLICIES = {"overwrite_snapshots": ("error", "skip", "added-files"), "delete_snapshots": ("error", "skip")}


@dataclass(frozen=True, slots=True)
class NonAppends:
    """What to do about snapshots that did not only append rows.

    Attributes:
        overwrite_snapshots: Those that replaced rows: an error, no rows of them, or the rows of the files they added.
        delete_snapshots: Those that only removed rows: an error, or nothing is read of them.
    """

    overwrite_snapshots: OverwriteSnapshots = "error"
    delete_snapshots: DeleteSnapshots = "error"

    def __post_init__(self) -> None:
        for name, words in _POLICIES.items():
            if (value := getattr(self, name)) not in words:
                raise ConfigurationError(f"{name} must be {', '.join(words[:-1])} or {words[-1]}, not {value!r}")

    def takes_rows_of(self, snapshot: Snapshot) -> bool:
        """Whether files that the snapshot added are read.

        Raises:
            NonAppendSnapshotError: It did what nothing was said about.
        """
        operation = snapshot.summary.operation if snapshot.summary is not None else None
        policy: OverwriteSnapshots
        match operation:
            case Operation.APPEND:
                return True
            case Operation.REPLACE:
                return False  # the same rows in other files
            case Operation.DELETE:
                policy, name, ways = self.delete_snapshots, "delete_snapshots", '"skip" (read nothing of it)'
            case _:
                policy, name = self.overwrite_snapshots, "overwrite_snapshots"
                ways = '"skip" (read nothing of it) or "added-files" (read the files that it added)'
        if policy == "error":
            done = f"is of the operation {operation.value}" if operation is not None else "names no operation"
            message = (
                f"rows that appends added are asked for, and snapshot {snapshot.snapshot_id} {done}: its changes are "
                f"not appended rows; set {name} to {ways}"
            )
            raise NonAppendSnapshotError(message, snapshot_id=snapshot.snapshot_id)
        return policy == "added-files"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRange:
    """The rows that the snapshots between two points added. The start is not part of it, the end is.

    Attributes:
        start_snapshot_id: The last snapshot that is not read; by default the first one is read, too.
        end_snapshot_id: The last snapshot that is read; by default the current one.
        start_timestamp: Snapshots up to this moment, in milliseconds, are not read.
        end_timestamp: Snapshots after this moment are not read.
        non_appends: What to do about snapshots in between that did not only append.
    """

    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    non_appends: NonAppends = field(default_factory=NonAppends)

    def __post_init__(self) -> None:
        for side in ("start", "end"):
            if None not in (getattr(self, f"{side}_snapshot_id"), getattr(self, f"{side}_timestamp")):
                raise ConfigurationError(
                    f"{side}_snapshot_id and {side}_timestamp say the same thing; give one of them"
                )

    @property
    def is_asked_for(self) -> bool:
        """Whether anything was said about where the range begins or ends."""
        points = (self.start_snapshot_id, self.end_snapshot_id, self.start_timestamp, self.end_timestamp)
        return any(point is not None for point in points)

    def files(self, metadata: TableMetadata, io: FileIO, head: Snapshot | None) -> tuple[SnapshotFiles, ...]:
        """What is read, first to last.

        Args:
            metadata: The table.
            io: Where its manifests are read.
            head: Its current snapshot, or that of a branch.

        Raises:
            ConfigurationError: There is no such snapshot, or the end does not descend from the start.
            SnapshotExpiredError: Snapshots in between are gone.
            NonAppendSnapshotError: One of them did more than append.
        """
        found = self.snapshots(metadata, io, head)
        return tuple(SnapshotFiles(each, only_added=True) for each in found if self.non_appends.takes_rows_of(each))

    def snapshots(self, metadata: TableMetadata, io: FileIO, head: Snapshot | None) -> list[Snapshot]:
        """All snapshots of the range, first to last, whatever they did."""
        end = self._end(metadata, head)
        if end is None:
            if self.start_snapshot_id is not None and head is None:
                raise _unknown(metadata, self.start_snapshot_id)
            return []
        if self.start_timestamp is not None:
            return _after_moment(metadata, io, end, self.start_timestamp)
        return snapshots_after(metadata, io, self.start_snapshot_id, end)

    def _end(self, metadata: TableMetadata, head: Snapshot | None) -> Snapshot | None:
        if self.end_snapshot_id is not None:
            end = metadata.snapshot_by_id(self.end_snapshot_id)
            if end is None:
                raise _unknown(metadata, self.end_snapshot_id)
            return end
        latest = self.end_timestamp
        return next((each for each in ancestors(metadata, head) if latest is None or each.timestamp_ms <= latest), None)


def ancestors(metadata: TableMetadata, head: Snapshot | None) -> Iterator[Snapshot]:
    """A snapshot and those before it, last to first, as far as the table still has them."""
    unseen = {each.snapshot_id: each for each in metadata.snapshots}
    id_ = head.snapshot_id if head is not None else None
    while id_ is not None and id_ in unseen:
        each = unseen.pop(id_)
        yield each
        id_ = each.parent_snapshot_id


def snapshots_after(metadata: TableMetadata, io: FileIO, start_id: int | None, end: Snapshot) -> list[Snapshot]:
    """The snapshots after one and up to another, first to last. The start itself may have expired.

    Args:
        metadata: The table.
        io: Where its manifests are read.
        start_id: The one before the first; None for the beginning of the table.
        end: The last one.

    Raises:
        ConfigurationError: The end does not descend from the start.
        SnapshotExpiredError: Some of them are gone.
    """
    found: list[Snapshot] = []
    for each in ancestors(metadata, end):
        if each.snapshot_id == start_id:
            return found[::-1]
        found.append(each)
        if start_id is not None and each.parent_snapshot_id == start_id:
            return found[::-1]
    if start_id is None and _is_first(found[-1], io):
        return found[::-1]
    if start_id is not None and metadata.snapshot_by_id(start_id) is not None:
        message = (
            f"snapshot {start_id} is no ancestor of snapshot {end.snapshot_id}: the table was rolled back, or they are "
            "of different branches"
        )
        raise ConfigurationError(message, snapshot_id=start_id)
    start = "the beginning of the table" if start_id is None else f"snapshot {start_id}"
    raise _expired(f"after {start}", found[-1])


def _after_moment(metadata: TableMetadata, io: FileIO, end: Snapshot, moment: int) -> list[Snapshot]:
    found: list[Snapshot] = []
    for each in ancestors(metadata, end):
        if each.timestamp_ms <= moment:
            return found[::-1]
        found.append(each)
    if _is_first(found[-1], io):
        return found[::-1]
    raise _expired(f"after {moment} (milliseconds)", found[-1])


def _is_first(snapshot: Snapshot, io: FileIO) -> bool:
    """Whether nothing came before a snapshot. Some programs that expire snapshots take their ids out of children."""
    if snapshot.parent_snapshot_id is not None:
        return False
    return len(SnapshotFiles(snapshot).entries(io)) == len(SnapshotFiles(snapshot, only_added=True).entries(io))


def _expired(after: str, oldest: Snapshot) -> SnapshotExpiredError:
    message = (
        f"the snapshots {after} are asked for, and not all of them are there any more: the history of the table goes "
        f"back to snapshot {oldest.snapshot_id} of {oldest.timestamp_ms} (milliseconds), and what came before it has "
        "expired; start there, or read the whole table"
    )
    return SnapshotExpiredError(message, snapshot_id=oldest.snapshot_id)


def _unknown(metadata: TableMetadata, id_: int) -> ConfigurationError:
    known = ", ".join(str(each.snapshot_id) for each in metadata.snapshots) or "none"
    return ConfigurationError(f"the table has no snapshot {id_}; it has: {known}", snapshot_id=id_)
