"""Validates a table: metadata file, manifest lists, manifests, data files, delete files, and how they fit together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from formatkit.errors import ConfigurationError, FormatkitError
from formatkit.io import IoRuntime, open_source
from formatkit.registry import FormatRegistry
from formatkit.scan.deletes.locations import canonical_location
from formatkit.scan.sources import TableFiles
from formatkit.scan.table import scan
from formatkit.validation.findings import Findings, Found
from formatkit.validation.journal import ValidationJournal
from formatkit.validation.live_files import LiveFileCheck, live_files
from formatkit.validation.manifests import ManifestChecker, Tally, check_totals
from formatkit.validation.metadata import check_metadata
from formatkit.validation.reading import TableRows
from formatkit.validation.references import Reference, ReferenceCheck
from formatkit.write.commit.records import ManifestReader, first_row_id
from formatkit.write.jobs import Engine, Progress, Steps, Task, even_parts

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["TableValidation"]

T = TypeVar("T")

_FIRST_VERSION_WITH_ROW_IDS = 3
_PIECES_PER_WORKER = 4
"""More than one, so that those who are fast get more to do, and little is lost when a run is stopped."""
_MANIFEST_LENGTH = 1
"""The position of the field in a line of a manifest list."""


@dataclass
class _Snapshot:
    """A snapshot whose manifests were read."""

    snapshot: Snapshot
    lines: list[ManifestFile] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    is_whole: bool = False


@dataclass
class _Live:
    """The live files of a snapshot."""

    snapshot: Snapshot
    data: list[ManifestEntry] = field(default_factory=list)
    deletes: list[ManifestEntry] = field(default_factory=list)


class TableValidation:
    """Validates one table.

    Args:
        table: The table.
        findings: Where findings go.
        snapshot_id: The only snapshot to look at; by default the metadata of all of them, and the rows of the current.
        metadata_only: Whether to leave the rows alone.
        registry: Where formats are looked up.
        runtime: Where storage calls run.
        engine: Where files are read.

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
        engine: Engine,
    ) -> None:
        self._table = table
        self._metadata: TableMetadata = table.metadata
        self._findings = findings
        self._snapshot_id = snapshot_id
        self._metadata_only = metadata_only
        self._engine = engine
        self._steps = Steps(None, 0)
        self._reader = ManifestReader(table.metadata, table.io)
        self._manifests = ManifestChecker(table.metadata, self._reader, findings)
        self._references: dict[str, Reference] = {}
        self._lengths: dict[str, int] = {}
        self._snapshots = self._chosen()
        self._schema = self._schema_of(snapshot_id)
        files = TableFiles(table.io, runtime)
        self._rows = TableRows(metadata=table.metadata, files=files, schema=self._schema, registry=registry)

    def run(
        self,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        journal: str | os.PathLike[str] | None = None,
    ) -> Mapping[str, int]:
        """Look at everything, or in a dry run at the metadata only; returns what a dry run leaves out."""
        check_metadata(self._metadata, self._table.metadata_location, self._findings)
        current = self._metadata.current_snapshot_id if self._snapshot_id is None else self._snapshot_id
        read = [self._read(snapshot) for snapshot in self._snapshots]
        if self._snapshot_id is None:
            self._refer_to_metadata()
        live = [self._live(each) for each in read if each.is_whole and each.snapshot.snapshot_id == current]
        for each in live:
            self._check_live(each)
        entries = [] if self._metadata_only else [entry for each in live for entry in (*each.data, *each.deletes)]
        if dry_run:
            return {
                "references": len(self._references),
                "files": len(entries),
                "rows": sum(entry.data_file.record_count for entry in entries),
                "bytes": sum(entry.data_file.file_size_in_bytes for entry in entries),
            }
        self._steps = Steps(progress, len(self._references) + len(entries))
        self._check_references()
        if not self._metadata_only:
            noted = ValidationJournal(journal, self._subject)
            noted.restore(self._findings)
            for each in live:
                self._check_files(each.data, LiveFileCheck(rows=self._rows), noted)
                others = live_files(self._rows, each.data) if each.deletes else {}
                self._check_files(each.deletes, LiveFileCheck(rows=self._rows, data=others), noted)
        return {}

    @property
    def _subject(self) -> dict[str, object]:
        """What tells this validation from all others."""
        return {"metadata_location": self._table.metadata_location, "snapshot_id": self._snapshot_id}

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

    def _live(self, snapshot: _Snapshot) -> _Live:
        """The live files of a snapshot."""
        live = _Live(snapshot.snapshot)
        for line in snapshot.lines:
            into = live.deletes if line.content == ManifestContent.DELETES else live.data
            with self._findings.reading(line.manifest_path, "a manifest", corrupt="manifest-corrupt"):
                into.extend(self._reader.live_entries(line))
        return live

    def _check_live(self, live: _Live) -> None:
        """How the live files of a snapshot fit together."""
        self._check_repeated(live.data, live.snapshot)
        self._check_row_ids(live.data, live.snapshot)
        with self._findings.reading(self._table.metadata_location, "a table that can be scanned", "plan-failed"):
            scan(self._table, snapshot_id=self._snapshot_id, select=(), registry=self._rows.registry)

    def _run_pieces(
        self, things: Sequence[T], size: Callable[[T], int], task: Task[Sequence[T], Found]
    ) -> Iterator[tuple[Sequence[T], Found]]:
        """What was found, with the things in which it was, as pieces are finished."""
        pieces = even_parts(things, size, _PIECES_PER_WORKER * self._engine.parallelism)
        with closing(self._engine.run(pieces, task, self._steps.tell)) as results:
            for piece, found in results:
                self._findings.add_found(found)
                self._steps.finish(piece, len(pieces[piece]))
                yield pieces[piece], found

    def _check_references(self) -> None:
        for _ in self._run_pieces(list(self._references.values()), lambda _: 1, ReferenceCheck(self._rows.files)):
            pass

    def _check_files(self, entries: Sequence[ManifestEntry], task: LiveFileCheck, journal: ValidationJournal) -> None:
        """Check what is in files, but for those that an earlier run of this validation has checked."""
        rest = [entry for entry in entries if entry not in journal]
        self._steps.finish(-1, len(entries) - len(rest))
        for checked, found in self._run_pieces(rest, lambda entry: entry.data_file.file_size_in_bytes, task):
            journal.note(checked, found)

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
