"""Writing through the runtime: in order, never far behind, on its threads only, and no failure goes unnoticed."""

from __future__ import annotations

import random
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

import formatkit
from formatkit.errors import FileAlreadyExistsError, StorageError
from formatkit.io import IoRuntime, LocalSink, MemorySink, RoutedSink, open_sink, with_runtime
from formatkit.io.memory import MemorySinkStream
from support.failing_sinks import FailingSink

MIB = 1 << 20
Limit = Callable[[Path], AbstractContextManager[None]]


@pytest.fixture(params=[1, 4])
def runtime(request: pytest.FixtureRequest) -> Iterator[IoRuntime]:
    with IoRuntime(threads=request.param) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.bin"


class WatchedSink(MemorySink):
    """Notes which threads call it, and can hold writes back."""

    def __init__(self) -> None:
        super().__init__(location="watched.bin")
        self.callers: set[int] = set()
        self.may_write = threading.Event()
        self.may_write.set()
        self.largest_write = 0

    def create(self, *, overwrite: bool = False) -> MemorySinkStream:
        self.callers.add(threading.get_ident())
        return _WatchedStream(self)


class _WatchedStream(MemorySinkStream):
    def __init__(self, sink: WatchedSink) -> None:
        super().__init__(sink)
        self._watched = sink

    def write(self, data: bytes | memoryview, /) -> int:
        self._watched.callers.add(threading.get_ident())
        self._watched.largest_write = max(self._watched.largest_write, len(data))
        assert self._watched.may_write.wait(10)
        return super().write(data)

    def flush(self) -> None:
        self._watched.callers.add(threading.get_ident())

    def close(self) -> None:
        self._watched.callers.add(threading.get_ident())
        super().close()

    def abort(self) -> None:
        self._watched.callers.add(threading.get_ident())
        super().abort()


def test_writes_of_any_length_arrive_in_order(runtime: IoRuntime, path: Path) -> None:
    dice = random.Random(7)
    pieces = [dice.randbytes(dice.choice([0, 1, 100, 70_000, MIB, 3 * MIB + 1])) for _ in range(60)]
    stream = RoutedSink(LocalSink(path), runtime).create()
    for piece in pieces:
        assert stream.write(piece) == len(piece)
    assert stream.tell() == sum(map(len, pieces))
    stream.close()
    assert path.read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("wrap", [memoryview, pa.py_buffer])
def test_a_buffer_may_be_used_again_as_soon_as_write_returns(
    runtime: IoRuntime, wrap: Callable[[bytearray], memoryview]
) -> None:
    sink = MemorySink()
    stream = RoutedSink(sink, runtime).create()
    buffer = bytearray(300_000)
    for number in range(20):
        buffer[:] = bytes([number]) * len(buffer)
        stream.write(wrap(buffer))
    stream.close()
    assert sink.data == b"".join(bytes([number]) * len(buffer) for number in range(20))


def test_the_storage_is_touched_by_threads_of_the_runtime_only(runtime: IoRuntime) -> None:
    sink = WatchedSink()
    for leave in ("close", "abort"):
        stream = RoutedSink(sink, runtime).create()
        for _ in range(30):
            stream.write(bytes(200_000))
        stream.flush()
        stream.write(b"rest")
        getattr(stream, leave)()
    assert sink.callers
    assert threading.get_ident() not in sink.callers


def test_small_writes_are_gathered(runtime: IoRuntime) -> None:
    sink = WatchedSink()
    stream = RoutedSink(sink, runtime).create()
    for _ in range(3000):
        stream.write(bytes(1000))
    stream.close()
    assert sink.largest_write >= MIB
    assert sink.data == bytes(3_000_000)


