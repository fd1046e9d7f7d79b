"""One small table with a column of each Iceberg type, nested ones included, and values at the edges of each."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck.naive import Row

__all__ = ["ROWS", "SCHEMA", "without"]

_MICROS_PER_DAY = 86_400_000_000
SCHEMA = Schema(
    NestedField(1, "flag", BooleanType()),
    NestedField(2, "small", IntegerType(), required=True),
    NestedField(3, "big", LongType()),
    NestedField(4, "single", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "amount", DecimalType(18, 4)),
    NestedField(8, "huge", DecimalType(38, 10)),
    NestedField(9, "day", DateType()),
    NestedField(10, "moment", TimestampType()),
    NestedField(11, "instant", TimestamptzType()),
    NestedField(12, "text", StringType()),
    NestedField(13, "raw", BinaryType()),
    NestedField(14, "key", UUIDType()),
    NestedField(15, "code", FixedType(3)),
    NestedField(16, "tags", ListType(30, StringType(), element_required=False)),
    NestedField(17, "scores", MapType(31, StringType(), 32, DoubleType(), value_required=False)),
    NestedField(18, "point", StructType(NestedField(33, "x", IntegerType()), NestedField(34, "y", StringType()))),
    NestedField(
        19,
        "lines",
        ListType(
            35,
            StructType(
                NestedField(36, "sku", StringType()),
                NestedField(37, "counts", ListType(38, LongType(), element_required=False)),
            ),
            element_required=False,
        ),
    ),
    NestedField(20, "by_number", MapType(39, LongType(), 40, StringType(), value_required=False)),
    NestedField(21, "clock", TimeType()),
)

_FULL: list[tuple[Any, ...]] = [
    (
        True, 1, 2**63 - 1, 1.5, 0.1, Decimal("1234567.89"), Decimal("-0.0001"),
        Decimal("1234567890123456789012345678.0123456789"),
        18_262, 1_577_836_800_000_001, 1_577_836_800_000_001, "grüße", b"\x00\xff", b"\x80" + bytes(15), b"abc",
        ["a", None, ""], [("k", 1.0), ("n", None)], {33: 1, 34: "y"}, [{36: "s", 37: [1, None]}, None],
        [(7, "seven"), (-1, None)],
        43_200_000_000,
    ),
    (
        False, -(2**31), -(2**63), -0.0, math.nan, Decimal("-9999999.99"), Decimal("99999999999999.9999"),
        Decimal("-1E-10"), -25_508, -1, -1, "", b"", bytes(16), b"\x00\x00\x00",
        [], [], {33: None, 34: None}, [], [],
        0,
    ),
    (
        None, 2**31 - 1, None, None, None, None, None, None,
        None, None, None, None, None, None, None,
        None, None, None, None, None,
        None,
    ),
    (
        True, 0, 0, math.inf, -math.inf, Decimal("0.00"), Decimal("0.0000"), Decimal("0E-10"),
        -1, 253_402_300_799_999_999, 253_402_300_799_999_999,
        "\U0001f600\uffff", b"\x7f" * 40, b"\xff" * 16, b"\xff\xff\xff",
        [None], [("", -0.0)], {33: 5, 34: ""}, [{36: None, 37: None}, {36: "", 37: []}], [(2**63 - 1, "")],
        86_399_999_999,
    ),
]  # fmt: skip
ROWS: list[Row] = [
    {field.field_id: value for field, value in zip(SCHEMA.fields, row, strict=True)}
    for row in _FULL * 4  # more rows than one chunk of most writers' smallest settings
]


def without(*names: str) -> tuple[Schema, list[Row]]:
    """The same table for a reader that lacks some types."""
    left = [field for field in SCHEMA.fields if field.name not in names]
    return Schema(*left), [{field.field_id: row[field.field_id] for field in left} for row in ROWS]
