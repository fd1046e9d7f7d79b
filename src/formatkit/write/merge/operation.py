"""The operation: the source is held, the table is streamed, and each row goes where the clauses send it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from formatkit.batches.arrow import ArrowBatch, arrow_schema
from formatkit.contract.batch import Booleans, Longs
from formatkit.contract.metadata_columns import FILE, POS, ROW_ID
from formatkit.errors import ConfigurationError, InvalidDataError
from formatkit.kernel import find_column
from formatkit.kernel.names import dotted
from formatkit.registry import FormatRegistry
from formatkit.write.commit import UncommittedFiles, commit
from formatkit.write.derive import derived_schema
from formatkit.write.incoming import ArrowData, incoming_batches
from formatkit.write.matching import Matcher
from formatkit.write.merge.clauses import Clauses, ClausesGiven
from formatkit.write.merge.key_groups import KeyGroups
from formatkit.write.merge.rules import KeyPair, Outcome, Rules, columns_seen
from formatkit.write.merge.sides import Sides
from formatkit.write.operations.base import ALL_COLUMNS, Base
from formatkit.write.operations.delete import remove_rows
from formatkit.write.operations.keys import KeyColumns, key_columns
from formatkit.write.operations.matches import Matches, matches_in_files
from formatkit.write.operations.merge_on_read import refuse_version_1
from formatkit.write.operations.output import Output
from formatkit.write.operations.removal import Mode, check_mode
from formatkit.write.table_writer import TableWriter

__all__ = ["MergeResult", "columns_to_read", "key_pairs", "merge"]

_MAX_PAIRS = 1 << 16
"""Pairs of rows that are decided at once, unless a single row of the table has more."""


@dataclass(frozen=True, kw_only=True)
class MergeResult:
    """What a merge did.

    Attributes:
        rows_updated: How many rows of the table were changed.
        rows_deleted: How many rows of the table were deleted.
        rows_inserted: How many rows came.
        snapshot: The new snapshot; None if there was nothing to do, and nothing was committed.
    """

    rows_updated: int
    rows_deleted: int
    rows_inserted: int
    snapshot: Snapshot | None


def merge(
    table: Table,
    source: ArrowData,
    on: str | Sequence[str] | Mapping[str, str] | None = None,
    matched: ClausesGiven = "update",
    not_matched: ClausesGiven = "insert",
    not_matched_by_source: ClausesGiven = None,
    mode: Mode = "merge-on-read",
    file_format: str | None = None,
    *,
    case_sensitive: bool = True,
    branch: str = "main",
    snapshot_properties: Mapping[str, str] | None = None,
    registry: FormatRegistry | None = None,
) -> MergeResult:
    """Update, delete and insert rows of a table by those of a source, in one snapshot, as SQL's MERGE does.

    Of each list of clauses the first applies whose condition is true; a row for which there is none stays. Conditions
    are filters whose columns are ``source.x`` and ``target.y``, and may compare them with each other. A row that would
    be updated to what it is stays where it is. In tables of version 3 an updated row keeps its id. The source is kept
    in memory; the table is not.

    Args:
        table: A table of a catalog. Afterwards the object shows the new snapshot.
        source: The source's rows. They may have columns that the table lacks.
        on: The columns that are compared: a name or several that both have, or by the table's name the source's. The
            identifier fields of the table's schema by default. Null equals nothing.
        matched: What is done with rows of the table that have source rows with their key: `Update` and `Delete`.
        not_matched: What is done with source rows whose key the table lacks: `Insert`.
        not_matched_by_source: What is done with rows of the table whose key the source lacks: `Update` and `Delete`.
            The whole table is read then, and rows that others add meanwhile are a conflict wherever they are.
        mode: How old rows go: ``"merge-on-read"`` or ``"copy-on-write"``, as in `delete`.
        file_format: For new files; by default `write.delete.format.default` for deletes, and `write.format.default`.
        case_sensitive: Whether case matters in names.
        branch: The branch to change; one that is not there yet begins at the main branch.
        snapshot_properties: What the snapshot's summary is to say as well.
        registry: Where formats are looked up; everything that is installed by default.

    Raises:
        InvalidDataError: A clause applies to one row of the table with two source rows; a value cannot be stored.
        CommitConflictError: Another writer changed the same files, or added rows with the same keys.
        UnsupportedError: Merge-on-read of a table of version 1, which has no delete files.
        SchemaResolutionError, MissingRequiredFieldError: The source does not fit the table.
        ConfigurationError, ColumnNotFoundError, AmbiguousColumnError, InvalidPredicateError: The arguments are wrong.
    """
    check_mode(mode)
    clauses = Clauses.of(matched, not_matched, not_matched_by_source)
    base = Base.of(table, branch, registry)
    if mode == "merge-on-read":
        refuse_version_1(base)
    schema, rows = _held(source)
    keys = key_pairs(base.schema, schema, on, case_sensitive=case_sensitive)
    with UncommittedFiles(table.io) as files, ExitStack() as stack:
        output = Output(base, table.io, files, file_format)
        work = _Merge(base, clauses, Sides(schema, base.schema), rows, keys, output, stack, case_sensitive)
        removal = remove_rows(base, work.find(), output, mode)
        work.insert()
        added = work.close()
        snapshot = None
        if added or not removal.is_empty:
            change = removal.change(
                added,
                base_snapshot_id=base.snapshot_id,
                conflict_filter=work.where,
                command="merge",
                properties=snapshot_properties or {},
            )
            snapshot = commit(table, change, branch=branch, files=files)
        return MergeResult(
            rows_updated=work.updated, rows_deleted=work.deleted, rows_inserted=work.inserted, snapshot=snapshot
        )


def _held(source: ArrowData) -> tuple[Schema, pa.Table]:
    """The source's rows, and what their columns are."""
    with closing(incoming_batches(source)) as batches:
        first = next(batches, None)
        if first is None:
            raise ConfigurationError("the source has no batch, so that its columns are not known; give an empty table")
        schema = derived_schema(first.schema)
        matcher = Matcher(schema, ArrowBatch())
        held = [matcher.match(first), *(matcher.match(batch) for batch in batches)]
    return schema, pa.Table.from_batches(held, arrow_schema(schema))


