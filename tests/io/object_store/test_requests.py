"""How much is asked of an object store, and when it ends."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

import formatkit
from formatkit.io import IoRuntime
from support.object_store import SeenRequest, SlowStore
from support.written_tables import ALL_FORMATS

FILES, ROWS = 4, 80_000
REQUESTS_ALLOWED = {"parquet": 3, "orc": 4, "avro": 3, "arrow": 4, "vortex": 2, "lance": 4}


def data_requests(store: SlowStore) -> list[SeenRequest]:
    return [request for request in store.seen() if "/data/" in request.path]


def stored_bytes(scan: formatkit.Scan[pa.RecordBatch]) -> int:
    return sum(task.size_bytes or 0 for task in scan.tasks)


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_a_file_takes_few_requests_and_hardly_a_byte_twice(
    store: SlowStore, filled: Callable[[str], Table], file_format: str
) -> None:
    table = filled(file_format)
    scan = formatkit.scan(table, threads=1)
    store.seen()
    assert scan.to_arrow().num_rows == ROWS
    requests = data_requests(store)
    gets = Counter(request.path for request in requests if request.method == "GET")
    heads = Counter(request.path for request in requests if request.method == "HEAD")
    size = stored_bytes(scan)
    assert len(gets) == FILES
    assert max(gets.values()) <= REQUESTS_ALLOWED[file_format]
    assert sum(request.sent for request in requests) <= 1.2 * size
    # Arrow's client asks for the length of what it opens, once; nobody else has a reason to.
    assert max(heads.values(), default=0) <= 1


def test_a_projection_fetches_little_of_a_wide_file(store: SlowStore, catalog: Catalog) -> None:
    random = np.random.default_rng(2)
    names = [f"c{number}" for number in range(40)]
    table = catalog.create_table("db.wide", schema=pa.schema([(name, pa.float64()) for name in names]))
    formatkit.append(table, pa.table({name: random.random(100_000) for name in names}))
    scan = formatkit.scan(table, select=("c3", "c36"))
    store.seen()
    scan.to_arrow()
    size = stored_bytes(scan)
    assert sum(request.sent for request in data_requests(store)) < size / 4


def test_closing_early_stops_the_requests(store: SlowStore, filled: Callable[[str], Table]) -> None:
    table = filled("parquet")
    with IoRuntime(threads=2) as runtime, formatkit.with_runtime(runtime):
        scan = formatkit.scan(table, threads=2, batch_rows=1_000)
        store.set(latency=0.1)
        with scan.to_batches() as batches:
            next(batches)
    # The runtime has ended, so what was under way is over; nothing may begin now.
    store.seen()
    time.sleep(0.3)
    assert data_requests(store) == []
    assert runtime.budget.held_bytes == 0


def test_the_requests_of_several_files_are_under_way_at_once(store: SlowStore, filled: Callable[[str], Table]) -> None:
    table = filled("parquet")
    scan = formatkit.scan(table, threads=1)
    store.set(latency=0.05)
    scan.to_arrow()
    _, most_in_flight = store.seen_and_most_in_flight()
    assert most_in_flight >= 2


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_the_first_file_of_a_whole_table_is_not_described_before_it_is_fetched(
    store: SlowStore, filled: Callable[[str], Table], file_format: str
) -> None:
    scan = formatkit.scan(filled(file_format), threads=1)
    store.set(latency=0.3)
    with scan.to_batches() as batches:
        next(batches)
    first = [request for request in data_requests(store) if scan.tasks[0].location.endswith(request.path)]
    gets = [request for request in first if request.method == "GET"]
    at_once = [request for request in gets if request.began < gets[0].ended]
    assert sum(request.sent for request in at_once) >= 0.99 * (scan.tasks[0].size_bytes or 0)


@pytest.mark.parametrize("options", [{"limit": 10}, {"where": "c0 < 0.5"}, {"select": "c1"}], ids=str)
def test_no_more_than_the_description_is_fetched_before_it_is_known_what_is_needed(
    store: SlowStore, filled: Callable[[str], Table], options: dict[str, Any]
) -> None:
    scan = formatkit.scan(filled("parquet"), threads=1, **options)
    store.set(latency=0.1)
    with scan.to_batches() as batches:
        next(batches)
    first = [request for request in data_requests(store) if scan.tasks[0].location.endswith(request.path)]
    gets = [request for request in first if request.method == "GET"]
    assert gets[0].sent <= 64 << 10
    assert gets[0].ended <= min(request.began for request in gets[1:])
