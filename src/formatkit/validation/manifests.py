"""Checks manifests, and what manifest lists say about them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.types import PrimitiveType, StructType

from formatkit.contract.metadata_columns import METADATA_COLUMNS
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError
from formatkit.scan.bounds import decode_bound
from formatkit.validation.findings import Findings
from formatkit.write.commit.manifests import partition_type
from formatkit.write.commit.records import ManifestReader, content_size, is_live

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["ManifestChecker", "Tally", "check_totals"]

_ADDED, _EXISTING, _DELETED = (
    ManifestEntryStatus.ADDED,
    ManifestEntryStatus.EXISTING,
    ManifestEntryStatus.DELETED,
)
_LEAST_RESERVED_ID = min(each.field_id for each in METADATA_COLUMNS.values()) - 100


@dataclass
class _Extent:
    """The partition values of one field in a manifest."""

    kind: PrimitiveType
    null: bool = False
    nan: bool = False
    lower: Any = None
    upper: Any = None

    def add(self, value: Any) -> None:
        if value is None:
            self.null = True
        elif isinstance(value, float) and math.isnan(value):
            self.nan = True
        else:
            self.lower = value if self.lower is None else min(self.lower, value)
            self.upper = value if self.upper is None else max(self.upper, value)


@dataclass
class Tally:
    """What a manifest holds, as opposed to what manifest lists say of it."""

    files: Counter[ManifestEntryStatus] = field(default_factory=Counter)
    rows: Counter[ManifestEntryStatus] = field(default_factory=Counter)
    totals: Counter[str] = field(default_factory=Counter)
    least_sequence_number: int | None = None
    extents: list[_Extent | None] = field(default_factory=list)
    is_whole: bool = False


class ManifestChecker:
    """Checks each manifest of a table once, however many snapshots list it."""

    def __init__(self, metadata: TableMetadata, reader: ManifestReader, findings: Findings) -> None:
        self._metadata = metadata
        self._reader = reader
        self._findings = findings
        self._tallies: dict[str, Tally] = {}
        self._columns = {id_ for schema in metadata.schemas for id_ in schema.field_ids}
        self._sort_orders = {order.order_id for order in metadata.sort_orders} | {0}

    def check(self, line: ManifestFile, snapshot: Snapshot, see: Callable[[DataFile], None]) -> Tally | None:
        """Compare a line of a manifest list with the manifest; None if that cannot be read.

        Args:
            line: What the list says.
            snapshot: Whose list it is.
            see: Called with each live file, the first time that the manifest is seen.
        """
        location = line.manifest_path
        if location not in self._tallies:
            self._findings.count("manifests")
            self._tallies[location] = self._tally(line, see)
        tally = self._tallies[location]
        if not tally.is_whole:
            return None
        for code, said, found in (*_wrong_counts(line, tally), *_wrong_numbers(line, tally, snapshot)):
            self._findings.add(code, snapshot.manifest_list, said=f"{location}: {said}", found=found)
        for said, found in _wrong_summaries(line, tally):
            self._findings.add("manifest-summary", snapshot.manifest_list, said=f"{location}: {said}", found=found)
        return tally

    def _tally(self, line: ManifestFile, see: Callable[[DataFile], None]) -> Tally:
        tally = Tally()
        location = line.manifest_path
        spec = self._metadata.specs().get(line.partition_spec_id)
        if spec is None:
            known = ", ".join(map(str, self._metadata.specs()))
            self._findings.add(
                "spec-unknown", location, said=f"partition spec {line.partition_spec_id}", found=f"there are {known}"
            )
            return tally
        with self._findings.reading(location, "a manifest", corrupt="manifest-corrupt"):
            partition = partition_type(spec, self._metadata)
            tally.extents = [
                _Extent(each.field_type) if isinstance(each.field_type, PrimitiveType) else None
                for each in partition.fields
            ]
            for entry in self._reader.entries(line):
                tally.files[entry.status] += 1
                tally.rows[entry.status] += entry.data_file.record_count
                self._add_partition(tally, entry, partition)
                if is_live(entry):
                    self._add_live(tally, entry, line)
                    see(entry.data_file)
            tally.is_whole = True
        return tally

    def _add_partition(self, tally: Tally, entry: ManifestEntry, partition: StructType) -> None:
        file = entry.data_file
        for position, (column, extent) in enumerate(zip(partition.fields, tally.extents, strict=True)):
            if extent is None:
                continue
            try:
                extent.add(internal_value(column.field_type, file.partition[position]))
            except InvalidDataError as error:
                said = f"{column.name} = {file.partition[position]!r}"
                self._findings.add("partition-invalid", file.file_path, said=said, found=error)

    def _add_live(self, tally: Tally, entry: ManifestEntry, line: ManifestFile) -> None:
        file = entry.data_file
        _count(tally.totals, file)
        number = entry.sequence_number
        if number is None:
            self._findings.add("sequence-number", file.file_path, said="none", found="a live file must have one")
        else:
            least = tally.least_sequence_number
            tally.least_sequence_number = number if least is None else min(least, number)
            if line.sequence_number and number > line.sequence_number:
                found = f"its manifest has {line.sequence_number}, which must not be less"
                self._findings.add("sequence-number", file.file_path, said=str(number), found=found)
        for code, said, found in self._wrong_entry(file):
            self._findings.add(code, file.file_path, said=said, found=found)

    def _wrong_entry(self, file: DataFile) -> Iterator[tuple[str, str, str]]:
        if file.sort_order_id is not None and file.sort_order_id not in self._sort_orders:
            known = ", ".join(map(str, sorted(self._sort_orders)))
            yield "sort-order-unknown", f"sort order {file.sort_order_id}", f"there are {known}"
        offsets = list(file.split_offsets or ())
        if offsets != sorted(set(offsets)) or any(not 0 <= each < file.file_size_in_bytes for each in offsets):
            yield "split-offsets", str(offsets), f"a file of {file.file_size_in_bytes} bytes"
        for id_ in file.equality_ids or () if file.content == DataFileContent.EQUALITY_DELETES else ():
            if id_ not in self._columns:
                yield "delete-key", f"equality id {id_}", "no schema has such a column"
        if file.content == DataFileContent.DATA:
            ids = {id_ for each in (file.value_counts, file.lower_bounds) for id_ in each or ()}
            unknown = sorted(id_ for id_ in ids - self._columns if id_ < _LEAST_RESERVED_ID)
            if unknown:
                yield "field-id-unknown", f"metrics of field {unknown[0]}", "no schema has such a column"


def _count(totals: Counter[str], file: DataFile) -> None:
    totals["total-files-size"] += content_size(file)
    if file.content == DataFileContent.DATA:
        totals["total-data-files"] += 1
        totals["total-records"] += file.record_count
        return
    totals["total-delete-files"] += 1
    kind = "equality" if file.content == DataFileContent.EQUALITY_DELETES else "position"
    totals[f"total-{kind}-deletes"] += file.record_count


def _wrong_counts(line: ManifestFile, tally: Tally) -> Iterator[tuple[str, str, str]]:
    for status, files, rows in (
        (_ADDED, line.added_files_count, line.added_rows_count),
        (_EXISTING, line.existing_files_count, line.existing_rows_count),
        (_DELETED, line.deleted_files_count, line.deleted_rows_count),
    ):
        word = status.name.lower()
        for noun, said, found in (("files", files, tally.files[status]), ("rows", rows, tally.rows[status])):
            # Lists of version 1 need not count.
            if said is not None and said != found:
                yield "manifest-counts", f"{said} {word} {noun}", f"{found} {word} {noun}"


def _wrong_numbers(line: ManifestFile, tally: Tally, snapshot: Snapshot) -> Iterator[tuple[str, str, str]]:
    if snapshot.sequence_number is not None and line.sequence_number > snapshot.sequence_number:
        found = f"the snapshot has {snapshot.sequence_number}, which must not be less"
        yield "sequence-number", f"sequence number {line.sequence_number}", found
    least = tally.least_sequence_number
    if least is not None and line.min_sequence_number > least:
        yield "sequence-number", f"min sequence number {line.min_sequence_number}", f"a file has {least}"


def _wrong_summaries(line: ManifestFile, tally: Tally) -> Iterator[tuple[str, str]]:
    if line.partitions is None:
        return
    if len(line.partitions) != len(tally.extents):
        yield f"{len(line.partitions)} partition summaries", f"the spec has {len(tally.extents)} fields"
        return
    for position, (summary, extent) in enumerate(zip(line.partitions, tally.extents, strict=True)):
        if extent is None:
            continue
        where = f"partition field {position}"
        if extent.null and not summary.contains_null:
            yield f"{where}: no null", "a file of the partition null"
        if extent.nan and summary.contains_nan is False:
            yield f"{where}: no NaN", "a file of the partition NaN"
        lower, upper = (decode_bound(extent.kind, each) for each in (summary.lower_bound, summary.upper_bound))
        if extent.lower is None:
            continue
        if summary.lower_bound is None and summary.contains_null and summary.contains_nan is False:
            yield f"{where}: nothing but nulls", f"{extent.lower!r} to {extent.upper!r}"
        elif (lower is not None and lower > extent.lower) or (upper is not None and upper < extent.upper):
            yield f"{where}: {lower!r} to {upper!r}", f"{extent.lower!r} to {extent.upper!r}"


def check_totals(snapshot: Snapshot, totals: Mapping[str, int], location: str, findings: Findings) -> None:
    """Compare the totals of a snapshot's summary with what its manifests hold."""
    said = {} if snapshot.summary is None else snapshot.summary.additional_properties
    for name in (
        "total-data-files",
        "total-delete-files",
        "total-records",
        "total-files-size",
        "total-position-deletes",
        "total-equality-deletes",
    ):
        if name in said and said[name] != str(totals.get(name, 0)):
            text = f"snapshot {snapshot.snapshot_id}: {name} = {said[name]}"
            findings.add("snapshot-summary", location, said=text, found=str(totals.get(name, 0)))
