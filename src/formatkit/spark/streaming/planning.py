"""From offsets to files: where a stream begins, how far a micro-batch goes, and what is between two offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import ConfigurationError, InvalidTableError, NonAppendSnapshotError, SnapshotExpiredError
from formatkit.scan.incremental.files import SnapshotFiles
from formatkit.scan.incremental.snapshots import AppendRange, NonAppends, ancestors, snapshots_after
from formatkit.spark.options import StreamOptions
from formatkit.spark.streaming.offsets import NO_SNAPSHOT, Offset

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

    from formatkit.scan.manifests import ManifestEntry

__all__ = ["Limits", "StreamPlanner"]

_MAX_LISTED = 16
"""Snapshots whose files are kept in memory, for streams that read them in parts."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a micro-batch may read; None where there is no limit. A single file is never too much."""

    rows: int | None = None
    files: int | None = None
    bytes: int | None = None

    @property
    def any(self) -> bool:
        """Whether there is a limit at all."""
        return (self.rows, self.files, self.bytes) != (None, None, None)

    def allow(self, files: int, rows: int, bytes_: int) -> bool:
        """Whether a micro-batch of so much may be read."""
        asked = ((self.rows, rows), (self.files, files), (self.bytes, bytes_))
        return files <= 1 or all(limit is None or amount <= limit for limit, amount in asked)


