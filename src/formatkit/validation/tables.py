"""Validates a table: metadata file, manifest lists, manifests, data files, delete files, and how they fit together."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform, VoidTransform

from formatkit.contract.values import internal_value
from formatkit.errors import ConfigurationError, FormatkitError, InvalidDataError
from formatkit.io import IoRuntime, open_source
from formatkit.registry import FormatRegistry
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.deletes.locations import canonical_location
from formatkit.scan.runner import run_in_order
from formatkit.scan.table import scan
from formatkit.scan.tasks import FileTask
from formatkit.validation.deletes import DeleteChecker, LiveFile
from formatkit.validation.files import Watcher, check_file
from formatkit.validation.findings import Findings
from formatkit.validation.manifests import ManifestChecker, Tally, check_totals
from formatkit.validation.metadata import check_metadata
from formatkit.validation.metrics import check_metrics
from formatkit.validation.placement import partition_watchers, sort_watcher
from formatkit.validation.reading import TableRows
from formatkit.validation.references import Reference, check_references
from formatkit.write.commit.records import ManifestReader, first_row_id

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["TableValidation"]

_FIRST_VERSION_WITH_ROW_IDS = 3
_MANIFEST_LENGTH = 1
"""The position of the field in a line of a manifest list."""


@dataclass
class _Snapshot:
    """A snapshot whose manifests were read."""

    snapshot: Snapshot
    lines: list[ManifestFile] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    is_whole: bool = False


class TableValidation:
    """Validates one table.

    Args:
        table: The table.
        findings: Where findings go.
        snapshot_id: The only snapshot to look at; by default the metadata of all of them, and the rows of the current.
        metadata_only: Whether to leave the rows alone.
        registry: Where formats are looked up.
        runtime: Where storage calls run.
        threads: How many files to read side by side.

    Raises:
        ConfigurationError: There is no such snapshot.
    """

    def __init__(
        self,
        table: Table,
        findings: Findings,
        *,
        snapshot_id: int | None,
        metadata_only: bool,
        registry: FormatRegistry | None,
        runtime: IoRuntime,
        threads: int,
    ) -> None:
        self._table = table
        self._metadata: TableMetadata = table.metadata
        self._findings = findings
        self._snapshot_id = snapshot_id
        self._metadata_only = metadata_only
        self._threads = threads
        self._reader = ManifestReader(table.metadata, table.io)
        self._manifests = ManifestChecker(table.metadata, self._reader, findings)
        self._references: dict[str, Reference] = {}
        self._lengths: dict[str, int] = {}
        self._snapshots = self._chosen()
        self._schema = self._schema_of(snapshot_id)
        self._rows = TableRows(
            metadata=table.metadata, io=table.io, schema=self._schema, registry=registry, runtime=runtime
        )

    def run(self) -> None:
        """Look at everything."""
        check_metadata(self._metadata, self._table.metadata_location, self._findings)
        current = self._metadata.current_snapshot_id if self._snapshot_id is None else self._snapshot_id
        read = [self._read(snapshot) for snapshot in self._snapshots]
        if self._snapshot_id is None:
            self._refer_to_metadata()
        check_references(
            self._references.values(),
            self._table.io,
            self._findings,
            runtime=self._rows.runtime,
            threads=self._threads,
        )
        for each in read:
            if each.is_whole and each.snapshot.snapshot_id == current:
                self._check_live(each)

    def _chosen(self) -> Sequence[Snapshot]:
        snapshots = self._metadata.snapshots
        if self._snapshot_id is None:
            return snapshots
        chosen = [each for each in snapshots if each.snapshot_id == self._snapshot_id]
        if not chosen:
            known = ", ".join(str(each.snapshot_id) for each in snapshots) or "none"
            message = f"the table has no snapshot {self._snapshot_id}; it has: {known}"
            raise ConfigurationError(message, snapshot_id=self._snapshot_id)
        return chosen

    def _schema_of(self, snapshot_id: int | None) -> Schema:
        own = next((each.schema_id for each in self._snapshots if each.snapshot_id == snapshot_id), None)
        known = {schema.schema_id: schema for schema in self._metadata.schemas}
        return known.get(self._metadata.current_schema_id if own is None else own) or self._metadata.schemas[-1]

    def _read(self, snapshot: Snapshot) -> _Snapshot:
        """The manifests of a snapshot, each compared with its line in the manifest list."""
        self._findings.count("snapshots")
        found = _Snapshot(snapshot)
        with self._findings.reading(snapshot.manifest_list, "a manifest list", corrupt="manifest-corrupt"):
            found.lines = list(self._reader.lines(snapshot))
            found.is_whole = True
        for line in found.lines:
            self._refer(Reference(line.manifest_path, line.manifest_length))
            self._believe_storage(line)
            tally = self._manifests.check(line, snapshot, self._see)
            if tally is None:
                found.is_whole = False
            else:
                found.tallies.append(tally)
        if found.is_whole:
            totals = sum((tally.totals for tally in found.tallies), Counter[str]())
            check_totals(snapshot, totals, self._table.metadata_location, self._findings)
        return found

    def _believe_storage(self, line: ManifestFile) -> None:
        """A wrong length is a finding of its own, and no reason not to read a manifest."""
        known = self._lengths.get(line.manifest_path)
        if known is None:
            with (
                suppress(FormatkitError),
                closing(open_source(line.manifest_path, self._table.io, runtime=self._rows.runtime)) as source,
            ):
                known = self._lengths[line.manifest_path] = source.size()
        if known is not None:
            line[_MANIFEST_LENGTH] = known

    def _see(self, file: DataFile) -> None:
        self._refer(Reference(file.file_path, file.file_size_in_bytes))

    def _refer(self, reference: Reference) -> None:
        self._references.setdefault(reference.location, reference)

    def _refer_to_metadata(self) -> None:
        for entry in self._metadata.metadata_log:
            self._refer(Reference(entry.metadata_file, None, "metadata-log"))
        for statistics in (*self._metadata.statistics, *self._metadata.partition_statistics):
            length = statistics.file_size_in_bytes
            self._refer(Reference(statistics.statistics_path, length, "statistics-file", "statistics-file"))

    def _check_live(self, snapshot: _Snapshot) -> None:
        """What the live files of a snapshot are, and what is in them."""
        data: list[ManifestEntry] = []
        deletes: list[ManifestEntry] = []
        for line in snapshot.lines:
            into = deletes if line.content == ManifestContent.DELETES else data
            with self._findings.reading(line.manifest_path, "a manifest", corrupt="manifest-corrupt"):
                into.extend(self._reader.live_entries(line))
        self._check_repeated(data, snapshot.snapshot)
        self._check_row_ids(data, snapshot.snapshot)
        with self._findings.reading(self._table.metadata_location, "a table that can be scanned", "plan-failed"):
            scan(self._table, snapshot_id=self._snapshot_id, select=(), registry=self._rows.registry)
        if not self._metadata_only:
            self._in_parallel(data, self._check_data)
            checker = self._delete_checker(data)
            self._in_parallel(deletes, checker.check)

    def _in_parallel(self, entries: Sequence[ManifestEntry], check: Any) -> None:
        def run(entry: ManifestEntry) -> Iterator[None]:
            check(entry)
            yield from ()

        for _ in run_in_order(entries, run, threads=self._threads, buffer_bytes=sys.maxsize):
            pass

    def _check_repeated(self, data: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        counts = Counter(canonical_location(entry.data_file.file_path) for entry in data)
        for location, count in counts.items():
            if count > 1:
                said = f"snapshot {snapshot.snapshot_id} lists it {count} times"
                self._findings.add("file-twice", location, said=said, found="a file belongs to a snapshot once")

    def _check_row_ids(self, data: Sequence[ManifestEntry], snapshot: Snapshot) -> None:
        if self._metadata.format_version < _FIRST_VERSION_WITH_ROW_IDS or snapshot.first_row_id is None:
            return
        ranges: list[tuple[int, int, str]] = []
        for file in (entry.data_file for entry in data):
            first = first_row_id(file)
            if first is None:
                self._findings.add("row-id-range", file.file_path, said="no first row id", found="version 3 needs one")
            else:
                ranges.append((first, first + file.record_count, file.file_path))
        ranges.sort()
        for (first, end, location), (other, _, neighbour) in pairwise(ranges):
            if other < end:
                said = f"row ids {first} to {end - 1}"
                self._findings.add("row-id-range", location, said=said, found=f"{neighbour} begins with {other}")
        following = getattr(self._metadata, "next_row_id", None)
        if ranges and following is not None and ranges[-1][1] > following:
            first, end, location = ranges[-1]
            said = f"row ids {first} to {end - 1}"
            self._findings.add("row-id-range", location, said=said, found=f"the table's next row id is {following}")

    def _check_data(self, entry: ManifestEntry) -> None:
        file = entry.data_file
        with self._findings.reading(file.file_path, "a data file"):
            rows = self._rows.of(self._task(entry))
            truth = check_file(rows, self._findings, self._watchers(file))
            if truth is not None:
                check_metrics(file, truth, self._schema, self._findings)

    def _watchers(self, file: DataFile) -> list[Watcher]:
        found = partition_watchers(file, self._spec(file), self._schema, self._findings)
        orders = {order.order_id: order for order in self._metadata.sort_orders if order.fields}
        order = orders.get(file.sort_order_id) if file.sort_order_id is not None else None
        if order is not None and (sorted_ := sort_watcher(file, order, self._schema, self._findings)) is not None:
            found.append(sorted_)
        return found

    def _spec(self, file: DataFile) -> PartitionSpec:
        return self._metadata.specs()[file.spec_id]

    def _task(self, entry: ManifestEntry) -> FileTask:
        file = entry.data_file
        return FileTask(
            location=file.file_path,
            file_format=str(getattr(file.file_format, "value", file.file_format)).lower(),
            row_count=file.record_count,
            spec_id=file.spec_id,
            partition_constants=self._constants(file),
            sequence_number=entry.sequence_number,
        )

    def _constants(self, file: DataFile) -> Mapping[int, Any]:
        """The values of identity-partitioned columns; those that make no sense are findings elsewhere."""
        found: dict[int, Any] = {}
        for position, each in enumerate(self._spec(file).fields):
            if isinstance(each.transform, IdentityTransform) and each.source_id in self._schema.field_ids:
                try:
                    kind = self._schema.find_type(each.source_id)
                    found[each.source_id] = internal_value(kind, file.partition[position])
                except InvalidDataError:
                    continue
        return found

    def _delete_checker(self, data: Sequence[ManifestEntry]) -> DeleteChecker:
        return DeleteChecker(
            rows=self._rows,
            keys=KeySchemas((self._schema, *self._metadata.schemas[::-1])),
            data={
                canonical_location(entry.data_file.file_path): LiveFile(
                    entry.data_file.record_count, entry.sequence_number or 0, self._partition(entry)
                )
                for entry in data
            },
            findings=self._findings,
            task_of=self._task,
            partition_of=self._scope,
        )

    def _partition(self, entry: ManifestEntry) -> tuple[Any, ...]:
        file = entry.data_file
        return (file.spec_id, *(repr(file.partition[position]) for position in range(len(self._spec(file).fields))))

    def _scope(self, entry: ManifestEntry) -> tuple[Any, ...]:
        """Where equality deletes apply: everywhere, if their spec has no partitions."""
        fields = self._spec(entry.data_file).fields
        return () if all(isinstance(each.transform, VoidTransform) for each in fields) else self._partition(entry)
