"""`upsert`: rows of a table are updated, and those that are not there yet are inserted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from formatkit.batches.arrow import ArrowBatch, arrow_schema
from formatkit.contract.batch import Longs
from formatkit.contract.metadata_columns import FILE, POS, ROW_ID
from formatkit.errors import InvalidDataError
from formatkit.registry import FormatRegistry
from formatkit.write.commit import UncommittedFiles, commit
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.matching import Matcher
from formatkit.write.operations.base import ALL_COLUMNS, Base
from formatkit.write.operations.delete import remove_rows
from formatkit.write.operations.keys import KeyIndex, key_columns
from formatkit.write.operations.matches import Matches, matches_in_files
from formatkit.write.operations.merge_on_read import refuse_version_1
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Mode, check_mode
from formatkit.write.operations.same_rows import same_rows

__all__ = ["UpsertResult", "upsert"]

_NO_ID = -1


@dataclass(frozen=True, kw_only=True)
class UpsertResult:
    """What an upsert did.

    Attributes:
        rows_updated: How many rows of the table were replaced.
        rows_inserted: How many rows came that were not there.
        snapshot: The new snapshot; None if there was nothing to do, and nothing was committed.
    """

    rows_updated: int
    rows_inserted: int
    snapshot: Snapshot | None


def upsert(
    table: Table,
    data: ArrowData,
    join_columns: str | Sequence[str] | None = None,
    mode: Mode = "merge-on-read",
    file_format: str | None = None,
    *,
    case_sensitive: bool = True,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> UpsertResult:
    """Update the rows whose keys are in the data, and insert the others, in one snapshot.

    Rows that are equal in all columns stay where they are. In tables of version 3 an updated row keeps its id. The data
    is kept in memory until it is written; the table is not.

    Args:
        table: A table of a catalog. Afterwards the object shows the new snapshot.
        data: The rows, each with a key of its own that is nowhere null.
        join_columns: The columns that are the key; the identifier fields of the table's schema by default.
        mode: How the old rows go: ``"merge-on-read"`` or ``"copy-on-write"``, as in `delete`.
        file_format: For new files; by default `write.delete.format.default` for deletes, and `write.format.default`.
        case_sensitive: Whether case matters in `join_columns`.
        branch: The branch to change; one that is not there yet begins at the main branch.
        snapshot_properties: What the snapshot's summary is to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Raises:
        InvalidDataError: Two rows of the data, or two rows of the table that the data has a row for, have the same key;
            a key in the data is null.
        CommitConflictError: Another writer changed the same files, or added rows with the same keys.
        UnsupportedError: Merge-on-read of a table of version 1, which has no delete files.
        SchemaResolutionError, MissingRequiredFieldError: The data does not fit the table.
        ConfigurationError, ColumnNotFoundError, AmbiguousColumnError: The arguments are wrong.
    """
    check_mode(mode)
    base = Base.of(table, branch, registry)
    if mode == "merge-on-read":
        refuse_version_1(base)
    names = [join_columns] if isinstance(join_columns, str) else join_columns
    keys = key_columns(base.schema, names, case_sensitive=case_sensitive)
    with UncommittedFiles(table.io) as files:
        output = Output(base, table.io, files, file_format)
        incoming = _canonical(base.schema, data)
        index = KeyIndex(base.schema, keys, incoming.to_batches(), ArrowBatch())
        where = index.filter()
        merge = _Merge(base, index, where, incoming)
        removal = remove_rows(base, merge.find(), output, mode)
        added = output.write_data(merge.rows_to_write(), base.stored_schema if merge.updated else None)
        snapshot = None
        if added:
            change = removal.change(
                added,
                base_snapshot_id=base.snapshot_id,
                conflict_filter=where,
                command="merge",
                properties=snapshot_properties or {},
            )
            snapshot = commit(table, change, branch=branch, files=files)
        return UpsertResult(rows_updated=merge.updated, rows_inserted=merge.inserted, snapshot=snapshot)


def _canonical(schema: Schema, data: ArrowData) -> pa.Table:
    matcher = Matcher(schema, ArrowBatch())
    with closing(incoming_batches(data)) as batches:
        return pa.Table.from_batches([matcher.match(batch) for batch in batches], arrow_schema(schema))


class _Merge:
    """Compares the incoming rows with those of the table.

    Attributes:
        updated: How many incoming rows differ from the rows with their keys; known when `find` was consumed.
        inserted: How many incoming rows have keys that the table lacks.
    """

    def __init__(self, base: Base, index: KeyIndex, where: BooleanExpression, incoming: pa.Table) -> None:
        self._base = base
        self._index = index
        self._where = where
        self._incoming = incoming
        self._width = len(base.schema.fields)
        self._found = np.zeros(incoming.num_rows, np.bool_)
        self._changed = np.zeros(incoming.num_rows, np.bool_)
        self._row_ids = np.full(incoming.num_rows, _NO_ID, np.int64)

    @property
    def updated(self) -> int:
        return int(np.count_nonzero(self._changed))

    @property
    def inserted(self) -> int:
        return int(np.count_nonzero(~self._found))

    def find(self) -> Matches:
        """The rows of the table that are to be replaced."""
        lineage = (ROW_ID.name,) if self._base.has_lineage else ()
        scan = self._base.scan((ALL_COLUMNS, FILE.name, POS.name, *lineage), self._where)
        return Matches(whole=(), parts=matches_in_files(scan, self._replaced))

    def rows_to_write(self) -> Iterator[pa.RecordBatch]:
        """The rows that are new or changed; those that are changed with the ids of the rows that they replace."""
        written = np.flatnonzero(self._changed | ~self._found)
        rows = self._incoming.take(written)
        if self._base.has_lineage and self.updated:
            ids = self._row_ids[written]
            rows = rows.append_column(ROW_ID.name, pa.array(ids, mask=ids == _NO_ID))
        yield from rows.to_batches()

    def _replaced(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """File and position of those rows in a batch that are to be replaced."""
        columns, where = batch.select(range(self._width)), batch.select(range(self._width, batch.num_columns))
        rows = self._index.rows_for(columns)
        met = np.flatnonzero(rows >= 0)
        rows = rows[met]
        if not len(rows):
            return where.slice(0, 0)
        self._refuse_duplicates(rows)
        self._found[rows] = True
        wanted = self._incoming.take(rows).combine_chunks().to_batches()[0]
        different = ~same_rows(columns.take(met), wanted)
        self._changed[rows[different]] = True
        replaced = where.take(met[different])
        if self._base.has_lineage:
            self._row_ids[rows[different]] = replaced.column(2).fill_null(_NO_ID).to_numpy()
        return replaced

    def _refuse_duplicates(self, rows: Longs) -> None:
        """The table must not have several rows for one key, because they would become one."""
        again = self._found[rows]
        again |= np.bincount(rows)[rows] > 1
        if again.any():
            row = int(rows[np.argmax(again)])
            raise InvalidDataError(
                f"the table has several rows with the key of row {row} of the data, so it is not clear which one to "
                "update; delete all but one of them"
            )
