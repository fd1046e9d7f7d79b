"""Changes that are committed once for a key, and snapshots that are staged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import LongType, NestedField

import formatkit
from formatkit.errors import AlreadyCommittedError
from formatkit.write import write_data_files
from formatkit.write.commit import Change, commit
from support.iceberg_tables import new_catalog
from support.written_tables import new_table, table_rows


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return new_table(new_catalog(tmp_path), NestedField(1, "id", LongType()))


def change(table: Table, number: int, key: str) -> Change:
    return Change(
        operation=Operation.APPEND,
        added=write_data_files(table, pa.table({"id": [number]})),
        properties={"key": key, "other": "x"},
        once="key",
    )


def test_a_key_that_the_branch_has_is_refused(table: Table) -> None:
    first = commit(table, change(table, 1, "a"))
    commit(table, change(table, 2, "b"))
    formatkit.append(table, pa.table({"id": [3]}))
    with pytest.raises(AlreadyCommittedError) as refused:
        commit(table, change(table, 4, "a"))
    assert refused.value.snapshot_id == first.snapshot_id
    assert table_rows(table) == [(1,), (2,), (3,)]


def test_a_key_of_another_branch_does_not_matter(table: Table) -> None:
    commit(table, change(table, 1, "a"))
    commit(table, change(table, 2, "b"), branch="other")
    commit(table, change(table, 3, "b"))
    assert table_rows(table) == [(1,), (3,)]


def test_a_key_that_another_writer_was_faster_with_is_refused(table: Table) -> None:
    stale = table.catalog.load_table("db.written")
    commit(table, change(table, 1, "a"))
    with pytest.raises(AlreadyCommittedError):
        commit(stale, change(stale, 2, "a"))
    assert table_rows(table.refresh()) == [(1,)]


@pytest.mark.parametrize("rows_before", [0, 1])
def test_a_staged_snapshot_moves_no_branch(table: Table, rows_before: int) -> None:
    if rows_before:
        commit(table, change(table, 0, "before"))
    head = table.current_snapshot()
    wanted = change(table, 1, "a")
    staged = commit(
        table,
        Change(operation=wanted.operation, added=wanted.added, properties={"wap.id": "w", "key": "a"}),
        staged=True,
    )
    assert table.refresh().current_snapshot() == head
    assert table_rows(table, snapshot_id=staged.snapshot_id) == [(0,), (1,)][1 - rows_before :]
    with pytest.raises(AlreadyCommittedError):
        commit(table, change(table, 2, "a"), staged=True)
    commit(table, change(table, 3, "c"))
    assert table_rows(table) == [(0,), (3,)][1 - rows_before :]
