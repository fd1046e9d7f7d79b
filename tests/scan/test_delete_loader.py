"""Delete files are read once in a run, whatever number of tasks and threads needs them, and then let go."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import CorruptFileError
from formatkit.scan.deletes.sharing import Shared
from support.deletes import delete_at, delete_equal, position_file
from support.iceberg_tables import append_delete_files, columns, local_path

FILES, ROWS = 6, 100


class Value:
    """Something whose end can be seen."""


def test_what_is_shared_is_made_once_and_let_go_by_the_last() -> None:
    made: list[weakref.ref[Value]] = []

    def make() -> Value:
        value = Value()
        made.append(weakref.ref(value))
        return value

    shared = Shared(make, users=3)
    with ThreadPoolExecutor(3) as pool:
        taken = [each.result() for each in [pool.submit(shared.take) for _ in range(3)]]
    assert len(made) == 1
    assert len(set(map(id, taken))) == 1
    del taken
    gc.collect()
    assert made[0]() is None


def test_what_could_not_be_made_is_tried_again() -> None:
    attempts: Iterator[Any] = iter([ValueError("no"), 7])

    def make() -> int:
        attempt = next(attempts)
        if isinstance(attempt, ValueError):
            raise attempt
        return int(attempt)

    shared = Shared(make, users=2)
    with pytest.raises(ValueError, match="no"):
        shared.take()
    assert shared.take() == 7


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.many", schema=columns(id=pa.int64(), value=pa.float64()))
    for number in range(FILES):
        first = number * ROWS
        created.append(pa.table({"id": np.arange(first, first + ROWS), "value": np.zeros(ROWS)}))
    return created


@pytest.mark.parametrize("threads", [1, 4])
def test_each_delete_file_is_read_once(table: Table, threads: int) -> None:
    locations = [task.location for task in formatkit.scan(table).tasks]
    deletes = [position_file(table, f"d{n}.parquet", [(each, n) for each in locations]) for n in range(5)]
    append_delete_files(table, *deletes)
    for number in range(5):
        delete_equal(table, f"e{number}.parquet", {"id": [10 + number, ROWS + 10 + number]}, [1])
    scan = formatkit.scan(table, threads=threads)
    assert scan.to_arrow().num_rows == FILES * (ROWS - 5) - 10
    run = scan.explain().to_dict()["run"]
    assert (run["delete_files_read"], run["rows_deleted"]) == (10, FILES * 5 + 10)


def test_keys_serve_files_of_every_age(table: Table) -> None:
    """Ten generations, each of which deletes what the one before it wrote."""
    for generation in range(10):
        delete_equal(table, f"e{generation}.parquet", {"id": [0, 1000 + generation]}, [1])
        table.append(pa.table({"id": [0, 1000 + generation], "value": [float(generation)] * 2}))
    scan = formatkit.scan(table, "id = 0 or id >= 1000", threads=3)
    found = sorted((row["id"], row["value"]) for row in scan.to_arrow().to_pylist())
    assert found == [(0, 9.0), *((1000 + generation, float(generation)) for generation in range(10))]
    assert scan.explain().to_dict()["run"]["delete_files_read"] == 10


def test_parts_of_a_run_load_their_own_deletes_only(table: Table) -> None:
    locations = [task.location for task in formatkit.scan(table).tasks]
    for number, location in enumerate(locations):
        delete_at(table, f"d{number}.parquet", {location: [number]}, **bounds(location))
    scan = formatkit.scan(table)
    part = scan.of_tasks(scan.tasks[:2])
    assert part.to_arrow().num_rows == 2 * (ROWS - 1)
    assert part.explain().to_dict()["run"]["delete_files_read"] == 2


def bounds(location: str) -> dict[str, Any]:
    return {name: {2147483546: location.encode()} for name in ("lower_bounds", "upper_bounds")}


def test_a_damaged_delete_file_fails_the_scan_and_leaves_no_thread_at_work(table: Table) -> None:
    locations = [task.location for task in formatkit.scan(table).tasks]
    delete_at(table, "d.parquet", {each: [1] for each in locations})
    path = local_path(f"{table.location()}/data/d.parquet")
    path.write_bytes(b"PAR1" + bytes(path.stat().st_size - 8) + b"PAR1")
    with pytest.raises(CorruptFileError, match=r"d\.parquet"):
        formatkit.scan(table, threads=4).to_arrow()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("formatkit-scan")] == []


def test_tasks_that_were_planned_elsewhere_need_no_sequence_number(table: Table) -> None:
    delete_equal(table, "e.parquet", {"id": [5]}, [1])
    scan = formatkit.scan(table, "id < 50")
    found = scan.of_tasks(replace(task, sequence_number=None) for task in scan.tasks).to_arrow()
    assert found["id"].to_pylist() == [number for number in range(50) if number != 5]
