"""Opening, closing, failing, and the properties that decide how blocks are stored."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType

from formatkit.contract import WriteOptions
from formatkit.errors import (
    ConfigurationError,
    ContractViolationError,
    FileAlreadyExistsError,
    FormatkitError,
    InvalidDataError,
)
from formatkit.formats.avro.writer import AvroFileWriter, AvroWriter
from formatkit.io import LocalSink, MemorySink
from support.avro_writing import block_rows, payload, stored_rows, written

SCHEMA = Schema(NestedField(1, "a", LongType(), required=True))
BATCH = pa.record_batch({"a": pa.array(range(1000))})
SMALL_BLOCKS = {"write.avro.block-size-bytes": "100"}
CODECS = {
    "gzip": "deflate",
    "GZIP": "deflate",
    "deflate": "deflate",
    "snappy": "snappy",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "bzip2": "bzip2",
    "xz": "xz",
    "uncompressed": "null",
    "null": "null",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.avro"


def open_writer(path: Path, *, overwrite: bool = False) -> AvroFileWriter:
    options = WriteOptions(schema=SCHEMA, properties=SMALL_BLOCKS, overwrite=overwrite)
    return AvroWriter().open(LocalSink(path), options)


def left_behind(path: Path) -> list[str]:
    return [found.name for found in path.parent.iterdir()]


def test_close_publishes_once_and_answers_again(path: Path) -> None:
    writer = open_writer(path)
    writer.write(BATCH)
    assert not path.exists()
    result = writer.close()
    assert result is not None
    assert (result.size_bytes, result.row_count, result.location) == (path.stat().st_size, 1000, str(path))
    assert (result.column_sizes, result.split_offsets) == (None, None)
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


def test_empty_batches_between_others_leave_no_trace() -> None:
    empty = BATCH.slice(0, 0)
    with_empty, _ = written(SCHEMA, [empty, BATCH, empty, BATCH, empty], properties=SMALL_BLOCKS)
    without, _ = written(SCHEMA, [BATCH, BATCH], properties=SMALL_BLOCKS)
    assert block_rows(with_empty) == block_rows(without)
    assert payload(with_empty) == payload(without)


@pytest.mark.parametrize("rows", [0, 10, 1000])
def test_an_exception_leaves_no_file_and_no_thread(path: Path, rows: int) -> None:
    def write_and_fail() -> None:
        with open_writer(path) as writer:
            writer.write(BATCH.slice(0, rows))
            raise RuntimeError("elsewhere")

    with pytest.raises(RuntimeError, match="elsewhere"):
        write_and_fail()
    assert left_behind(path) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("formatkit-avro")]


def test_an_aborted_writer_cannot_go_on(path: Path) -> None:
    writer = open_writer(path)
    writer.write(BATCH)
    writer.abort()
    writer.abort()
    assert left_behind(path) == []
    for attempt in (writer.close, lambda: writer.write(BATCH)):
        with pytest.raises(FormatkitError, match=f"{path} was aborted"):
            attempt()


def test_a_closed_writer_takes_no_more_rows(path: Path) -> None:
    with open_writer(path) as writer:
        writer.write(BATCH)
    with pytest.raises(FormatkitError, match="was closed and cannot be written to"):
        writer.write(BATCH)


def test_a_taken_location_is_refused_when_opening(path: Path) -> None:
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError):
        open_writer(path)
    assert path.read_bytes() == b"old"


def test_overwriting_replaces_the_file_only_at_the_end(path: Path) -> None:
    path.write_bytes(b"old")
    writer = open_writer(path, overwrite=True)
    writer.write(BATCH)
    assert path.read_bytes() == b"old"
    writer.close()
    assert path.read_bytes()[:4] == b"Obj\x01"


def test_null_in_a_required_column_is_refused_before_a_row_of_the_batch_is_stored(path: Path) -> None:
    with open_writer(path) as writer:
        writer.write(BATCH)
        with pytest.raises(InvalidDataError, match="'a' is required, but null in row 1001"):
            writer.write(pa.record_batch({"a": pa.array([1, None])}))
        writer.write(BATCH)
    assert sum(block_rows(path.read_bytes())) == 2000


def test_null_in_a_required_child_is_refused() -> None:
    schema = Schema(NestedField(1, "s", StructType(NestedField(2, "x", LongType(), required=True)), required=False))
    column = pa.StructArray.from_arrays([pa.array([1, None])], names=["x"])
    with pytest.raises(InvalidDataError, match=r"'s\.x' is required, but null in row 1"):
        written(schema, [pa.record_batch({"s": column})])


def test_a_batch_of_another_shape_is_refused() -> None:
    with pytest.raises(ContractViolationError, match="B1"):
        written(SCHEMA, [pa.record_batch({"a": pa.array([1]), "b": pa.array([1])})])
    with pytest.raises(InvalidDataError, match="'a' is of the Arrow type string"):
        written(SCHEMA, [pa.record_batch({"a": pa.array(["x"])})])


def test_bytes_written_grows_towards_the_size() -> None:
    sink = MemorySink()
    with AvroWriter().open(
        sink, WriteOptions(schema=SCHEMA, properties={"write.avro.compression-codec": "null"})
    ) as writer:
        header = writer.bytes_written()
        writer.write(BATCH)
        assert header + 1000 <= writer.bytes_written()
        result = writer.close()
    assert result is not None
    assert result.size_bytes == writer.bytes_written()


@pytest.mark.parametrize(("name", "stored"), CODECS.items())
def test_codecs_are_known_by_icebergs_names_and_by_avros(name: str, stored: str) -> None:
    properties = {"write.avro.compression-codec": name, **SMALL_BLOCKS}
    content, _ = written(SCHEMA, [BATCH] * 5, properties=properties)
    assert fastavro.reader(io.BytesIO(content)).metadata["avro.codec"] == stored
    assert [row["a"] for row in stored_rows(content)] == [*range(1000)] * 5


@pytest.mark.parametrize(("name", "levels"), [("gzip", (0, 9)), ("zstd", (1, 22)), ("bzip2", (1, 9)), ("xz", (0, 9))])
def test_levels_are_honoured_and_checked(name: str, levels: tuple[int, int]) -> None:
    for level in levels:
        properties = {"write.avro.compression-codec": name, "write.avro.compression-level": str(level)}
        content, _ = written(SCHEMA, [BATCH], properties=properties)
        assert [row["a"] for row in stored_rows(content)] == [*range(1000)]
    for level in (levels[0] - 1, levels[1] + 1):
        properties = {"write.avro.compression-codec": name, "write.avro.compression-level": str(level)}
        with pytest.raises(ConfigurationError, match=f"a whole number from {levels[0]} to {levels[1]} for {name}"):
            written(SCHEMA, [BATCH], properties=properties)


@pytest.mark.parametrize("name", ["snappy", "uncompressed"])
def test_a_level_for_a_codec_without_levels_is_ignored(name: str) -> None:
    properties = {"write.avro.compression-codec": name, "write.avro.compression-level": "99"}
    assert block_rows(written(SCHEMA, [BATCH], properties=properties)[0]) == [1000]


@pytest.mark.parametrize(
    ("key", "value"),
    [("compression-codec", "lz4"), ("block-size-bytes", "0"), ("block-size-bytes", "big"), ("compression-level", "x")],
)
def test_properties_that_cannot_be_used_are_refused_by_name(path: Path, key: str, value: str) -> None:
    options = WriteOptions(schema=SCHEMA, properties={f"write.avro.{key}": value})
    with pytest.raises(ConfigurationError, match=f"'write.avro.{key}' is {value!r}"):
        AvroWriter().open(LocalSink(path), options)
    assert left_behind(path) == []


def test_unknown_properties_are_ignored() -> None:
    assert block_rows(written(SCHEMA, [BATCH], properties={"write.avro.mood": "good"})[0]) == [1000]


def test_files_are_written_in_many_threads_at_once() -> None:
    def write(number: int) -> int:
        batch = pa.record_batch({"a": pa.array(range(number, number + 1000))})
        content, _ = written(SCHEMA, [batch] * 3, properties=SMALL_BLOCKS)
        return sum(row["a"] for row in stored_rows(content))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(write, range(32))) == [3 * sum(range(n, n + 1000)) for n in range(32)]


def test_a_forked_process_writes_after_its_parent_did(path: Path) -> None:
    # In an interpreter of its own: the one that runs the tests may have grown too large to be forked.
    program = f"""
import os, pyarrow as pa
import formatkit
rows = pa.table({{"a": range(1000)}})
small = {SMALL_BLOCKS!r}
formatkit.write_file({str(path.with_name("first.avro"))!r}, rows, properties=small)
child = os.fork()
if not child:
    formatkit.write_file({str(path)!r}, rows, properties=small)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (outcome.stdout, outcome.returncode) == ("0\n", 0), outcome.stderr
    assert sum(block_rows(path.read_bytes())) == 1000
