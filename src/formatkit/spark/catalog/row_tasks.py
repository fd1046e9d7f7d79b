"""What runs on executors for DELETE, UPDATE and MERGE: rows come with a word for what is to happen to them."""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from formatkit.contract.batch import Longs
from formatkit.contract.metadata_columns import LAST_UPDATED, ROW_ID
from formatkit.errors import InternalError, InvalidDataError
from formatkit.puffin import DeletionVector
from formatkit.spark.writing.task import MESSAGE_COLUMN, TaskFiles, WriteRows
from formatkit.spark.writing.task_errors import noted_errors

__all__ = ["CARRY", "COPY", "DELETE", "INSERT", "REINSERT", "UPDATE", "Columns", "RowsOfOperation", "TaskRows"]

# Those of Spark's RowDeltaUtils, whose numbers differ between versions. The last one is copied or updated: versions
# before 4.2 do not say which, and empty themselves what an update does not keep.
DELETE, UPDATE, INSERT, REINSERT, COPY, CARRY = 1, 2, 3, 4, 5, 6
_COUNTED = {INSERT: "inserted", REINSERT: "inserted", UPDATE: "updated", COPY: "copied", CARRY: "copied"}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where things are in the rows that Spark gives.

    Attributes:
        operation: What is to happen; None if all rows are to be written.
        codes: What Spark's numbers for that mean.
        row: The columns of the table, in its order.
        names: Their names.
        row_id: File and position of the row.
        metadata: What a row keeps beside its columns.
        metadata_names: The names of these.
    """

    operation: int | None
    codes: dict[int, int]
    row: tuple[int, ...]
    names: tuple[str, ...]
    row_id: tuple[int, ...]
    metadata: tuple[int, ...]
    metadata_names: tuple[str, ...]

    def check(self, table: str) -> None:
        """Raise `InternalError` if Spark's plan is not of the form that is known."""
        if self.row and len(self.row) != len(self.names):
            raise InternalError(f"{table} has {len(self.names)} columns, and Spark wants to write {len(self.row)}")
        if len(self.row_id) not in (0, 2):
            raise InternalError(f"rows of {table} are known by file and position, not by {len(self.row_id)} columns")
        if self.row_id and self.operation is None:
            raise InternalError(f"Spark does not say which rows of {table} are to be deleted")
        if len(self.metadata) != len(self.metadata_names):
            raise InternalError(f"{len(self.metadata)} metadata columns of {table} have other names")


@dataclass(frozen=True)
class TaskRows:
    """What an attempt of a task reports.

    Attributes:
        files: The data files that it wrote.
        deleted: By the location of a data file, the positions of rows that are to go, as a deletion vector.
        counts: How many rows were deleted, inserted, updated, copied; ``unnamed`` if Spark did not say what they are.
    """

    files: TaskFiles
    deleted: dict[str, bytes]
    counts: dict[str, int]


@dataclass
class RowsOfOperation(WriteRows):
    """The function that `mapInArrow` runs."""

    columns: Columns | None = None
    _deleted: dict[str, list[Longs]] = field(default_factory=lambda: defaultdict(list), repr=False)
    _counts: Counter[str] = field(default_factory=Counter, repr=False)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted_errors():
            yield self._report(batches)

    def _report(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        # A worker may use one function for several tasks.
        self._deleted, self._counts = defaultdict(list), Counter()
        files = self.task.write(self._written(batches))
        written = self._counts["inserted"] + self._counts["updated"] + self._counts["copied"] + self._counts["unnamed"]
        if files.rows != written:
            raise InternalError(f"{written} rows were to be written, and the files have {files.rows}")
        report = TaskRows(
            files, {name: _vector(name, parts) for name, parts in self._deleted.items()}, dict(self._counts)
        )
        pickled = pickle.dumps(report, protocol=pickle.HIGHEST_PROTOCOL)
        return pa.RecordBatch.from_arrays([pa.array([pickled], pa.binary())], names=[MESSAGE_COLUMN])

    def _written(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        if columns is None:
            raise InternalError("nobody said where the columns are")
        for batch in batches:
            if columns.operation is None:
                self._counts["unnamed"] += batch.num_rows
                yield self._rows(batch, None)
                continue
            operations = batch.column(columns.operation)
            asked = set(operations.to_pylist())
            if not asked <= set(columns.codes):
                raise InternalError(f"Spark asks for the operations {asked}, of which some are unknown")
            given = operations.to_numpy(zero_copy_only=False)
            codes = np.select([given == number for number in columns.codes], list(columns.codes.values()))
            gone = codes == DELETE
            if gone.any():
                self._delete(batch.filter(pa.array(gone)))
            stays = batch.filter(pa.array(~gone))
            if stays.num_rows:
                kinds = codes[~gone]
                for code, name in _COUNTED.items():
                    self._counts[name] += int((kinds == code).sum())
                yield self._rows(stays, kinds)

    def _delete(self, batch: pa.RecordBatch) -> None:
        columns = self.columns
        if columns is None or not columns.row_id:
            raise InternalError("rows are to be deleted that have neither file nor position")
        locations, positions = (batch.column(ordinal) for ordinal in columns.row_id)
        if locations.null_count or positions.null_count:
            raise InternalError("a row is to be deleted that has no file or no position")
        self._counts["deleted"] += batch.num_rows
        encoded: Any = pc.dictionary_encode(locations)
        which = encoded.indices.to_numpy(zero_copy_only=False)
        numbers = positions.to_numpy(zero_copy_only=False)
        for index, location in enumerate(encoded.dictionary.to_pylist()):
            self._deleted[location].append(numbers[which == index].astype(np.int64))

    def _rows(self, batch: pa.RecordBatch, kinds: Any) -> pa.RecordBatch:
        columns = self.columns
        if columns is None or not columns.row:
            raise InternalError("rows are to be written that have no columns")
        arrays = [batch.column(ordinal) for ordinal in columns.row]
        names = list(columns.names)
        for ordinal, name in zip(columns.metadata, columns.metadata_names, strict=True):
            if name in (ROW_ID.name, LAST_UPDATED.name):
                column = batch.column(ordinal)
                arrays.append(column if kinds is None else _kept(column, name, kinds))
                names.append(name)
        return pa.RecordBatch.from_arrays(arrays, names=names)


def _kept(column: Any, name: str, kinds: Any) -> Any:
    """Lineage: new rows have none yet, and rows that change become younger."""
    keeps = np.isin(kinds, (COPY, CARRY)) if name == LAST_UPDATED.name else kinds != INSERT
    return pc.if_else(pa.array(keeps), column, pa.scalar(None, column.type))


def _vector(location: str, parts: list[Longs]) -> bytes:
    every = np.concatenate(parts)
    vector = DeletionVector.from_positions(every)
    if vector.cardinality != len(every):
        message = (
            f"a row of {location} is to be deleted or updated twice; several rows of the source match one row of the "
            "table"
        )
        raise InvalidDataError(message)
    return vector.to_bytes()
