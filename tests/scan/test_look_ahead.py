"""The next files are on their way while this one is decoded: in order, bounded, and nothing of it is left behind."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import BatchStream, ByteSource, OpenOptions, ReadOptions, ReadResult
from formatkit.errors import CorruptFileError, FileMissingError
from formatkit.io import IoRuntime
from formatkit.registry import FormatRegistry, default_registry
from formatkit.scan import look_ahead
from support.iceberg_tables import columns, local_path, write_rows
from support.watched_io import WatchedFileIO, on_runtime_thread

FILES, ROWS_PER_FILE, BATCH_ROWS = 12, 2_000, 500
# True of nearly all rows, though the metadata of no file says so.
UNDECIDED = " and ".join(f"text != 'row {number * ROWS_PER_FILE + 500}'" for number in range(FILES))


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.many", schema=columns(id=pa.int64(), text=pa.string()))
    files = []
    for number in range(FILES):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        rows = pa.table({"id": ids, "text": [f"row {id_}" for id_ in ids]})
        files.append(write_rows(created, f"{number:02}.parquet", rows))
    created.add_files(files)
    return created


@pytest.fixture
def remote(table: Table) -> Table:
    """The table in a storage that is not known to be local."""
    WatchedFileIO.watch(seconds_per_call=0.0)
    table.io = WatchedFileIO({})
    return table


@pytest.fixture
def runtime() -> Iterator[IoRuntime]:
    with IoRuntime(threads=4, io_uring="off") as made:
        yield made
        assert made.budget.held_bytes == 0


class CountedReads:
    """A plugin that counts the reads of its files, and those that were closed. It is its own reader and file."""

    def __init__(self, inner: Any, counts: CountedReads | None = None) -> None:
        self._inner = inner
        self._counts = counts or self
        self._lock = threading.Lock()
        self.begun = 0
        self.ended = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def reader(self) -> CountedReads:
        return CountedReads(self._inner.reader(), self._counts)

    def open(self, source: ByteSource, options: OpenOptions) -> CountedReads:
        return CountedReads(self._inner.open(source, options), self._counts)

    def read(self, options: ReadOptions) -> ReadResult[Any]:
        result: ReadResult[Any] = self._inner.read(options)
        self._counts.add(begun=1)

        def end() -> None:
            result.batches.close()
            self._counts.add(ended=1)

        return replace(result, batches=BatchStream(result.batches, end))

    def add(self, *, begun: int = 0, ended: int = 0) -> None:
        with self._lock:
            self.begun += begun
            self.ended += ended


def ids_of(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [int(id_) for batch in batches for id_ in batch["id"].to_numpy()]


def touched(scan: formatkit.Scan) -> set[int]:
    """The positions of the data files that the storage was asked about."""
    positions = {task.location: position for position, task in enumerate(scan.tasks)}
    return {positions[location] for _, location, _ in list(WatchedFileIO.calls) if location in positions}


def left_open() -> dict[str, int]:
    counts: Counter[str] = Counter()
    for what, location, _ in list(WatchedFileIO.calls):
        counts[location] += {"open": 1, "close": -1}.get(what, 0)
    # Opening a file that is not there was tried, and left nothing open.
    return {location: count for location, count in counts.items() if count and local_path(location).exists()}


def settle(condition: Callable[[], bool]) -> None:
    """Wait until something is true, and then a little more, in case it does not stay true."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(0.05)
    assert condition()


@pytest.mark.parametrize(
    ("threads", "enough_bytes", "fetched"),
    [
        pytest.param(1, 1, 3, id="large files"),
        pytest.param(2, 1, 6, id="large files, two threads"),
        pytest.param(1, 1 << 40, 9, id="small files"),
    ],
)
def test_the_next_files_are_fetched_while_the_first_is_decoded(
    remote: Table,
    runtime: IoRuntime,
    monkeypatch: pytest.MonkeyPatch,
    threads: int,
    enough_bytes: int,
    fetched: int,
) -> None:
    monkeypatch.setattr(look_ahead, "_ENOUGH_BYTES", enough_bytes)
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, buffer_bytes=0, runtime=runtime)
    WatchedFileIO.watch(seconds_per_call=0.0)
    with scan.to_batches() as batches:
        next(batches)
        # Those that are being read, those that come next, and the ends of those after that.
        settle(lambda: touched(scan) == set(range(fetched)))
        assert ids_of(batches) == list(range(BATCH_ROWS, FILES * ROWS_PER_FILE))
    assert left_open() == {}


@pytest.mark.parametrize(("select", "fetched"), [("*", 3), ("id", 5)], ids=["all columns", "one of two columns"])
def test_more_files_are_begun_where_few_columns_are_read(
    remote: Table, runtime: IoRuntime, monkeypatch: pytest.MonkeyPatch, select: str, fetched: int
) -> None:
    scan = formatkit.scan(remote, select=select, threads=1, batch_rows=BATCH_ROWS, runtime=runtime)
    monkeypatch.setattr(look_ahead, "_ENOUGH_BYTES", min(task.bytes_to_read for task in scan.tasks))
    WatchedFileIO.watch(seconds_per_call=0.0)
    with scan.to_batches() as batches:
        next(batches)
        settle(lambda: touched(scan) == set(range(fetched)))


