"""Opening, closing and failing: clauses W3 and W4."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from formatkit.contract import WriteOptions
from formatkit.errors import (
    ContractViolationError,
    FileAlreadyExistsError,
    FormatkitError,
    InvalidDataError,
    StorageError,
)
from formatkit.formats.parquet.writer import ParquetFileWriter, ParquetWriter
from formatkit.io import LocalSink, MemorySink

SCHEMA = Schema(NestedField(1, "a", LongType(), required=True))
BATCH = pa.record_batch({"a": pa.array(range(1000))})
SMALL_GROUPS = {"write.parquet.row-group-limit": "100"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.parquet"


def open_writer(path: Path, *, overwrite: bool = False) -> ParquetFileWriter:
    return ParquetWriter().open(
        LocalSink(path), WriteOptions(schema=SCHEMA, properties=SMALL_GROUPS, overwrite=overwrite)
    )


def left_behind(path: Path) -> list[str]:
    return [found.name for found in path.parent.iterdir()]


def test_close_publishes_once_and_answers_again(path: Path) -> None:
    writer = open_writer(path)
    writer.write(BATCH)
    assert not path.exists()
    result = writer.close()
    assert result is not None
    assert result.size_bytes == path.stat().st_size
    assert writer.close() is result
    writer.abort()
    assert left_behind(path) == [path.name]


@pytest.mark.parametrize("empty_batches", [0, 3])
def test_without_rows_there_is_no_file(path: Path, empty_batches: int) -> None:
    with open_writer(path) as writer:
        for _ in range(empty_batches):
            writer.write(BATCH.slice(0, 0))
        assert writer.close() is None
    assert writer.close() is None
    assert left_behind(path) == []


def test_empty_batches_between_others_leave_no_trace(path: Path) -> None:
    with open_writer(path) as writer:
        for batch in (BATCH.slice(0, 0), BATCH, BATCH.slice(0, 0), BATCH, BATCH.slice(0, 0)):
            writer.write(batch)
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [100] * 20


@pytest.mark.parametrize("rows", [0, 10, 1000])
def test_an_exception_leaves_no_file(path: Path, rows: int) -> None:
    def write_and_fail() -> None:
        with open_writer(path) as writer:
            writer.write(BATCH.slice(0, rows))
            raise RuntimeError("elsewhere")

    with pytest.raises(RuntimeError, match="elsewhere"):
        write_and_fail()
    assert left_behind(path) == []


@pytest.mark.parametrize("rows", [0, 10, 1000])
def test_an_aborted_writer_leaves_no_file_and_cannot_go_on(path: Path, rows: int) -> None:
    writer = open_writer(path)
    writer.write(BATCH.slice(0, rows))
    writer.abort()
    writer.abort()
    assert left_behind(path) == []
    for attempt in (writer.close, lambda: writer.write(BATCH)):
        with pytest.raises(FormatkitError, match=f"{path} was aborted"):
            attempt()


def test_a_closed_writer_takes_no_more_rows(path: Path) -> None:
    writer = open_writer(path)
    writer.write(BATCH)
    writer.close()
    with pytest.raises(FormatkitError, match="was closed and cannot be written to"):
        writer.write(BATCH)


def test_a_taken_location_is_refused_when_opening(path: Path) -> None:
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError):
        open_writer(path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_is_replaced_only_by_a_whole_one(path: Path, fails: bool) -> None:
    path.write_bytes(b"old")
    writer = open_writer(path, overwrite=True)
    writer.write(BATCH)
    if fails:
        writer.abort()
        assert path.read_bytes() == b"old"
    else:
        writer.close()
        assert pq.read_metadata(path).num_rows == 1000
    assert left_behind(path) == [path.name]


def test_bad_data_in_the_middle_leaves_no_file(path: Path) -> None:
    def write_nulls() -> None:
        with open_writer(path) as writer:
            writer.write(BATCH)
            writer.write(pa.record_batch({"a": pa.array([1, None] * 100)}))

    with pytest.raises(InvalidDataError, match="column 'a' is required, but null in row 1001"):
        write_nulls()
    assert left_behind(path) == []


FAILS_AND_EXITS = """
import pyarrow as pa
from formatkit.contract import WriteOptions
from formatkit.formats.parquet.writer import ParquetWriter
from formatkit.io import MemorySink
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

options = WriteOptions(
    schema=Schema(NestedField(1, "a", LongType(), required=True)), properties={"write.parquet.row-group-limit": "1"}
)
try:
    with ParquetWriter().open(MemorySink(), options) as writer:
        writer.write(pa.record_batch({"a": [1, 2]}))
        raise RuntimeError
except RuntimeError as error:
    kept = error
"""


def test_a_failed_writer_that_lives_until_the_end_lets_python_exit() -> None:
    done = subprocess.run([sys.executable, "-c", FAILS_AND_EXITS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_batch_of_another_width_is_refused(path: Path) -> None:
    with pytest.raises(ContractViolationError), open_writer(path) as writer:
        writer.write(pa.record_batch({"a": [1], "b": [2]}))
    assert left_behind(path) == []


class FailingStream:
    """Storage that breaks after some bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.written = 0
        self.aborted = False
        self.closed = False

    def write(self, data: bytes | memoryview, /) -> int:
        self.written += len(data)
        if self.written > self.limit:
            raise StorageError("the disk is full")
        return len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True


class FailingSink(MemorySink):
    def __init__(self, stream: FailingStream) -> None:
        super().__init__()
        self.stream = stream

    def create(self, *, overwrite: bool = False) -> FailingStream:  # type: ignore[override]
        return self.stream


@pytest.mark.parametrize("limit", [0, 10, 600, 3_000])
def test_failing_storage_is_reported_as_it_failed_and_the_output_is_aborted(limit: int) -> None:
    stream = FailingStream(limit)
    options = WriteOptions(schema=SCHEMA, properties=SMALL_GROUPS)
    with pytest.raises(StorageError, match="the disk is full"), ParquetWriter().open(FailingSink(stream), options) as w:
        w.write(BATCH)
    assert stream.aborted
    del w
    gc.collect()


def test_bytes_written_grows_towards_the_size_of_the_file(path: Path) -> None:
    writer = open_writer(path)
    seen = [writer.bytes_written()]
    for start in range(0, 1000, 250):
        writer.write(BATCH.slice(start, 250))
        seen.append(writer.bytes_written())
    result = writer.close()
    assert result is not None
    assert seen == sorted(seen)
    assert seen[0] == 0
    assert 0.3 * result.size_bytes < seen[-1] <= result.size_bytes


def test_a_writer_serves_many_files_at_once(tmp_path: Path) -> None:
    writer = ParquetWriter()
    paths = [tmp_path / f"{i}.parquet" for i in range(3)]
    files = [writer.open(LocalSink(path), WriteOptions(schema=SCHEMA)) for path in paths]
    for i, file in enumerate(files):
        file.write(BATCH.slice(0, i + 1))
    for file in files:
        file.close()
    assert [pq.read_metadata(path).num_rows for path in paths] == [1, 2, 3]
