"""What runs on executors second: new rows are written, and old rows are removed from the files that have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyspark import TaskContext

from formatkit.contract import BatchStream
from formatkit.contract.batch import Longs
from formatkit.scan import FileTask
from formatkit.scan.buckets import Bucket, BucketReader
from formatkit.scan.sources import TableFiles
from formatkit.spark.writing.merge.deciding import OldRows, parcels_in
from formatkit.spark.writing.task import TaskFiles, message
from formatkit.spark.writing.task_errors import noted_errors
from formatkit.write.commit import UncommittedFiles
from formatkit.write.operations.base import Base, FileRows
from formatkit.write.operations.delete import remove_rows
from formatkit.write.operations.matches import FileMatches, Matches, partition_order
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Mode, Removal
from formatkit.write.table_writer import TableWriter

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from formatkit.registry import FormatRegistry

__all__ = ["ApplyRows", "MergedFiles", "SentBase"]


@dataclass(frozen=True, kw_only=True)
class MergedFiles(TaskFiles):
    """What an attempt reports that carried out a part of a merge.

    Attributes:
        removal: What leaves the table, and the delete files that come.
        updated: How many rows take the place of others.
        inserted: How many rows come.
        removed: How many rows go, those that are updated included.
        several: A row that several source rows change, by its file and its position; then nothing was written.
    """

    removal: Removal = field(default_factory=Removal)
    updated: int = 0
    inserted: int = 0
    removed: int = 0
    several: tuple[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class SentBase:
    """The snapshot that a merge decides about, with as much of it as executors need. Can be pickled.

    Attributes:
        metadata: The table's, without its history.
        catalog_properties: Those of the catalog that say which code may be imported.
        tasks: The files that may have rows to remove.
        reader: Reads them with `columns`.
    """

    metadata: TableMetadata
    catalog_properties: Mapping[str, Any]
    stored_columns: tuple[str, ...]
    stored_schema: Schema
    columns: tuple[str, ...]
    tasks: Mapping[str, Sequence[FileTask]]
    reader: BucketReader[pa.RecordBatch]

    @classmethod
    def of(cls, base: Base, columns: Iterable[str], locations: Iterable[str], trusted: Mapping[str, Any]) -> SentBase:
        columns = tuple(columns)
        scan = base.scan(columns)
        wanted = set(locations)
        tasks: dict[str, list[FileTask]] = {}
        for task in scan.tasks:
            if task.location in wanted and not task.is_skipped:
                tasks.setdefault(task.location, []).append(replace(task, split_offsets=()))
        history: dict[str, Any] = {"snapshots": [], "refs": {}, "snapshot_log": [], "metadata_log": []}
        return cls(
            metadata=base.metadata.model_copy(update={**history, "current_snapshot_id": None}),
            catalog_properties=trusted,
            stored_columns=base.stored_columns,
            stored_schema=base.stored_schema,
            columns=columns,
            tasks=tasks,
            reader=scan.bucket_reader(threads=1),
        )

    @property
    def registry(self) -> FormatRegistry | None:
        return None

    def scan_files(self, select: Iterable[str]) -> FileRows:
        assert tuple(select) == self.columns, "only the columns that were planned can be read"  # noqa: S101
        return _SentFiles(self)


@dataclass(frozen=True)
class _SentFiles:
    base: SentBase
    locations: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        return self.base.reader.schema

    def scan(self, locations: Iterable[str]) -> _SentFiles:
        return _SentFiles(self.base, tuple(locations))

    def to_batches(self) -> BatchStream[pa.RecordBatch]:
        tasks = tuple(task for location in self.locations for task in self.base.tasks[location])
        size = sum(task.bytes_to_read for task in tasks)
        reader = self.base.reader
        return reader.batches(Bucket(index=0, tasks=tasks, bytes=size, rows=None, fingerprint=reader.fingerprint))


class _SeveralError(Exception):
    """Several source rows change one row of the table."""

    def __init__(self, file: str, position: int) -> None:
        super().__init__(file, position)
        self.row = (file, position)


@dataclass
class ApplyRows:
    """The function that `mapInArrow` runs: parcels in, one row with a pickled `MergedFiles` out.

    Attributes:
        base: What the table was.
        storage: The table's `FileIO`.
        write_id: A part of the name of every file.
        mode: How old rows go.
        file_format: For new files, if the caller says so.
        keeps_ids: Whether files of new rows need a column for the ids of rows.
        several: Whether several source rows for one row of the table do no harm.
    """

    base: SentBase
    storage: TableFiles
    write_id: str
    mode: Mode
    file_format: str | None
    keeps_ids: bool
    several: bool
    counters: Accumulator[dict[int, dict[str, int]]] | None = None
    title: str = "formatkit merge: apply"
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition, attempt, retried = (
            (0, 0, False)
            if context is None
            else (context.partitionId(), context.taskAttemptId(), context.attemptNumber() > 0)
        )
        identity: dict[str, Any] = {"attempt": attempt, "partition": partition, "retried": retried}
        try:
            with noted_errors(), UncommittedFiles(self.storage.io) as files:
                prefix = f"{partition:05d}-{attempt}-{self.write_id}"
                output = Output(self.base, self.storage.io, files, self.file_format, prefix=prefix)
                found = self._apply(batches, output, identity)
                files.keep()
        except _SeveralError as error:
            found = MergedFiles(files=(), rows=0, bytes=0, several=error.row, **identity)
        yield message(found, self.counters)

    def _apply(self, batches: Iterable[pa.RecordBatch], output: Output, identity: Mapping[str, Any]) -> MergedFiles:
        old: dict[str, list[OldRows]] = {}
        updated = written = 0
        with ExitStack() as stack:
            writer: TableWriter | None = None
            for parcel in parcels_in(batches):
                if isinstance(parcel, OldRows):
                    old.setdefault(parcel.file, []).append(parcel)
                    continue
                updated += parcel.updated
                for batch in parcel.batches():
                    if writer is None:
                        schema = self.base.stored_schema if self.keeps_ids else None
                        writer = stack.enter_context(output.data_writer(schema))
                    writer.write(batch)
                    written += batch.num_rows
            gone = {file: self._gone(file, parts) for file, parts in old.items()}
            removal = remove_rows(self.base, self._matches(gone), output, self.mode)
            added = writer.close() if writer is not None else ()
        removal.added += added
        # Vectors of several files are in one Puffin file, which has to be reported once.
        deletes = {file.file_path: file for file in removal.added_deletes}
        files: tuple[DataFile, ...] = (*removal.added, *deletes.values())
        return MergedFiles(
            files=files,
            rows=written,
            bytes=sum(file.file_size_in_bytes for file in files),
            removal=removal,
            updated=updated,
            inserted=written - updated,
            removed=sum(map(len, gone.values())),
            **identity,
        )

    def _gone(self, file: str, parts: Sequence[OldRows]) -> Longs:
        """The ascending positions of the rows that go."""
        positions = np.concatenate([part.positions for part in parts])
        removed = np.concatenate([part.removed for part in parts])
        if not self.several:
            ordered = np.sort(positions)
            again = np.flatnonzero(ordered[1:] == ordered[:-1])
            if len(again):
                raise _SeveralError(file, int(ordered[again[0]]))
        return np.unique(positions[removed])

    def _matches(self, gone: Mapping[str, Longs]) -> Matches:
        found = [
            FileMatches(file=self.base.tasks[location][0], positions=positions)
            for location, positions in gone.items()
            if len(positions)
        ]
        found.sort(key=lambda each: partition_order(each.file))
        return Matches(whole=(), parts=(each for each in found))
