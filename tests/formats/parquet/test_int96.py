"""INT96 timestamps: a Julian day and nanoseconds of it, neither of which any writer is bound to keep in its range."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, TimestamptzType

import formatkit
from formatkit.errors import InvalidDataError
from formatkit.tck import naive
from support.decode_paths import WAYS, Read, duckdb_rows, filters_on
from support.foreign_parquet import (
    BYTE_ARRAY,
    INT96,
    LIST,
    MAP,
    REPEATED,
    REQUIRED,
    UTF8,
    group,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.parquet_reading import open_bytes, read_batches

DAY = 86_400_000_000_000
EPOCH = 2_440_588
each_way = pytest.mark.parametrize("read", WAYS.values(), ids=WAYS.keys())


def stored(nanos: int, day: int) -> bytes:
    return struct.pack("<qi", nanos, day)


def file_of(values: list[bytes | None], **options: Any) -> bytes:
    """INT96 has the pages of twelve bytes of fixed length, which pyarrow writes."""
    table = pa.table({"t": pa.array(values, pa.binary(12))})
    return with_schema(parquet_bytes(table, store_schema=False, **options), leaf("t", INT96))


MOMENTS: dict[tuple[int, int], int] = {
    (0, EPOCH): 0,
    (1_000, EPOCH): 1,
    (999, EPOCH): 0,
    (-1, EPOCH): -1,
    (-1_000, EPOCH): -1,
    (-1_001, EPOCH): -2,
    (DAY, EPOCH): 86_400_000_000,
    (DAY - 1, EPOCH - 1): -1,
    (5 * DAY + 7_000, EPOCH - 5): 7,
    (-(2**63), EPOCH + 106_752): 86_400_000_000 * 106_752 - 9_223_372_036_854_776,
    (2**63 - 1, EPOCH): 9_223_372_036_854_775,
    (0, 0): -EPOCH * 86_400_000_000,
    (0, EPOCH + 2_932_896): 2_932_896 * 86_400_000_000,
    (DAY // 2, -100_000): (-100_000 - EPOCH) * 86_400_000_000 + 43_200_000_000,
}
VALUES: list[bytes | None] = [stored(*parts) for parts in MOMENTS]
EXPECTED = list(MOMENTS.values())


@each_way
@pytest.mark.parametrize("copies", [1, 400], ids=["few", "many"])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_every_day_and_every_nanosecond_is_counted(read: Read, copies: int, dictionary: bool) -> None:
    values = [*VALUES, None] * copies
    assert read(file_of(values, use_dictionary=dictionary)) == [*EXPECTED, None] * copies


PARTS = st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-90_000_000, 90_000_000))


@given(st.lists(st.none() | PARTS, min_size=1))
def test_any_value_is_exact(parts: list[tuple[int, int] | None]) -> None:
    file = open_bytes(file_of([None if each is None else stored(*each) for each in parts]))
    (batch,) = read_batches(file)
    exact = [None if each is None else (each[1] - EPOCH) * 86_400_000_000 + each[0] // 1000 for each in parts]
    assert batch.column(0).cast(pa.int64()).to_pylist() == exact


@pytest.mark.parametrize(
    ("nanos", "day"),
    [
        (0, EPOCH + 106_751_992),
        (0, EPOCH - 106_751_993),
        (0, 2**31 - 1),
        (-1, -(2**31)),
        (14_454_775_808_000, EPOCH + 106_751_991),
    ],
)
@each_way
def test_a_moment_that_microseconds_cannot_hold_is_refused(read: Read, nanos: int, day: int) -> None:
    with pytest.raises(InvalidDataError, match=rf"column 't' holds an INT96 timestamp of the Julian day {day}"):
        read(file_of([stored(0, EPOCH), stored(nanos, day)]))


def test_the_first_and_the_last_moment_are_read() -> None:
    last = stored(14_454_775_807_999, EPOCH + 106_751_991)
    first = stored(71_945_224_192_000, EPOCH - 106_751_992)
    assert WAYS["arrow"](file_of([first, last])) == [-(2**63), 2**63 - 1]


@each_way
def test_filters_keep_the_rows_that_the_naive_evaluator_keeps(read: Read) -> None:
    schema = Schema(NestedField(1, "t", TimestamptzType(), required=False))
    data = file_of([*VALUES, None], write_page_index=True, data_page_size=1, write_batch_size=1, row_group_size=5)
    literals = ["1970-01-01T00:00:00.000001+00:00", "1969-12-31T23:59:59.999999+00:00", "2262-04-11T00:00:00+00:00"]
    for predicate in filters_on("t", literals):
        kept = [value for value in (*EXPECTED, None) if naive.matches({1: value}, schema, predicate)]
        assert read(data, where=predicate) == kept, predicate


def test_nested_timestamps_are_exact_too() -> None:
    entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary(12))])
    rows: list[Any] = [[VALUES[3], None], None, [], [VALUES[8]]]
    table = pa.table(
        {
            "l": pa.array(rows, pa.list_(pa.binary(12))),
            "s": pa.array([{"t": VALUES[3]}, None, {"t": None}, {"t": VALUES[8]}], pa.struct([("t", pa.binary(12))])),
            "m": pa.array(
                [[{"key": "k", "value": VALUES[3]}], None, [], [{"key": "k", "value": None}]],
                pa.list_(pa.field("e", entry, nullable=False)),
            ),
        }
    )
    data = with_schema(
        parquet_bytes(table, store_schema=False),
        group("l", group("list", leaf("element", INT96), repetition=REPEATED), converted=LIST),
        group("s", leaf("t", INT96)),
        group(
            "m",
            group("kv", leaf("key", BYTE_ARRAY, REQUIRED, converted=UTF8), leaf("value", INT96), repetition=REPEATED),
            converted=MAP,
        ),
    )
    found: Any = formatkit.read_file(data, file_format="parquet").to_arrow()
    found.validate(full=True)
    assert found["l"].cast(pa.list_(pa.int64())).to_pylist() == [[-1, None], None, [], [7]]
    assert found["s"].combine_chunks().field("t").cast(pa.int64()).to_pylist() == [-1, None, None, 7]
    assert found["m"].combine_chunks().items.cast(pa.int64()).to_pylist() == [-1, None]


def test_duckdb_reads_the_same_moments(tmp_path: Path) -> None:
    path = tmp_path / "int96.parquet"
    path.write_bytes(file_of(VALUES[:9]))
    rows = duckdb_rows(path, "epoch_us(t)")
    # It rounds parts of a microsecond before 1970 towards 1970.
    assert all(abs(found - expected) <= 1 for (found,), expected in zip(rows, EXPECTED, strict=False))
