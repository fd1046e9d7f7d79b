"""Storage is touched by threads of the runtime only, and rows are decoded and encoded by all others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.contract.storage import ByteRange
from formatkit.io import IoRuntime, open_source
from formatkit.write.commit import enable_version3
from support.filters import GreaterThanOrEqual, LessThan
from support.iceberg_tables import columns
from support.watched_io import WatchedFileIO, on_runtime_thread, watched_registry
from support.written_tables import ALL_FORMATS

T = TypeVar("T")

FILES, ROWS_PER_FILE = 3, 3_000
PATIENCE = 60


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    enable_version3()
    made = SqlCatalog(
        "watched",
        uri=f"sqlite:///{tmp_path}/catalog.db",
        warehouse=tmp_path.as_uri(),
        **{"py-io-impl": f"{WatchedFileIO.__module__}.{WatchedFileIO.__qualname__}"},
    )
    made.create_namespace("db")
    WatchedFileIO.watch(seconds_per_call=0.0)
    yield made
    made.close()


def new_table(catalog: Catalog) -> Table:
    schema = columns(id=pa.int64(), text=pa.string())
    return catalog.create_table("db.watched", schema=schema, properties={"format-version": "3"})


def rows(number: int) -> pa.Table:
    ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
    return pa.table({"id": ids, "text": [f"row {id_}" for id_ in ids]})


def filled(catalog: Catalog, file_format: str) -> Table:
    table = new_table(catalog)
    for number in range(FILES):
        formatkit.append(table, rows(number), file_format)
    return table


def in_time(work: Callable[[], T]) -> T:
    """What the work returns; a failure if it takes so long that it must be stuck."""
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again below
            outcome.set_exception(error)

    threading.Thread(target=run, name="caller", daemon=True).start()
    return outcome.result(PATIENCE)


def calls_off_the_runtime() -> list[tuple[str, str, str]]:
    """Calls of the storage that another thread made, but for what pyiceberg's catalog does by itself."""
    return [
        (what, location.rpartition("/")[2], thread)
        for what, location, thread in WatchedFileIO.calls
        if not on_runtime_thread(thread) and not location.endswith(".metadata.json")
    ]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_reading_keeps_storage_and_decoding_apart(catalog: Catalog, file_format: str, threads: int) -> None:
    table = filled(catalog, file_format)
    decoders: set[str] = set()
    registry = watched_registry(decoders)
    WatchedFileIO.watch(seconds_per_call=0.002)
    with IoRuntime(threads=4) as runtime, formatkit.with_runtime(runtime):
        scan = formatkit.scan(table, where="id >= 10", registry=registry, threads=threads, batch_rows=500)
        assert scan.to_arrow().num_rows == FILES * ROWS_PER_FILE - 10
    assert WatchedFileIO.calls
    assert calls_off_the_runtime() == []
    assert decoders
    assert not any(map(on_runtime_thread, decoders))


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_writing_keeps_storage_and_encoding_apart(catalog: Catalog, file_format: str) -> None:
    table = new_table(catalog)
    encoders: set[str] = set()
    registry = watched_registry(encoders)
    WatchedFileIO.watch(seconds_per_call=0.002)
    with IoRuntime(threads=4) as runtime, formatkit.with_runtime(runtime):
        formatkit.append(table, rows(0), file_format, registry=registry)
    assert any(what == "write" for what, _, _ in WatchedFileIO.calls)
    assert calls_off_the_runtime() == []
    assert encoders
    assert not any(map(on_runtime_thread, encoders))


def test_deletes_keep_storage_apart(catalog: Catalog) -> None:
    table = filled(catalog, "parquet")
    WatchedFileIO.watch(seconds_per_call=0.001)
    with IoRuntime(threads=4) as runtime, formatkit.with_runtime(runtime):
        formatkit.delete(table, LessThan("id", 100), "merge-on-read")
        formatkit.delete(table, GreaterThanOrEqual("id", 8_900), "copy-on-write")
        assert formatkit.scan(table).to_arrow().num_rows == FILES * ROWS_PER_FILE - 200
    assert calls_off_the_runtime() == []


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_one_thread_of_the_runtime_is_enough(catalog: Catalog, file_format: str, threads: int) -> None:
    table = filled(catalog, file_format)
    with IoRuntime(threads=1, most_bytes=1 << 20) as runtime:

        def read_and_write() -> int:
            with formatkit.with_runtime(runtime):
                formatkit.append(table, rows(FILES), file_format)
                return formatkit.scan(table, threads=threads, batch_rows=500).to_arrow().num_rows

        assert in_time(read_and_write) == (FILES + 1) * ROWS_PER_FILE


def test_scans_that_wait_for_each_other_do_not_stop_one_thread(catalog: Catalog) -> None:
    table = filled(catalog, "parquet")
    with IoRuntime(threads=1, most_bytes=1 << 20) as runtime:

        def interleaved() -> int:
            with formatkit.with_runtime(runtime):
                streams = [formatkit.scan(table, threads=2, batch_rows=100).to_batches() for _ in range(4)]
            total = 0
            for batches in zip(*streams, strict=True):
                total += sum(batch.num_rows for batch in batches)
            return total

        assert in_time(interleaved) == 4 * FILES * ROWS_PER_FILE


# Near ranges are fetched together; far ones, which a sparse file makes cheap, each for itself.
@pytest.mark.parametrize("distance", [9_000, 3 << 20], ids=["near", "far"])
def test_ten_thousand_ranges_and_a_slow_consumer_stay_within_the_budget(tmp_path: Path, distance: int) -> None:
    count, length, budget = 10_000, 8_000, 4 << 20
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(count * distance)
        file.seek((count - 1) * distance)
        file.write(b"last")
    ranges = [ByteRange(number * distance, length) for number in range(count)]
    WatchedFileIO.watch(seconds_per_call=0.0)
    before = pa.total_allocated_bytes()
    most_allocated = 0
    with IoRuntime(threads=4, most_bytes=budget) as runtime:
        source = open_source(WatchedFileIO().new_input(path.as_uri()), size=count * distance, runtime=runtime)
        source.prefetch(ranges)
        for number, (offset, wanted) in enumerate(ranges):
            data = source.read(offset, wanted)
            assert bytes(data[:4]) == (b"last" if number == count - 1 else bytes(4))
            del data
            most_allocated = max(most_allocated, pa.total_allocated_bytes() - before)
        assert runtime.budget.peak_bytes <= budget
        assert most_allocated <= budget + length
        assert runtime.budget.held_bytes == 0
        source.close()
    assert pa.total_allocated_bytes() <= before


def test_what_nobody_takes_is_fetched_no_further_than_the_budget(tmp_path: Path) -> None:
    size, budget = 64 << 20, 4 << 20
    path = tmp_path / "large"
    path.write_bytes(bytes(size))
    WatchedFileIO.watch(seconds_per_call=0.0)
    with IoRuntime(threads=4, most_bytes=budget) as runtime:
        sources = [open_source(WatchedFileIO().new_input(path.as_uri()), size=size, runtime=runtime) for _ in range(3)]
        for source in sources:
            source.prefetch([ByteRange(start, 1 << 20) for start in range(0, size, 1 << 20)])
        # Whoever needs something is served, whatever others hold.
        for source in sources:
            assert in_time(lambda: len(source.read(size - 100, 100))) == 100  # noqa: B023
        assert runtime.budget.peak_bytes <= budget
        for source in sources:
            source.close()
    # What was under way when its source was closed gives its place back when it ends.
    assert runtime.budget.held_bytes == 0
