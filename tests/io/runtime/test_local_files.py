"""Local files: what is in memory is read at once, the rest is read ahead by io_uring or by threads."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
import pytest

from formatkit.contract import ByteRange
from formatkit.errors import CorruptFileError
from formatkit.io import IoRuntime, LocalSource
from formatkit.io.local_backend import LocalBackend
from formatkit.io.routed_file import RoutedFile
from formatkit.io.uring import availability

MEGABYTE = 1 << 20
CONTENT = os.urandom(4 * MEGABYTE)
RANGES = [ByteRange(offset, 5000) for offset in range(1000, 4 * MEGABYTE - 5000, 100_000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


def evict(path: Path) -> None:
    """Have the operating system forget a file, or skip the test where it does not."""
    # It may keep pages that it is still busy with.
    for _ in range(100):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        if not any(pages_in_memory(path)):
            return
        time.sleep(0.05)
    pytest.skip("this file system keeps the file in memory")


def pages_in_memory(path: Path) -> list[bool]:
    """Of each page whether it is in memory. To try to read one would load its neighbours."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE) as content:
        found = (ctypes.c_ubyte * -(-len(content) // mmap.PAGESIZE))()
        start = ctypes.c_byte.from_buffer(content)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(len(content)), found
        )
        del start  # a map that is in use cannot be closed
        assert not failed, os.strerror(ctypes.get_errno())
        return [bool(page & 1) for page in found]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


MODES: list[Literal["auto", "off"]] = ["auto", "off"]


@pytest.fixture(params=MODES)
def runtime(request: pytest.FixtureRequest) -> Iterator[IoRuntime]:
    with IoRuntime(threads=2, io_uring=request.param) as made:
        yield made


@pytest.fixture
def source(path: Path, runtime: IoRuntime) -> Iterator[LocalSource]:
    source = LocalSource(path, size=len(CONTENT), runtime=runtime)
    yield source
    source.close()


def test_a_warm_file_is_read_without_the_runtime(source: LocalSource, runtime: IoRuntime) -> None:
    threads = threading.active_count()
    source.prefetch(RANGES)
    assert all(source.read(*one) == CONTENT[one.offset : one.end] for one in RANGES)
    opened: Any = source.open()
    assert isinstance(opened, pa.OSFile)
    assert opened.read(10) == CONTENT[:10]
    assert source.usage.requests == 0
    assert source.usage.bytes_asked == sum(one.length for one in RANGES)
    assert runtime.budget.peak_bytes == 0
    assert threading.active_count() == threads


def test_what_is_not_in_memory_is_read_ahead(path: Path, source: LocalSource, runtime: IoRuntime) -> None:
    evict(path)
    source.prefetch(RANGES)
    assert isinstance(cast("Any", source.open()), RoutedFile)
    assert all(source.read(*one) == CONTENT[one.offset : one.end] for one in RANGES)
    assert source.usage.bytes_fetched == sum(one.length for one in RANGES)
    assert 0 < runtime.budget.peak_bytes <= runtime.budget.most_bytes
    assert runtime.budget.held_bytes == 0
    assert isinstance(cast("Any", source.open()), pa.OSFile)


def test_scattered_ranges_are_held_until_the_last_of_them_was_taken(
    path: Path, source: LocalSource, runtime: IoRuntime
) -> None:
    evict(path)
    source.prefetch(RANGES)
    views = [source.read(*one) for one in RANGES[1:]]
    assert runtime.budget.held_bytes > 0
    views.insert(0, source.read(*RANGES[0]))
    assert runtime.budget.held_bytes == 0
    assert [bytes(view) for view in views] == [CONTENT[one.offset : one.end] for one in RANGES]
    assert all(view.readonly for view in views)


@pytest.mark.parametrize("seed", range(3))
def test_announced_ranges_may_be_read_in_any_order_and_any_way(path: Path, runtime: IoRuntime, seed: int) -> None:
    """With a budget that has room for a part of them, so that fetches are begun late, or for the rest of a range."""
    picks = random.Random(seed)
    with IoRuntime(threads=2, most_bytes=MEGABYTE, io_uring=runtime_mode(runtime)) as small:
        evict(path)
        source = LocalSource(path, size=len(CONTENT), runtime=small)
        announced = [
            ByteRange(offset, picks.randrange(1, 22_000)) for offset in range(0, len(CONTENT) - 40_000, 40_000)
        ]
        picks.shuffle(announced)
        source.prefetch(announced[:60])
        source.prefetch(announced)
        reads = [*announced, *(ByteRange(picks.randrange(len(CONTENT) - 90_000), 90_000) for _ in range(20))]
        picks.shuffle(reads)
        for one in reads:
            part = ByteRange(one.offset, picks.choice([one.length, one.length // 2 + 1]))
            assert source.read(*part) == CONTENT[part.offset : part.end]
        assert small.budget.peak_bytes <= small.budget.most_bytes
        source.close()
        until_nothing_is_held(small)


def runtime_mode(runtime: IoRuntime) -> Literal["auto", "off"]:
    return "off" if runtime.io_uring.startswith("off") else "auto"


def until_nothing_is_held(runtime: IoRuntime) -> None:
    """What is still under way when its file is closed gives its place back when it has landed."""
    deadline = time.monotonic() + 30
    while runtime.budget.held_bytes:
        assert time.monotonic() < deadline, "a place was not given back"
        time.sleep(0.001)


@pytest.mark.parametrize("cached", ["first", "last", "both"])
def test_a_range_of_which_only_one_end_is_in_memory_is_not_in_memory(path: Path, cached: str) -> None:
    wanted = ByteRange(MEGABYTE, MEGABYTE)
    evict(path)
    with path.open("rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        for end, offset in (("first", wanted.offset), ("last", wanted.end - 1)):
            if cached in (end, "both"):
                os.pread(file.fileno(), 1, offset)
    backend = LocalBackend(str(path), str(path))
    backend.prepare()
    assert backend.is_cached([wanted]) == (cached == "both")
    backend.close()


def test_what_was_not_announced_is_read_by_a_thread(path: Path, source: LocalSource) -> None:
    evict(path)
    assert source.read(MEGABYTE, 1000) == CONTENT[MEGABYTE : MEGABYTE + 1000]
    assert source.usage.requests == 1


def test_files_that_read_by_themselves_find_announced_ranges_in_memory(
    path: Path, source: LocalSource, runtime: IoRuntime
) -> None:
    opened = source.open()
    evict(path)
    source.prefetch(RANGES)
    opened.seek(RANGES[7].offset)
    assert opened.read(RANGES[7].length) == CONTENT[RANGES[7].offset : RANGES[7].end]
    assert runtime.budget.peak_bytes == 0


def test_a_file_that_was_cut_while_it_is_read_ahead_is_damaged(path: Path, source: LocalSource) -> None:
    source.read(0, 1)
    evict(path)
    os.truncate(path, 2 * MEGABYTE)
    source.prefetch([ByteRange(2 * MEGABYTE - 10, 100)])
    with pytest.raises(CorruptFileError, match=f"the file has {2 * MEGABYTE} bytes"):
        source.read(2 * MEGABYTE - 10, 100)


def test_closing_while_reads_are_under_way_leaks_nothing(path: Path, runtime: IoRuntime) -> None:
    LocalSource(path, runtime=runtime).read(0, 1)
    runtime.io_uring  # noqa: B018 - makes the ring, if there is one
    before = open_descriptors()
    for _ in range(20):
        evict(path)
        source = LocalSource(path, size=len(CONTENT), runtime=runtime)
        source.prefetch(RANGES)
        source.close()
    # The last one out closes, which may be a read that is still under way.
    runtime.close()
    assert runtime.budget.held_bytes == 0
    assert open_descriptors() <= before


def test_the_choice_is_told() -> None:
    with IoRuntime(io_uring="off") as off, IoRuntime() as auto:
        assert off.io_uring == "off: threads read local files"
        found = availability()
        if found.available:
            assert auto.io_uring == "auto: reads ranges of local files ahead that are not in memory"
        else:
            assert auto.io_uring == f"auto: threads read local files, because {found.reason}"


@pytest.mark.skipif(not availability().available, reason="needs io_uring")
def test_a_ring_can_be_required() -> None:
    with IoRuntime(io_uring="require") as runtime:
        assert runtime.io_uring == "require: reads ranges of local files ahead that are not in memory"


def test_a_pipe_is_no_file_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    source = LocalSource(tmp_path / "pipe")
    with pytest.raises(OSError, match="no ordinary file"):
        source.size()
    source.close()
