"""A table with a column for every transform, and the specs that use them."""

from __future__ import annotations

from decimal import Decimal

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

__all__ = ["EVENTS", "EVENT_FILTERS", "EVENT_ROWS", "EVENT_TRANSFORMS"]

EVENTS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "code", IntegerType()),
    NestedField(7, "place", StructType(NestedField(8, "x", IntegerType()))),
    identifier_field_ids=[1],
)
_MOMENTS: list[int | None] = [None, 0, -1, 1_600_000_000_000_000, 1_600_003_600_000_001, -86_400_000_000]
EVENT_ROWS: list[Row] = [
    {
        1: number,
        2: [None, "", "ab", "abc", "abd", "ä€\U0001f600x"][number % 6],
        3: [None, 0, -1, 18_000, 18_031, -400][number % 6],
        4: _MOMENTS[(number + 1) % 6],
        5: None if number == 7 else Decimal(number * 111 - 700).scaleb(-2),
        6: number % 3,
        # Java makes a null struct whole if a field of it is the source of an identity partition.
        7: {8: None if number == 9 else number % 2},
    }
    for number in range(12)
]
EVENT_TRANSFORMS = [
    [(1, "identity")],
    [(1, "bucket[4]"), (2, "bucket[3]")],
    [(2, "truncate[2]"), (6, "bucket[2]")],
    [(5, "truncate[100]"), (3, "month")],
    [(3, "day"), (1, "truncate[5]")],
    [(3, "year"), (4, "hour")],
    [(4, "day"), (8, "identity")],
    [(4, "month"), (2, "void"), (3, "bucket[7]")],
    [(4, "year"), (4, "bucket[2]"), (5, "bucket[2]")],
]
# Java takes null for the least value when it filters rows, against the spec, so that `<` here comes with `is not null`.
EVENT_FILTERS = [
    "id = 3",
    "id > 5",
    "name = 'abc'",
    "name like 'ab%'",
    "day is not null and day <= '1970-01-01'",
    "at > '2020-09-13T12:26:40.000000'",
    "price is not null and price <= '-1.00'",
    "day is null",
    "name is null or place.x = 1",
    "not at = '1969-12-31T23:59:59.999999'",
]
