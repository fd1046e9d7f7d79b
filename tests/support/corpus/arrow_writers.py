"""Writers that take Arrow tables: pyarrow with odd settings, DuckDB, Polars, and the libraries of Vortex and Lance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc
import pyarrow.parquet as pq
import vortex as vx
from lance.file import LanceFileWriter
from pyiceberg.types import DateType, DecimalType, IntegerType, LongType, TimestampType, TimestamptzType

from formatkit.tck.rows import to_arrow
from support.corpus.content import Content, Stored
from support.corpus.settings import Choices, Settings
from support.corpus.values import (
    BINARY,
    BOOLEAN,
    DATE,
    DAY,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LISTS,
    LONG,
    MAP,
    NESTED,
    STRING,
    STRUCT,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NANO,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NANO,
    UUID,
    YEAR,
    Domain,
    decimals,
    fixed,
    integers,
    moments,
    steps,
)
from support.corpus.writer import Writer

__all__ = [
    "DUCKDB",
    "LANCE",
    "POLARS_AVRO",
    "POLARS_IPC",
    "POLARS_PARQUET",
    "PYARROW_IPC",
    "PYARROW_ORC",
    "PYARROW_PARQUET",
    "VORTEX",
]

_HALF = Domain(
    FLOAT.type,
    [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), -float("inf"), 65504.0, 2.0**-24],
    lambda random, _: random.randint(-2048, 2048) / 8,
    key=FLOAT.key,
)
_UINT64 = Domain(
    DecimalType(20, 0),
    [Decimal(number) for number in (0, 1, 2**63 - 1, 2**63, 2**64 - 1)],
    lambda random, reach: Decimal(random.getrandbits(1 + int(63 * reach))),
)
# Moments that fit nanoseconds, though they are stored in other units.
_NEAR = moments(TimestampType(), -290 * YEAR, 290 * YEAR)
_DAYS = integers(DateType(), -290 * 365, 290 * 365)
_LETTERS = Domain(STRING.type, list("abcdef"), lambda random, _: random.choice("abcdef"), key=str.encode)


def _cast(kind: pa.DataType) -> Callable[[Any], Any]:
    return lambda array: array.cast(kind)


def _stored(name: str, domain: Domain, kind: pa.DataType | None = None) -> Stored:
    return Stored(name, domain, _cast(kind) if kind is not None else lambda array: array)


def _encoded_runs(array: Any) -> Any:
    return pc.call_function("run_end_encode", [array])


_COLUMNS = {
    column.name: column
    for column in (
        _stored("boolean", BOOLEAN),
        _stored("int8", integers(IntegerType(), -128, 127), pa.int8()),
        _stored("int16", integers(IntegerType(), -(2**15), 2**15 - 1), pa.int16()),
        _stored("uint8", integers(IntegerType(), 0, 255), pa.uint8()),
        _stored("uint16", integers(IntegerType(), 0, 2**16 - 1), pa.uint16()),
        _stored("uint32", integers(LongType(), 0, 2**32 - 1), pa.uint32()),
        _stored("int32", INT),
        _stored("int64", LONG),
        _stored("uint64", _UINT64, pa.uint64()),
        _stored("half", _HALF, pa.float16()),
        _stored("float", FLOAT),
        _stored("double", DOUBLE),
        _stored("date32", DATE),
        _stored("date64", DATE, pa.date64()),
        _stored("time_s", steps(TIME, 1_000_000), pa.time32("s")),
        _stored("time_ms", steps(TIME, 1000), pa.time32("ms")),
        _stored("time_us", TIME),
        _stored("ts_s", steps(TIMESTAMP, 1_000_000), pa.timestamp("s")),
        _stored("ts_ms", steps(TIMESTAMP, 1000), pa.timestamp("ms")),
        _stored("ts_us", TIMESTAMP),
        _stored("ts_ns", TIMESTAMP_NANO),
        _stored("tz_ms", steps(TIMESTAMPTZ, 1000), pa.timestamp("ms", "America/New_York")),
        _stored("tz_us", TIMESTAMPTZ),
        _stored("tz_ns", TIMESTAMPTZ_NANO, pa.timestamp("ns", "+02:00")),
        _stored("string", STRING),
        _stored("large_string", STRING, pa.large_string()),
        _stored("string_view", STRING, pa.string_view()),
        _stored("dictionary", STRING, pa.dictionary(pa.int16(), pa.string())),
        _stored("runs", _LETTERS),
        _stored("binary", BINARY),
        _stored("large_binary", BINARY, pa.large_binary()),
        _stored("fixed", fixed(5)),
        _stored("uuid", UUID),
        _stored("decimal32", decimals(9, 2), pa.decimal32(9, 2)),
        _stored("decimal64", decimals(18, 6), pa.decimal64(18, 6)),
        _stored("decimal128", decimals(38, 10)),
        _stored("decimal256", decimals(20, 5), pa.decimal256(20, 5)),
        _stored("struct", STRUCT),
        _stored("list", LIST),
        _stored("large_list", LIST, pa.large_list(pa.int32())),
        _stored("lists", LISTS),
        _stored("map", MAP),
        _stored("nested", NESTED),
    )
}
_MOMENTS = tuple(name for name in _COLUMNS if name.startswith(("ts_", "tz_")))
# Parquet's times in nanoseconds are numbers in Iceberg, which has none.
_TIME_NANOS = _stored("time_ns", integers(LongType(), 0, DAY * 1000 - 1), pa.time64("ns"))
_RUNS = Stored("runs", _LETTERS, _encoded_runs)
_REQUIRED = [
    Stored("int64_required", LONG, lambda array: array, required=True),
    Stored("string_required", STRING, lambda array: array, required=True),
    Stored("double_required", DOUBLE, lambda array: array, required=True),
]


def _without(*names: str) -> list[Stored]:
    return [column for name, column in _COLUMNS.items() if name not in names]


def arrow_table(content: Content) -> pa.Table:
    """The content in the types that its columns ask for."""
    table = to_arrow(content.schema, content.rows, ids=False)
    arrays = [column.native(array) for column, array in zip(content.columns, table.columns, strict=True)]
    fields = [
        pa.field(column.name, array.type, nullable=not column.required)
        for column, array in zip(content.columns, arrays, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


_PARQUET_CHOICES: Choices = {
    "compression": ["none", "snappy", "gzip", "brotli", "zstd", "lz4"],
    "version": ["2.6", "1.0", "2.4"],
    "data_page_version": ["1.0", "2.0"],
    "row_group_size": [1000, 50, 7],
    "data_page_size": [1 << 20, 100],
    "write_batch_size": [1024, 10],
    "encoding": ["dictionary", "small dictionary", "plain", "delta", "split"],
    "write_page_index": [False, True],
    "write_page_checksum": [False, True],
    "write_statistics": [True, True, False],
    "store_schema": [True, False],
    "store_decimal_as_integer": [False, True],
    "use_deprecated_int96_timestamps": [False, False, True],
    "use_compliant_nested_type": [True, False],
    "use_content_defined_chunking": [False, True],
    "bloom": [False, True],
}
_DELTAS = {
    "int32": "DELTA_BINARY_PACKED",
    "int64": "DELTA_BINARY_PACKED",
    "string": "DELTA_BYTE_ARRAY",
    "large_string": "DELTA_LENGTH_BYTE_ARRAY",
    "binary": "DELTA_LENGTH_BYTE_ARRAY",
    "fixed": "DELTA_BYTE_ARRAY",
    "boolean": "RLE",
    "ts_us": "DELTA_BINARY_PACKED",
}
_SPLITS = dict.fromkeys(("int32", "int64", "float", "double", "half", "fixed", "decimal128"), "BYTE_STREAM_SPLIT")
_BLOOMED = ("int32", "int64", "double", "string", "binary", "fixed", "ts_us")


def _parquet_columns(settings: Settings) -> list[Stored]:
    if settings["use_deprecated_int96_timestamps"]:
        return [*_without(*_MOMENTS), _stored("int96", replace(_NEAR, type=TimestamptzType()), pa.timestamp("us"))]
    # Only the last version has nanoseconds, and the first stores unsigned numbers as signed ones.
    lacking = {"1.0": ("ts_ns", "tz_ns", "uint32"), "2.4": ("ts_ns", "tz_ns")}.get(settings["version"], ())
    return [*_without(*lacking), *_REQUIRED, _TIME_NANOS] if not lacking else [*_without(*lacking), *_REQUIRED]


def _write_parquet(path: Path, content: Content, settings: Settings) -> None:
    options = dict(settings)
    encoding, bloom = options.pop("encoding"), options.pop("bloom")
    names = [column.name for column in content.columns]
    chosen = {"delta": _DELTAS, "split": _SPLITS}.get(encoding, {})
    options["use_dictionary"] = encoding in ("dictionary", "small dictionary")
    if encoding == "small dictionary":
        options["dictionary_pagesize_limit"] = 16
    if used := {name: chosen[name] for name in names if name in chosen}:
        options["column_encoding"] = used
    if bloom:
        options["bloom_filter_options"] = {name: {"ndv": 100, "fpp": 0.01} for name in names if name in _BLOOMED}
    pq.write_table(arrow_table(content), path, **options)


PYARROW_PARQUET = Writer("pyarrow, Parquet", "parquet", _PARQUET_CHOICES, _parquet_columns, _write_parquet)

_ORC_CHOICES: Choices = {
    "compression": ["uncompressed", "zlib", "snappy", "lz4", "zstd"],
    "file_version": ["0.12", "0.11"],
    "stripe_size": [1 << 26, 1024],
    "batch_size": [1024, 13],
    "compression_block_size": [65_536, 262_144],
    "compression_strategy": ["speed", "compression"],
    "row_index_stride": [10_000, 50, 20],
    "dictionary_key_size_threshold": [0.0, 1.0],
    "bloom": [False, True],
}


def _write_orc(path: Path, content: Content, settings: Settings) -> None:
    options = dict(settings)
    bloom = options.pop("bloom")
    options["bloom_filter_columns"] = list(range(len(content.columns))) if bloom else None
    pyarrow.orc.write_table(arrow_table(content), path, **options)


_NOT_IN_ORC = (
    *("uint8", "uint16", "uint32", "uint64", "half", "date64", "time_s", "time_ms", "time_us", "ts_ns", "tz_ns"),
    *("string_view", "dictionary", "fixed", "uuid", "decimal32", "decimal64", "decimal256"),
)
PYARROW_ORC = Writer("pyarrow, ORC", "orc", _ORC_CHOICES, lambda _: _without(*_NOT_IN_ORC), _write_orc)

_IPC_CHOICES: Choices = {
    "compression": [None, "lz4", "zstd"],
    "stream": [False, True],
    "batch_rows": [1000, 50, 7],
}


def _write_ipc(path: Path, content: Content, settings: Settings) -> None:
    table = arrow_table(content)
    options = pa.ipc.IpcWriteOptions(
        compression=settings["compression"], emit_dictionary_deltas=False, unify_dictionaries=True
    )
    make = pa.ipc.new_stream if settings["stream"] else pa.ipc.new_file
    with make(str(path), table.schema, options=options) as writer:
        writer.write_table(table, settings["batch_rows"])


PYARROW_IPC = Writer("pyarrow, Arrow IPC", "arrow", _IPC_CHOICES, lambda _: [*_without("runs"), _RUNS], _write_ipc)

_DUCKDB_CHOICES: Choices = {
    "codec": ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"],
    "parquet_version": ["v1", "v2"],
    "row_group_size": [2048, 100_000],
    "dictionary_size_limit": [0, 100, 100_000],
    "string_dictionary_page_size_limit": [100, 1_000_000],
    "write_bloom_filter": [True, False],
}


def _write_by_duckdb(path: Path, content: Content, settings: Settings) -> None:
    options = ", ".join(f"{name} {value}" for name, value in settings.items())
    connection = duckdb.connect()
    try:
        connection.execute("set threads to 1")
        connection.register("rows", arrow_table(content))
        connection.execute(f"copy (select * from rows) to '{path}' (format parquet, {options})")
    finally:
        connection.close()


_NOT_IN_DUCKDB = ("half", "fixed", "decimal256", "int32", "uint32")
# Differences that need more than 32 bits are stored in a way that pyarrow does not read.
_CLOSE = [
    _stored("int32", integers(IntegerType(), -(2**30), 2**30 - 1)),
    _stored("uint32", integers(LongType(), 0, 2**31 - 1), pa.uint32()),
]
DUCKDB = Writer(
    "DuckDB",
    "parquet",
    _DUCKDB_CHOICES,
    lambda _: [*_without(*_NOT_IN_DUCKDB), *_CLOSE],
    _write_by_duckdb,
    (200, 0, 200, 5000),
)


def _frame(content: Content) -> pl.DataFrame:
    frame = pl.from_arrow(arrow_table(content), rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


# Polars has dates with times, bytes and times in nanoseconds in place of these, and panics at the last.
# In Avro it knows few types, and drops the sign of decimals.
_OTHER_IN_POLARS = ("date64", "fixed", "uuid", "decimal256")
_TIMES = ("time_s", "time_ms", "time_us")
_IN_AVRO = (
    *("boolean", "int32", "int64", "float", "double", "date32", "ts_s", "ts_ms", "ts_us", "string", "large_string"),
    *("string_view", "runs", "binary", "large_binary", "struct", "list", "large_list", "lists"),
)
_POLARS_CHOICES: Choices = {
    "compression": ["uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4"],
    "statistics": [True, False, "full"],
    "row_group_size": [None, 50, 7],
    "data_page_size": [None, 100],
}
POLARS_PARQUET = Writer(
    "Polars, Parquet",
    "parquet",
    _POLARS_CHOICES,
    lambda _: [*_without(*_OTHER_IN_POLARS, *_TIMES), _TIME_NANOS],
    lambda path, content, settings: _frame(content).write_parquet(path, **settings),
)


def _write_ipc_by_polars(path: Path, content: Content, settings: Settings) -> None:
    _frame(content).write_ipc(path, **settings)


POLARS_IPC = Writer(
    "Polars, Arrow IPC",
    "arrow",
    {"compression": ["uncompressed", "lz4", "zstd"], "record_batch_size": [None, 50, 7]},
    lambda _: _without(*_OTHER_IN_POLARS),
    _write_ipc_by_polars,
)
POLARS_AVRO = Writer(
    "Polars, Avro",
    "avro",
    {"compression": ["uncompressed", "snappy", "deflate"], "name": ["", "row"]},
    lambda _: [_COLUMNS[name] for name in _IN_AVRO],
    lambda path, content, settings: _frame(content).write_avro(path, **settings),
)


def _batches(content: Content, rows: int) -> list[pa.RecordBatch]:
    """The content in batches that are no slices of others: Vortex and Lance panic at slices of structs."""
    parts = (replace(content, rows=content.rows[at : at + rows]) for at in range(0, len(content.rows), rows))
    return [arrow_table(part).combine_chunks().to_batches()[0] for part in parts]


def _write_by_vortex(path: Path, content: Content, settings: Settings) -> None:
    table = arrow_table(content)
    reader = pa.RecordBatchReader.from_batches(table.schema, _batches(content, settings["batch_rows"]))
    options = vx.io.VortexWriteOptions.compact() if settings["compact"] else vx.io.VortexWriteOptions.default()
    options.write(reader, str(path))


_NEAR_MOMENTS = [
    _stored("ts_s", steps(_NEAR, 1_000_000), pa.timestamp("s")),
    _stored("ts_us", _NEAR),
    _stored("tz_ms", replace(steps(_NEAR, 1000), type=TimestamptzType()), pa.timestamp("ms", "America/New_York")),
    _COLUMNS["ts_ns"],
    _COLUMNS["tz_ns"],
]
VORTEX = Writer(
    "Vortex",
    "vortex",
    {"batch_rows": [1000, 50, 7], "compact": [False, True]},
    lambda _: [*_without(*_MOMENTS, "fixed"), *_NEAR_MOMENTS],
    _write_by_vortex,
)


def _write_by_lance(path: Path, content: Content, settings: Settings) -> None:
    schema, version, page = arrow_table(content).schema, settings["version"], settings["page"]
    with LanceFileWriter(str(path), schema, version=version, max_page_bytes=page) as writer:
        for batch in _batches(content, settings["batch_rows"]):
            writer.write_batch(batch)


def _lance_columns(settings: Settings) -> list[Stored]:
    lacking = {"2.0": ("string_view", "struct", "map", "nested"), "2.1": ("map", "nested")}.get(settings["version"], ())
    return _without("decimal32", "decimal64", *lacking)


LANCE = Writer(
    "Lance",
    "lance",
    {"version": ["2.0", "2.1", "2.2"], "page": [None, 1000], "batch_rows": [1000, 50, 7]},
    _lance_columns,
    _write_by_lance,
)
