"""A table of balances whose writers are killed: at a random moment, or at a chosen point of the commit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import uuid4

from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from support.counted_io import KILL_AT
from support.doomed_writer import KILL_AFTER, KILL_POINT, TABLE, rows_with
from support.iceberg_tables import closed_at_last, local_path
from support.orphans import files_of, make_old
from support.references import referenced_locations
from support.repository import ROOT

__all__ = ["STORAGES", "Accounts", "Rows", "after", "check_leftovers", "ids_for", "new_accounts", "run_and_kill"]

Rows = dict[int, int]
STORAGES = ("support.counted_io.CountedFileIO", "pyiceberg.io.pyarrow.PyArrowFileIO")
_MAX_CALLS = {"rewrite": 38, "overwrite": 30}
"""About how many calls of the storage an operation makes; 18 if it is not said."""
_MAX_SECONDS = 0.6


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
        return closed_at_last(SqlCatalog("accounts", **self.properties(STORAGES[1]))).load_table(TABLE)

    def rows(self) -> Rows:
        found = formatkit.scan(self.table()).to_arrow().to_pylist()
        rows = {row["id"]: row["balance"] for row in found}
        assert len(rows) == len(found), "a row is there twice"
        return rows


def new_accounts(folder: Path) -> Accounts:
    """A table of 300 accounts."""
    folder.mkdir(parents=True, exist_ok=True)
    accounts = Accounts(folder)
    with load_catalog("accounts", **accounts.properties(STORAGES[1])) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table(TABLE, rows_with([], 0).schema)
        for first in (0, 100, 200):
            formatkit.append(table, rows_with(list(range(first, first + 100)), 0))
    return accounts


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


def ids_for(operation: str, before: Rows, chance: Random) -> list[int]:
    """Ids for an operation to work on."""
    newest = max(before)
    if operation == "append":
        return list(range(newest + 1, newest + 101))
    if operation == "overwrite":
        return list(range(newest - 20, newest + 30))
    known = chance.sample(sorted(before), 20)
    return [*known, newest + 1, newest + 2] if operation == "upsert" else known


def run_and_kill(
    properties: dict[str, str],
    operation: str,
    ids: list[int],
    chance: Random,
    point: str | None = None,
    commits: int = 0,
) -> str:
    """Start a writer and kill it; returns what it said after it was ready.

    It is killed at a point of a commit if one is given, after some other `commits`, else at a random call of its
    storage if that counts them, else after a random time.
    """
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), *sys.path]))
    counted = properties["py-io-impl"] == STORAGES[0]
    if point is not None:
        environment |= {KILL_POINT: point, KILL_AFTER: str(commits)}
    elif counted:
        environment[KILL_AT] = str(chance.randint(1, _MAX_CALLS.get(operation, 18)))
    command = [sys.executable, "-m", "support.doomed_writer", json.dumps(properties), operation, json.dumps(ids)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        try:
            first = writer.stdout.readline()
            if not counted and point is None:
                time.sleep(chance.uniform(0, _MAX_SECONDS))
                writer.kill()
            rest, complaints = writer.stdout.read(), writer.stderr.read()
        finally:
            writer.kill()
    assert first == "ready\n", complaints
    assert writer.returncode in (0, -9), complaints
    assert point is None or writer.returncode == -9, f"the writer never came to the point {point}"
    return rest


def check_leftovers(accounts: Accounts, rows: Rows, where: str) -> int:
    """All that a killed writer leaves is found and deleted, and the table stays as it is; returns how many files."""
    table = accounts.table()
    # Files of a commit under way are protected by their age.
    make_old(local_path(table.location()))
    journal = accounts.folder / f"{uuid4()}.jsonl"
    report = formatkit.clean_orphans(table, dry_run=False, location_is_exclusive=True, journal=journal)
    assert (report.failures, report.kept) == ({}, {}), where
    assert accounts.rows() == rows, where
    referenced = {local_path(each) for each in referenced_locations(accounts.table())}
    assert files_of(local_path(table.location())) == referenced, where
    return report.deleted
