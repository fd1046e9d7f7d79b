"""Forks at any moment of a scan. The processes that fork are fresh: most locks are taken when things are made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import formatkit
from support.repository import ROOT

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

ROWS = 20_000
ROUNDS = int(os.environ.get("FORK_ROUNDS", "2"))
SEED = int(os.environ.get("FORK_SEED", "0"))
FORKS_PER_PROCESS = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of each format, and a table of several files with deletes."""
    folder = tmp_path_factory.mktemp("forks")
    rows = pa.table({"n": range(ROWS), "s": [f"{number % 977}" for number in range(ROWS)]})
    for name in ("parquet", "orc", "avro", "arrow"):
        formatkit.write_file(folder / f"data.{name}", rows)
    catalog = SqlCatalog("forks", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/warehouse")
    catalog.create_namespace("db")
    more = pa.table({"n": range(ROWS + 300), "s": ["x"] * (ROWS + 300)})
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    catalog.create_table("db.forks", more.schema, properties=properties)
    for start in range(0, more.num_rows, 7_000):
        formatkit.append(catalog.load_table("db.forks"), more.slice(start, 7_000))
    formatkit.delete(catalog.load_table("db.forks"), f"n >= {ROWS}")
    catalog.close()
    return folder


def test_children_that_are_forked_at_any_moment_of_a_scan_work_and_end(folder: Path) -> None:
    for seed in range(SEED, SEED + ROUNDS):
        run("forking_parent.py", str(folder), str(FORKS_PER_PROCESS), str(seed))
    print(f"\nCOUNT {ROUNDS * FORKS_PER_PROCESS} forks")


def test_locks_that_other_threads_hold_at_the_fork_do_not_stop_a_child(folder: Path) -> None:
    run("held_locks.py", str(folder))


def test_a_child_neither_finishes_nor_removes_what_its_parent_writes(tmp_path: Path) -> None:
    run("half_written.py", str(tmp_path))


def test_a_fork_waits_for_a_plugin_that_is_being_imported(tmp_path: Path) -> None:
    run("slow_plugin.py", str(tmp_path))


def run(program: str, *arguments: str) -> None:
    command = [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name(program)), *arguments]
    paths = os.pathsep.join(filter(None, (str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": paths}
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environment)
    assert outcome.returncode == 0, outcome.stderr[-8000:]
