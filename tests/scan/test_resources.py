"""What a scan opens, and that it closes it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import CorruptFileError, FileMissingError
from support.iceberg_tables import columns, local_path

FILES, ROWS_PER_FILE = 6, 4_000


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    schema = columns(id=pa.int64(), text=pa.string())
    created = catalog.create_table("db.many", schema=schema)
    with created.transaction() as transaction:
        for number in range(FILES):
            first = number * ROWS_PER_FILE
            ids = range(first, first + ROWS_PER_FILE)
            transaction.append(pa.table({"id": ids, "text": [f"row {id_}" for id_ in ids]}, schema=schema))
    return created


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = open_files()
    yield
    gc.collect()
    assert open_files() <= before
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("formatkit-scan")] == []


def open_files() -> set[str]:
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = descriptor.readlink()
        except OSError:
            continue
        if target.suffix == ".parquet":
            found.add(str(target))
    return found


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("where", [None, "text like 'row%' and id != 3"])
def test_leaving_a_scan_early_releases_files_and_threads(table: Table, threads: int, where: str | None) -> None:
    with formatkit.scan(table, where, threads=threads, batch_rows=100).to_batches() as batches:
        next(batches)
    assert open_files() == set()


def test_an_exception_of_the_consumer_releases_files_and_threads(table: Table) -> None:
    def consume() -> None:
        with formatkit.scan(table, threads=3, batch_rows=100).to_batches() as batches:
            next(batches)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        consume()


def test_an_arrow_stream_that_is_dropped_releases_files_and_threads(table: Table) -> None:
    reader = formatkit.scan(table, threads=3, batch_rows=100).to_reader()
    reader.read_next_batch()
    del reader
    gc.collect()
    assert open_files() == set()


def test_a_limit_stops_reading(table: Table) -> None:
    without_filter = formatkit.scan(table, limit=10)
    assert len(without_filter.tasks) == 1
    with_filter = formatkit.scan(table, "text != 'x'", limit=10, threads=3)
    assert with_filter.to_arrow().num_rows == 10
    run = with_filter.explain().run
    assert run is not None
    assert run["files_opened"] == 1


def test_splits_of_a_file_open_it_once(table: Table) -> None:
    location = formatkit.scan(table).tasks[0].location
    scan = formatkit.read_file(location, threads=4)
    scan.to_arrow()
    run = scan.explain().run
    assert run is not None
    assert run["files_opened"] == 1


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.unlink(), FileMissingError),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), CorruptFileError),
        (lambda path: path.write_bytes(b""), CorruptFileError),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), CorruptFileError),
    ],
    ids=["missing", "truncated", "empty", "foreign"],
)
def test_a_damaged_file_is_named_and_nothing_stays_open(
    table: Table, threads: int, damage: Any, error: type[Exception]
) -> None:
    scan = formatkit.scan(table, threads=threads)
    location = scan.tasks[3].location
    damage(local_path(location))
    with pytest.raises(error, match=local_path(location).name):
        scan.to_arrow()


def test_a_consumer_that_rests_keeps_only_the_files_open_that_are_being_read(table: Table) -> None:
    scan = formatkit.scan(table, threads=2, batch_rows=100, buffer_bytes=10_000)
    with scan.to_batches() as batches:
        for _ in range(3 * ROWS_PER_FILE // 100):
            next(batches)
        threading.Event().wait(0.1)
        assert 1 <= len(open_files()) <= 2


def test_a_limit_without_a_filter_decodes_no_more_rows_than_it_returns(table: Table) -> None:
    with formatkit.scan(table, limit=10).to_batches() as batches:
        assert next(batches).get_total_buffer_size() < 1_000


@pytest.mark.parametrize("threads", [2, 4])
def test_leaving_a_file_between_its_splits_releases_it(tmp_path: Path, threads: int) -> None:
    path = tmp_path / "large.parquet"
    numbers = pa.table({"n": range(1_000_000)})
    pq.write_table(numbers, path, row_group_size=100_000, compression="none", use_dictionary=False)
    scan = formatkit.read_file(path, threads=threads, batch_rows=10_000, buffer_bytes=100_000)
    assert len(scan.tasks) > threads
    with scan.to_batches() as batches:
        next(batches)
        assert open_files() == {str(path)}
    assert open_files() == set()
