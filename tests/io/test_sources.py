"""Sources: clauses S1 to S5 for local files, memory and any pyiceberg FileIO."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import InputFile
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.contract import ByteRange, ByteSource
from formatkit.errors import CorruptFileError, FileMissingError, StorageError
from formatkit.io import FileIOSource, IoRuntime, LocalSource, MemorySource, RetryPolicy

CONTENT = bytes(range(256)) * 4

Open = Callable[[Path], ByteSource]

OPENERS: dict[str, Open] = {
    "local": LocalSource,
    "memory": lambda path: MemorySource(path.read_bytes(), location=str(path)),
    "pyarrow": lambda path: FileIOSource(PyArrowFileIO().new_input(str(path))),
    "fsspec": lambda path: FileIOSource(FsspecFileIO({}).new_input(str(path))),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(params=OPENERS)
def source(request: pytest.FixtureRequest, path: Path) -> Iterator[ByteSource]:
    source = OPENERS[request.param](path)
    yield source
    source.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_source_is_a_byte_source(source: ByteSource) -> None:
    assert isinstance(source, ByteSource)


def test_size_and_location_are_those_of_the_file(source: ByteSource, path: Path) -> None:
    assert source.size() == len(CONTENT)
    assert source.location == str(path)


@pytest.mark.parametrize(("offset", "length"), [(0, 0), (0, 1024), (7, 100), (1023, 1), (1024, 0)])
def test_read_returns_exactly_the_bytes_asked_for(source: ByteSource, offset: int, length: int) -> None:
    assert bytes(source.read(offset, length)) == CONTENT[offset : offset + length]


@pytest.mark.parametrize(("offset", "length"), [(0, 1025), (1024, 1), (2000, 10), (-1, 5), (5, -1)])
def test_a_range_outside_the_file_is_corruption(source: ByteSource, offset: int, length: int) -> None:
    with pytest.raises(CorruptFileError, match="the file has 1024 bytes") as caught:
        source.read(offset, length)
    assert caught.value.location == source.location  # type: ignore[attr-defined]


def test_many_threads_read_the_same_source(source: ByteSource) -> None:
    ranges = [(offset, 64) for offset in range(0, 960, 7)] * 5
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda asked: bytes(source.read(*asked)), ranges))
    assert found == [CONTENT[offset : offset + length] for offset, length in ranges]


def test_opened_files_are_seekable_and_independent(source: ByteSource) -> None:
    one, other = source.open(), source.open()
    one.seek(1000)
    assert one.read(10) == CONTENT[1000:1010]
    assert other.read(3) == CONTENT[:3]


def test_prefetch_never_fails(source: ByteSource) -> None:
    source.prefetch([ByteRange(0, 10), ByteRange(5000, 10)])


def test_a_closed_source_refuses_to_read_or_open(source: ByteSource) -> None:
    source.read(0, 1)
    source.close()
    source.close()
    with pytest.raises(StorageError, match="was closed"):
        source.read(0, 1)
    with pytest.raises(StorageError, match="was closed"):
        source.open()


def test_close_closes_the_file_objects_that_were_opened(source: ByteSource) -> None:
    files = [source.open(), source.open()]
    source.close()
    assert all(file.closed for file in files)


@pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS)
def test_close_leaves_no_descriptor_open(opener: Open, path: Path) -> None:
    before = open_descriptors()
    source = opener(path)
    source.read(0, 10)
    file = source.open()
    file.read(1)
    source.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("name", ["local", "pyarrow", "fsspec"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    missing = tmp_path / "none.bin"
    source = OPENERS[name](missing)
    for attempt in (source.size, lambda: source.read(0, 1), source.open):
        with pytest.raises(FileMissingError, match=str(missing)):
            attempt()


@pytest.mark.parametrize("action", ["size", "open", "read"])
def test_a_directory_is_no_file(tmp_path: Path, action: str) -> None:
    source = LocalSource(tmp_path, size=10)
    attempts: dict[str, Callable[[], Any]] = {
        "size": lambda: LocalSource(tmp_path).size(),
        "open": source.open,
        "read": lambda: source.read(0, 1),
    }
    with pytest.raises(StorageError, match="it is a directory"):
        attempts[action]()


@pytest.mark.parametrize("behind", ["\0", "\0.bak", "\ud800"], ids=ascii)
@pytest.mark.parametrize("arguments", [("size",), ("open",), ("read", 0, 1)], ids=lambda given: given[0])
def test_a_name_that_no_file_can_have_is_not_that_of_another_file(
    path: Path, behind: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(StorageError, match=r"cannot (read|open)"):
        getattr(LocalSource(f"{path}{behind}"), arguments[0])(*arguments[1:])


@pytest.fixture
def unreadable(path: Path) -> Iterator[Path]:
    """A file that nobody may read. Root may read everything, so root is somebody else for the time of the test."""
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield path
    os.seteuid(user)


def test_a_file_without_permission_is_a_storage_error(unreadable: Path) -> None:
    with pytest.raises(StorageError, match="permission denied"):
        LocalSource(unreadable).read(0, 1)


def test_a_local_source_is_read_where_the_size_was_given(path: Path) -> None:
    assert LocalSource(path, size=5).size() == 5
    truncated = LocalSource(path, size=5000)
    with pytest.raises(CorruptFileError, match="the file has 1024 bytes"):
        truncated.read(1000, 100)
    truncated.close()


def test_only_local_files_have_a_path(path: Path) -> None:
    assert LocalSource(path).local_path() == str(path)
    assert MemorySource(b"").local_path() is None
    assert FileIOSource(PyArrowFileIO().new_input(str(path))).local_path() is None


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc"), pa.py_buffer(b"abc")])
def test_memory_may_be_any_buffer(data: Any) -> None:
    assert bytes(MemorySource(data).read(1, 2)) == b"bc"


def test_a_read_that_is_under_way_survives_close(path: Path) -> None:
    """Its descriptor must not be handed to another file before it is done."""
    source = LocalSource(path)
    stop = threading.Event()
    wrong: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            try:
                found = bytes(source.read(256, 256))
            except StorageError:
                return
            if found != CONTENT[256:512]:
                wrong.append(found)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    before_close = bytes(source.read(0, 1))
    source.close()
    decoy = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]
    stop.set()
    for thread in threads:
        thread.join()
    for descriptor in decoy:
        os.close(descriptor)
    assert before_close == b"\x00"
    assert wrong == []


class CountingInput(InputFile):
    """Counts what is asked of the storage, and can fail."""

    def __init__(self, inner: InputFile, error: Exception | None = None) -> None:
        super().__init__(inner.location)
        self.inner = inner
        self.error = error
        self.lengths = 0
        self.opens = 0

    def __len__(self) -> int:
        self.lengths += 1
        if self.error:
            raise self.error
        return len(self.inner)

    def exists(self) -> bool:
        return self.inner.exists()

    def open(self, seekable: bool = True) -> Any:
        self.opens += 1
        if self.error:
            raise self.error
        return self.inner.open(seekable)


def test_a_known_size_is_not_asked_for_and_streams_are_reused(path: Path) -> None:
    file = CountingInput(PyArrowFileIO().new_input(str(path)))
    source = FileIOSource(file, size=len(CONTENT))
    for offset in range(20):
        source.read(offset, 10)
    source.close()
    assert (file.lengths, file.opens) == (0, 1)


class ThrottledError(Exception):
    """What a backend may raise: nothing that Python knows."""


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (FileNotFoundError("gone"), FileMissingError, False),
        (PermissionError(13, "Permission denied"), StorageError, False),
        (ThrottledError("slow down"), StorageError, False),
        (TimeoutError("late"), StorageError, True),
        (ConnectionResetError("reset"), StorageError, True),
        (pa.ArrowInvalid("odd"), StorageError, False),
    ],
)
def test_whatever_a_backend_raises_becomes_a_storage_error(
    path: Path, error: Exception, kind: type[StorageError], retryable: bool
) -> None:
    runtime = IoRuntime(retry=RetryPolicy(first_delay=0.0))
    source = FileIOSource(CountingInput(PyArrowFileIO().new_input(str(path)), error), size=10, runtime=runtime)
    for attempt in (lambda: source.read(0, 1), source.open):
        with pytest.raises(kind, match=str(path)) as caught:
            attempt()
        assert caught.value.retryable is retryable
        assert caught.value.__cause__ is error
    runtime.close()
