"""A schema with every type and nesting, and rows with the edges of each."""

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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

INNER = StructType(
    NestedField(41, "n", IntegerType(), required=True),
    NestedField(42, "code", FixedType(2)),
    NestedField(43, "at", TimestamptzType()),
    NestedField(44, "deep", StructType(NestedField(45, "u", UUIDType()), NestedField(46, "s", StringType()))),
)

EVERY_TYPE = Schema(
    NestedField(1, "bool", BooleanType()),
    NestedField(2, "int", IntegerType()),
    NestedField(3, "long", LongType(), required=True),
    NestedField(4, "float", FloatType()),
    NestedField(5, "double", DoubleType()),
    NestedField(6, "small", DecimalType(9, 2)),
    NestedField(7, "large", DecimalType(38, 10)),
    NestedField(8, "date", DateType()),
    NestedField(9, "time", TimeType()),
    NestedField(10, "ts", TimestampType()),
    NestedField(11, "tz", TimestamptzType()),
    NestedField(12, "ns", TimestampNanoType()),
    NestedField(13, "nstz", TimestamptzNanoType()),
    NestedField(14, "text", StringType()),
    NestedField(15, "bytes", BinaryType()),
    NestedField(16, "fixed", FixedType(3)),
    NestedField(17, "uuid", UUIDType()),
    NestedField(18, "struct", INNER),
    NestedField(50, "list", ListType(51, ListType(52, FixedType(2), element_required=False), element_required=False)),
    NestedField(53, "map", MapType(54, StringType(), 55, TimestampType(), value_required=False)),
    NestedField(
        56,
        "structs",
        ListType(57, StructType(NestedField(58, "a", LongType()), NestedField(59, "b", UUIDType())), True),
    ),
)

_NINES = "9" * 28 + "." + "9" * 10
_NEVER = 253_402_300_799_999_999
_FIRST = -62_135_596_800_000_000


def _inner(n: int) -> dict[int, Any]:
    return {41: n, 42: b"\x00\xff", 43: _NEVER, 44: {45: bytes(range(16)), 46: "é"}}


EDGES: list[dict[int, Any]] = [
    {
        1: True, 2: 2**31 - 1, 3: 2**63 - 1, 4: math.inf, 5: 1e300, 6: Decimal("9999999.99"),
        7: Decimal(_NINES), 8: 2**31 - 1, 9: 86_399_999_999, 10: _NEVER, 11: _NEVER, 12: 2**63 - 1,
        13: 2**63 - 1, 14: "a\U0001f600", 15: b"\xff" * 70, 16: b"\xff\x00\x80", 17: b"\xff" * 16, 18: _inner(1),
        50: [[b"ab", None], [], None], 53: [("k", _NEVER), ("", None)],
        56: [{58: 1, 59: b"\x80" * 16}, {58: None, 59: None}],
    },
    {
        1: False, 2: -(2**31), 3: -(2**63), 4: -0.0, 5: -0.0, 6: Decimal("-9999999.99"),
        7: Decimal("-" + _NINES), 8: -(2**31), 9: 0, 10: _FIRST, 11: 2**63 - 1, 12: -(2**63) + 1,
        13: -(2**63) + 1, 14: "", 15: b"", 16: b"\x00" * 3, 17: b"\x00" * 16, 18: {**_inner(2), 44: None}, 50: [],
        53: [], 56: [],
    },
    {**dict.fromkeys(EVERY_TYPE.field_ids & {field.field_id for field in EVERY_TYPE.fields}), 3: 0},
    {
        1: None, 2: 0, 3: 1, 4: math.nan, 5: math.nan, 6: Decimal("0.00"), 7: None, 8: 0, 9: None, 10: -(2**63),
        11: None, 12: 0, 13: None, 14: "\uffff", 15: b"\x00", 16: None, 17: None,
        18: {41: 3, 42: None, 43: None, 44: {45: None, 46: None}}, 50: None, 53: None, 56: None,
    },
]  # fmt: skip
