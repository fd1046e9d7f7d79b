"""Tables that Java wrote under several schemas and specs are read here as it reads them itself."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

from formatkit.tck.naive import Row
from support.oracle.comparing import FORMATS, agree
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.specs import spec_of

every_format = pytest.mark.parametrize("file_format", FORMATS)

OLD = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "place", StructType(NestedField(4, "x", FloatType()), NestedField(5, "code", IntegerType()))),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "parts", ListType(8, StructType(NestedField(9, "n", IntegerType())), element_required=False)),
)
OLD_ROWS: list[Row] = [
    {1: 1, 2: "one", 3: {4: 0.5, 5: 10}, 6: Decimal("1.50"), 7: [{9: 1}, None]},
    {1: 2, 2: None, 3: {4: None, 5: None}, 6: None, 7: None},
    {1: 3, 2: "three", 3: None, 6: Decimal("-3.25"), 7: []},
]
# Renamed, swapped, promoted, dropped and added, at the top and inside.
NEW = Schema(
    NestedField(6, "cost", DecimalType(18, 2)),
    NestedField(1, "id", LongType(), required=True),
    NestedField(3, "place", StructType(NestedField(10, "z", StringType()), NestedField(4, "code", DoubleType()))),
    NestedField(2, "price", StringType()),
    NestedField(
        7,
        "parts",
        ListType(
            8,
            StructType(NestedField(9, "m", LongType()), NestedField(11, "n", StringType())),
            element_required=False,
        ),
    ),
    NestedField(12, "name", IntegerType()),
)
NEW_ROWS: list[Row] = [
    {6: Decimal("99999999999.99"), 1: 2**40, 3: {10: "z", 4: 0.1}, 2: "four", 7: [{9: 2**40, 11: "n"}], 12: 4},
    {6: None, 1: 5, 3: None, 2: None, 7: [None], 12: None},
]


@pytest.mark.parametrize("version", [1, 2, 3])
@every_format
def test_old_files_are_read_under_the_new_schema(java: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", OLD, version=version)
    table.append(OLD_ROWS, file_format)
    table.evolve(NEW)
    table.append(NEW_ROWS, file_format)
    agree(table)
    for where in (
        "id > 2",
        "id = 1099511627776",
        "cost = '1.50'",
        "place.z = 'z'",
        "price = 'one'",
        "name is null",
        "name = 4",
    ):
        agree(table, where)


# This Java cannot read defaults of ORC, and its filters on them lose rows of Parquet.
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_added_columns_have_their_defaults(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", OLD, version=3)
    table.append(OLD_ROWS, file_format)
    table.evolve(
        Schema(
            *OLD.fields,
            NestedField(20, "kind", StringType(), required=True, initial_default="old", write_default="new"),
            NestedField(21, "count", LongType(), initial_default=7, write_default=7),
            NestedField(22, "rate", DecimalType(9, 2), initial_default=Decimal("1.25"), write_default=Decimal("1.25")),
        )
    )
    table.append([row | {20: "own", 21: None, 22: None} for row in OLD_ROWS], file_format)
    agree(table)
    if file_format == "avro":
        for where in ("kind = 'old'", "kind != 'old'", "count is null", "rate > '1.00' and count = 7"):
            agree(table, where)


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_nanoseconds_are_kept(java: Servant, file_format: str, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "at", TimestampNanoType()), NestedField(2, "when", TimestamptzNanoType()))
    rows: list[Row] = [{1: 1, 2: -1_000_000_001}, {1: None, 2: None}, {1: 1_600_000_000_123_456_789, 2: 7}]
    table = JavaTable.create(java, tmp_path / "t", schema, version=3)
    table.append(rows, file_format)
    agree(table, among=rows)


@every_format
def test_files_of_all_specs_are_pruned_to_the_same_rows(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", OLD)
    rows = [row for row in OLD_ROWS if row[3]]
    for spec_id, parts in enumerate(
        [[], [(1, "bucket[3]")], [(2, "identity")], [(2, "truncate[1]"), (5, "identity")], []]
    ):
        table.evolve(spec=spec_of(parts, spec_id))
        table.append(rows, file_format)
    assert len(agree(table)) == 5 * len(rows)
    for where in ("id = 1", "name = 'one'", "name is null", "place.code = 10", "price > '0.00'"):
        agree(table, where)


def test_formats_may_be_mixed_in_one_table(java: Servant, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", OLD, spec=spec_of([(1, "identity")]))
    for file_format in FORMATS:
        table.append(OLD_ROWS, file_format)
    assert len(agree(table, "id <= 2")) == 6
