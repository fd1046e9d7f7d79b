"""Sinks: clauses K1 to K3 for local files, memory and any pyiceberg FileIO."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.contract import ByteSink
from formatkit.errors import FileAlreadyExistsError, StorageError
from formatkit.io import FileIOSink, LocalSink, MemorySink

Make = Callable[[Path], ByteSink]

FILE_SINKS: dict[str, Make] = {
    "local": LocalSink,
    "pyarrow": lambda path: FileIOSink(PyArrowFileIO().new_output(str(path)), io=PyArrowFileIO()),
    "fsspec": lambda path: FileIOSink(FsspecFileIO({}).new_output(str(path)), io=FsspecFileIO({})),
}


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture(params=FILE_SINKS)
def sink_at(request: pytest.FixtureRequest) -> Make:
    return FILE_SINKS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.bin"


def test_what_was_written_is_there_after_close(sink_at: Make, path: Path) -> None:
    sink = sink_at(path)
    stream = sink.create()
    assert stream.write(b"abc") == 3
    assert stream.write(memoryview(b"def")) == 3
    assert stream.tell() == 6
    stream.flush()
    stream.close()
    stream.close()
    assert stream.closed
    assert sink.location == str(path)
    assert path.read_bytes() == b"abcdef"
    assert names_in(path.parent) == [path.name]


def test_an_empty_file_is_a_file(sink_at: Make, path: Path) -> None:
    sink_at(path).create().close()
    assert path.read_bytes() == b""


def test_abort_leaves_nothing(sink_at: Make, path: Path) -> None:
    stream = sink_at(path).create()
    stream.write(b"abc")
    stream.abort()
    stream.abort()
    assert names_in(path.parent) == []


def test_a_taken_location_is_refused_before_writing(sink_at: Make, path: Path) -> None:
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError, match=str(path)):
        sink_at(path).create()
    assert path.read_bytes() == b"old"


def test_overwrite_replaces_the_file(sink_at: Make, path: Path) -> None:
    path.write_bytes(b"old")
    stream = sink_at(path).create(overwrite=True)
    stream.write(b"new")
    assert path.read_bytes() == b"old"
    stream.close()
    assert path.read_bytes() == b"new"


def test_aborting_an_overwrite_keeps_the_old_file(sink_at: Make, path: Path) -> None:
    path.write_bytes(b"old")
    stream = sink_at(path).create(overwrite=True)
    stream.write(b"new")
    stream.abort()
    assert path.read_bytes() == b"old"
    assert names_in(path.parent) == [path.name]


def test_nothing_is_visible_before_close(path: Path) -> None:
    stream = LocalSink(path).create()
    stream.write(b"abc")
    stream.flush()
    assert not path.exists()
    stream.close()
    assert path.exists()


def test_of_two_writers_the_later_is_refused(path: Path) -> None:
    first, second = LocalSink(path).create(), LocalSink(path).create()
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(FileAlreadyExistsError, match=str(path)):
        second.close()
    assert path.read_bytes() == b"first"
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_system_without_hard_links_is_served(path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    stream = LocalSink(path).create()
    stream.write(b"abc")
    if taken:
        path.write_bytes(b"old")
        with pytest.raises(FileAlreadyExistsError):
            stream.close()
    else:
        stream.close()
    assert path.read_bytes() == (b"old" if taken else b"abc")
    assert names_in(path.parent) == [path.name]


@pytest.mark.parametrize("name", ["local", "pyarrow"])
def test_missing_folders_are_made(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "out.bin"
    FILE_SINKS[name](path).create().close()
    assert path.exists()


def test_a_directory_cannot_be_overwritten(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it is a directory"):
        LocalSink(tmp_path).create(overwrite=True)


def test_a_folder_that_is_a_file_is_a_storage_error(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(StorageError, match=str(path)):
        LocalSink(path / "below.bin").create()


def test_the_permissions_are_those_of_any_new_file(path: Path) -> None:
    LocalSink(path).create().close()
    plain = path.with_name("plain")
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode


def test_long_names_are_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250)
    LocalSink(path).create().close()
    assert path.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_leaves_nothing(path: Path) -> None:
    stream = LocalSink(path).create()
    descriptor = os.open("/dev/full", os.O_WRONLY)
    os.dup2(descriptor, stream._file.fileno())
    os.close(descriptor)
    stream.write(b"abc")
    with pytest.raises(StorageError, match="no space left"):
        stream.close()
    assert names_in(path.parent) == []


def test_memory_publishes_on_close_only() -> None:
    sink = MemorySink()
    stream = sink.create()
    stream.write(b"abc")
    before_close = sink.data
    stream.close()
    assert (before_close, sink.data) == (None, b"abc")
    with pytest.raises(FileAlreadyExistsError):
        sink.create()
    discarded = sink.create(overwrite=True)
    discarded.write(b"new")
    discarded.abort()
    assert sink.data == b"abc"
