"""Checks delete files and deletion vectors against the data files of their snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.metadata_columns import DELETED_PATH, DELETED_POSITION, POSITION_DELETES
from formatkit.errors import FormatkitError, InvalidTableError
from formatkit.io import open_source
from formatkit.puffin import read_deletion_vector, read_footer
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.deletes.locations import canonical_location
from formatkit.scan.tasks import FileTask
from formatkit.validation.files import Watcher, check_file
from formatkit.validation.findings import Findings
from formatkit.validation.metrics import check_metrics
from formatkit.validation.reading import TableRows
from formatkit.write.commit.records import content_place, is_deletion_vector, named_data_file

__all__ = ["DataFiles", "DeleteChecker", "LiveFile"]


class LiveFile(NamedTuple):
    """What deletes must know of a data file."""

    rows: int
    sequence_number: int
    partition: tuple[Any, ...]


DataFiles = Mapping[str, LiveFile]
"""The data files of a snapshot, by their canonical locations."""


@dataclass(frozen=True, kw_only=True)
class DeleteChecker:
    """Checks the delete files of one snapshot.

    Attributes:
        rows: Reads them.
        keys: Finds the columns of equality deletes.
        data: The data files of the snapshot.
        task_of: Makes the task of a delete file.
        partition_of: The partition of a delete file; empty for one that applies everywhere.
    """

    rows: TableRows
    keys: KeySchemas
    data: DataFiles
    findings: Findings
    task_of: Callable[[ManifestEntry], FileTask]
    partition_of: Callable[[ManifestEntry], tuple[Any, ...]]

    def check(self, entry: ManifestEntry) -> None:
        """Check one delete file, or one deletion vector."""
        file = entry.data_file
        if is_deletion_vector(file):
            self._check_vector(entry)
        elif file.content == DataFileContent.EQUALITY_DELETES:
            self._check_equality(entry)
        else:
            self._check_positions(entry)

    def _check_positions(self, entry: ManifestEntry) -> None:
        named = _NamedFiles(entry.data_file, self.data, self.findings)
        self._check_rows(entry, POSITION_DELETES, named.watch)
        if named.rows and not named.live:
            self._dangling(entry, "none of the data files that it names is in the snapshot")

    def _check_equality(self, entry: ManifestEntry) -> None:
        try:
            schema = self.keys.of(tuple(sorted(set(entry.data_file.equality_ids or ()))))
        except InvalidTableError as error:
            self.findings.add("delete-key", entry.data_file.file_path, said="equality deletes", found=error)
            return
        self._check_rows(entry, schema)
        scope, number = self.partition_of(entry), entry.sequence_number or 0
        if not any(each.sequence_number < number and scope in ((), each.partition) for each in self.data.values()):
            self._dangling(entry, "no data file of its partition is older")

    def _check_rows(self, entry: ManifestEntry, schema: Schema, *watchers: Watcher) -> None:
        file = entry.data_file
        with self.findings.reading(file.file_path, "a delete file"):
            truth = check_file(self.rows.of(self.task_of(entry), schema), self.findings, watchers)
            if truth is not None:
                check_metrics(file, truth, schema, self.findings)

    def _check_vector(self, entry: ManifestEntry) -> None:
        file, location = entry.data_file, entry.data_file.file_path
        offset, size = content_place(file)
        said = f"a deletion vector of {file.record_count} positions at byte {offset}, of {size} bytes"
        name = named_data_file(file)
        self.findings.count("files")
        try:
            with closing(open_source(location, self.rows.io, runtime=self.rows.runtime)) as source:
                blobs = {blob.offset: blob for blob in read_footer(source).blobs}
                positions = read_deletion_vector(source, offset, size).positions
        except FormatkitError as error:
            self.findings.add("deletion-vector", location, said=said, found=error)
            return
        blob = blobs.get(offset)
        wrong = []
        if blob is None:
            wrong.append("the footer has no blob there")
        else:
            refers_to = blob.properties.get("referenced-data-file")
            if refers_to is not None and name is not None and canonical_location(refers_to) != canonical_location(name):
                wrong.append(f"the footer says that it is of {refers_to}, and the manifest of {name}")
            if blob.length != size:
                wrong.append(f"the footer says {blob.length} bytes")
            if blob.properties.get("cardinality", str(file.record_count)) != str(file.record_count):
                wrong.append(f"the footer says {blob.properties['cardinality']} positions")
        if positions.size != file.record_count:
            wrong.append(f"it has {positions.size} positions")
        for found in wrong:
            self.findings.add("deletion-vector", location, said=said, found=found)
        live = self.data.get(canonical_location(name)) if name is not None else None
        if live is None:
            self._dangling(entry, f"{name} is not in the snapshot")
        elif positions.size and int(positions[-1]) >= live.rows:
            self._outside(location, str(name), int(positions[-1]), live.rows)

    def _outside(self, location: str, name: str, position: int, rows: int) -> None:
        found = f"the file has {rows} rows"
        self.findings.add("delete-position", location, said=f"row {position} of {name} is deleted", found=found)

    def _dangling(self, entry: ManifestEntry, why: str) -> None:
        file = entry.data_file
        self.findings.add("delete-dangling", file.file_path, said=f"{file.record_count} deletes", found=why)


class _NamedFiles:
    """Looks at the rows of a file of position deletes."""

    def __init__(self, file: DataFile, data: DataFiles, findings: Findings) -> None:
        self._file = file
        self._data = data
        self._findings = findings
        name = named_data_file(file)
        self._only = None if name is None else canonical_location(name)
        self._paths = ArrowBatch().distinct(POSITION_DELETES, DELETED_PATH.field_id)
        self._positions = ArrowBatch().longs(POSITION_DELETES, DELETED_POSITION.field_id)
        self.rows = 0
        self.live = 0

    def watch(self, _: Schema, batch: pa.RecordBatch, start: int) -> None:
        location = self._file.file_path
        names, codes = self._paths(batch)
        positions = self._positions(batch)
        self.rows += batch.num_rows
        for code, name in enumerate(names):
            path = canonical_location(name)
            if self._only is not None and path != self._only:
                self._findings.add("delete-path", location, said=f"deletes of {self._only}", found=f"one of {name}")
            live = self._data.get(path)
            if live is None:
                continue
            self.live += 1
            here = positions[codes == code]
            outside = here[(here < 0) | (here >= live.rows)]
            if outside.size:
                said = f"row {int(np.max(outside))} of {name} is deleted"
                self._findings.add("delete-position", location, said=said, found=f"the file has {live.rows} rows")
