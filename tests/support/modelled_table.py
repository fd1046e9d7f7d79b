"""A table in a catalog, and beside it a list of plain rows that says what the table must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

import formatkit
from formatkit import MergeResult
from formatkit.contract.metadata_columns import DELETED, LAST_UPDATED, ROW_ID
from formatkit.tck import naive
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.write.commit import enable_version3
from formatkit.write.operations import Mode, UpsertResult, delete, overwrite, rewrite, upsert
from support.iceberg_tables import new_catalog
from support.naive_merge import NaiveMerge

__all__ = ["ModelledTable", "Row", "matching", "new_table", "rows_of", "shown"]

Row = dict[int, Any]


@dataclass(frozen=True)
class _ModelRow:
    """A row, and in tables of version 3 its lineage; the id is None until it was seen in the table."""

    values: Row
    row_id: int | None
    last_updated: int

    @property
    def key(self) -> str:
        return comparable([self.values])[0]


def new_table(
    directory: Path,
    schema: Schema,
    *,
    version: int = 2,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    catalog: Catalog | None = None,
    **properties: str,
) -> Table:
    """An empty table in a catalog of its own."""
    if version >= 3:
        enable_version3()
    given = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
    return (catalog or new_catalog(directory)).create_table(
        "db.t", schema, partition_spec=spec, properties={"format-version": str(version), **given}
    )


def rows_of(table: Table, **arguments: Any) -> list[Row]:
    """What a scan returns."""
    scan = formatkit.scan(table, **arguments)
    return from_arrow(scan.schema, scan.to_arrow())


def shown(table: Table) -> list[str]:
    """What a scan returns, in a form where equal means equal and in an order that does not depend on files."""
    return sorted(comparable(rows_of(table)))


def matching(rows: Iterable[Row], schema: Schema, where: BooleanExpression) -> list[Row]:
    """The rows that a filter keeps."""
    return [row for row in rows if naive.matches(row, schema, where)]


class ModelledTable:
    """Does everything twice, to the table and to plain rows; `check` compares them."""

    def __init__(self, table: Table, merge: Callable[..., MergeResult] | None = None) -> None:
        self.table = table
        self._merge = merge or formatkit.merge
        self._rows: list[_ModelRow] = []
        self._history: dict[int, tuple[Schema, list[Row]]] = {}
        self._schema = table.schema()

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def rows(self) -> list[Row]:
        return [row.values for row in self._rows]

    @property
    def snapshot_ids(self) -> list[int]:
        return list(self._history)

    def append(self, rows: Sequence[Row], file_format: str | None = None, **options: Any) -> Snapshot | None:
        snapshot = formatkit.append(self.table, to_arrow(self.schema, rows), file_format, **options)
        self._became([*self._rows, *self._new(rows)])
        return snapshot

    def delete(self, where: BooleanExpression, mode: Mode, **options: Any) -> Snapshot | None:
        snapshot = delete(self.table, where, mode, **options)
        assert snapshot is not None or not matching(self.rows, self.schema, where)
        self._became(self._without(where))
        return snapshot

    def overwrite(
        self,
        rows: Sequence[Row],
        where: BooleanExpression | None = None,
        file_format: str | None = None,
        **options: Any,
    ) -> Snapshot | None:
        snapshot = overwrite(self.table, to_arrow(self.schema, rows), where, file_format, **options)
        self._became([*self._without(where or AlwaysTrue()), *self._new(rows)])
        return snapshot

    def upsert(self, rows: Sequence[Row], key: Callable[[Row], Any], mode: Mode, **options: Any) -> UpsertResult:
        """Update and insert by a key, of which neither the table nor the rows may have two alike."""
        result = upsert(self.table, to_arrow(self.schema, rows), mode=mode, **options)
        incoming = {key(row): row for row in rows}
        kept, updated = list[_ModelRow](), list[_ModelRow]()
        for row in self._rows:
            wanted = incoming.pop(key(row.values), None)
            if wanted is None or comparable([wanted]) == [row.key]:
                kept.append(row)
            else:
                updated.append(replace(row, values=wanted, last_updated=self._sequence_number))
        assert (result.rows_updated, result.rows_inserted) == (len(updated), len(incoming))
        assert (result.snapshot is None) == (not updated and not incoming)
        self._became([*kept, *updated, *self._new(incoming.values())])
        return result

    def merge(self, source: pa.Table, model: NaiveMerge, **arguments: Any) -> MergeResult:
        """Merge a source into the table; `model` says row by row what the arguments mean."""
        result = self._merge(self.table, source, **arguments)
        kept, updated, deleted = list[_ModelRow](), list[_ModelRow](), 0
        for row in self._rows:
            fate = model.fate_of(row.values)
            if fate is None:
                deleted += 1
            elif comparable([fate]) == [row.key]:
                kept.append(row)
            else:
                updated.append(replace(row, values=fate, last_updated=self._sequence_number))
        inserted = model.inserted(self.rows)
        assert (result.rows_updated, result.rows_deleted) == (len(updated), deleted)
        assert result.rows_inserted == len(inserted)
        assert (result.snapshot is None) == (not updated and not deleted and not inserted)
        self._became([*kept, *updated, *self._new(inserted)])
        return result

    def rewrite(self, **options: Any) -> None:
        rewrite(self.table, **options)
        self._became(self._rows)

    def evolved(self) -> None:
        """The table's schema was changed: see the rows as they are now."""
        before, self._schema = self._schema, self.table.schema()
        self._rows = [replace(row, values=naive.evolve(row.values, before, self._schema)) for row in self._rows]

    def removed(self, where: BooleanExpression) -> None:
        """Rows of the table were removed by other means."""
        self._became(self._without(where))

    def holds(self, rows: Iterable[Row]) -> None:
        """The rows of the table were replaced by other means."""
        self._became(self._new(rows))

    def check(self, where: BooleanExpression | None = None) -> None:
        """Compare the table with the rows, in whole and as a filter sees it, and their lineage where they have any."""
        self.check_rows(where)
        if self.table.format_version >= 3:
            self._check_lineage()

    def check_rows(self, where: BooleanExpression | None = None) -> None:
        """Compare the table with the rows, in whole and as a filter sees it."""
        assert _multiset(rows_of(self.table)) == _multiset(self.rows)
        assert formatkit.scan(self.table).count() == len(self._rows)
        if where is not None:
            expected = matching(self.rows, self.schema, where)
            assert _multiset(rows_of(self.table, where=where)) == _multiset(expected)
            assert formatkit.scan(self.table, where=where).count() == len(expected)
        marked = rows_of(self.table, select=("*", DELETED.name))
        live = [row for row in marked if not row.pop(DELETED.field_id)]
        assert _multiset(live) == _multiset(self.rows)

    def check_snapshot(self, snapshot_id: int) -> None:
        """Compare what an old snapshot shows with what the table held then."""
        schema, rows = self._history[snapshot_id]
        scan = formatkit.scan(self.table, snapshot_id=snapshot_id)
        assert scan.schema.as_struct() == schema.as_struct()
        assert _multiset(from_arrow(schema, scan.to_arrow())) == _multiset(rows)
        assert scan.count() == len(rows)

    def _check_lineage(self) -> None:
        found = []
        for values in rows_of(self.table, select=("*", ROW_ID.name, LAST_UPDATED.name)):
            row_id, last_updated = values.pop(ROW_ID.field_id), values.pop(LAST_UPDATED.field_id)
            found.append(_ModelRow(values, row_id, last_updated))
        ids = [row.row_id for row in found]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        known = {row.row_id: row for row in self._rows if row.row_id is not None}
        old = [row for row in found if row.row_id in known]
        assert {row.row_id: (row.key, row.last_updated) for row in old} == {
            row_id: (row.key, row.last_updated) for row_id, row in known.items()
        }
        new = Counter((row.key, row.last_updated) for row in found if row.row_id not in known)
        assert new == Counter((row.key, row.last_updated) for row in self._rows if row.row_id is None)
        self._rows = found

    @property
    def _sequence_number(self) -> int:
        snapshot = self.table.current_snapshot()
        return 0 if snapshot is None else snapshot.sequence_number or 0

    def _new(self, rows: Iterable[Row]) -> list[_ModelRow]:
        return [_ModelRow(row, None, self._sequence_number) for row in rows]

    def _without(self, where: BooleanExpression) -> list[_ModelRow]:
        return [row for row in self._rows if not naive.matches(row.values, self.schema, where)]

    def _became(self, rows: list[_ModelRow]) -> None:
        self._rows = rows
        snapshot = self.table.current_snapshot()
        if snapshot is not None:
            self._history.setdefault(snapshot.snapshot_id, (self.schema, self.rows))


def _multiset(rows: Iterable[Row]) -> Counter[str]:
    return Counter(comparable(rows))
