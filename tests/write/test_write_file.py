"""`write_file`: Arrow data from anywhere, one file, no table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from formatkit.contract import Encryption, WriteOptions
from formatkit.errors import (
    ConfigurationError,
    FileAlreadyExistsError,
    FormatNotRegisteredError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.io import MemorySink
from formatkit.registry import FormatRegistry, default_registry
from formatkit.write import write_file

TABLE = pa.table({"a": pa.array([1, 2, None], pa.int64()), "b": ["x", None, "z"]})
ROWS = TABLE.to_pylist()


class CapsuleArray:
    """A stranger's batch: nothing but the PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)  # type: ignore[no-untyped-call]


class CapsuleStream:
    """A stranger's stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


def generated() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches(max_chunksize=1)


INPUTS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "chunked table": lambda: pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "batch": lambda: TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "list of batches": lambda: TABLE.to_batches(max_chunksize=2),
    "generator": generated,
    "list of tables": lambda: [TABLE.slice(0, 2), TABLE.slice(2)],
    "capsule of an array": CapsuleArray,
    "capsule of a stream": CapsuleStream,
    "polars": lambda: pl.DataFrame(TABLE),
    "duckdb": lambda: duckdb.from_arrow(TABLE),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.parquet"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS)
def test_data_comes_from_anywhere(path: Path, make: Callable[[], Any]) -> None:
    written = write_file(path, make())
    assert written is not None
    assert pq.read_table(path).to_pylist() == ROWS
    assert (written.row_count, written.size_bytes, written.location) == (3, path.stat().st_size, str(path))
    assert written.file_format == "parquet"


@pytest.mark.parametrize("data", [5, "a,b", {"a": [1]}, [1, 2], [[TABLE]], None], ids=lambda data: str(data)[:8])
def test_other_data_is_refused(path: Path, data: Any) -> None:
    with pytest.raises(ConfigurationError, match="give Arrow data"):
        write_file(path, data)
    assert names_in(path.parent) == []


def test_a_schema_is_derived_with_fresh_ids(path: Path) -> None:
    written = write_file(path, TABLE)
    assert written is not None
    assert (
        written.schema.as_struct()
        == Schema(
            NestedField(1, "a", LongType(), required=False), NestedField(2, "b", StringType(), required=False)
        ).as_struct()
    )


def test_a_schema_may_be_arrows(path: Path) -> None:
    written = write_file(path, TABLE.select(["b"]), schema=TABLE.schema)
    assert written is not None
    assert pq.read_table(path).to_pylist() == [{"a": None, "b": row["b"]} for row in ROWS]


def test_ids_are_those_of_the_schema(path: Path) -> None:
    schema = Schema(NestedField(7, "b", StringType(), required=False), NestedField(3, "a", LongType(), required=False))
    written = write_file(path, TABLE, schema)
    assert written is not None
    assert "field_id=7 b" in str(pq.ParquetFile(path).schema)
    assert set(written.metrics.columns) == {3, 7}
    assert written.metrics.columns[3].upper == 2


def test_batches_of_one_write_may_differ_in_form(path: Path) -> None:
    schema = Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "b", StringType(), required=False))
    parts = [
        pa.record_batch({"a": pa.array([1], pa.int8()), "b": pa.array(["x"]).dictionary_encode()}),
        pa.record_batch({"b": pa.array(["y"], pa.large_string()), "a": pa.array([2], pa.uint32())}),
        pa.record_batch({"b": pa.array(["z"], pa.string_view())}),
    ]
    write_file(path, parts, schema)
    assert pq.read_table(path).to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": None, "b": "z"}]


def test_a_large_batch_is_written_in_pieces(path: Path) -> None:
    numbers = pa.table({"a": range(200_000)}).combine_chunks()
    written = write_file(path, numbers.to_batches()[0])
    assert written is not None
    assert written.metrics.columns[1].upper == 199_999
    assert pq.read_table(path).column("a").to_pylist() == list(range(200_000))


@pytest.mark.parametrize("data", [TABLE.slice(0, 0), [], TABLE.slice(0, 0).to_reader(), pl.DataFrame(TABLE).clear()])
@pytest.mark.parametrize("schema", [None, TABLE.schema])
def test_without_rows_nothing_is_written(path: Path, data: Any, schema: pa.Schema | None) -> None:
    assert write_file(path, data, schema) is None
    assert names_in(path.parent) == []


def test_a_taken_location_is_refused_unless_asked(path: Path) -> None:
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError):
        write_file(path, TABLE)
    assert write_file(path, TABLE, overwrite=True) is not None
    assert pq.read_table(path).num_rows == 3


def test_properties_and_metadata_reach_the_file(path: Path) -> None:
    write_file(path, TABLE, properties={"write.parquet.compression-codec": "gzip"}, metadata={"k": "v"})
    metadata = pq.read_metadata(path)
    assert metadata.row_group(0).column(0).compression == "GZIP"
    assert (metadata.metadata or {})[b"k"] == b"v"


@pytest.mark.parametrize("spelling", ["path", "string", "uri", "output file"])
def test_the_output_may_be_spelled_in_many_ways(path: Path, spelling: str) -> None:
    uri = f"file://{path}"
    outputs: dict[str, Any] = {
        "path": path,
        "string": str(path),
        "uri": uri,
        "output file": PyArrowFileIO().new_output(uri),
    }
    written = write_file(outputs[spelling], TABLE)
    assert written is not None
    assert written.location == (uri if spelling in ("uri", "output file") else str(path))
    assert pq.read_table(path).num_rows == 3


def test_the_format_is_told_by_name_or_ending(tmp_path: Path) -> None:
    written = write_file(tmp_path / "no-ending", TABLE, file_format="PARQUET")
    assert written is not None
    assert written.file_format == "parquet"
    with pytest.raises(FormatNotRegisteredError, match="cannot tell the format"):
        write_file(tmp_path / "data.xyz", TABLE)
    with pytest.raises(FormatNotRegisteredError):
        write_file(tmp_path / "data.parquet", TABLE, file_format="fax")
    assert names_in(tmp_path) == ["no-ending"]


def test_memory_is_an_output() -> None:
    sink = MemorySink(location="x.parquet")
    assert write_file(sink, TABLE) is not None
    assert sink.data is not None
    assert pq.read_table(pa.BufferReader(sink.data)).to_pylist() == ROWS


def failing() -> Iterator[pa.RecordBatch]:
    yield TABLE.to_batches()[0]
    raise RuntimeError("source broke")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (failing, RuntimeError),
        (lambda: [TABLE, pa.table({"other": [1]})], SchemaResolutionError),
        (lambda: [TABLE, 5], ConfigurationError),
    ],
)
def test_a_failed_write_leaves_no_file_and_no_handle(
    path: Path, data: Callable[[], Any], error: type[Exception]
) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(error):
        write_file(path, data())
    assert names_in(path.parent) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before


class Watched:
    """A stream that knows when its producer was let go."""

    released = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                yield pa.record_batch({"unwanted": [1]})
        finally:
            self.released = True

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        stream: Any = pa.RecordBatchReader.from_batches(pa.schema({"unwanted": pa.int64()}), self.batches())
        return stream.__arrow_c_stream__(requested_schema)


def test_a_failed_write_releases_its_source(path: Path) -> None:
    source = Watched()
    with pytest.raises(SchemaResolutionError) as caught:
        write_file(path, source, TABLE.schema)
    assert source.released
    assert caught.value is not None


def test_a_failed_overwrite_keeps_the_old_file(path: Path) -> None:
    write_file(path, TABLE)
    with pytest.raises(RuntimeError):
        write_file(path, failing(), overwrite=True)
    assert pq.read_table(path).to_pylist() == ROWS
    assert names_in(path.parent) == [path.name]


def registry_of(plugin: Any) -> FormatRegistry:
    registry = FormatRegistry()
    registry.register(plugin)
    registry.register_batch(default_registry().batches(pa.RecordBatch))
    return registry


class Unable(ParquetFormat):
    """A format that cannot encrypt."""

    file_format = "unable"
    capabilities = frozenset()
    extensions = (".unable",)


def test_encryption_is_refused_where_the_format_has_none(tmp_path: Path) -> None:
    registry = registry_of(Unable())
    with pytest.raises(UnsupportedError, match="unable cannot encrypt"):
        write_file(tmp_path / "x.unable", TABLE, encryption=Encryption(key=b"0" * 16), registry=registry)
    assert write_file(tmp_path / "x.unable", TABLE, registry=registry) is not None
    assert names_in(tmp_path) == ["x.unable"]


def test_encrypted_files_are_written(path: Path) -> None:
    write_file(path, TABLE, encryption=Encryption(key=os.urandom(32), aad_prefix=b"p"))
    assert path.read_bytes()[:4] == b"PARE"


def test_options_reach_the_plugin_as_given() -> None:
    seen: list[WriteOptions] = []

    class Recording(ParquetFormat):
        def writer(self) -> Any:
            inner = super().writer()

            class Writer:
                def open(self, sink: Any, options: WriteOptions) -> Any:
                    seen.append(options)
                    return inner.open(sink, options)

            return Writer()

    schema = Schema(NestedField(4, "a", IntegerType(), required=False))
    write_file(
        MemorySink(location="x.parquet"),
        pa.table({"a": pa.array([1], pa.int32())}),
        schema,
        properties={"write.colour": "red"},
        registry=registry_of(Recording()),
    )
    assert [(options.schema, dict(options.properties)) for options in seen] == [(schema, {"write.colour": "red"})]
