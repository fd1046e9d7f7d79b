"""Kills processes while they change a table. `make faults` does it often; FAULT_RUNS says how often."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

import formatkit
from formatkit.write.orphans import clean_orphans
from support.counted_io import KILL_AT
from support.doomed_writer import OPERATIONS, TABLE, rows_with
from support.iceberg_tables import local_path
from support.repository import ROOT

RUNS = int(os.environ.get("FAULT_RUNS", "6"))
SEED = int(os.environ.get("FAULT_SEED", random.randrange(10**9)))
_STORAGES = ("support.counted_io.CountedFileIO", "pyiceberg.io.pyarrow.PyArrowFileIO")
_MOST_CALLS = {"rewrite": 38, "overwrite": 30}
"""About how many calls of the storage an operation makes; 18 if it is not said."""
_LONGEST_SECONDS = 0.6
Rows = dict[int, int]


@dataclass
class Accounts:
    """A table that lives through many kills: balances by id."""

    folder: Path

    def properties(self, storage: str) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": (self.folder / "warehouse").as_uri(),
            "py-io-impl": storage,
        }

    def table(self) -> Table:
        with load_catalog("accounts", **self.properties(_STORAGES[1])) as catalog:
            return catalog.load_table(TABLE)

    def rows(self) -> Rows:
        found = formatkit.scan(self.table()).to_arrow().to_pylist()
        rows = {row["id"]: row["balance"] for row in found}
        assert len(rows) == len(found), "a row is there twice"
        return rows


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    accounts = Accounts(tmp_path_factory.mktemp("accounts"))
    with load_catalog("accounts", **accounts.properties(_STORAGES[1])) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table(TABLE, rows_with([], 0).schema)
        for first in (0, 100, 200):
            formatkit.append(table, rows_with(list(range(first, first + 100)), 0))
        yield accounts


def after(operation: str, before: Rows, ids: list[int]) -> Rows:
    """What the table holds once the operation is complete."""
    match operation:
        case "append":
            return before | dict.fromkeys(ids, 0)
        case "delete" | "copy-on-write":
            return {id_: balance for id_, balance in before.items() if id_ not in ids}
        case "upsert":
            return before | dict.fromkeys(ids, 1)
        case "overwrite":
            return {id_: balance for id_, balance in before.items() if id_ < min(ids)} | dict.fromkeys(ids, 2)
        case _:
            return before


def ids_for(operation: str, before: Rows, chance: random.Random) -> list[int]:
    newest = max(before)
    if operation == "append":
        return list(range(newest + 1, newest + 101))
    if operation == "overwrite":
        return list(range(newest - 20, newest + 30))
    known = chance.sample(sorted(before), 20)
    return [*known, newest + 1, newest + 2] if operation == "upsert" else known


def run_and_kill(properties: dict[str, str], operation: str, ids: list[int], chance: random.Random) -> str:
    """Start a writer and kill it at a random call of its storage or after a random time; returns how it ended."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), *sys.path]))
    counted = properties["py-io-impl"] == _STORAGES[0]
    if counted:
        environment[KILL_AT] = str(chance.randint(1, _MOST_CALLS.get(operation, 18)))
    command = [sys.executable, "-m", "support.doomed_writer", json.dumps(properties), operation, json.dumps(ids)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        try:
            first = writer.stdout.readline()
            if not counted:
                time.sleep(chance.uniform(0, _LONGEST_SECONDS))
                writer.kill()
            rest, complaints = writer.stdout.read(), writer.stderr.read()
        finally:
            writer.kill()
    assert first == "ready\n", complaints
    assert writer.returncode in (0, -9), complaints
    return rest


def files_under(table: Table) -> set[str]:
    return {str(path) for path in local_path(table.location()).rglob("*") if path.is_file()}


@pytest.mark.parametrize("run", range(RUNS))
def test_a_killed_writer_leaves_the_table_as_before_or_after(accounts: Accounts, run: int) -> None:
    chance = random.Random(SEED + run)
    turn, number = divmod(run, len(OPERATIONS))
    operation, storage = list(OPERATIONS)[number], _STORAGES[(turn + number) % 2]
    before = accounts.rows()
    ids = ids_for(operation, before, chance)
    said = run_and_kill(accounts.properties(storage), operation, ids, chance)
    found = accounts.rows()
    where = f"FAULT_SEED={SEED}, run {run}: {operation} on {storage}, which said {said!r}"
    assert found in (before, after(operation, before, ids)), where
    if said.startswith("done"):
        assert found == after(operation, before, ids), where
    check_leftovers(accounts, found, where)


def check_leftovers(accounts: Accounts, rows: Rows, where: Any) -> None:
    """All that a killed writer leaves is found and deleted, and the table stays as it is."""
    table = accounts.table()
    at_once: Any = {"older_than": timedelta(0), "force": True, "location_is_exclusive": True}
    report = clean_orphans(table, dry_run=False, journal=accounts.folder / f"{uuid4()}.jsonl", **at_once)
    assert report.failures == {}, where
    assert report.kept == {}, where
    assert len(files_under(table)) == report.searched - report.deleted, where
    assert accounts.rows() == rows, where
    again = clean_orphans(table, **at_once)
    assert (again.orphans, again.kept) == ((), {}), where
