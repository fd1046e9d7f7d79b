"""pyiceberg on the IO runtime: catalogs, metadata and data, without formatkit's readers."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io import FileIO
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

import formatkit
from formatkit.errors import FileAlreadyExistsError, FileMissingError
from formatkit.io import IoRuntime, LocalSink, LocalSource, RuntimeFileIO, open_sink, open_source, with_runtime
from support.watched_io import WatchedFileIO, on_runtime_thread

IMPLEMENTATION = {"py-io-impl": "formatkit.io.RuntimeFileIO"}
WATCHED = {"formatkit.py-io-impl": "support.watched_io.WatchedFileIO"}
ROWS = pa.table({"id": range(1_000), "text": [f"row {id_}" for id_ in range(1_000)]})


@pytest.fixture(params=[1, 4])
def runtime(request: pytest.FixtureRequest) -> Iterator[IoRuntime]:
    with IoRuntime(threads=request.param) as made, with_runtime(made):
        yield made


@pytest.fixture(params=["pyarrow", "fsspec", "custom"])
def io(request: pytest.FixtureRequest, runtime: IoRuntime) -> FileIO:
    WatchedFileIO.watch(seconds_per_call=0.0)
    behind = {"pyarrow": PyArrowFileIO, "fsspec": FsspecFileIO, "custom": WatchedFileIO}[request.param]
    return RuntimeFileIO.around(behind({}), runtime)


@pytest.fixture
def catalog(tmp_path: Path, runtime: IoRuntime) -> Iterator[Catalog]:
    WatchedFileIO.watch(seconds_per_call=0.0)
    where = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    with load_catalog("shop", type="sql", **where, **IMPLEMENTATION, **WATCHED) as made:
        made.create_namespace("db")
        yield made


def callers() -> set[str]:
    return {name for _, _, name in WatchedFileIO.calls}


def test_pyiceberg_writes_and_reads_a_table_on_the_runtime(catalog: Catalog) -> None:
    table = catalog.create_table("db.rows", schema=ROWS.schema)
    table.append(ROWS)
    table.append(ROWS.slice(0, 10))
    loaded = catalog.load_table("db.rows")
    assert isinstance(loaded.io, RuntimeFileIO)
    assert loaded.scan(row_filter="id < 10").to_arrow().num_rows == 20
    assert {what for what, _, _ in WatchedFileIO.calls} >= {"open", "create", "write", "close"}
    assert {name for name in callers() if not on_runtime_thread(name)} == set()


def test_formatkit_reads_and_writes_the_same_table(catalog: Catalog) -> None:
    table = catalog.create_table("db.rows", schema=ROWS.schema)
    formatkit.append(table, ROWS)
    formatkit.delete(table, "id >= 500")
    assert formatkit.scan(table).to_arrow()["id"].sort().to_pylist() == list(range(500))
    catalog.drop_table("db.rows")
    assert {name for name in callers() if not on_runtime_thread(name)} == set()


def test_a_file_is_written_read_and_deleted(io: FileIO, tmp_path: Path) -> None:
    location = str(tmp_path / "some.bin")
    output = io.new_output(location)
    assert not output.exists()
    with output.create() as stream:
        assert stream.write(b"hello ") == 6
        assert stream.write(b"world") == 5
        assert stream.tell() == 11
    assert (output.exists(), len(output), output.location) == (True, 11, location)
    for file in (io.new_input(location), output.to_input_file()):
        assert (file.exists(), len(file), file.location) == (True, 11, location)
        with file.open() as stream:
            assert stream.read(5) == b"hello"
            assert stream.seek(-5, 2) == 6
            assert stream.tell() == 6
            assert stream.read() == b"world"
    io.delete(output)
    assert not io.new_input(location).exists()
    output.create().close()
    io.delete(io.new_input(location))
    output.create().close()
    io.delete(location)
    assert list(tmp_path.iterdir()) == []
    assert {name for name in callers() if not on_runtime_thread(name)} == set()


def test_files_that_are_not_there_and_files_that_are(io: FileIO, tmp_path: Path) -> None:
    path = tmp_path / "some.bin"
    with pytest.raises(FileMissingError, match=r"some\.bin"):
        io.new_input(str(path)).open().read(1)
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError, match=r"some\.bin"):
        io.new_output(str(path)).create()
    with io.new_output(str(path)).create(overwrite=True) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"


def test_an_exception_while_writing_leaves_the_old_file(io: FileIO, tmp_path: Path) -> None:
    path = tmp_path / "some.bin"
    path.write_bytes(b"old")

    def write() -> None:
        with io.new_output(str(path)).create(overwrite=True) as stream:
            stream.write(b"half of the new")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == ["some.bin"]


def test_formatkit_sees_through_to_local_files(tmp_path: Path, runtime: IoRuntime) -> None:
    io, location = RuntimeFileIO(), (tmp_path / "some.bin").as_uri()
    for place in (location, io.new_output(location)):
        sink = open_sink(place, io)
        assert isinstance(sink._backend, LocalSink)  # type: ignore[attr-defined]
        stream = sink.create(overwrite=True)
        stream.write(b"some")
        stream.close()
    for thing in (location, io.new_input(location)):
        source = open_source(thing, io)
        assert isinstance(source, LocalSource)
        assert source.local_path() == str(tmp_path / "some.bin")
        assert bytes(source.read(0, 4)) == b"some"
        source.close()


def test_it_survives_pickling(io: FileIO, tmp_path: Path) -> None:
    path = tmp_path / "some.bin"
    path.write_bytes(b"some")
    copy = pickle.loads(pickle.dumps(io))
    assert isinstance(copy, RuntimeFileIO)
    assert type(copy.behind(str(path))) is type(io.behind(str(path)))  # type: ignore[attr-defined]
    with copy.new_input(str(path)).open() as stream:
        assert stream.read() == b"some"


def test_a_thread_of_the_runtime_may_use_it(io: FileIO, tmp_path: Path, runtime: IoRuntime) -> None:
    def copy() -> int:
        with io.new_output(str(tmp_path / "a")).create() as stream:
            stream.write(bytes(5 << 20))
        with io.new_input(str(tmp_path / "a")).open() as stream:
            return len(stream.read())

    assert runtime.run(copy) == 5 << 20
    assert threading.current_thread().name not in callers()
