"""Named data sets: small, complete, and the same in every run.

Each is a schema with rows as `formatkit.tck.naive` holds them. Rows come in groups of three, which is what the kit
writes as one batch, so that chunks of a file often hold one kind of value only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck.literals import internal, unscaled
from formatkit.tck.naive import Row

__all__ = [
    "BEFORE_1970",
    "DATA_SETS",
    "DECIMALS",
    "EMPTY_VALUES",
    "MANY_CHUNKS",
    "NANOSECONDS",
    "NAN_AND_ZEROS",
    "NESTED",
    "NULLS",
    "ODD_NAMES",
    "ONE_ROW",
    "PRIMITIVES",
    "WIDE",
    "DataSet",
    "numbered",
]


@dataclass(frozen=True)
class DataSet:
    """A schema and its rows.

    Attributes:
        name: A few words, for messages.
        schema: Ids at every level.
        rows: By field id; there is one at least.
    """

    name: str
    schema: Schema
    rows: Sequence[Row]


ID = NestedField(1, "id", LongType(), required=True)


def numbered(name: str, /, **columns: tuple[IcebergType, Sequence[Any]]) -> DataSet:
    """A data set whose first column `id` counts the rows; the others are optional, with ids from 2 on.

    Leaves may be given as Python's own values (`date`, `UUID`, ISO strings); nested values are given by field id.
    """
    fields = [NestedField(number, column, kind) for number, (column, (kind, _)) in enumerate(columns.items(), 2)]
    values = [_internals(kind, given) for kind, given in columns.values()]
    rows = [
        dict(zip([1, *(field.field_id for field in fields)], (number, *row), strict=True))
        for number, row in enumerate(zip(*values, strict=True))
    ]
    return DataSet(name, Schema(ID, *fields), rows)


def _internals(kind: IcebergType, given: Sequence[Any]) -> list[Any]:
    return [internal(value, kind) for value in given] if isinstance(kind, PrimitiveType) else list(given)


_LOW = UUID("7fffffff-ffff-ffff-ffff-ffffffffffff")
_HIGH = UUID("80000000-0000-0000-0000-000000000000")
_NOON = datetime(2021, 6, 1, 12)
_LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999)

PRIMITIVES = numbered(
    "primitives",
    flag=(BooleanType(), [True, False, None, True]),
    int=(IntegerType(), [1, -(2**31), None, 2**31 - 1]),
    long=(LongType(), [1, -(2**63), None, 2**63 - 1]),
    float=(FloatType(), [1.5, -3.4e38, None, math.inf]),
    double=(DoubleType(), [1.5, -1e300, None, math.inf]),
    decimal=(DecimalType(9, 2), [unscaled(150, 2), unscaled(-(10**9) + 1, 2), None, unscaled(10**9 - 1, 2)]),
    date=(DateType(), [date(2021, 6, 1), date(1, 1, 1), None, date(9999, 12, 31)]),
    time=(TimeType(), [time(12, 30), time(0), None, time(23, 59, 59, 999_999)]),
    ts=(TimestampType(), [_NOON, datetime(1, 1, 1), None, _LAST]),
    tz=(
        TimestamptzType(),
        [moment and moment.replace(tzinfo=UTC) for moment in (_NOON, datetime(1, 1, 1), None, _LAST)],
    ),
    text=(StringType(), ["a", "ä\0\U0001f600", None, "a" * 70]),
    bytes=(BinaryType(), [b"a", b"\x00\xff", None, b"\x80" * 70]),
    fixed=(FixedType(3), [b"abc", b"\x00" * 3, None, b"\xff" * 3]),
    uuid=(UUIDType(), [_LOW, UUID(int=0), None, _HIGH]),
)
"""Every primitive type but those with nanoseconds: an ordinary value, both ends of the type, and null."""

NANOSECONDS = numbered(
    "nanoseconds",
    ns=(
        TimestampNanoType(),
        [
            "2021-06-01T00:00:00.000001001",
            "1969-12-31T23:59:59.999999999",
            None,
            2**63 - 1,
            "2021-06-01T00:00:00.000001",
        ],
    ),
    nstz=(
        TimestamptzNanoType(),
        ["2021-06-01T00:00:00.000001001+00:00", "1969-12-31T23:59:59.999999999+00:00", None, 2**63 - 1, 0],
    ),
)
"""Both types of nanoseconds, beside and between whole microseconds. Only for formats that declare them."""

_PRECISIONS = (1, 9, 10, 18, 19, 38)

DECIMALS = numbered(
    "decimals",
    **{
        f"p{precision}": (
            DecimalType(precision, precision // 4),
            [
                None if digits is None else unscaled(digits, precision // 4)
                for digits in (10**precision - 1, 1 - 10**precision, 0, None, 1, -1)
            ],
        )
        for precision in _PRECISIONS
    },
)
"""Decimals on both sides of each width that files store them in, with both ends of their precision."""

_POINT = StructType(NestedField(31, "x", DoubleType()), NestedField(32, "label", StringType()))
_GROUP = StructType(NestedField(62, "a", LongType()), NestedField(63, "b", DateType()))
_INTEGERS = ListType(71, IntegerType(), element_required=False)
_OUTER = StructType(
    NestedField(41, "n", IntegerType()),
    NestedField(42, "point", StructType(NestedField(43, "x", DoubleType()), NestedField(44, "y", DoubleType()))),
    NestedField(45, "tags", ListType(46, StringType(), element_required=False)),
)

NESTED = DataSet(
    "nested",
    Schema(
        ID,
        NestedField(2, "outer", _OUTER),
        NestedField(3, "points", ListType(30, _POINT, element_required=False)),
        NestedField(4, "by_name", MapType(50, StringType(), 51, LongType(), value_required=False)),
        NestedField(5, "groups", MapType(60, IntegerType(), 61, _GROUP)),
        NestedField(6, "matrix", ListType(70, _INTEGERS, element_required=False)),
        NestedField(7, "after", IntegerType()),
    ),
    [
        {
            1: 0, 2: {41: 1, 42: {43: 0.5, 44: 1.5}, 45: ["a", None]}, 3: [{31: 1.0, 32: "p"}, None], 4: [("k", 1)],
            5: [(1, {62: 1, 63: -1})], 6: [[1, None], [], None], 7: 10,
        },
        {1: 1, 2: None, 3: None, 4: None, 5: None, 6: None, 7: None},
        {1: 2, 2: {41: None, 42: None, 45: None}, 3: [], 4: [], 5: [], 6: [], 7: 12},
        {
            1: 3, 2: {41: 4, 42: {43: None, 44: None}, 45: []}, 3: [None], 4: [("k", None), ("", 2)],
            5: [(2, {62: None, 63: None})], 6: [None], 7: 13,
        },
        {
            1: 4, 2: {41: 5, 42: {43: -0.0, 44: math.nan}, 45: ["", "b"]}, 3: [{31: None, 32: None}, {31: 2.0, 32: ""}],
            4: [("z", 3)], 5: [(3, {62: 7, 63: 0}), (4, {62: 8, 63: 18_000})], 6: [[], [2, 3]], 7: 14,
        },
    ],
)  # fmt: skip
"""Structs, lists and maps inside one another; at each level null, empty, with a null inside, and full."""

_FEW = {"int": IntegerType(), "text": StringType(), "double": DoubleType(), "date": DateType(), "bytes": BinaryType()}
_SAMPLES = {"int": 7, "text": "b", "double": 0.5, "date": date(2021, 6, 1), "bytes": b"\x80"}

NULLS = numbered(
    "nulls",
    **{
        name: (kind, [None] * 3 + [_SAMPLES[name], None, _SAMPLES[name]] + [_SAMPLES[name]] * 3 + [None] * 3)
        for name, kind in _FEW.items()
    },
    never=(LongType(), [None] * 12),
)
"""Chunks of nulls first and last, one that is mixed, one without nulls, and a column that has no value at all."""

_FLOATS = [0.0, 1.0, -1.0, -0.0, -0.0, -0.0, math.nan, math.nan, math.nan, 0.0, -0.0, 0.0, math.nan, 2.0, -math.inf]

NAN_AND_ZEROS = numbered(
    "NaN and zeros",
    double=(DoubleType(), [*_FLOATS, math.inf, math.nan, None]),
    float=(FloatType(), [*_FLOATS, math.inf, math.nan, None]),
)
"""Chunks of only −0.0, only NaN, both zeros, and NaN where the largest or the smallest value would be."""

BEFORE_1970 = numbered(
    "dates before 1970",
    date=(
        DateType(),
        [date(1969, 12, 31), date(1970, 1, 1), date(1582, 10, 4), date(1, 1, 1), None, date(1900, 2, 28)],
    ),
    ts=(
        TimestampType(),
        [
            "1969-12-31T23:59:59.999999",
            "1970-01-01T00:00:00",
            "1582-10-15T00:00:00.000001",
            "0001-01-01T00:00:00",
            None,
            "1900-01-01T00:00:00.5",
        ],
    ),
    tz=(
        TimestamptzType(),
        [
            "1969-12-31T23:59:59.999999+00:00",
            "1970-01-01T00:00:00+00:00",
            "1883-11-18T12:00:00.000001+00:00",
            "0001-01-01T00:00:00+00:00",
            None,
            "1900-01-01T00:00:00.5+00:00",
        ],
    ),
)
"""Days and moments on both sides of the epoch, with parts of seconds, back to year 1."""

EMPTY_VALUES = numbered(
    "empty values",
    text=(StringType(), ["", None, "", "a", "\0", ""]),
    bytes=(BinaryType(), [b"", None, b"", b"a", b"\0", b""]),
    list=(ListType(20, StringType(), element_required=False), [[], None, [""], [None], ["a", ""], []]),
    map=(
        MapType(21, StringType(), 22, BinaryType(), value_required=False),
        [[], None, [("", b"")], [("a", None)], [], []],
    ),
)
"""Texts, bytes, lists and maps without content, beside those that are null and those that hold nothing but a null."""

ONE_ROW = numbered("one row", name=(StringType(), ["only"]), score=(DoubleType(), [0.25]))
"""The smallest file that there is."""

MANY_CHUNKS = DataSet(
    "many chunks",
    Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "score", DoubleType()),
    ),
    [{1: number, 2: None if number % 7 == 0 else f"name {number % 5}", 3: number / 4} for number in range(60)],
)
"""Sixty rows in the order of `id`, so that each chunk has its own range."""

WIDE = DataSet(
    "wide",
    Schema(*(NestedField(number, f"c{number:03}", LongType()) for number in range(1, 301))),
    [{number: None if (number + row) % 11 == 0 else number * 10 + row for number in range(1, 301)} for row in range(4)],
)
"""Three hundred columns."""

_NAMES = ("a.b", "one two", "1st", "a/b", "\U0001f600", "a", "A", "_pos", "element", "ü'\"`", "list.element")

ODD_NAMES = DataSet(
    "odd names",
    Schema(
        *(NestedField(number, name, IntegerType()) for number, name in enumerate(_NAMES, 1)),
        NestedField(
            20,
            "s t",
            StructType(*(NestedField(20 + number, name, IntegerType()) for number, name in enumerate(_NAMES, 1))),
        ),
    ),
    [
        {
            **{number: number * 10 + row for number in range(1, len(_NAMES) + 1)},
            20: {20 + number: number * 100 + row for number in range(1, len(_NAMES) + 1)},
        }
        for row in range(4)
    ],
)
"""Names with dots, spaces, slashes, quotes, a leading digit, an emoji, and names that differ by case alone."""

DATA_SETS: tuple[DataSet, ...] = (
    PRIMITIVES,
    DECIMALS,
    NESTED,
    NULLS,
    NAN_AND_ZEROS,
    BEFORE_1970,
    EMPTY_VALUES,
    ONE_ROW,
    MANY_CHUNKS,
    WIDE,
    ODD_NAMES,
)
"""All that every format can store, which `NANOSECONDS` is not."""
