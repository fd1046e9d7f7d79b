"""Read-ahead of a slow storage: what is announced arrives once, within the budget, and is given up when it is taken."""

from __future__ import annotations

import gc
import io
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest

from formatkit.contract import ByteRange
from formatkit.errors import CorruptFileError, StorageError
from formatkit.io import FileIOSource, IoRuntime, RetryPolicy
from support.gated_io import GatedFile

MEGABYTE = 1 << 20
CONTENT = bytes(bytearray(range(251))) * (12 * MEGABYTE // 251)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ahead") / "data.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def file(path: Path) -> Iterator[GatedFile]:
    file = GatedFile(path)
    yield file
    file.gate.set()


@pytest.fixture(params=[1, 8], ids=["one thread", "eight threads"])
def runtime(request: pytest.FixtureRequest) -> Iterator[IoRuntime]:
    with IoRuntime(threads=request.param, most_bytes=2 * MEGABYTE, retry=RetryPolicy(first_delay=0.0)) as made:
        yield made


@pytest.fixture
def source(file: GatedFile, runtime: IoRuntime) -> Iterator[FileIOSource]:
    source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
    yield source
    file.gate.set()
    source.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)


def content(one: ByteRange) -> bytes:
    return CONTENT[one.offset : one.end]


def test_ten_thousand_ranges_and_a_slow_consumer_stay_within_the_budget(
    source: FileIOSource, runtime: IoRuntime
) -> None:
    ranges = [ByteRange(1200 * number, 1000) for number in range(10_000)]
    source.prefetch(ranges)
    for number, one in enumerate(ranges):
        assert source.read(*one) == content(one)
        if number % 1000 == 0:
            time.sleep(0.005)
    assert runtime.budget.peak_bytes <= runtime.budget.most_bytes
    assert runtime.budget.held_bytes == 0
    assert source.usage.bytes_asked == 10_000_000
    assert source.usage.requests < 100


def test_announced_bytes_are_fetched_before_they_are_asked_for_and_not_again(
    source: FileIOSource, file: GatedFile
) -> None:
    wanted = ByteRange(5000, 300_000)
    source.prefetch([wanted])
    until(lambda: source.usage.bytes_fetched == wanted.length)
    reads = list(file.reads)
    assert source.read(*wanted) == content(wanted)
    assert file.reads == reads


def test_what_is_announced_twice_is_fetched_once(source: FileIOSource, file: GatedFile) -> None:
    source.prefetch([ByteRange(0, 1000), ByteRange(500, 1000)])
    source.prefetch([ByteRange(0, 1500)])
    assert source.read(0, 1500) == CONTENT[:1500]
    assert file.reads == [(0, 1500)]


def test_a_range_is_held_until_all_of_it_was_taken(source: FileIOSource, runtime: IoRuntime) -> None:
    source.prefetch([ByteRange(0, 100_000)])
    until(lambda: source.usage.bytes_fetched == 100_000)
    for offset in (0, 30_000, 90_000, 60_000):
        assert runtime.budget.held_bytes >= 100_000
        length = 10_000 if offset == 90_000 else 30_000
        assert source.read(offset, length) == CONTENT[offset : offset + length]
    assert runtime.budget.held_bytes == 0


def test_what_was_taken_once_can_be_read_again(source: FileIOSource) -> None:
    source.prefetch([ByteRange(0, 1000)])
    assert source.read(0, 1000) == source.read(0, 1000) == CONTENT[:1000]


def test_reads_may_overlap_announced_ranges_in_any_way(source: FileIOSource) -> None:
    source.prefetch([ByteRange(1000, 1000), ByteRange(3_000_000, 2 * MEGABYTE), ByteRange(6 * MEGABYTE, 10)])
    for offset, length in ((500, 1000), (1400, 700), (2_900_000, 4 * MEGABYTE), (0, len(CONTENT))):
        assert source.read(offset, length) == CONTENT[offset : offset + length]


