"""Plans a scan of a table: which files, which parts of them, and what is left of the filter for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression, BoundPredicate
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import NestedField, StructType

from formatkit.contract.metadata_columns import DELETED, FILE, PARTITION_ID, POS, SPEC_ID
from formatkit.contract.pruning import ChunkStatistics, Match, match
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError, InvalidTableError
from formatkit.kernel.evaluate import evaluate
from formatkit.kernel.predicates import leaves, rewrite
from formatkit.scan.bounds import ManifestMetrics
from formatkit.scan.collector import collector_paused
from formatkit.scan.deletes.index import DeleteIndex
from formatkit.scan.deletes.keys import KeySchemas
from formatkit.scan.deletes.locations import Locations
from formatkit.scan.incremental.files import SnapshotFiles
from formatkit.scan.manifests import (
    Manifest,
    ManifestEntry,
    partition_key,
    read_manifests,
    unknown_spec,
)
from formatkit.scan.partitions import PartitionPruner, simplify, union_partition_type
from formatkit.scan.plan import Plan
from formatkit.scan.tasks import FileTask

__all__ = ["PartitionFacts", "TablePlanner", "partition_type"]

# There is one of each, but asking for it takes longer than most of what is done for a file.
_ALL, _NONE = AlwaysTrue(), AlwaysFalse()

PARTITION_FIELD_IDS = 2_147_000_000
"""Added to the ids of partition fields inside `_partition`: above all columns, below the reserved ids."""


def partition_type(metadata: TableMetadata) -> StructType:
    """The type of the column `_partition` of a table."""
    schemas = sorted(metadata.schemas, key=lambda each: each.schema_id != metadata.current_schema_id)
    return union_partition_type(metadata.partition_specs, schemas, PARTITION_FIELD_IDS)


def _is_partitioned(spec: PartitionSpec) -> bool:
    """Whether any field divides the table; in tables of version 1, a dropped one stays as a void."""
    return any(not isinstance(field.transform, VoidTransform) for field in spec.fields)


@contextmanager
def _partition_values(entry: ManifestEntry) -> Iterator[None]:
    """Name the file whose partition has a value that is none of the type that its spec says."""
    try:
        yield
    except InvalidDataError as error:
        message = f"{entry.location} has a partition that does not fit partition spec {entry.spec_id}: {error}"
        raise InvalidTableError(message, location=entry.location) from error


class PartitionFacts(NamedTuple):
    """What is known about the files of one partition."""

    residual: BooleanExpression
    constants: Mapping[int, Any]
    values: tuple[Any, ...] | None


class TablePlanner:
    """Plans data files of snapshots for one filter."""

    def __init__(
        self,
        metadata: TableMetadata,
        io: FileIO,
        schema: Schema,
        predicate: BooleanExpression,
        limit: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._io = io
        self._locations = Locations(properties)
        self._table = str(metadata.table_uuid)
        self._sort_orders = {order.order_id: order for order in metadata.sort_orders}
        self._keys = KeySchemas((schema, *metadata.schemas[::-1]))
        self._unpartitioned = {id_ for id_, spec in metadata.specs().items() if not _is_partitioned(spec)}
        self._schema = schema
        self._predicate = predicate
        self._limit = limit
        self._dropped: Counter[str] = Counter()
        self._pruners = {
            id_: PartitionPruner(spec, schema, predicate, self._dropped) for id_, spec in metadata.specs().items()
        }
        self._partition = partition_type(metadata)
        self._columns = {leaf.term.ref().field.field_id: leaf.term.ref().field for leaf in leaves(predicate)}
        self._metrics = self._metrics_of(self._columns.values())
        self._uses_file_constants = not self._columns.keys().isdisjoint(self._file_constant_ids())
        self._partitions: dict[tuple[Any, ...], PartitionFacts] = {}
        self._unmeasured = set(self._columns)
        self._offsets: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._skipped: Counter[str] = Counter()
        self._files = 0
        self._manifests_skipped = 0

    def plan(self, snapshot: Snapshot | None, parts: Sequence[SnapshotFiles] | None = None) -> Plan:
        """Read manifests and decide about each file.

        Args:
            snapshot: What is read; None for a table without data.
            parts: Files of snapshots, first to last, where it is not all files of one.
        """
        snapshot_id = snapshot.snapshot_id if snapshot else None
        described = None if parts is None else tuple(each.description for each in parts)
        if parts is None:
            parts = () if snapshot is None else (SnapshotFiles(snapshot),)
        if not parts or self._predicate is _NONE or self._limit == 0:
            return Plan(
                tasks=(), predicate=self._predicate, table=self._table, snapshot_id=snapshot_id, parts=described
            )
        tasks: list[FileTask] = []
        data_manifests: list[Manifest] = []
        for part in parts:
            tasks += self._plan_part(part, data_manifests)
        return Plan(
            tasks=tuple(tasks),
            predicate=self._predicate,
            table=self._table,
            snapshot_id=snapshot_id,
            parts=described,
            sort_orders=self._sort_orders,
            prunable=tuple(leaf for leaf in leaves(self._predicate) if self._is_prunable(leaf)),
            manifests=len(data_manifests),
            manifests_skipped=self._manifests_skipped,
            files=self._files,
            skipped=dict(self._skipped),
            dropped=dict(self._dropped),
            file_metrics=partial(self._file_metrics, data_manifests),
        )

    def _plan_part(self, part: SnapshotFiles, data_manifests: list[Manifest]) -> Sequence[FileTask]:
        """The tasks of one snapshot, with the deletes that it shows; appends the manifests that list its files."""
        manifests = part.manifests(self._io)
        deletes = self._deletes([each for each in manifests if each.holds_deletes and each.live_files != 0])
        own = [each for each in manifests if not each.holds_deletes]
        data_manifests += own
        with collector_paused():
            tasks = tuple(self._tasks(own, deletes, part.locations))
        deletes.check_spellings(tasks, lambda: read_manifests(own, self._io, metrics=False))
        return tasks

    def _file_metrics(
        self, manifests: Sequence[Manifest], columns: Sequence[NestedField]
    ) -> Iterator[tuple[str, ChunkStatistics]]:
        metrics = self._metrics_of(columns)
        for entry in self._entries(manifests, {column.field_id for column in columns}):
            yield entry.location, metrics.of(entry)

    def _metrics_of(self, columns: Iterable[NestedField]) -> ManifestMetrics:
        return ManifestMetrics(columns, self._schema, self._dropped)

    def _deletes(self, manifests: Sequence[Manifest]) -> DeleteIndex:
        """The delete files that can matter. A partition without matching rows has no matching deleted rows either."""
        entries = read_manifests(self._matching(manifests), self._io, metrics=True)
        return self._index(each for each in entries if self._may_delete(each))

    def _index(self, entries: Iterable[ManifestEntry]) -> DeleteIndex:
        return DeleteIndex(
            entries,
            self._keys,
            self._unpartitioned,
            lambda entry: self._pruners[entry.spec_id].constants(entry.partition),
            self._locations,
            self._dropped,
        )

    def _may_delete(self, entry: ManifestEntry) -> bool:
        """Whether rows that match the filter may be deleted by a file."""
        with _partition_values(entry):
            if self._pruners[entry.spec_id].residual(entry.partition) is _NONE:
                return False
        compared = [column for id_, column in self._columns.items() if id_ in (entry.equality_ids or ())]
        return not compared or match(self._predicate, self._metrics_of(compared).of(entry)) is not Match.NONE

    def _matching(self, manifests: Sequence[Manifest]) -> list[Manifest]:
        return [each for each in manifests if self._pruner(each).may_match(each.summaries)]

    def _pruner(self, manifest: Manifest) -> PartitionPruner:
        pruner = self._pruners.get(manifest.spec_id)
        if pruner is None:
            raise unknown_spec(manifest.location, manifest.spec_id, self._pruners)
        return pruner

    def _entries(self, manifests: Sequence[Manifest], columns: Collection[int]) -> Iterator[ManifestEntry]:
        """The live files of the manifests that may match, with the metrics of some columns."""
        live = [each for each in manifests if each.live_files != 0]
        wanted = self._matching(live)
        self._manifests_skipped += len(live) - len(wanted)
        return read_manifests(wanted, self._io, metrics=bool(columns), columns=columns)

    def _tasks(
        self, manifests: Sequence[Manifest], deletes: DeleteIndex, locations: Collection[str] | None
    ) -> Iterator[FileTask]:
        certain_rows = 0
        for entry in self._entries(manifests, self._columns.keys() | deletes.compared_columns):
            if locations is not None and entry.location not in locations:
                continue
            self._files += 1
            partition = self._partition_of(entry)
            residual = self._residual(entry, partition, deletes)
            if residual is _NONE:
                continue
            task = self._task(entry, partition, residual, deletes)
            yield task
            if residual is _ALL and not task.deletes:
                certain_rows += entry.row_count
                if self._limit is not None and certain_rows >= self._limit:
                    return

    def _residual(self, entry: ManifestEntry, partition: PartitionFacts, deletes: DeleteIndex) -> BooleanExpression:
        """What is left of the filter for a file; counts why, if nothing can match."""
        if entry.row_count == 0:
            return self._skip(entry, "empty")
        residual = partition.residual
        if self._uses_file_constants:
            residual = rewrite(residual, self._file_constants(entry, partition, deletes))
        if residual is _NONE:
            return self._skip(entry, "partition")
        if residual is not _ALL:
            if self._unmeasured:
                self._unmeasured -= entry.null_counts.keys() | entry.lower_bounds.keys()
            residual = simplify(residual, self._metrics.of(entry))
            if residual is _NONE:
                return self._skip(entry, "metrics")
        return residual

    def _skip(self, _entry: ManifestEntry, reason: str) -> BooleanExpression:
        """Count why a file is not read."""
        self._skipped[reason] += 1
        return _NONE

    def _is_prunable(self, leaf: BoundPredicate) -> bool:
        id_ = leaf.term.ref().field.field_id
        known = id_ not in self._unmeasured or id_ in self._file_constant_ids() or id_ == POS.field_id
        return known or any(pruner.can_decide(leaf) for pruner in self._pruners.values())

    def _file_constant_ids(self) -> set[int]:
        inside_partition = {each.field_id for each in self._partition.fields}
        return {FILE.field_id, SPEC_ID.field_id, DELETED.field_id, PARTITION_ID} | inside_partition

    def _file_constants(
        self, entry: ManifestEntry, partition: PartitionFacts, deletes: DeleteIndex
    ) -> Callable[[BoundPredicate], BooleanExpression]:
        """A function that decides the leaves about columns which are the same for all rows of a file."""
        values: dict[int, Any] = {
            FILE.field_id: entry.location,
            SPEC_ID.field_id: entry.spec_id,
            PARTITION_ID: partition.values,
        }
        if DELETED.field_id in self._columns and not deletes.applying_to(entry):
            values[DELETED.field_id] = False
        inside = partition.values or (None,) * len(self._partition)
        for each, value in zip(self._partition.fields, inside, strict=True):
            values[each.field_id] = value

        def decide(leaf: BoundPredicate) -> BooleanExpression:
            id_ = leaf.term.ref().field.field_id
            if id_ not in values:
                return leaf
            return _ALL if evaluate(leaf, values[id_]) else _NONE

        return decide

    def _partition_of(self, entry: ManifestEntry) -> PartitionFacts:
        """What all files of a partition have in common, so that they share it."""
        key = partition_key(entry)
        known = self._partitions.get(key)
        if known is None:
            pruner = self._pruners[entry.spec_id]
            with _partition_values(entry):
                values = tuple(self._partition_value(each, entry) for each in self._partition.fields)
                known = PartitionFacts(
                    pruner.residual(entry.partition), pruner.constants(entry.partition), values or None
                )
            self._partitions[key] = known
        return known

    @staticmethod
    def _partition_value(column: NestedField, entry: ManifestEntry) -> Any:
        return internal_value(column.field_type, entry.partition.get(column.field_id - PARTITION_FIELD_IDS))

    def _task(
        self, entry: ManifestEntry, partition: PartitionFacts, residual: BooleanExpression, deletes: DeleteIndex
    ) -> FileTask:
        offsets = tuple(entry.split_offsets)
        return FileTask(
            location=entry.location,
            file_format=entry.file_format,
            size_bytes=entry.size_bytes,
            row_count=entry.row_count,
            residual=residual,
            spec_id=entry.spec_id,
            partition=partition.values,
            partition_constants=partition.constants,
            sequence_number=entry.sequence_number,
            first_row_id=entry.first_row_id,
            sort_order_id=entry.sort_order_id,
            split_offsets=self._offsets.setdefault(offsets, offsets) if len(offsets) <= 1 else offsets,
            deletes=deletes.applying_to(entry),
            has_key=entry.key_metadata is not None,
        )
