"""Plans a scan of a table twice, with and without the metadata that skips files and delete files."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from pyiceberg.expressions import AlwaysFalse, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from formatkit.kernel.predicates import rewrite
from formatkit.scan.deletes.index import DeleteIndex
from formatkit.scan.incremental.files import SnapshotFiles
from formatkit.scan.load import sound_metadata
from formatkit.scan.manifests import Manifest, ManifestEntry, read_manifests
from formatkit.scan.plan import Plan
from formatkit.scan.planner import PartitionFacts, TablePlanner
from formatkit.scan.tasks import FileTask, Verification

__all__ = ["plan_verified"]

_SUMMARIES = "the partition summaries or counts of its manifest in the manifest list"
_REASONS = {
    "partition": "its partition values in the manifest",
    "metrics": "its column metrics in the manifest",
    "empty": "its record count of 0 in the manifest",
}


def plan_verified(
    metadata: TableMetadata,
    io: FileIO,
    schema: Schema,
    predicate: BooleanExpression,
    snapshot: Snapshot | None,
    parts: Sequence[SnapshotFiles] | None,
    location: str,
) -> Plan:
    """The plan of a scan whose tasks say how to verify them; files that are skipped have a task without rows.

    A limit is not heeded: which files it makes unnecessary depends on metadata that is to be verified.
    """
    with sound_metadata(location):
        pruning = _PruningPlanner(metadata, io, schema, predicate)
        whole = _WholePlanner(metadata, io, schema, predicate)
    plan = pruning.plan(snapshot, parts)
    waiting: dict[str, deque[FileTask]] = defaultdict(deque)
    for task in plan.tasks:
        waiting[task.location].append(task)
    everything = whole.plan(snapshot, parts).tasks
    return replace(plan, tasks=tuple(_verified(task, waiting[task.location], pruning) for task in everything))


def _verified(whole: FileTask, planned: deque[FileTask], pruning: _PruningPlanner) -> FileTask:
    if planned:
        check = Verification(predicate=whole.residual, deletes=whole.deletes)
        return replace(planned.popleft(), verification=check)
    reason = _REASONS.get(pruning.reasons.get(whole.location, ""), _SUMMARIES)
    check = Verification(predicate=whole.residual, deletes=whole.deletes, skipped_by=reason)
    return replace(whole, residual=AlwaysFalse(), deletes=(), verification=check)


class _PruningPlanner(TablePlanner):
    """Plans as ever, and keeps in mind why files are skipped."""

    def __init__(self, metadata: TableMetadata, io: FileIO, schema: Schema, predicate: BooleanExpression) -> None:
        super().__init__(metadata, io, schema, predicate)
        self.reasons: dict[str, str] = {}

    def _skip(self, entry: ManifestEntry, reason: str) -> BooleanExpression:
        self.reasons[entry.location] = reason
        return super()._skip(entry, reason)


class _WholePlanner(TablePlanner):
    """Plans every file with the whole filter, and every delete file that partition and sequence number allow."""

    def _entries(self, manifests: Sequence[Manifest], _columns: Collection[int]) -> Iterator[ManifestEntry]:
        return read_manifests(manifests, self._io, metrics=False)

    def _deletes(self, manifests: Sequence[Manifest]) -> DeleteIndex:
        return self._index(map(_without_metrics, read_manifests(manifests, self._io, metrics=False)))

    def _residual(self, entry: ManifestEntry, partition: PartitionFacts, deletes: DeleteIndex) -> BooleanExpression:
        if not self._uses_file_constants:
            return self._predicate
        return rewrite(self._predicate, self._file_constants(entry, partition, deletes))


def _without_metrics(entry: ManifestEntry) -> ManifestEntry:
    nothing: MappingProxyType[int, bytes] = MappingProxyType({})
    return entry._replace(value_counts={}, null_counts={}, nan_counts={}, lower_bounds=nothing, upper_bounds=nothing)
