"""Random writes with faults: the table is as before or as after, no row is there twice, and little is left behind.

What is left behind are at most files of attempts that a signal killed, and `clean_orphans` finds them. `make cluster`
does it often; CLUSTER_RUNS says how often, and CLUSTER_SEED repeats a run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
import requests
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from formatkit.errors import CommitStateUnknownError, FormatkitError
from support.doomed_driver import POINTS, catalog_of
from support.faulty_writes import (
    Faults,
    Scenario,
    check_leftovers,
    random_scenario,
    rows_of,
    unreferenced,
)
from support.losing_catalog import LosingCatalog
from support.repository import ROOT

RUNS = int(os.environ.get("CLUSTER_RUNS", "0"))
SEED = int(os.environ.get("CLUSTER_SEED", str(random.randrange(1 << 30) if RUNS else 3)))
SECONDS = 600
# Short runs: each fault once, and the ways to write that differ most.
SHORT = [("raise", "merge"), ("kill worker", "sql update"), ("kill executor", "overwrite where")]
LONG = [(fault, None) for _ in range(RUNS) for fault in ("raise", "raise", "kill worker", "kill executor", "dawdle")]
LOST = ["never", "now", "later"]


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    made = Faults(tmp_path / "faults")
    yield made
    made.disarm()


def losing_catalog(folder: Path) -> LosingCatalog:
    with catalog_of(folder) as plain:
        catalog = LosingCatalog(plain.name, **plain.properties)
    catalog.create_namespace("db")
    return catalog


@pytest.mark.parametrize(("number", "fault", "mode"), [(i, *each) for i, each in enumerate(LONG or SHORT)])
def test_attempts_that_come_to_grief(
    spark: SparkSession, tmp_path: Path, faults: Faults, number: int, fault: str, mode: str | None
) -> None:
    choose = Random(f"{SEED} {number}")
    scenario = random_scenario(choose, mode)
    where = f"CLUSTER_SEED={SEED}, number {number}: {fault}, {scenario}"
    with closing(losing_catalog(tmp_path)) as catalog:
        table = scenario.create(catalog)
        faults.plan(fault, file=choose.randrange(2) if RUNS else 0, times=3 if fault == "raise" else 1)
        failure: Exception | None = None
        try:
            scenario.run(spark, catalog)
        except (FormatkitError, PySparkException) as error:
            failure = error
        # A merge keeps its source in the memory of executors, and fails with one of them.
        may_fail = fault == "kill executor" and scenario.mode in ("merge", "upsert")
        assert failure is None or may_fail, f"{where}: {failure}"
        rows = scenario.after() if failure is None else scenario.before
        assert rows_of(table.refresh()) == rows, where
        assert RUNS or faults.met(), "no attempt met the fault"
        killed = {f"{attempt}" for attempt in faults.met()}
        left = unreferenced(table)
        assert all(path.name.split("-")[1] in killed for path in left), f"{where}: {left}"
        assert not left or fault != "raise", f"{where}: {left}"
        print(
            f"{where}: {len(faults.met())} attempts met it, {len(left)} files were left, failure: {failure is not None}"
        )
        check_leftovers(table, rows, tmp_path, where)


@pytest.mark.parametrize("number", range(RUNS * 3 or 1))
def test_answers_that_get_lost(spark: SparkSession, tmp_path: Path, number: int) -> None:
    choose = Random(f"{SEED} lost {number}")
    scenario = random_scenario(choose)
    where = f"CLUSTER_SEED={SEED}, number {number}: {scenario}"
    print(where)
    with closing(losing_catalog(tmp_path)) as catalog:
        table = scenario.create(catalog)
        catalog.error = requests.ReadTimeout("no answer")
        catalog.applied = LOST[number % 3]  # type: ignore[assignment]
        catalog.silent_afterwards = choose.random() < 0.7
        failure = ""
        try:
            scenario.run(spark, catalog)
        except (FormatkitError, PySparkException) as error:
            failure = f"{type(error).__name__}: {error}"
        unknown = bool(failure)
        assert not unknown or CommitStateUnknownError.__name__ in failure, f"{where}: {failure}"
        catalog.unreachable = False
        delivered = unknown and catalog.applied == "later" and catalog.deliver()
        done = not unknown or catalog.applied == "now" or delivered
        rows = scenario.after() if done else scenario.before
        assert rows_of(table.refresh()) == rows, where
        assert done or unreferenced(table) or not scenario.mode.startswith("append"), "nothing is deleted in doubt"
        check_leftovers(table, rows, tmp_path, where)


def run_driver(master: str, folder: Path, scenario: Scenario, key: str, *point: str) -> int:
    """Run a driver to its end; the number of the signal that killed it is negative."""
    told = json.dumps(scenario.told())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    log = folder / "driver.log"
    with log.open("ab") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "support.doomed_driver", master, str(folder), told, key, *point],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            status = driver.wait(SECONDS)
        finally:
            if driver.returncode is None:
                os.killpg(driver.pid, signal.SIGKILL)
    assert status in (0, -signal.SIGKILL), log.read_text()[-6000:]
    return status


@pytest.mark.parametrize("number", range(RUNS * len(POINTS) or 1))
def test_drivers_that_are_killed(spark: SparkSession, master: str, tmp_path: Path, number: int) -> None:
    choose = Random(f"{SEED} driver {number}")
    point = POINTS[number % len(POINTS)] if RUNS else choose.choice(POINTS)
    scenario = random_scenario(choose)
    where = f"CLUSTER_SEED={SEED}, number {number}: killed at {point}, {scenario}"
    print(where)
    with catalog_of(tmp_path) as catalog:
        catalog.create_namespace("db")
        table = scenario.create(catalog)
        assert run_driver(master, tmp_path, scenario, "once", point) == -signal.SIGKILL, where
        Faults(tmp_path / "faults").disarm()
        done = point in ("inside", "after")
        rows = scenario.after() if done else scenario.before
        assert rows_of(table.refresh()) == rows, where
        # Whoever starts it again with its key does it once; a statement of SQL has none, and would be done again.
        if not scenario.mode.startswith("sql") or not done:
            scenario.run(spark, catalog_of(tmp_path), "once")
            rows = scenario.after()
        assert rows_of(table.refresh()) == rows, where
        time.sleep(5 if point == "task" else 0)  # executors end when they notice that their driver is gone
        check_leftovers(table, rows, tmp_path, where)
