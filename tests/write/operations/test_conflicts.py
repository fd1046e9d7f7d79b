"""Two writers at once: both changes take effect, or the later one is refused and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import CommitConflictError
from formatkit.tck.rows import to_arrow
from support.commits import metadata_files, new_sql_catalog, new_table
from support.modelled_table import shown
from support.operated_tables import BY_PART, SCHEMA, VALUE, some_rows
from support.written_tables import files_on_disk, table_rows

Act = Callable[[Table], object]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    with closing(new_sql_catalog(tmp_path)) as catalog:
        yield catalog


def rows(start: int, stop: int, value: float | None = None) -> object:
    return to_arrow(SCHEMA, [row if value is None else {**row, VALUE: value} for row in some_rows(start, stop)])


def filled(catalog: SqlCatalog, version: int) -> Table:
    table = new_table(catalog, version, schema=SCHEMA, spec=BY_PART)
    formatkit.append(table, rows(0, 12))
    return table


def append_a(table: Table) -> object:
    return formatkit.append(table, rows(30, 31))  # of part a


FITTING: dict[str, tuple[Act, Act]] = {
    "delete beside an append": (lambda t: formatkit.delete(t, "id = 4"), append_a),
    "delete in two partitions": (
        lambda t: formatkit.delete(t, "id = 4 and part = 'b'"),
        lambda t: formatkit.delete(t, "id = 3", "copy-on-write"),
    ),
    "overwrite beside a delete elsewhere": (
        lambda t: formatkit.overwrite(t, rows(40, 41), "part = 'b'"),
        lambda t: formatkit.delete(t, "id = 3"),
    ),
    "upsert of other keys": (lambda t: formatkit.upsert(t, rows(4, 5, 9.0)), append_a),
    "merge of other keys": (lambda t: formatkit.merge(t, rows(4, 5, 9.0)), append_a),
    "merge of other keys by copying": (lambda t: formatkit.merge(t, rows(4, 5, 9.0), mode="copy-on-write"), append_a),
    "rewrite beside an append": (lambda t: formatkit.rewrite(t, "orc"), append_a),
    "rewrite beside a delete elsewhere": (
        lambda t: formatkit.rewrite(t, "orc", "part = 'b'"),
        lambda t: formatkit.delete(t, "id = 3"),
    ),
}
CONFLICTING: dict[str, tuple[Act, Act]] = {
    "rows that match were added": (lambda t: formatkit.delete(t, "part = 'a' and id > 3"), append_a),
    "the file was rewritten": (
        lambda t: formatkit.delete(t, "id = 3"),
        lambda t: formatkit.delete(t, "id = 6", "copy-on-write"),
    ),
    "rows were deleted in a file that is rewritten": (
        lambda t: formatkit.delete(t, "id = 3", "copy-on-write"),
        lambda t: formatkit.delete(t, "id = 6"),
    ),
    "all rows are overwritten": (lambda t: formatkit.overwrite(t, rows(40, 42)), append_a),
    "the key was added": (lambda t: formatkit.upsert(t, rows(30, 31)), append_a),
    "the row was updated": (
        lambda t: formatkit.upsert(t, rows(3, 4, 9.0)),
        lambda t: formatkit.upsert(t, rows(3, 4, 8.0)),
    ),
    "the key was added while others were merged": (lambda t: formatkit.merge(t, rows(30, 31)), append_a),
    "the row was updated while it was merged": (
        lambda t: formatkit.merge(t, rows(3, 4, 9.0)),
        lambda t: formatkit.upsert(t, rows(3, 4, 8.0)),
    ),
    "rows that the source lacks were added": (
        lambda t: formatkit.merge(t, rows(4, 5, 9.0), not_matched_by_source="delete"),
        append_a,
    ),
    "rows were deleted while files were rewritten": (
        lambda t: formatkit.rewrite(t, "orc"),
        lambda t: formatkit.delete(t, "id = 6"),
    ),
    "both rewrite": (lambda t: formatkit.rewrite(t, "orc"), lambda t: formatkit.rewrite(t, "avro")),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", FITTING)
def test_changes_that_do_not_meet_both_take_effect(catalog: SqlCatalog, case: str, version: int) -> None:
    mine, theirs = FITTING[case]
    table = filled(catalog, version)
    stale = catalog.load_table("db.t")
    theirs(table)
    mine(stale)
    together = shown(stale)
    assert shown(table.refresh()) == together
    # One after the other they have the same effect.
    catalog.drop_table("db.t")
    table = filled(catalog, version)
    theirs(table)
    mine(table)
    assert shown(table) == together


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("case", CONFLICTING)
def test_changes_that_meet_are_refused(catalog: SqlCatalog, case: str, version: int) -> None:
    mine, theirs = CONFLICTING[case]
    table = filled(catalog, version)
    stale = catalog.load_table("db.t")
    theirs(table)
    before, data, metadata = shown(table), files_on_disk(table), metadata_files(table)
    with pytest.raises(CommitConflictError):
        mine(stale)
    assert files_on_disk(table) == data
    assert metadata_files(table) == metadata
    assert shown(catalog.load_table("db.t")) == before
    mine(catalog.load_table("db.t"))


def test_a_merge_may_be_isolated_by_snapshots(catalog: SqlCatalog) -> None:
    table = filled(catalog, 2)
    with table.transaction() as transaction:
        transaction.set_properties({"write.merge.isolation-level": "snapshot"})
    stale = catalog.load_table("db.t")
    append_a(table)
    result = formatkit.merge(stale, rows(4, 5, 9.0), not_matched_by_source="delete")
    assert (result.rows_updated, result.rows_deleted) == (1, 11)
    assert table_rows(stale, select="id") == [(30,), (4,)]


def test_snapshot_isolation_does_not_mind_rows_that_others_added(catalog: SqlCatalog) -> None:
    table = filled(catalog, 2)
    with table.transaction() as transaction:
        transaction.set_properties({"write.delete.isolation-level": "snapshot"})
    stale = catalog.load_table("db.t")
    append_a(table)
    assert formatkit.delete(stale, "part = 'a' and id > 3") is not None
    assert table_rows(stale, where="part = 'a'", select="id") == [(0,), (3,), (30,)]
