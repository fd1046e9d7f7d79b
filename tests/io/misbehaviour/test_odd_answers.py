"""Storage that answers with fewer bytes than asked for, or in odd ways: it is read on, or fails as storage."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import formatkit
from formatkit.contract import ByteRange
from formatkit.errors import CorruptFileError, StorageError
from formatkit.io import FileIOSource, IoRuntime, open_sink
from formatkit.io.fileio_backend import FileIOBackend
from formatkit.io.retry import RetryPolicy
from support.odd_streams import OddFileIO, OddInput, Silence

ROWS = 3_000
FORMATS = ("parquet", "orc", "avro", "arrow")
CONTENT = bytes(range(256)) * 40


def short(content: bytes, position: int, size: int) -> bytes:
    return content[position : position + max(1, min(size, 977))]


def short_bytearray(content: bytes, position: int, size: int) -> bytearray:
    return bytearray(short(content, position, size))


def short_view(content: bytes, position: int, size: int) -> memoryview:
    return memoryview(short(content, position, size))


def none_now_and_then() -> Callable[[bytes, int, int], bytes | None]:
    calls = iter(range(1_000_000))
    return lambda content, position, size: None if next(calls) % 2 == 0 else short(content, position, size)


@pytest.fixture
def runtime() -> Any:
    with IoRuntime(retry=RetryPolicy(attempts=2, first_delay=0.0)) as made:
        yield made


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("read", [short, short_bytearray, short_view], ids=lambda read: read.__name__)
def test_short_reads_are_read_on(tmp_path: Path, file_format: str, read: Any) -> None:
    path = tmp_path / f"data.{file_format}"
    rows = pa.table({"n": range(ROWS)})
    formatkit.write_file(path, rows)
    assert formatkit.read_file(OddInput(path, read)).to_arrow().column("n").to_pylist() == list(range(ROWS))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    return path


def test_a_stream_that_has_nothing_yet_is_asked_again(path: Path, runtime: IoRuntime) -> None:
    source = FileIOSource(OddInput(path, none_now_and_then()), runtime=runtime)
    assert source.read(100, 3_000) == CONTENT[100:3_100]


def test_a_stream_that_ends_early_is_a_failure_of_the_storage_and_worth_a_retry(path: Path, runtime: IoRuntime) -> None:
    source = FileIOSource(OddInput(path, lambda *_: b""), runtime=runtime)
    with pytest.raises(StorageError, match="ended after 0 of them") as caught:
        source.read(100, 3_000)
    assert caught.value.retryable
    assert runtime.usage.retries == 1


def test_a_stream_that_ends_early_once_is_read_again(path: Path, runtime: IoRuntime) -> None:
    answers = iter([b""])
    source = FileIOSource(OddInput(path, lambda *asked: next(answers, None) or short(*asked)), runtime=runtime)
    assert source.read(0, 5_000) == CONTENT[:5_000]


def test_a_file_that_is_shorter_than_the_metadata_say_is_damaged(path: Path, runtime: IoRuntime) -> None:
    source = FileIOSource(OddInput(path), size=len(CONTENT) + 10, runtime=runtime)
    with pytest.raises(CorruptFileError, match=f"the file has {len(CONTENT)} bytes"):
        source.read(len(CONTENT) - 10, 20)


def test_more_bytes_than_asked_for_are_refused(path: Path) -> None:
    backend = FileIOBackend(OddInput(path, lambda content, *_: content))
    with pytest.raises(StorageError, match="does not honour ranges"):
        backend.read_into(ByteRange(100, 3_000), memoryview(bytearray(3_000)))


def test_a_stream_that_goes_elsewhere_is_refused(path: Path) -> None:
    backend = FileIOBackend(OddInput(path, seeks=False))
    with pytest.raises(StorageError, match="offset 0 instead of 100"):
        backend.read_into(ByteRange(100, 3_000), memoryview(bytearray(3_000)))


@pytest.mark.parametrize("length", [len(CONTENT) + 100, len(CONTENT) - 100, -1])
def test_wrong_lengths_are_typed_errors(path: Path, runtime: IoRuntime, length: int) -> None:
    source = FileIOSource(OddInput(path, length=length), runtime=runtime)
    with pytest.raises((StorageError, CorruptFileError)):
        source.read(0, len(CONTENT) + 50)


class Strange(BaseException):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error",
    [
        Strange(),
        asyncio.CancelledError(),
        PermissionError(errno.EACCES, "denied"),
        IsADirectoryError(21, "a folder"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_storage_raises_is_a_storage_error(path: Path, runtime: IoRuntime, error: BaseException) -> None:
    def fail(*_: Any) -> bytes:
        raise error

    with pytest.raises(StorageError) as caught:
        FileIOSource(OddInput(path, fail), runtime=runtime).read(100, 3_000)
    assert caught.value.location == f"odd://{path}"  # type: ignore[attr-defined]


@pytest.mark.parametrize("exists", [False, True])
def test_writes_that_take_a_part_at_a_time_lose_nothing(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "out.bin").write_bytes(b"old")
    stream = open_sink("odd://x/out.bin", OddFileIO(tmp_path, Silence(), most=100)).create(overwrite=exists)
    stream.write(CONTENT)
    stream.close()
    assert (tmp_path / "out.bin").read_bytes() == CONTENT
