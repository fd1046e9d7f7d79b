"""Many writers of one table, and catalogs that lose answers and are late: every snapshot is compared with a model.

`CONCURRENCY_PROCESSES`, `CONCURRENCY_OPERATIONS` and `CONCURRENCY_SEED` choose how many processes do how much.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

import formatkit
from support.busy_writer import FIRST_IDS, KEY, TABLE, Intent, Job, rows_of
from support.commits import new_sql_catalog, new_table
from support.iceberg_tables import local_path
from support.repository import ROOT
from support.rest_catalog import RestServer, Trouble, serving

PROCESSES = int(os.environ.get("CONCURRENCY_PROCESSES", "3"))
OPERATIONS = int(os.environ.get("CONCURRENCY_OPERATIONS", "6"))
SEED = int(os.environ.get("CONCURRENCY_SEED", random.randrange(10**9)))
_TIMEOUT = 1.0
_PATIENCE = 1.5
_RETRIES = {"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200"}
Rows = dict[int, str]
Outcome = dict[str, Any]


def run_writers(folder: Path, catalog: dict[str, str]) -> dict[str, tuple[Intent, Outcome]]:
    """Let all processes do their work; returns what each operation intended and how it ended."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "tests"), *sys.path]))
    logs = [folder / f"writer-{number}.jsonl" for number in range(PROCESSES)]
    jobs = [
        Job(catalog, number, PROCESSES, OPERATIONS, SEED + number, str(log), _TIMEOUT)
        for number, log in enumerate(logs)
    ]
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "support.busy_writer", json.dumps(asdict(job))],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for job in jobs
    ]
    complaints = [writer.communicate()[1] for writer in writers]
    for writer, complaint in zip(writers, complaints, strict=True):
        assert writer.returncode == 0, complaint
    found = {}
    for log in logs:
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for intent, outcome in zip(lines[::2], lines[1::2], strict=True):
            found[intent["name"]] = Intent(**{**intent, "ids": tuple(intent["ids"])}), outcome
    return found


def after(intent: Intent, before: Rows) -> Rows:
    """What the table holds once an operation is complete."""
    new = dict.fromkeys(intent.ids, intent.value)
    match intent.kind:
        case "rewrite":
            return before
        case "delete" | "copy-on-write":
            return {id_: value for id_, value in before.items() if id_ not in intent.ids}
        case "append":
            assert not before.keys() & new.keys(), f"{intent.name} was done twice"
    return before | new


def history(table: Table) -> list[Snapshot]:
    """The snapshots of the main branch, oldest first."""
    found = []
    current = table.current_snapshot()
    while current is not None:
        found.append(current)
        parent = current.parent_snapshot_id
        current = None if parent is None else table.snapshot_by_id(parent)
    return found[::-1]


def filled_table(catalog: SqlCatalog) -> tuple[Intent, Outcome]:
    """Create the table with the rows that are there before the writers start."""
    intent = Intent("first", "append", tuple(FIRST_IDS), "first")
    table = new_table(catalog, properties=_RETRIES)
    snapshot = formatkit.append(table, rows_of(intent.ids, intent.value), snapshot_properties={KEY: intent.name})
    assert snapshot is not None
    return intent, {"outcome": "done", "snapshot": snapshot.snapshot_id}


def check(table: Table, operations: dict[str, tuple[Intent, Outcome]]) -> Counter[str]:
    """Compare each snapshot with what the operations up to it make of a model; returns what became of them."""
    snapshots = history(table)
    assert {each.snapshot_id for each in snapshots} == {each.snapshot_id for each in table.snapshots()}
    rows: Rows = {}
    names = []
    for snapshot in snapshots:
        assert snapshot.summary is not None
        name = snapshot.summary.additional_properties[KEY]
        names.append(name)
        intent, outcome = operations[name]
        assert outcome["outcome"] in ("done", "unknown"), (name, outcome)
        assert outcome["snapshot"] == snapshot.snapshot_id
        rows = after(intent, rows)
        found = formatkit.scan(table, snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert sorted((row["id"], row["name"]) for row in found) == sorted(rows.items()), name
    assert len(set(names)) == len(names), "an operation was done twice"
    done = {name for name, (_, outcome) in operations.items() if outcome["outcome"] == "done" and outcome["snapshot"]}
    assert done <= set(names), "an operation was lost"
    check_files(table)
    counts = Counter(outcome["outcome"] for _, outcome in operations.values())
    counts["snapshots"] = len(snapshots)
    counts["unknown and committed"] = len(set(names) - done)
    return counts


def check_files(table: Table) -> None:
    """Everything that a snapshot refers to is there."""
    manifests = {
        manifest.manifest_path: manifest for each in table.snapshots() for manifest in each.manifests(table.io)
    }
    for manifest in manifests.values():
        for entry in manifest.fetch_manifest_entry(table.io):
            assert local_path(entry.data_file.file_path).exists(), entry.data_file.file_path


def test_writers_of_a_sql_catalog_lose_and_double_nothing(tmp_path: Path, record_property: Any) -> None:
    with closing(new_sql_catalog(tmp_path)) as catalog:
        first = filled_table(catalog)
        operations = {"first": first, **run_writers(tmp_path, {"type": "sql", **catalog.properties})}
        counts = check(catalog.load_table(TABLE), operations)
    record_property("counts", dict(counts))
    print(f"\nCONCURRENCY_SEED={SEED} SQLite: {dict(counts)}")
    print(f"COUNT {len(operations)} operations")


def test_writers_of_a_rest_catalog_that_loses_answers_lose_and_double_nothing(
    tmp_path: Path, record_property: Any
) -> None:
    with closing(new_sql_catalog(tmp_path)) as catalog:
        first = filled_table(catalog)
        server = RestServer(catalog, trouble=Trouble(seed=SEED), patience=_PATIENCE)
        with serving(server):
            operations = {"first": first, **run_writers(tmp_path, {"type": "rest", "uri": server.uri})}
            wait_for(server)
        counts = check(catalog.load_table(TABLE), operations)
    record_property("counts", dict(counts))
    print(f"\nCONCURRENCY_SEED={SEED} REST: {dict(counts)}; the server: {dict(sorted(server.counts.items()))}")
    print(f"COUNT {len(operations)} operations")
    late = sum(count for what, count in server.counts.items() if what.startswith("late"))
    answered = sum(count for what, count in server.counts.items() if what.startswith("answer"))
    print(f"COUNT {server.counts.total() - late - answered} lost answers\nCOUNT {late} late commits")


def wait_for(server: RestServer) -> None:
    """Wait until the server has carried out what it is late with."""
    end = time.monotonic() + 60
    while server.under_way and time.monotonic() < end:
        time.sleep(0.05)
    assert not server.under_way