@pytest.mark.parametrize("threads", [1, 3])
def test_each_file_is_opened_once_and_only_the_runtime_touches_it(
    remote: Table, runtime: IoRuntime, threads: int
) -> None:
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
    WatchedFileIO.watch(seconds_per_call=0.0)
    assert scan.to_arrow()["id"].to_pylist() == list(range(FILES * ROWS_PER_FILE))
    assert {name for _, _, name in WatchedFileIO.calls if not on_runtime_thread(name)} == set()
    run = scan.explain().run
    assert run is not None
    assert run["files_opened"] == FILES
    # The length is known from the metadata.
    assert [call for call in WatchedFileIO.calls if call[0] == "length"] == []


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("taken", [0, 1, 5, 9])
def test_what_was_begun_is_let_go_when_the_consumer_leaves(
    remote: Table, runtime: IoRuntime, threads: int, taken: int
) -> None:
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
    WatchedFileIO.watch(seconds_per_call=0.001)
    with scan.to_batches() as batches:
        for _ in range(taken):
            next(batches)
    settle(lambda: left_open() == {})
    assert [each.name for each in threading.enumerate() if each.name.startswith("formatkit-scan")] == []


@pytest.mark.parametrize("threads", [1, 3])
def test_what_readers_have_begun_is_ended(remote: Table, runtime: IoRuntime, threads: int) -> None:
    reads = CountedReads(default_registry().plugin("parquet", pa.RecordBatch))
    registry = FormatRegistry()
    registry.register(reads)
    registry.register_batch(ArrowBatch())
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, registry=registry, runtime=runtime)
    with scan.to_batches() as batches:
        next(batches)
        assert reads.begun > 1
    assert reads.ended == reads.begun


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.unlink(), FileMissingError),
        (lambda path: path.write_bytes(bytes(path.stat().st_size)), CorruptFileError),
    ],
    ids=["missing", "foreign"],
)
def test_a_file_that_cannot_be_opened_is_reported_in_its_turn(
    remote: Table, runtime: IoRuntime, threads: int, damage: Callable[[object], object], error: type[Exception]
) -> None:
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
    location = scan.tasks[2].location
    damage(local_path(location))
    found: list[pa.RecordBatch] = []
    with pytest.raises(error, match=local_path(location).name):
        found.extend(scan.to_batches())  # extends as far as it gets
    assert ids_of(found) == list(range(2 * ROWS_PER_FILE))
    settle(lambda: left_open() == {})


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_whose_turn_never_comes_may_be_damaged(remote: Table, runtime: IoRuntime, threads: int) -> None:
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
    for task in scan.tasks[1:]:
        local_path(task.location).unlink()
    with scan.to_batches() as batches:
        assert ids_of(next(batches) for _ in range(ROWS_PER_FILE // BATCH_ROWS)) == list(range(ROWS_PER_FILE))
    settle(lambda: left_open() == {})


@pytest.mark.parametrize("threads", [1, 3])
def test_a_limit_that_the_first_file_fulfils_touches_no_other(remote: Table, runtime: IoRuntime, threads: int) -> None:
    scan = formatkit.scan(remote, UNDECIDED, limit=10, threads=threads, runtime=runtime)
    assert len(scan.tasks) == FILES
    WatchedFileIO.watch(seconds_per_call=0.0)
    assert scan.to_arrow().num_rows == 10
    assert touched(scan) == {0}


def test_a_limit_that_needs_more_files_looks_ahead_after_the_first(remote: Table, runtime: IoRuntime) -> None:
    scan = formatkit.scan(remote, UNDECIDED, limit=ROWS_PER_FILE + 1, threads=1, runtime=runtime)
    WatchedFileIO.watch(seconds_per_call=0.0)
    assert scan.to_arrow().num_rows == ROWS_PER_FILE + 1
    # While the second is read, the third is begun and the fourth announced.
    assert touched(scan) == {0, 1, 2, 3}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_stay_deleted(remote: Table, runtime: IoRuntime, threads: int, mode: str) -> None:
    formatkit.delete(remote, "id >= 100 and id < 9000", mode)  # type: ignore[arg-type]
    WatchedFileIO.watch(seconds_per_call=0.0)
    scan = formatkit.scan(remote, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
    assert sorted(ids_of(scan.to_batches())) == [*range(100), *range(9000, FILES * ROWS_PER_FILE)]
    assert left_open() == {}
    assert {name for _, _, name in WatchedFileIO.calls if not on_runtime_thread(name)} == set()


@pytest.mark.parametrize("io_uring", ["auto", "off"])
@pytest.mark.parametrize("threads", [1, 2])
def test_local_files_that_are_not_in_memory_are_read_ahead_too(table: Table, threads: int, io_uring: str) -> None:
    with IoRuntime(io_uring=io_uring) as runtime:  # type: ignore[arg-type]
        scan = formatkit.scan(table, threads=threads, batch_rows=BATCH_ROWS, runtime=runtime)
        for task in scan.tasks:
            forget(str(local_path(task.location)))
        assert ids_of(scan.to_batches()) == list(range(FILES * ROWS_PER_FILE))
        assert runtime.budget.held_bytes == 0


def forget(path: str) -> None:
    """Let the operating system drop a file from memory, where it does that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def test_manifests_are_fetched_by_the_runtime_and_not_asked_for_their_lengths(
    remote: Table, runtime: IoRuntime
) -> None:
    remote.append(pa.table({"id": [-1], "text": ["one more"]}))
    WatchedFileIO.watch(seconds_per_call=0.0)
    assert len(formatkit.scan(remote, runtime=runtime).tasks) == FILES + 1
    calls = [call for call in WatchedFileIO.calls if call[1].endswith("-m0.avro")]
    assert len({location for _, location, _ in calls}) == 2
    assert {what for what, _, _ in calls} & {"length", "exists"} == set()
    assert {name for _, _, name in WatchedFileIO.calls if not on_runtime_thread(name)} == set()
    assert left_open() == {}
