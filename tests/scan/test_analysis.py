"""What a scan says of its last run: rows, time, and what storage was asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.io import IoRuntime
from support.iceberg_tables import columns
from support.watched_io import WatchedFileIO

FILES, ROWS = 3, 1_000


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    schema = columns(id=pa.int64())
    created = catalog.create_table("db.some", schema=schema)
    with created.transaction() as transaction:
        for number in range(FILES):
            transaction.append(pa.table({"id": range(number * ROWS, (number + 1) * ROWS)}, schema=schema))
    return created


@pytest.mark.parametrize("threads", [1, 2])
def test_analysing_runs_the_scan_once(table: Table, threads: int) -> None:
    WatchedFileIO.watch(seconds_per_call=0.002)
    table.io = WatchedFileIO({})
    scan = formatkit.scan(table, batch_rows=100, threads=threads)
    assert scan.explain().analysis is None
    analysis = scan.explain(analyze=True).analysis
    assert analysis is not None
    assert (analysis.rows, analysis.batches) == (FILES * ROWS, FILES * ROWS // 100)
    assert analysis.io_requests >= FILES
    # At most once to open the files and once to read them.
    assert 0 < analysis.io_bytes_fetched <= 2 * sum(task.size_bytes or 0 for task in scan.tasks)
    assert analysis.io_bytes_asked > 0
    assert 0 < analysis.io_waited_seconds <= threads * analysis.seconds
    assert {wait.location for wait in analysis.longest_waits} <= {task.location for task in scan.tasks}
    waits = [wait.waited_seconds for wait in analysis.longest_waits]
    assert waits == sorted(waits, reverse=True)
    calls = len(WatchedFileIO.calls)
    assert scan.explain(analyze=True).analysis == analysis
    assert len(WatchedFileIO.calls) == calls


def test_an_analysis_is_plain_data_and_prints_for_people(table: Table) -> None:
    WatchedFileIO.watch(seconds_per_call=0.0)
    table.io = WatchedFileIO({})
    scan = formatkit.scan(table, "id >= 0", limit=7)
    explanation = scan.explain(analyze=True)
    facts = json.loads(json.dumps(explanation.to_dict()))
    assert facts["analysis"]["rows"] == 7
    assert facts["run"]["io_requests"] == facts["analysis"]["io_requests"]
    lines = {line.split()[0] for line in str(explanation).splitlines()}
    assert lines >= {"result", "storage", "waiting", "io_uring"}


@pytest.mark.parametrize("choice", ["off", "auto"])
def test_the_choice_about_io_uring_is_told(tmp_path: Path, choice: str) -> None:
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"n": range(10)}), path)
    with IoRuntime(io_uring=choice) as runtime:  # type: ignore[arg-type]
        analysis = formatkit.read_file(path, runtime=runtime).explain(analyze=True).analysis
    assert analysis is not None
    assert analysis.io_uring.startswith(choice)


def test_bytes_in_memory_are_no_storage() -> None:
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(10)}), buffer)
    analysis = formatkit.read_file(buffer.getvalue()).explain(analyze=True).analysis
    assert analysis is not None
    assert (analysis.rows, analysis.io_requests, analysis.longest_waits) == (10, 0, ())


def test_a_run_that_is_left_early_is_accounted_for(tmp_path: Path) -> None:
    path = tmp_path / "some.parquet"
    pq.write_table(pa.table({"n": range(1_000)}), path)
    scan = formatkit.read_file(path, batch_rows=10)
    with scan.to_batches() as batches:
        next(batches)
    analysis = scan.explain(analyze=True).analysis
    assert analysis is not None
    assert (analysis.rows, analysis.batches) == (10, 1)
