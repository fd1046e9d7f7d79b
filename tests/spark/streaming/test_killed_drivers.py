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

MICRO_BATCHES = int(os.environ.get("STREAM_BATCHES", "4"))
KILLS = {way: int(os.environ.get("STREAM_KILLS", default)) for way, default in zip(WAYS, "21", strict=True)}
SEED = int(os.environ.get("STREAM_SEED", str(random.randrange(1 << 30))))
SECONDS = 600


def run(folder: Path, way: str, *doom: str) -> int:
    """Run a driver to its end; the number of the signal that killed it is negative."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    log = folder / "driver.log"
    with log.open("ab") as output:
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
    assert status in (0, -signal.SIGKILL), log.read_text()[-6000:]
    return status


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
    count = KILLS[way]
    points = [POINTS[i % len(POINTS)] for i in choose.sample(range(max(count, len(POINTS))), count)]
    print(f"seed {SEED}: {MICRO_BATCHES} micro-batches by the {way}, killed at {points}")
    for number, point in enumerate(points):
        done = len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
        room = max(1, (MICRO_BATCHES - done) // (count - number))
        batch = done + choose.randrange(room)
        kills.append((point, batch))
        assert run(folder, way, point, str(batch)) == -signal.SIGKILL, f"seed {SEED}: not killed: {kills}"
        # Others go on meanwhile, and what compaction does changes no row of the stream.
        if choose.random() < 0.3:
            formatkit.rewrite(source.refresh())
    assert run(folder, way) == 0, f"seed {SEED}"
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
    assert len(orphans) <= sum(point in ("task", "before") for point in points)
