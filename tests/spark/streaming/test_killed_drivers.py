"""A stream from table to table whose driver is killed again and again: every row arrives once.

`make streams` does it a hundred micro-batches long, with twenty kills, for each way to write.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import formatkit
from support.doomed_streams import POINTS, WAYS
from support.repository import ROOT
from support.streams import StreamTables, rows
from support.written_tables import files_on_disk

MICRO_BATCHES = int(os.environ.get("STREAM_BATCHES", "3"))
KILLS = int(os.environ.get("STREAM_KILLS", "1"))
SEED = int(os.environ.get("STREAM_SEED", str(random.randrange(1 << 30))))
SECONDS = 900
ATTEMPTS = 5
TOO_SLOW = ("CANNOT_OPEN_SOCKET", "Python worker failed to connect back", "Timed out while waiting")


def run(folder: Path, way: str, *doom: str) -> tuple[int, int]:
    """Run a driver to its end; returns the status, of which a signal is negative, and how often it had to be run.

    Spark gives a process of Python ten seconds to answer, which a busy machine may not have. Such a driver is run
    again: that is one more restart, by which no row may be lost either.
    """
    for attempt in range(1, ATTEMPTS + 1):
        status, said = run_once(folder, way, *doom)
        if status in (0, -signal.SIGKILL):
            return status, attempt
        assert any(complaint in said for complaint in TOO_SLOW), said[-6000:]
    raise AssertionError(f"this machine is too busy: {ATTEMPTS} times a process of Python was not started in time")


def run_once(folder: Path, way: str, *doom: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    log = folder / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, "-m", "support.doomed_streams", str(folder), way, *doom],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            status = driver.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(driver.pid, signal.SIGKILL)
            raise
    return status, log.read_text(errors="replace")


@pytest.mark.parametrize("way", WAYS)
def test_every_row_arrives_once_however_often_drivers_are_killed(tables: StreamTables, way: str) -> None:
    choose = random.Random(f"{SEED} {way}")
    folder = tables.folder
    source, sink = tables.new("source"), tables.new("sink")
    ids = iter(range(10_000))
    expected: list[int] = []

    def add(files: int) -> None:
        parts = [[next(ids) for _ in range(choose.randint(1, 5))] for _ in range(files)]
        expected.extend(id_ for part in parts for id_ in part)
        tables.append_files(source, [rows(*part) for part in parts])

    left = MICRO_BATCHES
    while left:
        files = min(left, choose.randint(1, 4))
        add(files)
        left -= files
    kills: list[tuple[str, int]] = []
    restarts = 0
    count = KILLS
    points = [POINTS[i % len(POINTS)] for i in choose.sample(range(max(count, len(POINTS))), count)]
    print(f"seed {SEED}: {MICRO_BATCHES} micro-batches by the {way}, killed at {points}")
    for number, point in enumerate(points):
        done = len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
        room = max(1, (MICRO_BATCHES - done) // (count - number))
        batch = done + choose.randrange(room)
        kills.append((point, batch))
        status, runs = run(folder, way, point, str(batch))
        restarts += runs - 1
        assert status == -signal.SIGKILL, f"seed {SEED}: not killed: {kills}"
        # Others go on meanwhile, and what compaction does changes no row of the stream.
        if choose.random() < 0.3:
            formatkit.rewrite(source.refresh())
    status, runs = run(folder, way)
    assert status == 0, f"seed {SEED}"
    restarts += runs - 1
    found = Counter(formatkit.scan(sink.refresh()).to_arrow()["id"].to_pylist())
    assert found == Counter(expected), f"seed {SEED}, killed at {kills}"
    summaries = [each.summary for each in sink.metadata.snapshots if each.summary is not None]
    assert len({each["spark.sql.streaming.queryId"] for each in summaries}) == 1
    epochs = [int(str(each["spark.sql.streaming.epochId"])) for each in summaries]
    assert epochs == sorted(set(epochs))
    assert len(epochs) == MICRO_BATCHES
    # What is left are files of tasks whose driver died before the commit, and nothing else.
    live = {task.location.rpartition("/")[2] for task in formatkit.scan(sink).tasks}
    orphans = [path for path in files_on_disk(sink) if path.suffix == ".parquet" and path.name not in live]
    assert len(orphans) <= sum(point in ("task", "before") for point in points) + restarts
    print(f"{len(kills)} kills and {restarts} further restarts: {len(expected)} rows once, {len(orphans)} files left")