def key_pairs(
    table: Schema, source: Schema, on: str | Sequence[str] | Mapping[str, str] | None, *, case_sensitive: bool
) -> list[KeyPair]:
    """The columns that are compared."""
    if on is None:
        names = {dotted(path): dotted(path) for path in key_columns(table, None)} if table.identifier_field_ids else {}
    elif isinstance(on, str):
        names = {on: on}
    else:
        names = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    if not names:
        raise ConfigurationError('a merge compares columns, and none is named; name them: on=["id"]')
    own = key_columns(table, list(names), case_sensitive=case_sensitive)
    others = [find_column(source, name, case_sensitive=case_sensitive) for name in names.values()]
    return list(zip(own, others, strict=True))


class _Merge:
    """Lets the rules decide about every row, writes the new rows, and says which rows go.

    Attributes:
        where: What rows of the table have to do with the merge.
        updated: How many rows were changed so far.
        deleted: How many rows were deleted so far.
        inserted: How many rows came so far.
    """

    def __init__(
        self,
        base: Base,
        clauses: Clauses,
        sides: Sides,
        source: pa.Table,
        keys: Sequence[KeyPair],
        output: Output,
        stack: ExitStack,
        case_sensitive: bool,
    ) -> None:
        self._base = base
        self._clauses = clauses
        self._source = source
        self._output = output
        self._stack = stack
        self._target = columns_to_read(base.schema, clauses, sides, keys, case_sensitive=case_sensitive)
        self._rules = Rules(
            clauses, Sides(sides.source, self._target), base.schema, keys, case_sensitive=case_sensitive
        )
        columns = KeyColumns(self._target, [target for target, _ in keys])
        source_keys = KeyColumns(sides.source, [source for _, source in keys])
        matcher = Matcher(columns.schema, ArrowBatch())
        self._groups = KeyGroups(
            columns,
            [matcher.match(source_keys.of(batch).rename_columns(columns.names)) for batch in source.to_batches()],
            ArrowBatch(),
        )
        self._found = np.zeros(source.num_rows, np.bool_)
        self._writer: TableWriter | None = None
        self.where: BooleanExpression = AlwaysTrue() if clauses.not_matched_by_source else self._groups.filter()
        self.updated = self.deleted = self.inserted = 0

    def find(self) -> Matches:
        """The rows of the table that go. While this is consumed, rows that take their place are written."""
        lineage = (ROW_ID.name,) if self._base.has_lineage else ()
        whole = self._target is self._base.schema
        names = (ALL_COLUMNS,) if whole else tuple(field.name for field in self._target.fields)
        where = None if self._clauses.not_matched_by_source else self.where
        scan = self._base.scan((*names, FILE.name, POS.name, *lineage), where)
        return Matches(whole=(), parts=matches_in_files(scan, self._removed))

    def insert(self) -> None:
        """Write the source rows that the table lacks; it must have been read before."""
        start = 0
        for batch in self._source.to_batches():
            new = np.flatnonzero(~self._found[start : start + batch.num_rows])
            start += batch.num_rows
            if len(new):
                outcome = self._rules.not_matched(batch.take(new))
                for rows in outcome.rows:
                    self._write(rows)
                    self.inserted += rows.num_rows

    def close(self) -> tuple[DataFile, ...]:
        """The files with new rows."""
        return () if self._writer is None else self._writer.close()

    def _removed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """File and position of those rows in a batch that go."""
        width = len(self._target.fields)
        target, where = batch.select(range(width)), batch.select(range(width, batch.num_columns))
        groups = self._groups.groups_for(target)
        removed = np.zeros(batch.num_rows, np.bool_)
        if self._clauses.not_matched_by_source:
            alone = np.flatnonzero(groups < 0)
            outcome = self._rules.not_matched_by_source(target.take(alone))
            self._apply(outcome, alone, where, removed)
        met = np.flatnonzero(groups >= 0)
        for rows in self._portions(met, groups):
            self._match(target, rows, groups[rows], where, removed)
        return where.take(np.flatnonzero(removed))

    def _portions(self, rows: Longs, groups: Longs) -> Iterator[Longs]:
        """Rows of the table, so many at a time that their pairs fit into memory."""
        pairs = np.cumsum(self._groups.sizes(groups[rows]))
        start = 0
        while start < len(rows):
            before = pairs[start - 1] if start else 0
            end = max(int(np.searchsorted(pairs, before + _MAX_PAIRS, side="right")), start + 1)
            yield rows[start:end]
            start = end

    def _match(
        self, target: pa.RecordBatch, rows: Longs, groups: Longs, where: pa.RecordBatch, removed: Booleans
    ) -> None:
        source_rows = self._groups.source_rows(groups)
        self._found[source_rows] = True
        if not self._clauses.matched:
            return
        pairs = np.repeat(rows, self._groups.sizes(groups))
        if self._clauses.allows_several_matches:
            # Whichever is taken, the row goes.
            pairs, source_rows = rows, source_rows[np.cumsum(self._groups.sizes(groups)) - 1]
        source = self._source.take(source_rows).combine_chunks().to_batches()[0]
        outcome = self._rules.matched(source, target.take(pairs))
        self._refuse_several(target, pairs[outcome.acts])
        self._apply(outcome, pairs, where, removed)

    def _refuse_several(self, target: pa.RecordBatch, rows: Longs) -> None:
        again = np.flatnonzero(np.bincount(rows, minlength=target.num_rows) > 1)
        if len(again):
            raise InvalidDataError(
                f"several source rows change one row of the table, that with the key "
                f"{self._groups.key_in_words(target, int(again[0]))}, so it is not clear what becomes of it; leave one "
                "source row for each key, or let conditions choose one of them"
            )

    def _apply(self, outcome: Outcome, rows: Longs, where: pa.RecordBatch, removed: Booleans) -> None:
        """Write new rows in place of old ones; `rows` are those of the table that the outcome is about."""
        removed[rows[outcome.removed]] = True
        changed = len(outcome.written)
        self.updated += changed
        self.deleted += int(np.count_nonzero(outcome.removed)) - changed
        start = 0
        for new in outcome.rows:
            origins = rows[outcome.written[start : start + new.num_rows]]
            start += new.num_rows
            if self._base.has_lineage:
                new = new.append_column(ROW_ID.name, where.column(2).take(origins))
            self._write(new)

    def _write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._writer is None:
            # Only where rows keep their ids do files need a column for them.
            schema = self._base.stored_schema if self.updated else None
            self._writer = self._stack.enter_context(self._output.data_writer(schema))
        self._writer.write(rows)


def columns_to_read(
    table: Schema, clauses: Clauses, sides: Sides, keys: Sequence[KeyPair], *, case_sensitive: bool
) -> Schema:
    """All columns of the table if rows are written anew, else those that are compared."""
    if clauses.updates:
        return table
    seen = columns_seen(clauses, sides, case_sensitive=case_sensitive)
    compared = {target[0].field_id for target, _ in keys}
    chosen = [field for field in table.fields if field.field_id in compared or seen & set(Schema(field).field_ids)]
    return Schema(*chosen)
