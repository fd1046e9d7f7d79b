"""Object stores through fsspec: pyiceberg's other way to them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO

import formatkit
from formatkit.contract.storage import ByteRange
from formatkit.errors import CorruptFileError, FileMissingError, StorageError
from formatkit.io import FileIOSource, IoRuntime, RetryPolicy
from support.iceberg_tables import columns
from support.object_store import BUCKET, SlowStore
from support.written_tables import ALL_FORMATS

CONTENT = np.random.default_rng(3).bytes(6_000_000)
ROWS = 20_000


@pytest.fixture
def io(store: SlowStore) -> FsspecFileIO:
    return FsspecFileIO(store.properties)


@pytest.fixture
def runtime() -> Iterator[IoRuntime]:
    with IoRuntime(threads=4, retry=RetryPolicy(attempts=4, first_delay=0.01)) as made:
        yield made


@pytest.fixture
def location(store: SlowStore) -> str:
    """Where the content is."""
    path = f"{BUCKET}/{uuid4()}.bin"
    with store.filesystem().open_output_stream(path) as stream:
        stream.write(CONTENT)
    store.seen()
    return f"s3://{path}"


def source_of(io: FsspecFileIO, location: str, runtime: IoRuntime, size: int | None = len(CONTENT)) -> FileIOSource:
    return FileIOSource(io.new_input(location), size=size, runtime=runtime)


def test_just_the_ranges_are_asked_for(store: SlowStore, io: FsspecFileIO, location: str, runtime: IoRuntime) -> None:
    source = source_of(io, location, runtime)
    source.prefetch([ByteRange(10, 1000), ByteRange(3_000_000, 1000)])
    assert bytes(source.read(10, 1000)) == CONTENT[10:1010]
    assert bytes(source.read(3_000_000, 1000)) == CONTENT[3_000_000:3_001_000]
    assert bytes(source.read(5_999_990, 10)) == CONTENT[-10:]
    source.close()
    requests = store.seen()
    assert {request.method for request in requests} == {"GET"}
    assert sum(request.sent for request in requests) == 2010


def test_the_size_is_asked_for_where_nobody_knows_it(
    store: SlowStore, io: FsspecFileIO, location: str, runtime: IoRuntime
) -> None:
    source = source_of(io, location, runtime, size=None)
    assert source.size() == len(CONTENT)
    source.close()
    assert [request.method for request in store.seen()] == ["HEAD"]


def test_codec_libraries_get_a_file(io: FsspecFileIO, location: str, runtime: IoRuntime) -> None:
    source = source_of(io, location, runtime)
    with source.open() as file:
        file.seek(5_000_000)
        assert file.read() == CONTENT[5_000_000:]
    source.close()


@pytest.mark.parametrize("fault", ["503", "reset", "truncate"])
def test_failures_that_pass_do_not_show(
    store: SlowStore, io: FsspecFileIO, location: str, runtime: IoRuntime, fault: str
) -> None:
    source = source_of(io, location, runtime)
    store.set(faults=[{"kind": fault, "times": 2, "path": ".bin"}])
    assert bytes(source.read(0, len(CONTENT))) == CONTENT
    source.close()
    assert [request.fault for request in store.seen()].count(fault) == 2


def test_a_missing_object_is_missing(io: FsspecFileIO, runtime: IoRuntime) -> None:
    source = source_of(io, f"s3://{BUCKET}/nothing.bin", runtime)
    with pytest.raises(FileMissingError, match=r"nothing\.bin: there is no such file"):
        source.read(0, 10)
    source.close()
    assert runtime.usage.retries == 0


@pytest.mark.parametrize("offset", [len(CONTENT) - 5, len(CONTENT) + 5])
def test_an_object_that_is_shorter_than_it_should_be_is_damaged(
    io: FsspecFileIO, location: str, runtime: IoRuntime, offset: int
) -> None:
    source = source_of(io, location, runtime, size=len(CONTENT) + 100)
    with pytest.raises(CorruptFileError, match="damaged or truncated"):
        source.read(offset, 10)
    source.close()


def test_who_may_not_read_is_told_so(store: SlowStore, location: str, runtime: IoRuntime) -> None:
    stranger = FsspecFileIO({**store.properties, "s3.secret-access-key": "guessed"})
    source = source_of(stranger, location, runtime)
    with pytest.raises(StorageError, match=r"cannot read 10 bytes from offset 0 of s3://") as raised:
        source.read(0, 10)
    assert not raised.value.retryable
    source.close()


@pytest.fixture
def fsspec_catalog(store: SlowStore) -> Iterator[Catalog]:
    made = SqlCatalog(
        "objects",
        uri="sqlite:///:memory:",
        warehouse=f"s3://{BUCKET}/{uuid4()}",
        **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"},
        **store.properties,
    )
    made.create_namespace("db")
    yield made
    made.close()


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_tables_are_written_and_read(store: SlowStore, fsspec_catalog: Catalog, file_format: str) -> None:
    table = fsspec_catalog.create_table("db.filled", schema=columns(id=pa.int64(), x=pa.float64()))
    random = np.random.default_rng(1)
    for number in range(2):
        ids = range(number * ROWS, (number + 1) * ROWS)
        formatkit.append(table, pa.table({"id": ids, "x": random.random(ROWS)}), file_format)
    scan = formatkit.scan(table)
    store.seen()
    assert scan.to_arrow().sort_by("id").column("id").to_pylist() == list(range(2 * ROWS))
    requests = [request for request in store.seen() if "/data/" in request.path]
    assert {request.method for request in requests} == {"GET"}
    assert sum(request.sent for request in requests) <= 1.2 * sum(task.size_bytes or 0 for task in scan.tasks)
