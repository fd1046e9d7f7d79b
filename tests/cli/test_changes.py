from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import formatkit
from support.iceberg_tables import local_path
from support.orphans import add_file
from support.shop import Command, Shop

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Shop]:
    """A table that tests may change, with two files of three rows."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", (tmp_path / "warehouse").as_uri()
    with load_catalog("store", type="sql", uri=uri, warehouse=warehouse) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.items", schema=ROWS.schema)
        table.append(ROWS)
        table.append(ROWS)
        yield Shop(table, ("db.items", "--catalog", "store", "-p", "type=sql", "--uri", uri, "--warehouse", warehouse))


def rows(store: Shop) -> list[Any]:
    store.table.refresh()
    return sorted(formatkit.scan(store.table).to_arrow()["id"].to_pylist())


@pytest.fixture
def new_files(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / "new.avro"), str(tmp_path / "new.orc")]
    formatkit.write_file(paths[0], pa.table({"name": ["x", "y"], "id": [10, 11]}))
    formatkit.write_file(paths[1], pa.table({"id": [12]}))
    return paths


def test_append_adds_rows_of_files_of_any_format_in_one_snapshot(
    command: Command, store: Shop, new_files: list[str]
) -> None:
    outcome = command("append", *store.options[:1], *new_files, *store.options[1:], "--format", "avro", "--json")
    assert outcome.code == 0
    assert outcome.document["summary"]["added-records"] == "3"
    assert rows(store) == [1, 1, 2, 2, 3, 3, 10, 11, 12]
    current = store.table.current_snapshot()
    assert current is not None
    assert outcome.document["snapshot_id"] == current.snapshot_id
    assert "AVRO" in store.table.inspect.files()["file_format"].to_pylist()


def test_append_shows_what_it_did(command: Command, store: Shop, new_files: list[str]) -> None:
    outcome = command("append", *store.options[:1], *new_files, *store.options[1:])
    assert ["added", "records", "3"] in [line.split() for line in outcome.out.splitlines()]


def test_append_to_a_branch_leaves_the_main_one(command: Command, store: Shop, new_files: list[str]) -> None:
    assert command("append", *store.options[:1], *new_files, *store.options[1:], "--branch", "try").code == 0
    assert rows(store) == [1, 1, 2, 2, 3, 3]
    assert store.table.scan().use_ref("try").count() == 9


def test_rows_that_do_not_fit_are_one_line_and_no_file(command: Command, store: Shop, tmp_path: Path) -> None:
    formatkit.write_file(tmp_path / "bad.avro", pa.table({"id": ["one"]}))
    before = set(local_path(store.table.location()).rglob("*.*"))
    outcome = command("append", *store.options[:1], str(tmp_path / "bad.avro"), *store.options[1:])
    assert outcome.code == 2
    assert outcome.err.startswith("formatkit: column 'id'")
    assert set(local_path(store.table.location()).rglob("*.*")) == before


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_delete_takes_rows_away(command: Command, store: Shop, mode: str) -> None:
    outcome = command("delete", *store.options, "--where", "ID = 2", "--ignore-case", "--mode", mode, "--json")
    assert outcome.code == 0
    assert rows(store) == [1, 1, 3, 3]
    assert ("added-delete-files" in outcome.document["summary"]) is (mode == "merge-on-read")


def test_a_dry_run_counts_and_deletes_nothing(command: Command, store: Shop) -> None:
    assert command("delete", *store.options, "--where", "id > 1", "--dry-run", "--json").document == {"rows": 4}
    assert "4 rows match" in command("delete", *store.options, "--where", "id > 1", "--dry-run").out
    assert rows(store) == [1, 1, 2, 2, 3, 3]


def test_a_delete_that_matches_nothing_says_so(command: Command, store: Shop) -> None:
    assert "nothing was changed" in command("delete", *store.options, "--where", "id = 99").out
    outcome = command("delete", *store.options, "--where", "id = 99", "--json")
    assert outcome.document == {"snapshot_id": None, "summary": {}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--where", "nothing = 1"), "no column 'nothing'"),
        (("--where", "id = 1", "--mode", "sometimes"), "sometimes"),
        ((), "Missing option '--where'"),
    ],
)
def test_wrong_options_are_the_users_to_mend(
    command: Command, store: Shop, options: tuple[str, ...], message: str
) -> None:
    outcome = command("delete", *store.options, *options)
    assert outcome.code == 2
    assert message in outcome.err


def test_a_metadata_file_cannot_be_changed(command: Command, store: Shop) -> None:
    outcome = command("delete", store.table.metadata_location, "--where", "id = 1")
    assert outcome.code == 2
    assert "must be named as in its catalog" in outcome.err


def test_a_dry_rewrite_prints_the_plan(command: Command, store: Shop) -> None:
    outcome = command("rewrite", *store.options, "--dry-run")
    assert outcome.code == 0
    assert "rewrite 2 of 2 files as parquet" in outcome.out
    assert len(list(store.table.scan().plan_files())) == 2
    assert command("rewrite", *store.options, "--dry-run", "--json").document["rewritten_rows"] == 6


def test_rewrite_joins_files_in_the_format_that_was_asked_for(command: Command, store: Shop) -> None:
    outcome = command("rewrite", *store.options, "--format", "orc", "--sort", "id desc", "--json")
    assert outcome.document["added_files"] == 1
    assert rows(store) == [1, 1, 2, 2, 3, 3]
    assert formatkit.scan(store.table).to_arrow()["id"].to_pylist() == [3, 3, 2, 2, 1, 1]
    assert store.table.inspect.files()["file_format"].to_pylist() == ["ORC"]


def test_rewrite_says_when_there_is_nothing_to_do(command: Command, store: Shop) -> None:
    command("rewrite", *store.options)
    assert "nothing to rewrite" in command("rewrite", *store.options).out


def orphan(store: Shop, number: int = 0) -> Path:
    return local_path(add_file(store.table, f"data/{number:05}-{uuid4()}-00001.parquet", b"left"))


def test_orphans_are_listed_and_kept_by_default(command: Command, store: Shop) -> None:
    path = orphan(store)
    outcome = command("clean-orphans", *store.options)
    assert outcome.code == 0
    assert path.name in outcome.out
    assert "Nothing was deleted" in outcome.out
    assert path.exists()


def test_orphans_are_deleted_if_asked_to(command: Command, store: Shop, tmp_path: Path) -> None:
    path = orphan(store)
    journal = tmp_path / "journal.jsonl"
    document = command("clean-orphans", *store.options, "--delete", "--journal", str(journal), "--json").document
    assert (document["deleted"], len(document["orphans"]), document["size_bytes"]) == (1, 1, 4)
    assert (document["journal"], document["blocked"], document["kept"]) == (str(journal), [], {})
    assert not path.exists()
    assert str(path) in journal.read_text()
    assert rows(store) == [1, 1, 2, 2, 3, 3]


def test_young_files_are_counted_only(command: Command, store: Shop) -> None:
    path = local_path(add_file(store.table, f"data/00000-{uuid4()}-00001.parquet", days=0))
    outcome = command("clean-orphans", *store.options, "--delete")
    assert "0 of" in outcome.out
    assert "1 more are too young" in outcome.out
    assert path.exists()


def test_files_of_today_are_orphans_by_force_alone(command: Command, store: Shop) -> None:
    path = local_path(add_file(store.table, f"data/00000-{uuid4()}-00001.parquet", days=0))
    outcome = command("clean-orphans", *store.options, "--older-than", "0s", "--delete")
    assert (outcome.code, "--force" in outcome.err, path.exists()) == (2, True, True)
    outcome = command("clean-orphans", *store.options, "--older-than", "0s", "--delete", "--force", "--exclusive")
    assert (outcome.code, path.exists()) == (0, False)
    assert "1 deleted. Journal: " in outcome.out


def test_files_that_are_kept_are_counted_by_reason(command: Command, store: Shop) -> None:
    for name in ("data/x.parquet", "data/y.parquet", f"z/00000-{uuid4()}-00001.parquet"):
        add_file(store.table, name)
    outcome = command("clean-orphans", *store.options)
    assert "3 files are kept" in outcome.out
    assert "  2: its name is not one that a writer of Iceberg tables gives" in outcome.out
    assert "  1: its folder is not one where" in outcome.out


def test_many_orphans_are_not_all_shown(command: Command, store: Shop) -> None:
    paths = [orphan(store, number) for number in range(25)]
    outcome = command("clean-orphans", *store.options)
    assert paths[19].name in outcome.out
    assert paths[20].name not in outcome.out
    assert "5 more; --json lists all" in outcome.out


@pytest.mark.parametrize("age", ["3", "d", "-3d", "3 days"])
def test_ages_are_a_number_and_a_unit(command: Command, store: Shop, age: str) -> None:
    outcome = command("clean-orphans", *store.options, f"--older-than={age}")
    assert outcome.code == 2
    assert "--older-than takes an age such as 3d" in outcome.err
