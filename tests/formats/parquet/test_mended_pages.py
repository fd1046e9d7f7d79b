"""Pages that pyarrow cannot decode, and other readers can: they are read in every way, and filtered rightly."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

import formatkit
from formatkit.errors import CorruptFileError, UnsupportedError
from formatkit.tck.naive import matches
from support.decode_paths import WAYS, Read, filters_on
from support.foreign_parquet import BOOLEAN, INT32, OPTIONAL
from support.parquet_pages import DIFFERENCES, PLAIN, RLE, Column, columns, data_page, differences, levels, one_column
from support.thresholds import picking_pages

SOME, MANY = 40, 4800
LEAST, LARGEST = -(2**31), 2**31 - 1
LZ4, ZSTD = 5, 6
BIT_PACKED, UNKNOWN = 4, 60


def numbers(rows: int) -> list[int]:
    """Numbers whose differences need 33 bits."""
    random = Random(rows)
    return [LEAST, LARGEST, LEAST, *(random.randint(LEAST, LARGEST) for _ in range(rows - 3))]


def plain(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


def matching(values: list[Any], where: BooleanExpression) -> list[Any]:
    schema = Schema(NestedField(1, "a", IntegerType()))
    return [value for value in values if matches({1: value}, schema, where)]


@pytest.mark.parametrize("rows", [SOME, MANY])
@pytest.mark.parametrize(("block", "parts"), [(128, 4), (256, 1), (4096, 128)])
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_differences_of_33_bits_are_read(read: Read, rows: int, block: int, parts: int) -> None:
    values = numbers(rows)
    pages = [data_page(differences(part, block=block, parts=parts), len(part), DIFFERENCES) for part in halves(values)]
    data = one_column(INT32, pages, rows)
    assert read(data) == values
    for where in filters_on("a", values[:1]):
        assert read(data, where=where) == matching(values, where)


def halves(values: list[Any]) -> list[list[Any]]:
    middle = len(values) // 3
    return [values[:middle], values[middle:]]


def test_differences_of_33_bits_are_read_where_an_index_chooses_pages() -> None:
    values = numbers(MANY)
    size = MANY // 6
    parts = [values[start : start + size] for start in range(0, MANY, size)]
    wide = Column(INT32, [data_page(differences(part), size, DIFFERENCES) for part in parts], page_rows=[size] * 6)
    rows = Column(INT32, [data_page(plain(list(range(MANY))), MANY)])
    data = columns([wide, rows], MANY)
    with picking_pages():
        scan = formatkit.read_file(data, "b >= 900 and b < 905", ("a",), file_format="parquet")
        assert scan.to_arrow()["a"].to_pylist() == values[900:905]


@pytest.mark.parametrize("rows", [SOME, 5000])
def test_numbers_that_duckdb_writes_as_differences_are_read(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "duck.parquet"
    values = [None if place % 7 == 6 else value for place, value in enumerate(numbers(rows))]
    written = pa.table({"a": pa.array(values, pa.int32())})
    assert written.num_rows == rows
    duckdb.sql(f"copy (from written) to '{path}' (format parquet, parquet_version v2, dictionary_size_limit 1)")
    assert formatkit.read_file(path).to_arrow()["a"].to_pylist() == values


@pytest.mark.parametrize("rows", [SOME, MANY])
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_rows_behind_pages_without_values_are_read(read: Read, rows: int) -> None:
    values: list[Any] = [None if value % 5 == 0 else value for value in range(rows)]
    pages = []
    for start, end in pairwise((0, 3, 3, 20, rows, rows)):
        part = values[start:end]
        content = levels([value is not None for value in part]) + plain([value for value in part if value is not None])
        pages.append(data_page(content, len(part)))
    data = one_column(INT32, pages, rows, repetition=OPTIONAL)
    assert read(data) == values
    for where in filters_on("a", [21]):
        assert read(data, where=where) == matching(values, where)


@pytest.mark.parametrize("rows", [SOME, MANY])
def test_lz4_in_several_parts_behind_one_length_is_read(rows: int) -> None:
    def hadoop(content: bytes) -> bytes:
        parts = [pa.Codec("lz4_raw").compress(part, asbytes=True) for part in (content[:70], content[70:])]
        return struct.pack(">I", len(content)) + b"".join(struct.pack(">I", len(part)) + part for part in parts)

    values = [value % 9 for value in range(rows)]
    data = one_column(INT32, [data_page(plain(values), rows, compress=hadoop)], rows, codec=LZ4)
    assert formatkit.read_file(data, file_format="parquet").to_arrow()["a"].to_pylist() == values
    assert formatkit.read_file(data, "a = 4", file_format="parquet").count() == values.count(4)


@pytest.mark.parametrize("rows", [SOME, MANY])
def test_several_zstd_frames_in_one_page_are_read(rows: int) -> None:
    def frames(content: bytes) -> bytes:
        codec = pa.Codec("zstd")
        return codec.compress(content[:70], asbytes=True) + codec.compress(content[70:], asbytes=True)

    values = list(range(rows))
    data = one_column(INT32, [data_page(plain(values), rows, compress=frames)], rows, codec=ZSTD)
    assert formatkit.read_file(data, file_format="parquet").to_arrow()["a"].to_pylist() == values


@pytest.mark.parametrize("rows", [SOME, MANY])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_booleans_with_one_byte_more_are_read(read: Read, rows: int, nulls: bool) -> None:
    flags = [place % 3 == 0 for place in range(rows)]
    packed = sum(flag << place for place, flag in enumerate(flags)).to_bytes(rows // 8 + 1, "little")
    first = data_page((levels([True] * rows) if nulls else b"") + packed, rows)
    second = data_page((levels([False] * 8) if nulls else b"") + bytes(1 if nulls else 2), 8)
    expected = flags + ([None] * 8 if nulls else [False] * 8)
    data = one_column(BOOLEAN, [first, second], rows + 8, repetition=int(nulls), by="parquet-dotnet version 1.0")
    assert read(data) == expected
    assert read(data, where="a = true") == [flag for flag in flags if flag]


@pytest.mark.parametrize("rows", [SOME, MANY])
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_more_levels_than_values_are_read_as_impala_wrote_them(read: Read, rows: int) -> None:
    values = list(range(rows))
    run = bytes([0x80 | (2 * rows + 40) & 0x7F, (2 * rows + 40) >> 7, 1])
    pages = [data_page(struct.pack("<I", len(run)) + run + plain(values), rows)]
    data = one_column(INT32, pages, rows, repetition=OPTIONAL, encodings=(PLAIN, RLE), by="impala version 2.5.0")
    assert read(data) == values
    assert read(data, where="a = 7") == [7]


@pytest.mark.parametrize("rows", [SOME, MANY])
@pytest.mark.parametrize("read", WAYS.values(), ids=WAYS)
def test_packed_levels_that_are_not_listed_are_read_as_impala_wrote_them(read: Read, rows: int) -> None:
    values = [None if place % 3 == 0 else place for place in range(rows)]
    packed = sum((value is not None) << place for place, value in enumerate(values)).to_bytes((rows + 7) // 8, "little")
    content = packed + plain([value for value in values if value is not None])
    pages = [data_page(content, rows, level_encoding=BIT_PACKED)]
    data = one_column(INT32, pages, rows, repetition=OPTIONAL, encodings=(PLAIN, RLE), by="impala version 2.9.0")
    assert read(data) == values
    assert read(data, where="a = 7") == [7]


def test_an_encoding_of_no_values_in_no_bytes_is_read() -> None:
    data = one_column(INT32, [data_page(levels([False] * SOME), SOME, DIFFERENCES)], SOME, repetition=OPTIONAL)
    assert formatkit.read_file(data, file_format="parquet").to_arrow()["a"].to_pylist() == [None] * SOME


@pytest.mark.parametrize("damage", ["cut", "too many", "no page"])
@pytest.mark.parametrize("rows", [SOME, MANY])
def test_differences_that_are_damaged_are_not_mended(rows: int, damage: str) -> None:
    values = numbers(rows)
    content = differences(values)
    if damage == "cut":
        content = content[:-5]
    elif damage == "too many":
        content = differences([*values, 7])
    pages = [data_page(content, rows, DIFFERENCES)]
    if damage == "no page":
        pages = [data_page(differences(values[:-1]), rows, DIFFERENCES)]
    with pytest.raises(CorruptFileError):
        formatkit.read_file(one_column(INT32, pages, rows), file_format="parquet").to_arrow()


def test_an_encoding_without_decoder_is_not_called_damage() -> None:
    data = one_column(INT32, [data_page(plain([1, 2]), 2, UNKNOWN)], 2, encodings=(UNKNOWN,))
    with pytest.raises(UnsupportedError, match="encoding"):
        formatkit.read_file(data, file_format="parquet").to_arrow()


def test_a_codec_without_decoder_is_not_called_damage() -> None:
    data = one_column(INT32, [data_page(plain([1, 2]), 2)], 2, codec=3)
    with pytest.raises(UnsupportedError, match="LZO"):
        formatkit.read_file(data, file_format="parquet").to_arrow()
    assert formatkit.read_file(data, file_format="parquet").count() == 2
