"""Which kind of storage a location means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from formatkit.contract import ByteSink
from formatkit.errors import ConfigurationError, FileMissingError, StorageError
from formatkit.io import (
    FileIOSink,
    FileIOSource,
    LocalSink,
    LocalSource,
    MemorySink,
    MemorySource,
    RoutedSink,
    local_path,
    open_sink,
    open_source,
)


def backend_of(sink: ByteSink) -> ByteSink:
    """What a sink of the runtime writes to in the end."""
    assert isinstance(sink, RoutedSink)
    return sink._backend


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b.parquet", "/a/b.parquet"),
        ("b.parquet", "b.parquet"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("2024:report.parquet", "2024:report.parquet"),
        ("a:b", "a:b"),
        ("/data/name=a%2Fb/x", "/data/name=a%2Fb/x"),
        ("file:///data/name=a%2Fb/x", "/data/name=a%2Fb/x"),
        ("s3://bucket/key", None),
        ("hdfs://name/a", None),
    ],
)
def test_local_locations_are_told_from_others(location: str, path: str | None) -> None:
    assert local_path(location) == path


def test_a_file_uri_with_a_foreign_host_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names the host 'server'"):
        local_path("file://server/share/x")


def test_an_encoded_uri_finds_the_file_it_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "a b%.bin"
    path.write_bytes(b"x")
    assert open_source(path.as_uri()).size() == 1
    assert open_source(path.as_uri()).location == path.as_uri()


def test_a_name_with_a_percent_sign_is_taken_literally_first(tmp_path: Path) -> None:
    (tmp_path / "a%20b").write_bytes(b"literal")
    (tmp_path / "a b").write_bytes(b"x")
    assert open_source(f"file://{tmp_path}/a%20b").size() == 7


@pytest.mark.parametrize("data", [b"abc", bytearray(b"abc"), memoryview(b"abc"), pa.py_buffer(b"abc")])
def test_buffers_are_read_from_memory(data: Any) -> None:
    assert isinstance(open_source(data), MemorySource)


def test_sources_and_sinks_are_taken_as_they_are() -> None:
    source, sink = MemorySource(b""), MemorySink()
    assert open_source(source) is source
    assert open_sink(sink) is sink


@pytest.mark.parametrize("io", [PyArrowFileIO(), FsspecFileIO({})])
def test_pyicebergs_local_files_are_read_and_written_without_it(tmp_path: Path, io: FileIO) -> None:
    location = f"file://{tmp_path}/x"
    for source in (open_source(location, io, 3), open_source(io.new_input(location), size=3)):
        assert isinstance(source, LocalSource)
        assert (source.location, source.size()) == (location, 3)
    for sink in (open_sink(location, io), open_sink(io.new_output(location))):
        assert isinstance(backend_of(sink), LocalSink)
        assert sink.location == location


class EncryptingIO(PyArrowFileIO):
    """A stranger's FileIO, which may do anything with the bytes."""

    def new_input(self, location: str) -> Any:
        return StrangeInput(super().new_input(location))


class StrangeInput(InputFile):
    def __init__(self, inner: InputFile) -> None:
        super().__init__(inner.location)
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        return self._inner.exists()

    def open(self, seekable: bool = True) -> Any:
        return self._inner.open(seekable)


def test_a_strangers_file_io_is_respected(tmp_path: Path) -> None:
    io = EncryptingIO()
    assert isinstance(open_source(str(tmp_path / "x"), io), FileIOSource)
    assert isinstance(open_source(io.new_input(str(tmp_path / "x"))), FileIOSource)
    assert isinstance(backend_of(open_sink(str(tmp_path / "x"), io)), FileIOSink)


def test_paths_are_never_taken_for_uris(tmp_path: Path) -> None:
    odd = Path("s3:") / "x"
    assert isinstance(open_source(odd), LocalSource)
    assert isinstance(backend_of(open_sink(odd)), LocalSink)


def test_an_unknown_scheme_is_a_storage_error_that_names_the_location() -> None:
    for attempt in (open_source, open_sink):
        with pytest.raises(StorageError, match="weird://x/y"):
            attempt("weird://x/y")


def test_opening_reads_nothing(tmp_path: Path) -> None:
    source = open_source(tmp_path / "none")
    with pytest.raises(FileMissingError):
        source.size()


class StrangeOutput(OutputFile):
    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._inner = PyArrowFileIO().new_output(location)

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        return self._inner.exists()

    def to_input_file(self) -> Any:
        return self._inner.to_input_file()

    def create(self, overwrite: bool = False) -> Any:
        return self._inner.create(overwrite)


def test_a_strangers_output_is_written_through_it(tmp_path: Path) -> None:
    sink = open_sink(StrangeOutput(str(tmp_path / "x")))
    assert isinstance(backend_of(sink), FileIOSink)
    stream = sink.create()
    stream.write(b"abc")
    stream.close()
    assert (tmp_path / "x").read_bytes() == b"abc"
    aborted = open_sink(StrangeOutput(str(tmp_path / "y"))).create()
    aborted.write(b"abc")
    aborted.abort()
    assert not (tmp_path / "y").exists()
