"""Several writers at once, in one process and in several."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Operation

from formatkit.errors import CommitConflictError
from support.commits import (
    append,
    change,
    data_file,
    live_files,
    metadata_files,
    metadata_json,
    new_sql_catalog,
    new_table,
    raw_list,
)

MANY_RETRIES = {"commit.retry.num-retries": "100"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_late_append_is_put_on_top(catalog: SqlCatalog, version: int) -> None:
    first = new_table(catalog, version)
    second = catalog.load_table("db.t")
    parent = append(first, data_file(first, "a", 2))
    child = append(second, data_file(second, "b", 3))
    assert child.parent_snapshot_id == parent.snapshot_id
    assert live_files(second) == ["a", "b"]
    # What the first attempt of the second writer wrote is gone.
    assert len(metadata_files(second)) == 4
    if version > 1:
        assert child.sequence_number == 2
    if version == 3:
        assert (child.first_row_id, child.added_rows) == (2, 3)


def test_a_late_removal_finds_the_file_where_others_moved_it(catalog: SqlCatalog) -> None:
    first = new_table(catalog)
    a, b, c = (data_file(first, name) for name in "abc")
    append(first, a, b, c)
    second = catalog.load_table("db.t")
    change(first, Operation.DELETE, removed=frozenset({a.file_path}))
    change(second, Operation.DELETE, removed=frozenset({b.file_path}))
    assert live_files(second) == ["c"]


def test_writers_of_different_branches_get_different_numbers(catalog: SqlCatalog) -> None:
    for version in (2, 3):
        first = new_table(catalog, version, name=f"db.t{version}")
        append(first, data_file(first, "a"))
        second = catalog.load_table(f"db.t{version}")
        append(first, data_file(first, "b"), branch="side")
        append(second, data_file(second, "c"))
        numbers = [each["sequence-number"] for each in metadata_json(second)["snapshots"]]
        assert numbers == [1, 2, 3]
        assert live_files(second) == ["a", "c"]


def test_attempts_end_when_the_table_says_so(catalog: SqlCatalog) -> None:
    first = new_table(catalog, properties={"commit.retry.num-retries": "0"})
    second = catalog.load_table("db.t")
    append(first, data_file(first, "a"))
    with pytest.raises(CommitConflictError, match="allow more attempts"):
        append(second, data_file(second, "b"))
    assert live_files(second.refresh()) == ["a"]
    assert len(metadata_files(second)) == 2


@pytest.mark.parametrize("limits", [{"commit.retry.total-timeout-ms": "0"}, {"commit.retry.num-retries": "-3"}])
def test_odd_limits_mean_one_attempt(catalog: SqlCatalog, limits: dict[str, str]) -> None:
    first = new_table(catalog, properties=limits)
    second = catalog.load_table("db.t")
    append(first, data_file(first, "a"))
    with pytest.raises(CommitConflictError, match="allow more attempts"):
        append(second, data_file(second, "b"))


def test_waits_grow_up_to_the_longest(catalog: SqlCatalog) -> None:
    waits = {"commit.retry.min-wait-ms": "30", "commit.retry.max-wait-ms": "40"}
    first = new_table(catalog, properties=waits)
    second = catalog.load_table("db.t")
    append(first, data_file(first, "a"))
    start = time.monotonic()
    append(second, data_file(second, "b"))
    assert time.monotonic() - start > 0.03


def append_some(directory: Path, writer: int, count: int) -> None:
    with closing(new_sql_catalog(directory)) as catalog:
        table = catalog.load_table("db.t")
        for number in range(count):
            append(table, data_file(table, f"{writer}-{number}"))


def check_all_there(catalog: SqlCatalog, writers: int, count: int) -> None:
    table = catalog.load_table("db.t")
    assert live_files(table) == sorted(f"{w}-{n}" for w in range(writers) for n in range(count))
    numbers = [each.sequence_number for each in table.metadata.snapshots]
    assert numbers == list(range(1, writers * count + 1))
    assert len(metadata_files(table)) == 2 * writers * count
    snapshot = table.current_snapshot()
    assert snapshot is not None
    first_row_ids = [line["first_row_id"] for line in raw_list(snapshot)]
    assert sorted(first_row_ids) == list(range(writers * count))


def test_threads_that_append_at_once_lose_nothing(tmp_path: Path, catalog: SqlCatalog) -> None:
    new_table(catalog, 3, properties=MANY_RETRIES)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append_some, [tmp_path] * 3, range(3), [4] * 3))
    check_all_there(catalog, 3, 4)


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path, catalog: SqlCatalog) -> None:
    new_table(catalog, 3, properties=MANY_RETRIES)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(append_some, [tmp_path] * 2, range(2), [4] * 2))
    check_all_there(catalog, 2, 4)


def remove_first(directory: Path, writer: int) -> bool:
    with closing(new_sql_catalog(directory)) as catalog:
        table = catalog.load_table("db.t")
        new = data_file(table, f"new-{writer}")
        try:
            change(table, Operation.OVERWRITE, added=(new,), removed=frozenset({f"{table.location()}/data/old"}))
        except CommitConflictError:
            return False
        return True


def test_of_writers_that_replace_the_same_file_one_wins(tmp_path: Path, catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=MANY_RETRIES)
    append(table, data_file(table, "old"))
    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(remove_first, [tmp_path] * 4, range(4)))
    assert won.count(True) == 1
    assert live_files(table.refresh()) == [f"new-{won.index(True)}"]
    assert len(metadata_files(table)) == 5
