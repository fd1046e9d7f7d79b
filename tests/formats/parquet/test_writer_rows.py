"""What was written is what other readers, and ours, read back."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzNanoType,
    UUIDType,
)

from formatkit.contract import Encryption
from formatkit.errors import ConfigurationError, CorruptFileError, InvalidDataError
from support.arrow_forms import FORMS
from support.parquet_reading import open_bytes, read_batches, read_rows
from support.parquet_writing import metadata_of, write_bytes, written
from support.typed_values import ALL_TYPES, TypedValues


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Equal with NaN equal to itself and −0.0 apart from 0.0."""
    return [_key(value) for value in found] == [_key(value) for value in wanted]


def _key(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def internal(column: Any, typed: TypedValues) -> list[Any]:
    """Arrow values as the data set has them: integers for times, bytes for uuids."""
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    if pa.types.is_temporal(storage.type):
        width = pa.int32() if pa.types.is_date32(storage.type) else pa.int64()
        return list(storage.view(width).to_pylist())
    return list(storage.to_pylist())


@pytest.mark.parametrize(
    ("typed", "form"),
    [
        pytest.param(typed, form, id=f"{typed}-{form}")
        for typed in ALL_TYPES
        for form, make in FORMS.items()
        if make(typed.column(typed.with_specials)) is not None
    ],
)
def test_every_value_of_every_type_in_every_form_is_read_back(typed: TypedValues, form: str) -> None:
    values = typed.with_specials
    column = FORMS[form](typed.column(values))
    schema = Schema(NestedField(1, "a", typed.iceberg, required=False))
    data = write_bytes(schema, column)
    stored = pq.read_table(io.BytesIO(data)).column(0).combine_chunks()
    assert same(internal(stored, typed), values)
    (batch,) = read_batches(open_bytes(data))
    assert same(internal(batch.column(0), typed), values)


NESTED = Schema(
    NestedField(1, "l", ListType(2, IntegerType(), element_required=False), required=False),
    NestedField(3, "m", MapType(4, StringType(), 5, LongType(), value_required=False), required=False),
    NestedField(
        6,
        "ls",
        ListType(7, StructType(NestedField(8, "x", IntegerType(), required=False)), element_required=False),
        required=False,
    ),
    NestedField(
        9,
        "s",
        StructType(NestedField(10, "l", ListType(11, StringType(), element_required=False), required=False)),
        required=False,
    ),
    NestedField(
        12,
        "ms",
        MapType(
            13, StringType(), 14, StructType(NestedField(15, "y", LongType(), required=False)), value_required=False
        ),
        required=False,
    ),
)
NESTED_ROWS: list[dict[str, Any]] = [
    {"l": None, "m": None, "ls": None, "s": None, "ms": None},
    {"l": [], "m": [], "ls": [], "s": {"l": None}, "ms": []},
    {"l": [None], "m": [("k", None)], "ls": [None], "s": {"l": []}, "ms": [("k", None)]},
    {
        "l": [1, None, 2],
        "m": [("k", 1), ("", 2)],
        "ls": [{"x": None}, {"x": 3}],
        "s": {"l": [None, "a"]},
        "ms": [("k", {"y": None})],
    },
]
NESTED_ARROW = pa.schema(
    [
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("ls", pa.list_(pa.struct([("x", pa.int32())]))),
        ("s", pa.struct([("l", pa.list_(pa.string()))])),
        ("ms", pa.map_(pa.string(), pa.struct([("y", pa.int64())]))),
    ]
)


@pytest.mark.parametrize("repeat", [1, 3])
def test_null_empty_and_null_holding_lists_and_maps_stay_apart(repeat: int) -> None:
    rows = NESTED_ROWS * repeat
    batch = pa.RecordBatch.from_pylist(rows, NESTED_ARROW)
    data, _ = written(NESTED, [batch])
    assert pq.read_table(io.BytesIO(data)).to_pylist() == rows
    assert read_rows(open_bytes(data)) == rows


def test_sliced_nested_batches_are_written_as_their_rows() -> None:
    batch = pa.RecordBatch.from_pylist(NESTED_ROWS * 2, NESTED_ARROW)
    data, _ = written(NESTED, [batch.slice(1, 2), batch.slice(3, 0), batch.slice(3, 3)])
    assert pq.read_table(io.BytesIO(data)).to_pylist() == (NESTED_ROWS * 2)[1:6]


def test_polars_and_duckdb_read_the_same_rows(tmp_path: Path) -> None:
    fields = [NestedField(i, f"c{i}", typed.iceberg, required=False) for i, typed in enumerate(ALL_TYPES)]
    columns = [typed.column([*_moderate(typed), None]) for typed in ALL_TYPES]
    path = tmp_path / "all.parquet"
    path.write_bytes(write_bytes(Schema(*fields), *columns))
    expected = [column.to_pylist() for column in columns]
    frame = pl.read_parquet(path)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        relation = connection.sql(f"from '{path}'").to_arrow_table()
    for position, (typed, values) in enumerate(zip(ALL_TYPES, expected, strict=True)):
        in_polars, in_duckdb = frame[f"c{position}"].to_list(), relation.column(position).to_pylist()
        if isinstance(typed.iceberg, UUIDType):
            in_polars, in_duckdb = ([v and UUID(bytes=v) for v in in_polars], [v and UUID(str(v)) for v in in_duckdb])
        assert in_polars == values, typed
        if not isinstance(typed.iceberg, TimestamptzNanoType):
            assert in_duckdb == values, typed


def _moderate(typed: TypedValues) -> list[Any]:
    """Two values that every tool can show; each has its own limits for dates and times."""
    values = [value for value in typed.ascending if not isinstance(value, int) or -1_000 < value < 2**30][:2]
    return [value * 1000 for value in values] if "_ns" in str(typed) else values


def test_rows_come_back_in_order_over_many_row_groups() -> None:
    schema = Schema(NestedField(1, "a", LongType(), required=True))
    batches = [pa.record_batch({"a": pa.array(range(i, i + 37))}) for i in range(0, 3700, 37)]
    data, result = written(schema, batches, properties={"write.parquet.row-group-limit": "250"})
    assert metadata_of(data).num_row_groups == 15
    assert pq.read_table(io.BytesIO(data)).column(0).to_pylist() == list(range(3700))
    assert result.row_count == 3700


def test_long_and_odd_values_survive() -> None:
    schema = Schema(
        NestedField(1, "s", StringType(), required=False), NestedField(2, "b", BinaryType(), required=False)
    )
    texts, blobs = ["", "a\0b", "x" * (1 << 20), None], [b"", b"\0", b"\xff" * (1 << 20), None]
    stored = pq.read_table(io.BytesIO(write_bytes(schema, pa.array(texts), pa.array(blobs)))).to_pydict()
    assert stored == {"s": texts, "b": blobs}


def test_geometries_are_stored_as_their_bytes_at_every_level() -> None:
    point = b"\x01\x01\x00\x00\x00" + b"\0" * 16
    schema = Schema(
        NestedField(1, "g", GeometryType(), required=False),
        NestedField(2, "l", ListType(3, GeometryType("EPSG:3857"), element_required=False), required=False),
    )
    data = write_bytes(schema, pa.array([point, None], pa.large_binary()), pa.array([[point, None], None]))
    assert pq.read_table(io.BytesIO(data)).column("l").to_pylist() == [[point, None], None]
    assert [row["g"] for row in read_rows(open_bytes(data))] == [point, None]


@pytest.mark.parametrize("required_in", ["top", "list", "struct"])
def test_a_null_in_a_required_column_is_refused(required_in: str) -> None:
    element = NestedField(3, "x", IntegerType(), required=True)
    kinds: dict[str, tuple[NestedField, Any]] = {
        "top": (NestedField(1, "a", IntegerType(), required=True), pa.array([1, None], pa.int32())),
        "list": (
            NestedField(1, "a", ListType(2, IntegerType(), element_required=True), required=False),
            pa.array([[1, None]], pa.list_(pa.int32())),
        ),
        "struct": (
            NestedField(1, "a", StructType(element), required=False),
            pa.array([{"x": None}], pa.struct([("x", pa.int32())])),
        ),
    }
    field, column = kinds[required_in]
    with pytest.raises(InvalidDataError):
        write_bytes(Schema(field), column)


POINT = StructType(
    NestedField(10, "x", LongType(), required=True),
    NestedField(11, "id", UUIDType(), required=True),
    NestedField(12, "more", StructType(NestedField(13, "s", StringType(), required=True)), required=True),
)
POINT_ARROW = pa.struct([("x", pa.int64()), ("id", pa.binary(16)), ("more", pa.struct([("s", pa.string())]))])
HERE: dict[str, Any] = {"x": 1, "id": b"i" * 16, "more": {"s": "a"}}
BELOW_NULLS: dict[str, tuple[IcebergType, Any, list[Any]]] = {
    "struct": (POINT, POINT_ARROW, [None, HERE, None]),
    "list": (ListType(2, POINT, element_required=False), pa.list_(POINT_ARROW), [[None, HERE], None, []]),
    "map": (
        MapType(2, StringType(), 3, POINT, value_required=False),
        pa.map_(pa.string(), POINT_ARROW),
        [[("k", None), ("l", HERE)], None],
    ),
}


@pytest.mark.parametrize(("kind", "arrow", "values"), BELOW_NULLS.values(), ids=BELOW_NULLS)
@pytest.mark.parametrize("sliced", [False, True])
def test_null_parents_of_required_fields_are_written(kind: IcebergType, arrow: Any, values: Any, sliced: bool) -> None:
    column = pa.array([values[1], *values], arrow).slice(1) if sliced else pa.array(values, arrow)
    data = write_bytes(Schema(NestedField(1, "a", kind, required=False)), column)
    read_table: Any = pq.read_table  # the published stubs lack the switch for extension types
    assert read_table(io.BytesIO(data), arrow_extensions_enabled=False).column(0).to_pylist() == values


def test_a_value_outside_the_type_is_refused() -> None:
    schema = Schema(NestedField(1, "a", TimestampType(), required=False))
    with pytest.raises(InvalidDataError, match="'a'"):
        write_bytes(schema, pa.array([2**62], pa.timestamp("s")))


KEY = b"0123456789abcdef"


@pytest.mark.parametrize("key", [KEY, KEY + b"12345678", KEY * 2], ids=len)
@pytest.mark.parametrize("aad", [b"", b"table/file-1"])
def test_encrypted_files_are_read_with_the_key_and_the_prefix_only(key: bytes, aad: bytes) -> None:
    schema = Schema(NestedField(1, "secret", StringType(), required=False))
    encryption = Encryption(key=key, aad_prefix=aad)
    properties = {"write.parquet.bloom-filter-enabled.column.secret": "true"}
    batch = pa.record_batch({"secret": ["launch code"] * 10})
    data, result = written(schema, [batch], encryption=encryption, properties=properties, metadata={"k": "v"})
    assert data[:4] == data[-4:] == b"PARE"
    assert b"launch code" not in data
    assert b"secret" not in data
    assert not aad or aad not in data
    assert result.row_count == 10
    assert result.column_sizes is not None
    assert result.column_sizes[1] > 0
    file = open_bytes(data, encryption=encryption)
    assert read_rows(file) == [{"secret": "launch code"}] * 10
    assert file.metadata["k"] == "v"
    with pytest.raises((CorruptFileError, ConfigurationError)):
        read_rows(open_bytes(data, encryption=Encryption(key=b"x" * len(key), aad_prefix=aad)))
    with pytest.raises((CorruptFileError, ConfigurationError)):
        read_rows(open_bytes(data, encryption=Encryption(key=key, aad_prefix=b"another")))


@pytest.mark.parametrize("length", [0, 1, 15, 17, 33])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), required=False))
    with pytest.raises(ConfigurationError, match=f"has {length} bytes; .* 16, 24, 32"):
        written(schema, [], encryption=Encryption(key=b"x" * length))