def test_a_writer_that_is_faster_than_the_storage_waits(runtime: IoRuntime) -> None:
    sink = WatchedSink()
    sink.may_write.clear()
    stream = RoutedSink(sink, runtime).create()

    def write() -> None:
        for _ in range(100):
            stream.write(bytes(MIB // 4))

    writer = threading.Thread(target=write)
    writer.start()
    deadline = time.monotonic() + 10
    while stream.tell() < 4 * MIB and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(0.05)
    held = stream.tell()
    sink.may_write.set()
    writer.join()
    stream.close()
    assert 4 * MIB <= held <= 6 * MIB
    assert sink.data == bytes(25 * MIB)


@pytest.mark.parametrize("leave", ["close", "abort"])
def test_a_thread_of_the_runtime_can_write_too(runtime: IoRuntime, path: Path, leave: str) -> None:
    def write() -> None:
        stream = RoutedSink(LocalSink(path), runtime).create()
        for _ in range(20):
            stream.write(bytes(MIB))
        stream.flush()
        stream.write(b"rest")
        getattr(stream, leave)()

    runtime.run(write)
    assert (path.stat().st_size == 20 * MIB + 4) if leave == "close" else not path.exists()
    assert len(list(path.parent.iterdir())) == (1 if leave == "close" else 0)


def test_the_callers_own_threads_are_used_if_he_has_some(path: Path) -> None:
    with ThreadPoolExecutor(1, thread_name_prefix="own") as pool, IoRuntime(executor=pool) as runtime:
        sink = WatchedSink()
        stream = RoutedSink(sink, runtime).create()
        stream.write(bytes(9 * MIB))
        stream.close()
        assert sink.callers == {pool.submit(threading.get_ident).result()}


@pytest.mark.parametrize("notices", ["write", "flush", "close"])
def test_a_failed_write_shows_at_the_next_call_and_at_every_later_one(runtime: IoRuntime, notices: str) -> None:
    sink = FailingSink(room=3 * MIB, location="small-disk.bin")
    stream = RoutedSink(sink, runtime).create()
    stream.write(bytes(2 * MIB))
    stream.write(bytes(2 * MIB))
    if notices != "close":
        with pytest.raises(StorageError, match="the disk is full"):
            _until_it_fails(lambda: stream.write(b"more") if notices == "write" else stream.flush())
        with pytest.raises(StorageError, match="the disk is full"):
            stream.write(b"more")
    with pytest.raises(StorageError, match="the disk is full"):
        stream.close()
    stream.abort()
    assert stream.closed
    assert sink.data is None
    assert all(each.closed for each in sink.streams)


def _until_it_fails(call: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        call()
        time.sleep(0.001)


def test_nothing_can_be_written_to_a_closed_stream(runtime: IoRuntime, path: Path) -> None:
    stream = RoutedSink(LocalSink(path), runtime).create()
    stream.close()
    stream.close()
    stream.flush()
    with pytest.raises(StorageError, match=f"{path}: the stream was closed"):
        stream.write(b"more")
    stream.abort()
    assert path.read_bytes() == b""


def test_abort_does_not_wait_for_what_is_still_to_be_written(runtime: IoRuntime) -> None:
    sink = WatchedSink()
    stream = RoutedSink(sink, runtime).create()
    sink.may_write.clear()
    stream.write(bytes(MIB))
    stream.write(bytes(MIB))
    threading.Timer(0.05, sink.may_write.set).start()
    stream.abort()
    assert sink.data is None


@pytest.mark.parametrize("inside", [False, True])
def test_an_abort_after_the_runtime_was_closed_leaves_nothing(path: Path, inside: bool) -> None:
    runtime = IoRuntime(threads=1)
    stream = RoutedSink(LocalSink(path), runtime).create()
    stream.write(bytes(2 * MIB if inside else 10))
    runtime.close()
    stream.abort()
    assert list(path.parent.iterdir()) == []


def test_sinks_are_opened_in_the_runtime_of_the_caller(path: Path) -> None:
    with IoRuntime(threads=1) as runtime, with_runtime(runtime):
        sink = open_sink(str(path))
    stream = None
    with pytest.raises(Exception, match="closed"):
        stream = sink.create()
    assert stream is None


def test_a_taken_location_is_refused_through_any_file_io(runtime: IoRuntime, path: Path) -> None:
    path.write_bytes(b"old")
    io = PyArrowFileIO()
    with with_runtime(runtime):
        for place in (str(path), io.new_output(str(path))):
            with pytest.raises(FileAlreadyExistsError, match=str(path)):
                open_sink(place, io).create()


@contextmanager
def _small_file_system(folder: Path) -> Iterator[None]:
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def _small_files(folder: Path) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * MIB, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("limit", "reason"), [(_small_file_system, "no space left on device"), (_small_files, "file too large")]
)
@pytest.mark.parametrize("megabytes", [3, 5, 9])
def test_a_full_disk_is_told_and_leaves_nothing(
    tmp_path: Path, runtime: IoRuntime, limit: Limit, reason: str, megabytes: int
) -> None:
    noise = np.frombuffer(random.Random(1).randbytes(megabytes * MIB), np.int64)
    numbers = pa.table({"n": noise})
    with limit(tmp_path), with_runtime(runtime):
        path = tmp_path / "numbers.arrow"
        if megabytes < 4:
            formatkit.write_file(path, numbers)
            assert path.stat().st_size > 3 * MIB
        else:
            with pytest.raises(StorageError, match=f"cannot write {path}: {reason}"):
                formatkit.write_file(path, numbers)
            assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_counted(runtime: IoRuntime) -> None:
    sinks = [RoutedSink(MemorySink(), runtime) for _ in range(2)]
    for sink in sinks:
        stream = sink.create()
        stream.write(b"x" * 3 * MIB)
        stream.write(b"y" * 100)
        stream.write(b"z" * 100)
        stream.close()
        assert (sink.usage.writes, sink.usage.bytes_written) == (2, 3 * MIB + 200)
    assert (runtime.usage.writes, runtime.usage.bytes_written) == (4, 2 * (3 * MIB + 200))
    assert runtime.usage.requests == 0
