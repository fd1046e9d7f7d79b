"""A write that fails leaves no file, wherever it fails."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.errors import FormatkitError, InvalidDataError, StorageError
from formatkit.write import TableWriteConfig, TableWriter, write_data_files
from formatkit.write.commit import UncommittedFiles
from support.written_tables import ALL_FORMATS, files_on_disk, new_table, spec, table_rows

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    return new_table(catalog, ID, NAME, partitions=spec((1, BucketTransform(4))))


def rows(count: int = 50_000) -> pa.Table:
    names = pa.array(np.random.default_rng(0).integers(0, 2**60, count)).cast(pa.string())
    return pa.table({"id": range(count), "name": names})


def failing(error: Exception) -> Iterator[pa.RecordBatch]:
    for _ in range(4):
        yield from rows().to_batches()
    raise error


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_a_source_that_fails_in_the_middle_leaves_no_file(table: Table, file_format: str) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        formatkit.append(table, failing(RuntimeError("no more")), file_format, target_file_bytes=100_000)
    assert files_on_disk(table) == []
    assert table.current_snapshot() is None


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_a_batch_that_does_not_fit_leaves_no_file(table: Table, file_format: str) -> None:
    bad = pa.table({"id": pa.array([1, None], pa.int64()), "name": ["a", "b"]})
    with pytest.raises(InvalidDataError, match="id"):
        formatkit.append(table, [*[rows()] * 4, bad], file_format, target_file_bytes=100_000)
    assert files_on_disk(table) == []


def test_an_exception_of_the_callers_leaves_no_file(table: Table) -> None:
    def write() -> None:
        with TableWriter(table.metadata, table.io, target_file_bytes=100_000) as writer:
            for batch in rows(150_000).to_batches():
                writer.write(batch)
            assert files_on_disk(table)
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert files_on_disk(table) == []


class FullDisk(PyArrowFileIO):
    """Takes so many files and no more."""

    def __init__(self, properties: dict[str, str], room: int) -> None:
        super().__init__(properties)
        self.room = room

    def new_output(self, location: str) -> Any:
        self.room -= 1
        if self.room < 0:
            raise OSError(28, "No space left on device")
        return super().new_output(location)


@pytest.mark.parametrize("room", range(4))
def test_a_storage_that_fails_leaves_no_file(table: Table, room: int) -> None:
    table.io = FullDisk({}, room)
    with pytest.raises(StorageError, match="space"):
        write_data_files(table, rows(150_000), file_format="avro")
    assert files_on_disk(table) == []


def test_a_writer_that_failed_takes_nothing_more(table: Table) -> None:
    writer = TableWriter(table.metadata, table.io)
    with pytest.raises(FormatkitError):
        writer.write(pa.record_batch({"nome": [1]}))
    for use in (lambda: writer.write(rows().to_batches()[0]), writer.close):
        with pytest.raises(FormatkitError, match="aborted"):
            use()
    writer.abort()


def test_closed_files_are_the_callers(table: Table) -> None:
    writer = TableWriter(table.metadata, table.io)
    writer.write(rows().to_batches()[0])
    files = writer.close()
    assert writer.close() == files
    writer.abort()
    assert len(files_on_disk(table)) == len(files) == 4
    with pytest.raises(FormatkitError, match="closed"):
        writer.write(rows().to_batches()[0])


def test_the_caller_is_told_of_files_before_they_are_written(table: Table) -> None:
    with UncommittedFiles(table.io) as files:
        written = write_data_files(table, rows(), files=files)
        assert sorted(files.locations) == sorted(file.file_path for file in written)
    assert files_on_disk(table) == []


def test_a_writer_can_be_sent_to_another_process(table: Table) -> None:
    config = TableWriteConfig.of(table.metadata, file_format="orc", target_file_bytes=1 << 20)
    config, io = pickle.loads(pickle.dumps((config, table.io)))
    with TableWriter(config, io, task=5) as writer:
        writer.write(rows(10).to_batches()[0])
        files = writer.close()
    assert sum(file.record_count for file in files) == 10
    assert all("/00005-" in file.file_path and file.file_path.endswith(".orc") for file in files)


def test_rows_survive_the_writer(table: Table) -> None:
    formatkit.append(table, rows(100))
    assert [row[0] for row in sorted(table_rows(table))] == list(range(100))