class StreamPlanner:
    """Plans micro-batches of a table as it is now.

    Snapshots never change: the files of one are those that its own manifests list, in their order, whatever compaction
    or deletion came after it. What has expired is an error.

    Args:
        metadata: The table.
        io: Where its manifests are read.
        head: The last snapshot that may be read; None for a table without rows.
        listed: Files of snapshots that were listed before; it gets those that are listed now.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        head: Snapshot | None,
        listed: dict[tuple[int, bool], list[ManifestEntry]] | None = None,
    ) -> None:
        self._metadata = metadata
        self._io = io
        self._head = head
        self._listed = {} if listed is None else listed

    def beginning(self, options: StreamOptions) -> Offset:
        """Where a new stream begins.

        Raises:
            ConfigurationError: The snapshot that it is to begin with is none of the branch.
            SnapshotExpiredError: Snapshots that it is to begin with are gone.
        """
        if options.after_snapshot is not None:
            self._check_ancestor(options.after_snapshot)
            return Offset(snapshot_id=options.after_snapshot, complete=True)
        if options.from_snapshot is not None:
            self._check_ancestor(options.from_snapshot)
            return Offset(snapshot_id=options.from_snapshot)
        if self._head is None:
            return Offset(snapshot_id=NO_SNAPSHOT, complete=True)
        if options.from_latest:
            return Offset(snapshot_id=self._head.snapshot_id, complete=True)
        if options.from_timestamp is not None:
            return self._from_moment(self._head, options.from_timestamp)
        *_, oldest = ancestors(self._metadata, self._head)
        return Offset(snapshot_id=oldest.snapshot_id, all_files=True)

    def _check_ancestor(self, id_: int) -> None:
        if self._head is None or id_ not in {each.snapshot_id for each in ancestors(self._metadata, self._head)}:
            found = [str(each.snapshot_id) for each in ancestors(self._metadata, self._head)]
            message = f"the stream is to begin with snapshot {id_}, and the branch has: {', '.join(found) or 'none'}"
            if self._metadata.snapshot_by_id(id_) is None and found:
                raise SnapshotExpiredError(f"{message}; it may have expired", snapshot_id=int(found[-1]))
            raise ConfigurationError(message, snapshot_id=id_)

    def _from_moment(self, head: Snapshot, moment: int) -> Offset:
        # The start of a range is left out, and this moment is not.
        found = AppendRange(start_timestamp=moment - 1).snapshots(self._metadata, self._io, head)
        if found:
            return Offset(snapshot_id=found[0].snapshot_id)
        return Offset(snapshot_id=head.snapshot_id, complete=True)

    def next(self, start: Offset, limits: Limits, non_appends: NonAppends) -> Offset:
        """The end of the micro-batch that begins at `start`; the same place if there is nothing new.

        Snapshots that add no rows are passed, so that they may expire. One that is refused ends the micro-batch before
        it, and is an error if it comes first.

        Raises:
            NonAppendSnapshotError: The next snapshot did more than append, and nothing was said about that.
            SnapshotExpiredError: Snapshots that were not read yet are gone.
            ConfigurationError: The branch does not descend from `start` any more.
        """
        if self._head is None:
            if start.snapshot_id != NO_SNAPSHOT:
                raise SnapshotExpiredError(
                    f"the stream has read up to snapshot {start.snapshot_id}, and the table has none"
                )
            return start
        end = start
        files = rows = size = 0
        for snapshot, position in self._unread(start, self._head):
            only_added = not (start.all_files and snapshot.snapshot_id == start.snapshot_id)
            try:
                taken = not only_added or non_appends.takes_rows_of(snapshot)
            except NonAppendSnapshotError:
                if end is start:
                    raise
                return end
            # Without limits only the last one has to be counted.
            counted = taken and (limits.any or snapshot.snapshot_id == self._head.snapshot_id)
            entries = self._entries(snapshot, only_added) if counted else []
            for index, entry in enumerate(entries[position:], start=position):
                files, rows, size = files + 1, rows + entry.row_count, size + entry.size_bytes
                if not limits.allow(files, rows, size):
                    if index == 0:
                        return end
                    return start.moved(snapshot.snapshot_id, index, complete=False, non_appends=non_appends)
            end = start.moved(snapshot.snapshot_id, len(entries), complete=True, non_appends=non_appends)
        return end

    def files(self, start: Offset, end: Offset) -> list[SnapshotFiles]:
        """What is between two offsets, first to last; the same files whenever it is asked.

        Raises:
            SnapshotExpiredError: Snapshots between the two are gone.
        """
        if start.origin is None:
            # A new stream, or one whose first micro-batch is done again: that began where its end says.
            start = end.beginning
        last = self._metadata.snapshot_by_id(end.snapshot_id)
        if start.snapshot_id == end.snapshot_id and start.position == end.position and start.complete == end.complete:
            return []
        if last is None:
            message = (
                f"the micro-batch up to snapshot {end.snapshot_id} is to be read, and the table does not have it any "
                "more; begin a new stream with a new checkpoint"
            )
            raise SnapshotExpiredError(message)
        found = []
        for snapshot, position in self._unread(start, last):
            only_added = not (start.all_files and snapshot.snapshot_id == start.snapshot_id)
            if only_added and not end.non_appends.takes_rows_of(snapshot):
                continue
            is_cut = snapshot.snapshot_id == end.snapshot_id and not end.complete
            if position == 0 and not is_cut:
                found.append(SnapshotFiles(snapshot, only_added))
                continue
            stop = end.position if is_cut else None
            locations = [each.location for each in self._entries(snapshot, only_added)]
            if len(set(locations)) != len(locations):
                message = f"snapshot {snapshot.snapshot_id} lists a file twice, so that it cannot be read in parts"
                raise InvalidTableError(message, snapshot_id=snapshot.snapshot_id)
            found.append(SnapshotFiles(snapshot, only_added, frozenset(locations[position:stop])))
        return found

    def _unread(self, start: Offset, end: Snapshot) -> Iterator[tuple[Snapshot, int]]:
        """The snapshots after an offset, first to last, each with how many of its files were read."""
        id_ = None if start.snapshot_id == NO_SNAPSHOT else start.snapshot_id
        later = snapshots_after(self._metadata, self._io, id_, end)
        if not start.complete:
            first = self._metadata.snapshot_by_id(start.snapshot_id)
            if first is None:
                message = (
                    f"the stream has read {start.position} files of snapshot {start.snapshot_id}, and the table does "
                    "not have it any more; begin a new stream with a new checkpoint"
                )
                raise SnapshotExpiredError(message)
            yield first, start.position
        for each in later:
            yield each, 0

    def _entries(self, snapshot: Snapshot, only_added: bool) -> list[ManifestEntry]:
        key = (snapshot.snapshot_id, only_added)
        if key not in self._listed:
            while len(self._listed) >= _MAX_LISTED:
                del self._listed[next(iter(self._listed))]
            self._listed[key] = SnapshotFiles(snapshot, only_added).entries(self._io)
        return self._listed[key]
