"""Run by `test_forking`. Forked children: they read anew what their parents have under way, and do not disturb them."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from formatkit.contract import ByteRange, ByteSource
from formatkit.io import FileIOSource, IoRuntime, LocalSource
from formatkit.io.local_backend import LocalBackend
from formatkit.io.routed import RoutedSource
from support.gated_io import GatedFile

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")

CONTENT = os.urandom(6 << 20)
RANGES = [ByteRange(offset, 100_000) for offset in range(0, 5 << 20, 300_000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(params=[1, 4])
def runtime(request: pytest.FixtureRequest) -> Iterator[IoRuntime]:
    with IoRuntime(threads=request.param, most_bytes=1 << 20) as made:
        yield made


def in_child(work: Callable[[], None]) -> None:
    """Run something in a forked child, which must end well and soon."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, it must not go on in the child
            traceback.print_exc()
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.005)
    assert ended[1] == 0


def read_all(source: ByteSource) -> None:
    for one in RANGES:
        assert source.read(*one) == CONTENT[one.offset : one.end]


def read_ahead_and_close(source: RoutedSource) -> None:
    source.prefetch(RANGES)
    read_all(source)
    source.close()


def test_a_child_reads_what_its_parent_has_under_way(path: Path, runtime: IoRuntime) -> None:
    file = GatedFile(path)
    file.gate.clear()
    source = FileIOSource(file, size=len(CONTENT), runtime=runtime)
    source.prefetch(RANGES)
    while not file.reads:
        time.sleep(0.001)

    def work() -> None:
        file.gate.set()
        assert runtime.budget.held_bytes == 0
        read_ahead_and_close(source)
        runtime.close()

    in_child(work)
    held = runtime.budget.held_bytes
    assert held > 0
    file.gate.set()
    read_all(source)
    source.close()
    assert runtime.budget.held_bytes == 0


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_a_child_reads_local_files_ahead(path: Path, mode: str) -> None:
    with IoRuntime(io_uring=mode) as runtime:  # type: ignore[arg-type]
        source = LocalSource(path, size=len(CONTENT), runtime=runtime)
        for _ in range(2):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            source.prefetch(RANGES)
            in_child(lambda: read_ahead_and_close(source))
            read_all(source)
        source.close()
        assert runtime.budget.held_bytes == 0


def test_children_of_children_work_too(path: Path, runtime: IoRuntime) -> None:
    source = FileIOSource(GatedFile(path), size=len(CONTENT), runtime=runtime)
    read_all(source)

    def work() -> None:
        read_all(source)
        in_child(lambda: read_all(source))

    in_child(work)
    read_all(source)
    source.close()


def test_a_child_closes_what_reads_of_its_parent_keep_open(path: Path, runtime: IoRuntime) -> None:
    source = LocalSource(path, size=len(CONTENT), runtime=runtime)
    backend = source._backend
    assert isinstance(backend, LocalBackend)
    descriptor = backend.acquire()

    def work() -> None:
        source.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    in_child(work)
    source.close()
    assert os.pread(descriptor, 10, 0) == CONTENT[:10]
    backend.release()


def test_locks_that_were_held_at_the_fork_do_not_stop_the_child(path: Path, runtime: IoRuntime) -> None:
    source = FileIOSource(GatedFile(path), size=len(CONTENT), runtime=runtime)
    source.prefetch(RANGES[:1])
    while source.usage.bytes_fetched < RANGES[0].length:
        time.sleep(0.001)
    assert source._ahead is not None
    locks = [
        source._lock,
        source._ahead._lock,
        source.usage._lock,
        source._backend._lock,  # type: ignore[attr-defined]
        source._backend._first_opening,  # type: ignore[attr-defined]
        runtime.workers._lock,
        runtime.budget._lock,
        runtime.usage._lock,
        runtime._ring_lock,
    ]
    for lock in locks:
        lock.acquire()
    try:
        in_child(lambda: read_ahead_and_close(source))
    finally:
        for lock in locks:
            lock.release()
    source.close()
