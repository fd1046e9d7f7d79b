"""What an ORC writer leaves in the file, as pyorc and pyarrow see it, and what it says about it."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.contract import Encryption, ReadOptions, WriteOptions
from formatkit.errors import (
    ConfigurationError,
    FileAlreadyExistsError,
    FormatkitError,
    InvalidDataError,
    UnsupportedError,
)
from formatkit.formats.orc.writer import OrcFileWriter, OrcWriter
from formatkit.io import LocalSink, MemorySink
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from formatkit.tck.strategies import leaf_types, rows
from support.orc_files import open_bytes, pyorc_type, read_rows, stripes_of, written
from support.typed_values import ALL_TYPES, TypedValues

SCHEMA = Schema(NestedField(1, "a", LongType(), required=True), NestedField(2, "t", StringType()))
BATCH = pa.RecordBatch.from_pydict({"a": list(range(1000)), "t": [f"t{n}" for n in range(1000)]})


def read_back(data: bytes, schema: Schema) -> list[pa.RecordBatch]:
    file = open_bytes(data)
    assert file.schema == schema
    with file.read(ReadOptions(projection=schema)).batches as batches:
        return list(batches)


@pytest.mark.parametrize("typed", ALL_TYPES, ids=str)
def test_every_type_comes_back_with_its_edges(typed: TypedValues) -> None:
    schema = Schema(NestedField(1, "a", typed.iceberg))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([typed.column(typed.with_specials)], ["a"])])
    (batch,) = read_back(data, schema)
    batch.validate(full=True)
    assert batch.schema.field(0).type == typed.column([]).type
    expected = from_arrow(schema, pa.RecordBatch.from_arrays([typed.column(typed.with_specials)], ["a"]))
    assert comparable(from_arrow(schema, batch)) == comparable(expected)


@st.composite
def nested_types(draw: st.DrawFn, ids: Any, depth: int = 2) -> IcebergType:
    shape = draw(st.sampled_from(["leaf", "struct", "list", "map"] if depth else ["leaf"]))
    required = draw(st.booleans())
    match shape:
        case "struct":
            kinds = draw(st.lists(nested_types(ids, depth - 1), min_size=1, max_size=3))
            return StructType(
                *(NestedField(next(ids), f"f{i}", kind, required=required) for i, kind in enumerate(kinds))
            )
        case "list":
            return ListType(next(ids), draw(nested_types(ids, depth - 1)), element_required=required)
        case "map":
            value = draw(nested_types(ids, depth - 1))
            return MapType(next(ids), draw(leaf_types()), next(ids), value, value_required=required)
    return draw(leaf_types())


@given(data=st.data())
def test_any_nesting_comes_back(data: st.DataObject) -> None:
    ids = iter(range(10, 10_000))
    kinds = data.draw(st.lists(nested_types(ids), min_size=1, max_size=3))
    schema = Schema(*(NestedField(i + 1, f"c{i}", kind, required=False) for i, kind in enumerate(kinds)))
    content = data.draw(rows(schema, min_size=1))
    sliced = to_arrow(schema, [*content, *content]).slice(len(content)).to_batches()
    stored, _ = written(schema, sliced, properties=stripes_of(data.draw(st.integers(1, 5))))
    found = [row for batch in read_back(stored, schema) for row in from_arrow(schema, batch)]
    assert comparable(found) == comparable(content)


def test_what_is_below_a_null_struct_inside_a_struct_is_not_stored() -> None:
    inner = StructType(NestedField(3, "n", LongType(), required=True))
    schema = Schema(NestedField(1, "outer", StructType(NestedField(2, "inner", inner))))
    plain: list[dict[int, Any]] = [{1: {2: None}}, {1: {2: {3: 7}}}, {1: None}, {1: {2: {3: 8}}}]
    data, _ = written(schema, to_arrow(schema, plain).to_batches())
    assert comparable(row for batch in read_back(data, schema) for row in from_arrow(schema, batch)) == comparable(
        plain
    )


def test_pyorc_and_pyarrow_read_what_was_written() -> None:
    schema = Schema(
        NestedField(1, "n", LongType()),
        NestedField(2, "b", BooleanType()),
        NestedField(3, "u", UUIDType()),
        NestedField(4, "f", FixedType(2)),
        NestedField(5, "t", TimeType()),
        NestedField(6, "l", ListType(7, StringType(), element_required=False)),
    )
    uuid = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16)))
    columns: list[Any] = [
        pa.array([1, None]),
        pa.array([True, None]),
        uuid,
        pa.array([b"ab", None], pa.binary(2)),
        pa.array([1, None], pa.time64("us")),
        pa.array([["x", None], None]),
    ]
    data, _ = written(schema, [pa.RecordBatch.from_arrays(columns, schema.column_names[:6])])
    expected = (1, True, b"0" * 16, b"ab", 1, ["x", None])
    assert list(pyorc.Reader(io.BytesIO(data))) == [expected, (None,) * 6]
    assert tuple(pyarrow.orc.read_table(io.BytesIO(data)).to_pylist()[0].values()) == expected
    stored = pyorc_type(data)
    assert stored["u"].attributes["iceberg.binary-type"] == "UUID"
    assert stored["f"].attributes == {
        "iceberg.id": "4",
        "iceberg.required": "false",
        "iceberg.binary-type": "FIXED",
        "iceberg.length": "2",
    }
    assert stored["t"].attributes["iceberg.long-type"] == "TIME"


def test_geometries_keep_their_reference_system() -> None:
    schema = Schema(
        NestedField(1, "g", GeometryType("EPSG:4326")), NestedField(2, "h", GeographyType("OGC:CRS84", "karney"))
    )
    data, _ = written(
        schema, [pa.RecordBatch.from_arrays([pa.array([b"\1"]), pa.array([None], pa.binary())], ["g", "h"])]
    )
    assert read_rows(open_bytes(data)) == [{"g": b"\1", "h": None}]
    assert open_bytes(data).schema == schema


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "a", "b"]).dictionary_encode(),
        pa.array(["a", None, "a", "b"], pa.large_string()),
        pa.array(["a", None, "a", "b"], pa.string_view()),
        pa.array(["x", "a", None, "a", "b", "y"]).slice(1, 4),
    ],
    ids=lambda column: str(column.type),
)
def test_physical_forms_that_the_encoder_does_not_know_are_written(column: Any) -> None:
    schema = Schema(NestedField(1, "t", StringType()))
    data, _ = written(schema, [pa.RecordBatch.from_arrays([column], ["t"])])
    assert [row["t"] for row in read_rows(open_bytes(data))] == ["a", None, "a", "b"]


def test_unknown_columns_are_left_out_at_every_level() -> None:
    inner = StructType(NestedField(3, "u", UnknownType()), NestedField(4, "a", LongType()))
    schema = Schema(NestedField(1, "u", UnknownType()), NestedField(2, "s", inner))
    column = pa.array([{"u": None, "a": 1}], pa.struct([("u", pa.null()), ("a", pa.int64())]))
    data, result = written(schema, [pa.RecordBatch.from_arrays([pa.nulls(1), column], ["u", "s"])])
    assert str(pyorc_type(data)) == "struct<s:struct<a:bigint>>"
    assert set(result.column_sizes or {}) == {4}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (UnknownType(), "the schema has no column"),
        (StructType(NestedField(2, "u", UnknownType())), "struct 'a' has no column"),
        (ListType(2, UnknownType(), element_required=False), "the elements of 'a'"),
        (MapType(2, StringType(), 3, UnknownType(), value_required=False), "the values of 'a'"),
    ],
    ids=str,
)
def test_what_orc_cannot_store_is_refused(kind: IcebergType, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        OrcWriter().open(LocalSink("nowhere.orc"), WriteOptions(schema=Schema(NestedField(1, "a", kind))))


def test_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match=r"'a' is required, but null in row 1"):
        written(SCHEMA, [pa.RecordBatch.from_pydict({"a": [1, None], "t": ["", ""]})])


@pytest.mark.parametrize("codec", ["none", "zlib", "snappy", "lz4", "zstd"])
def test_metadata_is_stored_with_every_codec(codec: str) -> None:
    pairs = {"key": "value", "größe": "x" * 300_000, "empty": ""}
    data, _ = written(SCHEMA, [BATCH], metadata=pairs, properties={"write.orc.compression-codec": codec})
    assert open_bytes(data).metadata == pairs
    reader = pyorc.Reader(io.BytesIO(data))
    assert {key: value.decode() for key, value in reader.user_metadata.items()} == pairs
    assert len(list(reader)) == 1000
    assert pyarrow.orc.read_table(io.BytesIO(data)).num_rows == 1000


def test_properties_reach_the_file() -> None:
    properties = {
        "write.orc.compression-codec": "SNAPPY",
        "orc.compress.size": "65536",
        "orc.row.index.stride": "100",
        "write.orc.bloom.filter.columns": "a, missing",
        "write.orc.bloom.filter.fpp": "0.01",
        "something.else": "x",
    }
    data, _ = written(SCHEMA, [BATCH], properties=properties)
    reader = pyorc.Reader(io.BytesIO(data))
    assert reader.compression is pyorc.CompressionKind.SNAPPY
    assert reader.compression_block_size == 65536
    assert reader.row_index_stride == 100
    assert reader.read_stripe(0).bloom_filter_columns == (1,)


def test_defaults_are_those_of_iceberg() -> None:
    reader = pyorc.Reader(io.BytesIO(written(SCHEMA, [BATCH])[0]))
    assert reader.compression is pyorc.CompressionKind.ZLIB
    assert reader.compression_block_size == 256 * 1024
    assert reader.row_index_stride == 10_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.orc.compression-codec", "lzo"),
        ("write.orc.compression-strategy", "best"),
        ("write.orc.stripe-size-bytes", "0"),
        ("write.orc.stripe-size-bytes", "64MB"),
        ("write.orc.vectorized.batch-size", "-1"),
        ("write.orc.bloom.filter.fpp", "1"),
        ("write.orc.bloom.filter.fpp", "little"),
        ("orc.row.index.stride", "0"),
        ("orc.dictionary.key.threshold", "2"),
        ("orc.compress.size", "99999999"),
        ("orc.compress.size", "65537"),
    ],
)
def test_a_bad_property_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=key):
        written(SCHEMA, [BATCH], properties={key: value})


@pytest.mark.parametrize("rows_per_stripe", [1, 100, 333])
def test_the_result_tells_stripes_sizes_and_rows(rows_per_stripe: int) -> None:
    data, result = written(SCHEMA, [BATCH, BATCH], properties=stripes_of(rows_per_stripe))
    reader = pyorc.Reader(io.BytesIO(data))
    stripes = list(reader.iter_stripes())
    assert result.split_offsets == tuple(stripe.bytes_offset for stripe in stripes)
    assert len(stripes) == 2 * -(-1000 // rows_per_stripe)
    assert (result.size_bytes, result.row_count) == (len(data), 2000)
    assert result.column_sizes is not None
    streams = sum(stripe.bytes_length for stripe in stripes)
    assert 0.2 * streams < sum(result.column_sizes.values()) < streams
    assert [row["a"] for row in read_rows(open_bytes(data))] == [*range(1000), *range(1000)]


def test_column_sizes_add_up_to_the_streams() -> None:
    schema = Schema(*(NestedField(i, f"c{i}", LongType()) for i in range(1, 4)))
    rng = np.random.default_rng(0)
    noise = [pa.array(rng.integers(0, 2**62, 10_000)) for _ in range(3)]
    data, result = written(schema, [pa.RecordBatch.from_arrays(noise, ["c1", "c2", "c3"])])
    assert result.column_sizes is not None
    assert all(70_000 < size < 90_000 for size in result.column_sizes.values())
    assert sum(result.column_sizes.values()) > 0.99 * len(data)


def test_bytes_written_grow_with_the_rows() -> None:
    rng = np.random.default_rng(0)
    schema = Schema(NestedField(1, "a", LongType()))
    batch = pa.RecordBatch.from_arrays([pa.array(rng.integers(0, 2**62, 50_000))], ["a"])
    sink = MemorySink()
    writer = OrcWriter().open(sink, WriteOptions(schema=schema, properties={"write.orc.stripe-size-bytes": "1000000"}))
    seen = [writer.bytes_written()]
    for _ in range(10):
        writer.write(batch)
        seen.append(writer.bytes_written())
    result = writer.close()
    assert result is not None
    assert seen == sorted(seen)
    assert 0.5 * result.size_bytes < seen[-1] < 1.5 * result.size_bytes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.orc"


def open_writer(path: Path, *, overwrite: bool = False) -> OrcFileWriter:
    options = WriteOptions(schema=SCHEMA, properties=stripes_of(100), overwrite=overwrite)
    return OrcWriter().open(LocalSink(path), options)


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
    assert left_behind(path) == []


@pytest.mark.parametrize("rows", [0, 10, 1000])
def test_an_aborted_writer_leaves_no_file_and_cannot_go_on(path: Path, rows: int) -> None:
    writer = open_writer(path)
    writer.write(BATCH.slice(0, rows))
    writer.abort()
    writer.abort()
    assert left_behind(path) == []
    for attempt in (writer.close, lambda: writer.write(BATCH)):
        with pytest.raises(FormatkitError, match="was aborted"):
            attempt()


def test_an_exception_leaves_no_file(path: Path) -> None:
    def write_and_fail() -> None:
        with open_writer(path) as writer:
            writer.write(BATCH)
            raise RuntimeError("elsewhere")

    with pytest.raises(RuntimeError, match="elsewhere"):
        write_and_fail()
    assert left_behind(path) == []


def test_a_taken_location_is_refused_unless_it_may_be_overwritten(path: Path) -> None:
    path.write_bytes(b"old")
    with pytest.raises(FileAlreadyExistsError):
        open_writer(path)
    assert path.read_bytes() == b"old"
    with open_writer(path, overwrite=True) as writer:
        writer.write(BATCH)
    assert path.read_bytes()[:3] == b"ORC"


def test_encryption_is_refused(path: Path) -> None:
    with pytest.raises(UnsupportedError, match="encrypted"):
        OrcWriter().open(LocalSink(path), WriteOptions(schema=SCHEMA, encryption=Encryption(key=b"0" * 16)))


def test_decimals_and_moments_are_read_by_pyorc() -> None:
    typed = [typed for typed in ALL_TYPES if str(typed.iceberg) in ("decimal(9, 2)", "timestamptz")]
    schema = Schema(*(NestedField(i + 1, f"c{i}", one.iceberg) for i, one in enumerate(typed)))
    columns: list[Any] = [
        pa.array([Decimal("-1.10")], pa.decimal128(9, 2)),
        pa.array([-1_500_000], pa.timestamp("us", "UTC")),
    ]
    data, _ = written(schema, [pa.RecordBatch.from_arrays(columns, ["c0", "c1"])])
    moment = datetime(1969, 12, 31, 23, 59, 58, 500_000, UTC)
    assert list(pyorc.Reader(io.BytesIO(data))) == [(Decimal("-1.10"), moment)]
