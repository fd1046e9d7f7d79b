"""Good files and tables, small but rich, which the attack starts from: ours and those of other writers."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType

import formatkit
from formatkit.io import MemorySink
from formatkit.tck.rows import to_arrow
from formatkit.write.commit import enable_version3
from support import arrow_files, orc_files
from support.everything import ROWS, SCHEMA
from support.lying_io import LYING_IO, STORE, STORES

__all__ = ["FILES", "TABLES", "File", "TableFiles", "build_table", "write_file"]

_FLAT = 60
_WHERE = ("small > -5 and (text = '' or text is null)", "big >= 0")
_FLAT_WHERE = ("a < 20", "b = 'b7' or c is null")


@dataclass(frozen=True)
class File:
    """A good file.

    Attributes:
        file_format: Its format.
        write: Makes its bytes.
        filters: Filters that keep some of its rows.
        column: A column to project to.
        sealed: Whether checksums cover all of it.
    """

    file_format: str
    write: Callable[[], bytes]
    filters: tuple[str, ...] = _WHERE
    column: str = "text"
    sealed: bool = False


def write_file(file_format: str, properties: Mapping[str, str]) -> bytes:
    """All types, written by formatkit."""
    sink = MemorySink(location=f"good.{file_format}")
    assert formatkit.write_file(sink, to_arrow(SCHEMA, ROWS), SCHEMA, file_format, properties=properties)
    assert sink.data is not None
    return sink.data


def _ours(file_format: str, properties: Mapping[str, str] | None = None, *, sealed: bool = False) -> File:
    return File(file_format, lambda: write_file(file_format, properties or {}), sealed=sealed)


def _flat() -> pa.Table:
    numbers = range(_FLAT)
    ids: dict[str, Any] = {
        "a": pa.array(numbers, pa.int64()),
        "b": pa.array([None if i % 5 == 0 else f"b{i}" for i in numbers]),
        "c": pa.array([None if i % 3 == 0 else i / 7 for i in numbers]),
        "d": pa.array([None if i % 4 == 0 else i % 3 for i in numbers], pa.int32()),
        "e": pa.array([i % 2 == 0 if i % 7 else None for i in numbers]),
        "f": pa.array([None if i % 6 == 0 else [i, None][: i % 3] for i in numbers], pa.list_(pa.int64())),
    }
    return pa.table(ids)


def _pyarrow_parquet(**options: Any) -> File:
    def write() -> bytes:
        output = io.BytesIO()
        pq.write_table(_flat(), output, row_group_size=25, write_batch_size=5, data_page_size=40, **options)
        return output.getvalue()

    return File("parquet", write, _FLAT_WHERE, "b")


def _duckdb_parquet() -> bytes:
    flat = _flat()
    with duckdb.connect() as connection:
        connection.register("flat", flat)
        return _through_a_file(lambda name: connection.execute(f"copy flat to '{name}' (format parquet)"))


def _polars_parquet() -> bytes:
    output = io.BytesIO()
    pl.DataFrame(_flat()).write_parquet(output, row_group_size=25, data_page_size=64, statistics="full")
    return output.getvalue()


def _through_a_file(write: Callable[[str], Any]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        write(str(path))
        return path.read_bytes()


def _flat_batches() -> list[pa.RecordBatch]:
    return _flat().to_batches(max_chunksize=25)


def _pyorc() -> bytes:
    rows = [tuple(row.values()) for row in _flat().to_pylist()]
    schema = "struct<a:bigint,b:string,c:double,d:int,e:boolean,f:array<bigint>>"
    return orc_files.pyorc_bytes(schema, rows, stripe_size=1, row_index_stride=10, compression=1)


def _fastavro() -> bytes:
    nullable: Any = lambda kind: ["null", kind]  # noqa: E731
    kinds = {"a": "long", "b": "string", "c": "double", "d": "int", "e": "boolean"}
    fields = [{"name": name, "type": nullable(kind)} for name, kind in kinds.items()]
    fields.append({"name": "f", "type": nullable({"type": "array", "items": nullable("long")})})
    output = io.BytesIO()
    fastavro.writer(output, {"type": "record", "name": "r", "fields": fields}, _flat().to_pylist(), sync_interval=300)
    return output.getvalue()


_ROW_GROUPS = {"write.parquet.row-group-limit": "8", "write.parquet.page-row-limit": "4"}
_UNCOMPRESSED = {**_ROW_GROUPS, "write.parquet.compression-codec": "uncompressed"}
_BLOOM_FILTERS = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("text", "big")}
FILES: Mapping[str, File] = {
    "parquet": _ours("parquet", _UNCOMPRESSED),
    "parquet-zstd": _ours("parquet", _ROW_GROUPS),
    "parquet-bloom": _ours("parquet", {**_UNCOMPRESSED, **_BLOOM_FILTERS}),
    "parquet-plain": _pyarrow_parquet(compression="none", use_dictionary=False, write_page_checksum=True),
    "parquet-dictionary": _pyarrow_parquet(compression="snappy", write_page_index=True),
    "parquet-v2": _pyarrow_parquet(compression="none", data_page_version="2.0", write_page_index=True),
    "parquet-delta": _pyarrow_parquet(
        compression="none",
        use_dictionary=False,
        column_encoding={"a": "DELTA_BINARY_PACKED", "b": "DELTA_BYTE_ARRAY", "c": "BYTE_STREAM_SPLIT"},
    ),
    "parquet-duckdb": File("parquet", _duckdb_parquet, _FLAT_WHERE, "b"),
    "parquet-polars": File("parquet", _polars_parquet, _FLAT_WHERE, "b"),
    "orc": _ours("orc", {"write.orc.compression-codec": "none"}),
    "orc-zlib": _ours("orc", {"write.orc.compression-codec": "zlib"}),
    "orc-pyarrow": File(
        "orc",
        lambda: orc_files.foreign(_flat(), stripe_size=1, batch_size=20, compression="uncompressed"),
        _FLAT_WHERE,
        "b",
    ),
    "orc-pyorc": File("orc", _pyorc, _FLAT_WHERE, "b"),
    "avro": _ours("avro", {"write.avro.compression-codec": "uncompressed"}),
    "avro-deflate": _ours("avro", {"write.avro.compression-codec": "gzip"}),
    "avro-snappy": _ours("avro", {"write.avro.compression-codec": "snappy"}),
    "avro-fastavro": File("avro", _fastavro, _FLAT_WHERE, "b"),
    "arrow": _ours("arrow"),
    "arrow-stream": _ours("arrow", {"write.arrow.layout": "stream"}),
    "arrow-pyarrow": File("arrow", lambda: arrow_files.foreign(_flat_batches()), _FLAT_WHERE, "b"),
    "arrow-lz4": File("arrow", lambda: arrow_files.foreign(_flat_batches(), compression="lz4"), _FLAT_WHERE, "b"),
    "vortex": _ours("vortex", sealed=True),
    "lance": _ours("lance", sealed=True),
}

_TABLE_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "value", DoubleType()),
    NestedField(4, "list", ListType(5, LongType(), element_required=False)),
)


@dataclass(frozen=True)
class TableFiles:
    """A table in memory: its files by location, and where its newest metadata is."""

    files: dict[str, bytes]
    metadata_location: str

    def structures(self) -> dict[str, list[str]]:
        """The locations of its files by what they are."""
        found: dict[str, list[str]] = {}
        for location in sorted(self.files):
            name = location.rpartition("/")[2]
            if location == self.metadata_location:
                found.setdefault("metadata", []).append(location)
            elif name.startswith("snap-"):
                found.setdefault("manifest_list", []).append(location)
            elif "/metadata/" in location and name.endswith(".avro"):
                found.setdefault("manifest", []).append(location)
            elif name.endswith(".puffin"):
                found.setdefault("puffin", []).append(location)
        return found


TABLES: Mapping[str, dict[str, str]] = {
    "v2": {"format-version": "2", "write.avro.compression-codec": "null"},
    "v2-deflate": {"format-version": "2"},
    "v3": {"format-version": "3", "write.avro.compression-codec": "null"},
}


def build_table(name: str) -> TableFiles:
    """A partitioned table that was appended to, deleted from and upserted."""
    enable_version3()
    store: dict[str, bytes] = {}
    STORES[name] = store
    with InMemoryCatalog(name, warehouse=f"memory://{name}", **LYING_IO, **{STORE: name}) as catalog:
        catalog.create_namespace("db")
        spec = PartitionSpec(
            PartitionField(2, 1000, IdentityTransform(), "part"), PartitionField(1, 1001, BucketTransform(2), "bucket")
        )
        table = catalog.create_table("db.t", _TABLE_SCHEMA, partition_spec=spec, properties=TABLES[name])
        formatkit.append(table, _table_rows(0, 30))
        formatkit.append(table, _table_rows(30, 50), file_format="avro")
        formatkit.delete(table, "id in (3, 4, 33, 34)")
        formatkit.upsert(table, _table_rows(10, 14), "id")
        formatkit.append(table, _table_rows(50, 60), file_format="orc")
        return TableFiles(dict(store), table.metadata_location)


def _table_rows(start: int, stop: int) -> pa.Table:
    parts = ["a", "b", None]
    rows = [
        {"id": i, "part": parts[i % 3], "value": None if i % 5 == 0 else i / 3, "list": [i, None][: i % 3]}
        for i in range(start, stop)
    ]
    types = [("id", pa.int64()), ("part", pa.string()), ("value", pa.float64()), ("list", pa.list_(pa.int64()))]
    schema = pa.schema([pa.field(name, kind, nullable=name != "id") for name, kind in types])
    return pa.Table.from_pylist(rows, schema=schema)
