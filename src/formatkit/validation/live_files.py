"""Checks the live files of a snapshot, some at a time, in any process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform, VoidTransform

from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError
from formatkit.scan.deletes import KeySchemas
from formatkit.scan.deletes.locations import canonical_location
from formatkit.scan.tasks import FileTask
from formatkit.validation.deletes import DataFiles, DeleteChecker, LiveFile
from formatkit.validation.files import Watcher, check_file
from formatkit.validation.findings import Findings, Found
from formatkit.validation.metrics import check_metrics
from formatkit.validation.placement import partition_watchers, sort_watcher
from formatkit.validation.reading import TableRows
from formatkit.write.jobs import Attempt

__all__ = ["LiveFileCheck", "live_files"]


@dataclass(frozen=True, kw_only=True)
class LiveFileCheck:
    """Reads files to their last row, and compares what metadata says with what they have. Can be pickled.

    Attributes:
        rows: Reads them.
        data: The data files of the snapshot, which delete files are compared with; data files need none.
    """

    rows: TableRows
    data: DataFiles = field(default_factory=dict, repr=False)

    def __call__(self, work: Sequence[ManifestEntry], attempt: Attempt) -> Found:
        findings = Findings()
        deletes = DeleteChecker(
            rows=self.rows,
            keys=KeySchemas((self.rows.schema, *self.rows.metadata.schemas[::-1])),
            data=self.data,
            findings=findings,
            task_of=partial(_task, self.rows),
            partition_of=partial(_scope, self.rows),
        )
        for done, entry in enumerate(work):
            if entry.data_file.content == DataFileContent.DATA:
                self._check_data(entry, findings)
            else:
                deletes.check(entry)
            attempt.tell(done + 1)
        return findings.found()

    def _check_data(self, entry: ManifestEntry, findings: Findings) -> None:
        file = entry.data_file
        with findings.reading(file.file_path, "a data file"):
            truth = check_file(self.rows.of(_task(self.rows, entry)), findings, self._watchers(file, findings))
            if truth is not None:
                check_metrics(file, truth, self.rows.schema, findings)

    def _watchers(self, file: DataFile, findings: Findings) -> list[Watcher]:
        schema = self.rows.schema
        found = partition_watchers(file, _spec(self.rows, file), schema, findings)
        orders = {order.order_id: order for order in self.rows.metadata.sort_orders if order.fields}
        order = orders.get(file.sort_order_id) if file.sort_order_id is not None else None
        if order is not None and (sorted_ := sort_watcher(file, order, schema, findings)) is not None:
            found.append(sorted_)
        return found


def live_files(rows: TableRows, data: Iterable[ManifestEntry]) -> DataFiles:
    """What delete files are compared with."""
    return {
        canonical_location(entry.data_file.file_path): LiveFile(
            entry.data_file.record_count, entry.sequence_number or 0, _partition(rows, entry)
        )
        for entry in data
    }


def _task(rows: TableRows, entry: ManifestEntry) -> FileTask:
    file = entry.data_file
    return FileTask(
        location=file.file_path,
        file_format=str(getattr(file.file_format, "value", file.file_format)).lower(),
        row_count=file.record_count,
        spec_id=file.spec_id,
        partition_constants=_constants(rows, file),
        sequence_number=entry.sequence_number,
    )


def _constants(rows: TableRows, file: DataFile) -> Mapping[int, Any]:
    """The values of identity-partitioned columns; those that make no sense are findings elsewhere."""
    found: dict[int, Any] = {}
    for position, each in enumerate(_spec(rows, file).fields):
        if isinstance(each.transform, IdentityTransform) and each.source_id in rows.schema.field_ids:
            try:
                kind = rows.schema.find_type(each.source_id)
                found[each.source_id] = internal_value(kind, file.partition[position])
            except InvalidDataError:
                continue
    return found


def _spec(rows: TableRows, file: DataFile) -> PartitionSpec:
    return rows.metadata.specs()[file.spec_id]


def _partition(rows: TableRows, entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.data_file
    return (file.spec_id, *(repr(file.partition[position]) for position in range(len(_spec(rows, file).fields))))


def _scope(rows: TableRows, entry: ManifestEntry) -> tuple[Any, ...]:
    """Where equality deletes apply: everywhere, if their spec has no partitions."""
    fields = _spec(rows, entry.data_file).fields
    return () if all(isinstance(each.transform, VoidTransform) for each in fields) else _partition(rows, entry)