def test_a_large_range_comes_in_parts_side_by_side_into_one_buffer(path: Path) -> None:
    file = GatedFile(path)
    file.gate.clear()
    with IoRuntime(threads=8) as runtime:
        source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
        source.prefetch([ByteRange(0, 8 * MEGABYTE)])
        until(lambda: file.most_at_once == 8)
        file.gate.set()
        found = source.read(0, 8 * MEGABYTE)
        assert found == CONTENT[: 8 * MEGABYTE]
        assert isinstance(found.obj, pa.Buffer)
        assert found.obj.size == 8 * MEGABYTE
        source.close()


def test_the_first_bytes_of_a_large_range_are_there_before_the_last(path: Path) -> None:
    file = GatedFile(path)
    with IoRuntime(threads=1) as runtime:
        source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
        source.prefetch([ByteRange(0, 8 * MEGABYTE)])
        until(lambda: len(file.reads) >= 1)
        file.gate.clear()
        assert source.read(0, 10) == CONTENT[:10]
        file.gate.set()
        source.close()


def test_a_read_that_is_waited_for_overtakes_the_read_ahead(path: Path) -> None:
    file = GatedFile(path)
    file.gate.clear()
    with IoRuntime(threads=1) as runtime, ThreadPoolExecutor(1) as decoder:
        source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
        # Far from one another, so that they are not fetched together.
        source.prefetch([ByteRange(2 * MEGABYTE * number, 1000) for number in range(5)])
        until(lambda: len(file.reads) == 1)
        waited_for = decoder.submit(source.read, 8 * MEGABYTE, 1000)
        until(lambda: bool(runtime.workers._urgent))
        file.gate.set()
        assert waited_for.result() == CONTENT[8 * MEGABYTE : 8 * MEGABYTE + 1000]
        until(lambda: len(file.reads) == 5)
        assert [offset // MEGABYTE for offset, _ in file.reads] == [0, 8, 2, 4, 6]
        source.close()


def test_a_full_budget_does_not_keep_a_decoder_waiting(source: FileIOSource, file: GatedFile, path: Path) -> None:
    """Another file holds everything, and nobody takes it."""
    runtime = source._runtime
    greedy = FileIOSource(GatedFile(path), size=len(CONTENT), runtime=runtime)
    greedy.prefetch([ByteRange(0, len(CONTENT))])
    until(lambda: greedy.usage.bytes_fetched >= 3 * MEGABYTE // 2)
    source.prefetch([ByteRange(0, 4 * MEGABYTE)])
    for offset in range(0, 4 * MEGABYTE, MEGABYTE // 2):
        assert source.read(offset, MEGABYTE // 2) == CONTENT[offset : offset + MEGABYTE // 2]
    assert runtime.budget.held_bytes <= runtime.budget.most_bytes
    greedy.close()
    until(lambda: runtime.budget.held_bytes == 0)


def test_room_is_shared_by_files_that_wait_for_it(path: Path) -> None:
    with IoRuntime(threads=2, most_bytes=2 * MEGABYTE) as runtime:
        sources = [FileIOSource(GatedFile(path), size=len(CONTENT), runtime=runtime) for _ in range(3)]
        for source in sources:
            source.prefetch([ByteRange(0, 8 * MEGABYTE)])
        step = MEGABYTE // 4
        for offset in range(0, 8 * MEGABYTE, step):
            for source in sources:
                assert source.read(offset, step) == CONTENT[offset : offset + step]
        assert runtime.budget.held_bytes == 0
        assert runtime.budget.peak_bytes <= runtime.budget.most_bytes
        # Each had something read ahead, and not only the one that came first.
        assert all(source.usage.bytes_fetched == 8 * MEGABYTE for source in sources)
        for source in sources:
            source.close()


def test_closing_cancels_what_has_not_begun_and_holds_nothing(file: GatedFile) -> None:
    file.gate.clear()
    with IoRuntime(threads=1) as runtime, ThreadPoolExecutor(2) as others:
        source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
        source.prefetch([ByteRange(offset, 1000) for offset in range(0, 10 * MEGABYTE, 2 * MEGABYTE)])
        until(lambda: len(file.reads) == 1)
        decoder = others.submit(source.read, 8 * MEGABYTE, 1000)
        until(lambda: bool(runtime.workers._urgent))
        closing = others.submit(source.close)
        with pytest.raises(StorageError, match="was closed"):
            decoder.result()
        assert 0 < runtime.budget.held_bytes <= runtime.budget.most_bytes
        file.gate.set()
        closing.result()
        until(lambda: runtime.budget.held_bytes == 0)
        assert file.closed_streams == file.opened_streams == len(file.reads) == 1


def test_a_source_that_is_forgotten_holds_nothing(file: GatedFile, runtime: IoRuntime) -> None:
    source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
    source.prefetch([ByteRange(0, MEGABYTE)])
    until(lambda: runtime.usage.bytes_fetched == MEGABYTE)
    assert runtime.budget.held_bytes == MEGABYTE
    del source
    gc.collect()
    until(lambda: runtime.budget.held_bytes == 0)


def test_a_source_may_be_forgotten_by_a_thread_that_holds_a_lock(file: GatedFile, runtime: IoRuntime) -> None:
    """The garbage collector runs in any thread at any time, also in the middle of what another source does."""
    sources = [FileIOSource(file, size=len(CONTENT), runtime=runtime)]
    sources[0].prefetch([ByteRange(0, MEGABYTE)])
    until(lambda: runtime.usage.bytes_fetched == MEGABYTE)

    def forget() -> None:
        with runtime.budget._lock:
            sources.clear()
            gc.collect()

    thread = threading.Thread(target=forget, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for a lock that it holds"
    until(lambda: runtime.budget.held_bytes == 0)


def test_buffers_are_freed_with_their_views(source: FileIOSource) -> None:
    gc.collect()
    before = pa.total_allocated_bytes()
    source.prefetch([ByteRange(0, MEGABYTE)])
    found = source.read(0, MEGABYTE)
    assert pa.total_allocated_bytes() >= before + MEGABYTE
    del found
    until(lambda: pa.total_allocated_bytes() <= before)


def test_errors_say_where_and_why(source: FileIOSource, file: GatedFile) -> None:
    cause = PermissionError(13, "Permission denied")
    for announced in (True, False):
        file.failures = [cause]
        if announced:
            source.prefetch([ByteRange(5000, 10)])
        with pytest.raises(StorageError, match="cannot read 10 bytes from offset 5000") as caught:
            source.read(5000, 10)
        error = caught.value
        assert (error.location, error.range, error.__cause__) == (  # type: ignore[attr-defined]
            file.location,
            ByteRange(5000, 10),
            cause,
        )
    assert source.read(5000, 10) == CONTENT[5000:5010]


def test_failures_that_pass_are_not_seen(source: FileIOSource, file: GatedFile) -> None:
    file.failures = [TimeoutError("late"), ConnectionResetError("gone")]
    source.prefetch([ByteRange(0, 1000)])
    assert source.read(0, 1000) == CONTENT[:1000]
    assert source.usage.retries == 2
    assert len(file.reads) == 3


def test_a_file_that_is_shorter_than_it_should_be_is_damaged(file: GatedFile, runtime: IoRuntime) -> None:
    source = FileIOSource(file, size=len(CONTENT) + MEGABYTE, runtime=runtime)
    source.prefetch([ByteRange(len(CONTENT) - 5, 10)])
    with pytest.raises(CorruptFileError, match=f"the file has {len(CONTENT)} bytes"):
        source.read(len(CONTENT) - 5, 10)
    source.close()


def test_what_files_used_adds_up(path: Path) -> None:
    with IoRuntime(threads=2) as runtime:
        for _ in range(3):
            source = FileIOSource(GatedFile(path), size=len(CONTENT), runtime=runtime)
            source.prefetch([ByteRange(0, 1000), ByteRange(1100, 1000)])
            source.read(0, 1000)
            source.read(1100, 1000)
            source.close()
            assert source.usage.figures()[:3] == (1, 2000, 2100)
        assert runtime.usage.figures()[:3] == (3, 6000, 6300)


def test_callers_never_touch_the_storage(file: GatedFile, runtime: IoRuntime) -> None:
    source = FileIOSource(file, runtime=runtime)
    source.prefetch([ByteRange(0, 1000)])
    source.read(0, 1000)
    source.read(5000, 10)
    opened = source.open()
    opened.read(10)
    source.close()
    assert file.lengths == 1
    assert file.closed_streams == file.opened_streams > 0
    assert {name.rstrip("0123456789") for name in file.threads} == {"formatkit-io-"}


def test_announcing_waits_for_nothing(file: GatedFile, runtime: IoRuntime) -> None:
    """Not even for the size, which is not known here."""
    file.gate.clear()
    source = FileIOSource(file, runtime=runtime)
    source.prefetch([ByteRange(0, 1000), ByteRange(len(CONTENT), 10)])
    source.prefetch([ByteRange(3 * MEGABYTE, 1000)])
    file.gate.set()
    assert source.read(3 * MEGABYTE, 1000) == CONTENT[3 * MEGABYTE : 3 * MEGABYTE + 1000]
    source.close()


@pytest.mark.parametrize("announced", [True, False])
def test_a_small_file_is_one_request(tmp_path: Path, runtime: IoRuntime, announced: bool) -> None:
    path = tmp_path / "small.bin"
    path.write_bytes(CONTENT[:10_000])
    file = GatedFile(path)
    source = FileIOSource(file, size=10_000, runtime=runtime)
    if announced:
        source.prefetch([ByteRange(9_000, 1_000)])
    for offset in (9_000, 0, 4_000, 9_000):
        assert source.read(offset, 1_000) == CONTENT[offset : offset + 1_000]
    assert file.reads == [(0, 10_000)]
    source.close()
    assert runtime.budget.held_bytes == 0


def test_an_opened_file_reads_what_was_announced_and_some_more_than_asked(
    source: FileIOSource, file: GatedFile
) -> None:
    source.prefetch([ByteRange(0, 1000)])
    opened = source.open()
    assert opened.read(400) + opened.read(600) == CONTENT[:1000]
    assert opened.seek(-10, io.SEEK_END) == len(CONTENT) - 10
    assert opened.read() == CONTENT[-10:]
    opened.seek(2 * MEGABYTE)
    requests = len(file.reads)
    small = b"".join(opened.read(100) for _ in range(50))
    assert small == CONTENT[2 * MEGABYTE : 2 * MEGABYTE + 5000]
    assert len(file.reads) == requests + 1
    room = bytearray(10)
    opened.seek(5)
    assert opened.readinto(room) == 10  # type: ignore[attr-defined]
    assert bytes(room) == CONTENT[5:15]


def test_pyarrow_takes_buffers_without_a_copy(source: FileIOSource) -> None:
    source.prefetch([ByteRange(0, MEGABYTE)])
    source.read(MEGABYTE - 1, 1)
    allocated = pa.total_allocated_bytes()
    buffer = pa.PythonFile(cast("io.IOBase", source.open()), mode="r").read_buffer(MEGABYTE // 2)
    assert buffer.to_pybytes() == CONTENT[: MEGABYTE // 2]
    assert pa.total_allocated_bytes() == allocated


def test_positions_before_the_beginning_are_refused(source: FileIOSource) -> None:
    opened = source.open()
    with pytest.raises(ValueError, match="no position -1"):
        opened.seek(-1)
    opened.close()
    with pytest.raises(ValueError, match="closed file"):
        opened.read(1)
