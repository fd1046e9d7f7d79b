"""Pruning by column metrics, also of columns whose type was widened since."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

import formatkit
from formatkit.scan.bounds import decode_bound
from support.iceberg_tables import append_data_files, columns, data_file, remove_data_files, with_ids, write_rows


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (IntegerType(), struct.pack("<i", -7), -7),
        (LongType(), struct.pack("<q", 1 << 40), 1 << 40),
        (LongType(), struct.pack("<i", -7), -7),
        (FloatType(), struct.pack("<f", 0.5), 0.5),
        (DoubleType(), struct.pack("<d", 0.1), 0.1),
        (DoubleType(), struct.pack("<f", 0.5), 0.5),
        (DateType(), struct.pack("<i", 3), 3),
        (TimestampType(), struct.pack("<q", 5), 5),
        (TimestampType(), struct.pack("<i", -3), -3 * 86_400_000_000),
        (TimestampNanoType(), struct.pack("<i", 3), 3 * 86_400_000_000_000),
        (TimestamptzType(), struct.pack("<i", 3), None),
        (BooleanType(), b"\x01", True),
        (DecimalType(9, 2), b"\x80", Decimal("-1.28")),
        (StringType(), b"", ""),
        (StringType(), b"\xff", None),
        (BinaryType(), b"\xff", b"\xff"),
        (UUIDType(), b"0123456789abcdef", b"0123456789abcdef"),
        (IntegerType(), b"\x01", None),
        (GeometryType(), bytes(16), None),
        (StructType(), bytes(4), None),
        (LongType(), None, None),
    ],
)
def test_bounds_are_decoded_by_their_length(type_: IcebergType, data: bytes | None, expected: Any) -> None:
    assert decode_bound(type_, data) == expected


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    schema = columns(n=pa.int32(), f=pa.float64(), u=pa.uuid(), s=pa.string())
    return catalog.create_table("db.metrics", schema=schema)


def add(table: Table, name: str, rows: list[dict[str, Any]], **facts: Any) -> None:
    data = with_ids(table, pa.Table.from_pylist(rows))
    append_data_files(table, data_file(table, write_rows(table, name, data), len(rows), **facts))


def pack(value: int) -> bytes:
    return struct.pack("<i", value)


def test_files_outside_the_bounds_are_not_read(table: Table) -> None:
    for first in (0, 10, 20):
        rows = [{"n": first}, {"n": first + 5}]
        add(table, f"{first}.parquet", rows, lower_bounds={1: pack(first)}, upper_bounds={1: pack(first + 5)})
    assert len(formatkit.scan(table, "n > 5 and n < 20").tasks) == 1
    assert len(formatkit.scan(table, "n = 7").tasks) == 0
    assert len(formatkit.scan(table, "n != 7").tasks) == 3
    assert formatkit.scan(table, "n = 7 or n = 20").explain().files_skipped == {"metrics": 2}


def test_a_filter_that_all_rows_pass_leaves_nothing_to_test(table: Table) -> None:
    bounds = {"lower_bounds": {1: pack(1)}, "upper_bounds": {1: pack(5)}}
    add(table, "some_nulls.parquet", [{"n": 1}, {"n": None}, {"n": 5}], **bounds, null_value_counts={1: 1})
    add(table, "no_nulls.parquet", [{"n": 1}, {"n": 5}], **bounds, null_value_counts={1: 0})
    scan = formatkit.scan(table, "n < 6 and s is null")
    assert sorted(scan.explain().residuals) == ["n < 6 and s is null", "s is null"]
    assert scan.count() == 4
    assert sorted(formatkit.scan(table, "n != 9").explain().residuals) == ["true"]


def test_nan_does_not_hide_behind_bounds(table: Table) -> None:
    bound = {2: struct.pack("<d", 1.0)}
    rows = [{"n": 1, "f": 1.0}, {"n": 2, "f": float("nan")}]
    add(table, "nan.parquet", rows, lower_bounds=bound, upper_bounds=bound, null_value_counts={2: 0})
    assert formatkit.scan(table, "f != 1.0").to_arrow().to_pydict()["n"] == [2]
    assert formatkit.scan(table, "f <= 1.0").to_arrow().to_pydict()["n"] == [1]


def test_inverted_uuid_bounds_are_not_believed(table: Table) -> None:
    low, high = bytes([0x10]) * 16, bytes([0x90]) * 16
    # Java orders uuids as signed numbers, so its lower bound is the higher one here.
    add(
        table, "uuids.parquet", [{"n": 1, "u": low}, {"n": 2, "u": high}], lower_bounds={3: high}, upper_bounds={3: low}
    )
    assert formatkit.scan(table, "u = '10101010-1010-1010-1010-101010101010'").to_arrow().to_pydict()["n"] == [1]


def test_bounds_from_before_a_promotion_are_used(table: Table) -> None:
    add(table, "old.parquet", [{"n": 1}], lower_bounds={1: pack(1)}, upper_bounds={1: pack(1)})
    with table.update_schema() as update:
        update.update_column("n", LongType())
    assert formatkit.scan(table, "n > 5000000000").tasks == ()
    assert formatkit.scan(table, "n < 5000000000").to_arrow().to_pydict()["n"] == [1]


def test_empty_files_are_not_read(table: Table) -> None:
    add(table, "empty.parquet", [{"n": 1}])
    location = f"{table.location()}/data/nothing.parquet"
    append_data_files(table, data_file(table, location, 0))
    scan = formatkit.scan(table)
    assert scan.to_arrow().num_rows == 1
    assert scan.explain().files_skipped == {"empty": 1}


def test_planning_reads_no_data_file(table: Table) -> None:
    add(table, "gone.parquet", [{"n": 1}], lower_bounds={1: pack(1)}, upper_bounds={1: pack(1)})
    remove_data_files(table)
    scan = formatkit.scan(table, "n = 1 and s = 'x'")
    assert len(scan.tasks) == 1
    assert "s = 'x'" in str(scan.explain())
