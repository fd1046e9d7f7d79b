"""Storage that never answers: callers get a typed error, and neither `close` nor the end of a process waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import formatkit
from formatkit.errors import ConfigurationError, StorageError
from formatkit.io import FileIOSource, IoRuntime, RuntimeFileIO, open_sink, open_source
from formatkit.io.failures import TIMEOUT_PROPERTY
from support.odd_streams import OddFileIO, OddInput, Silence
from support.repository import ROOT

SHORT = 0.3


@pytest.fixture
def silence() -> Iterator[Silence]:
    made = Silence()
    yield made
    made.end()


@pytest.fixture
def runtime() -> Iterator[IoRuntime]:
    with IoRuntime(threads=2, timeout_seconds=SHORT) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.parquet"
    formatkit.write_file(path, pa.table({"n": range(1000)}))
    return path


@pytest.mark.parametrize("name", ["open", "length", "read", "new_input"])
def test_reading_from_silent_storage_fails(path: Path, silence: Silence, runtime: IoRuntime, name: str) -> None:
    silence.names.add(name)
    io = OddFileIO(path.parent, silence)
    began = time.monotonic()
    with pytest.raises(StorageError, match=r"odd://x/data.parquet: the storage has not answered for 0.3 s") as caught:
        open_source("odd://x/data.parquet", io, runtime=runtime).read(0, 10)
    assert caught.value.retryable
    assert caught.value.timed_out
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["exists", "create", "write", "close", "new_output"])
def test_writing_to_silent_storage_fails(tmp_path: Path, silence: Silence, runtime: IoRuntime, name: str) -> None:
    silence.names.add(name)
    with pytest.raises(StorageError, match=r"odd://x/new.parquet: the storage has not answered"):
        write_ten_chunks(OddFileIO(tmp_path, silence), runtime)


def write_ten_chunks(io: OddFileIO, runtime: IoRuntime) -> None:
    stream = open_sink("odd://x/new.parquet", io, runtime).create()
    try:
        for _ in range(10):
            stream.write(bytes(1 << 20))
        stream.close()
    except StorageError:
        began = time.monotonic()
        stream.abort()
        assert time.monotonic() - began < SHORT
        raise


@pytest.mark.parametrize("name", ["exists", "length", "delete"])
def test_other_calls_to_silent_storage_fail(path: Path, silence: Silence, runtime: IoRuntime, name: str) -> None:
    silence.names.add(name)
    io = RuntimeFileIO.around(OddFileIO(path.parent, silence), runtime)
    calls: dict[str, Callable[[], object]] = {
        "exists": lambda: io.new_input("odd://x/data.parquet").exists(),
        "length": lambda: len(io.new_input("odd://x/data.parquet")),
        "delete": lambda: io.delete("odd://x/data.parquet"),
    }
    with pytest.raises(StorageError, match=r"data.parquet: the storage has not answered"):
        calls[name]()


def test_a_scan_of_silent_storage_fails_and_closes(path: Path, silence: Silence, runtime: IoRuntime) -> None:
    scan = formatkit.read_file(OddInput(path, silence=silence), runtime=runtime)
    silence.names.add("read")
    with pytest.raises(StorageError, match="has not answered"):
        scan.to_arrow()


def test_a_property_of_the_file_io_sets_the_time(path: Path, silence: Silence) -> None:
    silence.names.add("read")
    io = OddFileIO(path.parent, silence, properties={TIMEOUT_PROPERTY: "0.2"})
    with IoRuntime() as runtime, pytest.raises(StorageError, match=r"for 0\.2 seconds"):
        open_source("odd://x/data.parquet", io, runtime=runtime).read(0, 10)


@pytest.mark.parametrize("value", ["0", "-1", "nan", "soon"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigurationError, match=TIMEOUT_PROPERTY):
        open_source("odd://x/data.parquet", OddFileIO(tmp_path, Silence(), properties={TIMEOUT_PROPERTY: value}))


def test_slow_storage_that_makes_progress_is_waited_for(path: Path) -> None:
    def slowly(content: bytes, position: int, size: int) -> bytes:
        time.sleep(0.05)
        return content[position : position + min(size, 100)]

    with IoRuntime(threads=2, timeout_seconds=SHORT) as runtime:
        began = time.monotonic()
        found = FileIOSource(OddInput(path, slowly), runtime=runtime).read(0, 1_200)
    assert found == path.read_bytes()[:1_200]
    assert time.monotonic() - began > 1.5 * SHORT


def test_threads_that_hang_are_replaced(path: Path, silence: Silence, runtime: IoRuntime) -> None:
    silence.names.add("read")
    for _ in range(3):
        with pytest.raises(StorageError, match="has not answered"):
            FileIOSource(OddInput(path, silence=silence), runtime=runtime).read(0, 10)
    # There are two threads, and three hang.
    assert bytes(FileIOSource(OddInput(path), runtime=runtime).read(0, 4)) == b"PAR1"
    silence.end()
    deadline = time.monotonic() + 10
    while runtime.workers.hung and time.monotonic() < deadline:
        time.sleep(0.01)
    assert runtime.workers.hung == 0
    assert bytes(FileIOSource(OddInput(path), runtime=runtime).read(0, 4)) == b"PAR1"


def test_no_more_than_64_threads_hang(path: Path, silence: Silence) -> None:
    silence.names.add("read")
    failures: list[StorageError] = []
    with IoRuntime(threads=40, timeout_seconds=0.1) as runtime:

        def read() -> None:
            with pytest.raises(StorageError) as caught:
                FileIOSource(OddInput(path, silence=silence), runtime=runtime).read(0, 10)
            failures.append(caught.value)

        readers = [threading.Thread(target=read) for _ in range(150)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
        assert len(failures) == 150
        assert runtime.workers.hung <= 64 + 40
        with pytest.raises(StorageError, match="threads hang"):
            FileIOSource(OddInput(path), runtime=runtime).read(0, 4)
        silence.end()


PROGRAM = """
import sys, threading, formatkit
from pathlib import Path
from formatkit.io import IoRuntime, FileIOSource
from support.odd_streams import OddInput, Silence
runtime = IoRuntime(threads=1, timeout_seconds=0.2)
source = FileIOSource(OddInput(Path(sys.argv[1]), silence=Silence("read")), runtime=runtime)
try:
    source.read(0, 10)
except formatkit.FormatkitError as error:
    print(error)
source.close()
runtime.close()
"""


def test_neither_close_nor_the_end_of_the_process_waits(path: Path) -> None:
    paths = os.pathsep.join(filter(None, (str(ROOT / "tests"), os.environ.get("PYTHONPATH"))))
    outcome = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert "has not answered" in outcome.stdout
