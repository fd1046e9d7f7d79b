"""Tables that Iceberg's own library wrote are read here as it reads them itself."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from formatkit.tck.naive import Row
from support.everything import ROWS, SCHEMA
from support.oracle.comparing import FORMATS, agree
from support.oracle.java_table import JavaTable
from support.oracle.servant import Servant
from support.oracle.specs import spec_of

every_format = pytest.mark.parametrize("file_format", FORMATS)
every_version = pytest.mark.parametrize("version", [1, 2, 3])


@every_version
@every_format
def test_values_of_every_type_are_the_same(java: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, version=version)
    table.append(ROWS, file_format)
    agree(table, among=[as_orc_stores_it(row) for row in ROWS] if file_format == "orc" else ROWS)


def as_orc_stores_it(row: Row) -> Row:
    """Java's writer of ORC moves the last second before 1970 to the first one after it."""
    return row | {key: 999_999 for key in (10, 11) if row[key] == -1}


# Java takes null for the least value when it filters rows, against the spec, so that `<` here comes with `is not null`.
FILTERS = [
    "text = ''",
    "text != 'grüße'",
    "text like 'gr%'",
    "small in (1, 0)",
    "big > 0",
    "point.x is null",
    "tags is not null",
    "double is nan",
    "double is not null and not double is nan",
    "(price is not null and price <= '0.00') or flag is null",
    "day > '1970-01-01'",
    "moment is not null and moment <= '1970-01-01T00:00:00.000000'",
]


@every_format
def test_filters_keep_the_same_rows(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    for where in FILTERS:
        agree(table, where)


@every_format
def test_projections_keep_the_same_rows(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    for names in (["lines", "small"], ["point.y"], ["clock", "scores", "key"]):
        agree(table, "big > 0", select=names)


EVENTS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "place", StructType(NestedField(7, "code", IntegerType()))),
)
MOMENTS: list[int | None] = [None, 0, -1, 1_600_000_000_000_000, 1_600_003_600_000_001, -86_400_000_000]
EVENT_ROWS: list[Row] = [
    {
        1: None if number == 4 else number,
        2: [None, "", "ab", "abc", "abd", "ä€\U0001f600x"][number % 6],
        3: [None, 0, -1, 18_000, 18_031, -400][number % 6],
        4: MOMENTS[(number + 1) % 6],
        5: None if number == 7 else Decimal(number * 111 - 700).scaleb(-2),
        # Java makes a null struct whole if a field of it is the source of an identity partition.
        6: {7: number % 3},
    }
    for number in range(12)
]
TRANSFORMS = [
    [(1, "identity")],
    [(1, "bucket[4]"), (2, "bucket[3]")],
    [(2, "truncate[2]")],
    [(5, "truncate[100]"), (3, "month")],
    [(3, "day")],
    [(3, "year"), (4, "hour")],
    [(4, "day"), (7, "identity")],
    [(4, "month"), (2, "void")],
    [(4, "year"), (4, "bucket[2]")],
]


@pytest.mark.parametrize("parts", TRANSFORMS, ids=str)
def test_partitioned_tables_are_pruned_to_the_same_rows(
    java: Servant, parts: list[tuple[int, str]], tmp_path: Path
) -> None:
    table = JavaTable.create(java, tmp_path / "t", EVENTS, spec=spec_of(parts))
    table.append(EVENT_ROWS)
    agree(table, among=EVENT_ROWS)
    for where in (
        "id = 3",
        "id > 5",
        "name = 'abc'",
        "name like 'ab%'",
        "day is not null and day <= '1970-01-01'",
        "at > '2020-09-13T12:26:40.000000'",
        "price is not null and price <= '-1.00'",
        "day is null",
        "name is null or place.code = 1",
        "not at = '1969-12-31T23:59:59.999999'",
    ):
        agree(table, where)
