"""Groups, lists, maps, names and counts as other writers leave them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import IntegerType, UnknownType

import formatkit
from formatkit.errors import CorruptFileError, InvalidDataError
from formatkit.formats.parquet.thrift import binary, decode_struct, encode, i32, i64, list_of
from support.decode_paths import WAYS, Read, duckdb_rows
from support.filters import EqualTo
from support.foreign_parquet import (
    BYTE_ARRAY,
    INT32,
    LIST,
    MAP,
    MAP_KEY_VALUE,
    REPEATED,
    REQUIRED,
    UTF8,
    Node,
    group,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.parquet_reading import open_bytes

each_way = pytest.mark.parametrize("read", WAYS.values(), ids=WAYS.keys())


def rows_of(data: bytes, **asked: Any) -> list[Any]:
    table = formatkit.read_file(data, file_format="parquet", **asked).to_arrow()
    table.validate(full=True)
    return table.to_pylist()


ENTRY = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.int32())])
KEY, VALUE = leaf("key", BYTE_ARRAY, converted=UTF8), leaf("value", INT32)


def map_file(rows: list[Any], *, inner: int | None = None, **options: Any) -> bytes:
    """Maps whose keys are optional."""
    table = pa.table({"m": pa.array(rows, pa.list_(pa.field("entry", ENTRY, nullable=False)))})
    entries = group("entries", KEY, VALUE, repetition=REPEATED, converted=inner)
    return with_schema(parquet_bytes(table, store_schema=False, **options), group("m", entries, converted=MAP))


ENTRIES: list[Any] = [[{"key": "a", "value": 1}, {"key": "b", "value": None}], None, [], [{"key": "c", "value": 3}]]


@each_way
@pytest.mark.parametrize("inner", [None, MAP_KEY_VALUE], ids=["plain", "MAP_KEY_VALUE"])
@pytest.mark.parametrize("copies", [1, 1500], ids=["few", "many"])
def test_optional_keys_of_maps_are_read(read: Read, inner: int | None, copies: int, tmp_path: Path) -> None:
    data = map_file(ENTRIES * copies, inner=inner)
    expected = [None if row is None else [(entry["key"], entry["value"]) for entry in row] for row in ENTRIES] * copies
    assert [row if row is None else list(map(tuple, row)) for row in read(data)] == expected
    path = tmp_path / "map.parquet"
    path.write_bytes(data)
    by_duckdb = duckdb_rows(path)
    assert [None if row is None else list(row.items()) for (row,) in by_duckdb] == expected


@each_way
def test_null_keys_are_refused_where_they_occur(read: Read) -> None:
    data = map_file([*ENTRIES, [{"key": None, "value": 1}]])
    with pytest.raises(InvalidDataError, match="map 'm' has 1 null keys"):
        read(data)


@pytest.mark.parametrize(
    ("stored_as", "value", "column", "expected"),
    [
        pytest.param(
            pa.struct([("a", pa.int32()), ("b", pa.int32())]),
            {"a": 1, "b": 2},
            group("c", leaf("a", INT32), leaf("b", INT32), converted=LIST),
            {"a": 1, "b": 2},
            id="a list of two fields",
        ),
        pytest.param(
            pa.list_(pa.field("x", pa.int32(), nullable=False)),
            [1],
            group("c", group("map", leaf("key", INT32, REQUIRED), repetition=REPEATED), converted=MAP),
            {"map": [{"key": 1}]},
            id="a map of keys only",
        ),
        pytest.param(
            pa.struct([("a", pa.int32())]),
            {"a": 1},
            group("c", leaf("a", INT32), converted=MAP),
            {"a": 1},
            id="a map that is not repeated",
        ),
        pytest.param(
            pa.struct([("a", pa.int32())]),
            {"a": 1},
            group("c", leaf("a", INT32), logical={99: {}}),
            {"a": 1},
            id="a group of an unknown annotation",
        ),
        pytest.param(
            pa.struct([("a", pa.int32())]),
            {"a": 1},
            group("c", leaf("a", INT32), converted=UTF8),
            {"a": 1},
            id="a group that is text",
        ),
        pytest.param(
            pa.list_(pa.field("x", pa.int32())),
            [1, None],
            group("c", group("list", leaf("x", INT32), repetition=REPEATED), converted=LIST, logical={99: {}}),
            [1, None],
            id="a list with an unknown logical type",
        ),
    ],
)
def test_groups_of_another_shape_than_their_annotation_are_plain_groups(
    stored_as: Any, value: Any, column: list[Node], expected: Any
) -> None:
    table = pa.table({"c": pa.array([value, None], stored_as), "n": pa.array([1, 2], pa.int32())})
    data = with_schema(parquet_bytes(table, store_schema=False), column, leaf("n", INT32))
    assert rows_of(data) == [{"c": expected, "n": 1}, {"c": None, "n": 2}]


@each_way
def test_a_column_that_is_annotated_as_always_null_is_unknown(read: Read) -> None:
    table = pa.table({"c": pa.array([None, None], pa.int32()), "n": pa.array([1, 2], pa.int32())})
    data = with_schema(parquet_bytes(table, store_schema=False), leaf("c", INT32, logical={11: {}}), leaf("n", INT32))
    assert open_bytes(data).schema.fields[0].field_type == UnknownType()
    assert read(data) == [None, None]
    assert read(data, select=("n",)) == [1, 2]


@each_way
def test_names_with_dots_and_names_that_occur_twice_are_told_apart(read: Read) -> None:
    kind = pa.struct([pa.field("b", pa.int32()), pa.field("c", pa.int32())])
    table = pa.table(
        {"a.b": [1], "a": pa.array([{"b": 2, "c": 3}], kind), "a.c": [4], "x": [5], "y": [6]},
        schema=pa.schema([("a.b", pa.int32()), ("a", kind), ("a.c", pa.int32()), ("x", pa.int32()), ("y", pa.int32())]),
    )
    columns = [leaf(name, INT32) for name in ("a.b", "a.c", "x", "x")]
    columns.insert(1, group("a", leaf("b", INT32), leaf("c", INT32)))
    data = with_schema(parquet_bytes(table, store_schema=False), *columns)
    scan = formatkit.read_file(data, file_format="parquet")
    assert [field.name for field in scan.schema.fields] == ["a.b", "a", "a.c#2", "x", "x#2"]
    assert rows_of(data) == [{"a.b": 1, "a": {"b#2": 2, "c": 3}, "a.c#2": 4, "x": 5, "x#2": 6}]
    assert [read(data, select=(name,)) for name in ("a.b", "a.c#2", "x", "x#2")] == [[1], [4], [5], [6]]
    assert read(data, select=("x",), where=EqualTo("x#2", 6)) == [5]


def test_fields_of_a_struct_that_have_the_same_name_are_told_apart() -> None:
    table = pa.table({"s": pa.array([{"p": 1, "q": 2}, None], pa.struct([("p", pa.int32()), ("q", pa.int32())]))})
    data = with_schema(parquet_bytes(table, store_schema=False), group("s", leaf("p", INT32), leaf("p", INT32)))
    assert rows_of(data) == [{"s": {"p": 1, "p#2": 2}}, {"s": None}]
    assert rows_of(data, select=("s.p#2",)) == [{"s": {"p#2": 2}}, {"s": None}]


def test_ids_that_are_stored_twice_do_not_keep_a_file_from_being_read() -> None:
    table = pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    data = with_schema(
        parquet_bytes(table, store_schema=False), leaf("a", INT32, field_id=7), leaf("b", INT32, field_id=7)
    )
    assert rows_of(data) == [{"a": 1, "b": 2}]
    assert rows_of(data, where="b = 2", select=("a",)) == [{"a": 1}]
    assert formatkit.read_file(data, "b = 3", file_format="parquet").count() == 0


def with_row_count(data: bytes, rows: int) -> bytes:
    """The same file with another count of rows in its footer: the field behind the schema, a number of one byte."""
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = bytearray(data[-8 - length : -8])
    found = decode_struct(bytes(footer))[0][3]
    at = footer.index(bytes([0x16, found << 1, 0x19]))
    footer[at + 1] = rows << 1
    return data[: -8 - length] + bytes(footer) + data[-8:]


@each_way
def test_a_footer_that_counts_no_rows_is_not_believed(read: Read, tmp_path: Path) -> None:
    good = parquet_bytes(pa.table({"n": pa.array(range(6), pa.int32())}), row_group_size=4)
    data = with_row_count(good, 0)
    assert pq.read_metadata(pa.BufferReader(data)).num_rows == 0
    assert read(data) == list(range(6))
    assert read(data, where="n > 3") == [4, 5]
    scan = formatkit.read_file(data, file_format="parquet")
    assert scan.count() == 6
    path = tmp_path / "rows.parquet"
    path.write_bytes(data)
    assert duckdb_rows(path) == [(n,) for n in range(6)]


def test_any_other_count_that_disagrees_is_damage() -> None:
    data = with_row_count(parquet_bytes(pa.table({"n": pa.array(range(6), pa.int32())})), 5)
    with pytest.raises(CorruptFileError, match="its row groups hold 6 rows, its footer 5"):
        formatkit.read_file(data, file_format="parquet").to_arrow()


@pytest.mark.parametrize("batch_type", [pa.RecordBatch, pl.DataFrame])
def test_a_file_without_columns_has_rows(batch_type: Any) -> None:
    footer = encode(
        i32(1, 1),
        list_of(2, [encode(binary(4, b"schema"), i32(5, 0))]),
        i64(3, 5),
        list_of(4, [encode(list_of(1, []), i64(2, 0), i64(3, 5))]),
    )
    data = b"".join((b"PAR1", footer, struct.pack("<I", len(footer)), b"PAR1"))
    assert pq.read_metadata(pa.BufferReader(data)).num_rows == 5
    scan = formatkit.read_file(data, file_format="parquet", batch_type=batch_type)
    assert scan.count() == 5
    assert [len(batch) for batch in scan.to_batches()] == [5]
    positions = formatkit.read_file(data, "_pos > 1", ("_pos",), file_format="parquet")
    assert positions.to_arrow()["_pos"].to_pylist() == [2, 3, 4]
    assert scan.schema.fields == ()


def test_a_narrow_number_in_a_struct_is_an_int() -> None:
    data = parquet_bytes(pa.table({"s": pa.array([{"n": 200}], pa.struct([("n", pa.uint8())]))}))
    assert formatkit.read_file(data, file_format="parquet").schema.find_type("s.n") == IntegerType()
    assert rows_of(data) == [{"s": {"n": 200}}]
