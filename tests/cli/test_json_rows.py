from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
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
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.variant import variant_array
from formatkit.cli.json_rows import json_rows
from formatkit.contract import Variant, VariantType
from formatkit.contract.variant_encoding import Primitive

POINT = StructType(NestedField(2, "x", IntegerType()), NestedField(3, "when", DateType()))
POINT_ARROW = pa.struct([("x", pa.int32()), ("when", pa.date32())])
IDENTITY = UUID("0123456789abcdef0123456789abcdef")


def values(kind: IcebergType, array: Any) -> list[Any]:
    """The JSON values of one column, after a trip through JSON text."""
    batch = pa.RecordBatch.from_arrays([array], names=["ignored"])
    rows = json_rows(Schema(NestedField(1, "column", kind)), batch)
    return [json.loads(json.dumps(row, allow_nan=False))["column"] for row in rows]


@pytest.mark.parametrize(
    ("kind", "array", "expected"),
    [
        (BooleanType(), pa.array([True, None]), [True, None]),
        (IntegerType(), pa.array([1, None], pa.int32()), [1, None]),
        (LongType(), pa.array([2**63 - 1, None]), [2**63 - 1, None]),
        (FloatType(), pa.array([0.1, math.nan, None], pa.float32()), [0.1, "NaN", None]),
        (DoubleType(), pa.array([0.1, math.inf, -math.inf]), [0.1, "Infinity", "-Infinity"]),
        (DecimalType(20, 2), pa.array([Decimal("12.30"), None], pa.decimal128(20, 2)), ["12.30", None]),
        (DecimalType(9, 9), pa.array([Decimal("0.000000001")], pa.decimal128(9, 9)), ["0.000000001"]),
        (DateType(), pa.array([0, 3_000_000, None], pa.date32()), ["1970-01-01", "10183-09-21", None]),
        (TimeType(), pa.array([36_000_000_001, None], pa.time64("us")), ["10:00:00.000001", None]),
        (TimestampType(), pa.array([-1, None], pa.timestamp("us")), ["1969-12-31T23:59:59.999999", None]),
        (TimestamptzType(), pa.array([0], pa.timestamp("us", "UTC")), ["1970-01-01T00:00:00.000000+00:00"]),
        (TimestampNanoType(), pa.array([1], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001"]),
        (TimestamptzNanoType(), pa.array([1], pa.timestamp("ns", "UTC")), ["1970-01-01T00:00:00.000000001+00:00"]),
        (StringType(), pa.array(["ä\n", None]), ["ä\n", None]),
        (UUIDType(), pa.array([IDENTITY.bytes, None], pa.uuid()), [str(IDENTITY), None]),
        (FixedType(2), pa.array([b"\x00\xff", None], pa.binary(2)), ["00ff", None]),
        (BinaryType(), pa.array([b"", b"\x01", None]), ["", "01", None]),
        (UnknownType(), pa.nulls(2), [None, None]),
    ],
    ids=lambda value: str(value) if isinstance(value, IcebergType) else "",
)
def test_every_type_has_a_json_form(kind: IcebergType, array: Any, expected: list[Any]) -> None:
    assert values(kind, array) == expected


def test_a_null_struct_is_null_and_its_children_are_not_shown() -> None:
    array = pa.array([{"x": 1, "when": None}, None, {"x": None, "when": 1}], POINT_ARROW)
    assert values(POINT, array) == [{"x": 1, "when": None}, None, {"x": None, "when": "1970-01-02"}]


def test_null_and_empty_lists_differ() -> None:
    array = pa.array([[0], [], None, [1, None]], pa.list_(pa.date32()))
    kind = ListType(2, DateType(), element_required=False)
    assert values(kind, array) == [["1970-01-01"], [], None, ["1970-01-02", None]]


def test_maps_keep_keys_of_any_type() -> None:
    array = pa.array([[(1, "a"), (2, None)], None, []], pa.map_(pa.date32(), pa.string()))
    kind = MapType(2, DateType(), 3, StringType(), value_required=False)
    assert values(kind, array) == [
        {"keys": ["1970-01-02", "1970-01-03"], "values": ["a", None]},
        None,
        {"keys": [], "values": []},
    ]


@pytest.mark.parametrize("offset", range(4))
def test_slices_show_their_own_rows(offset: int) -> None:
    kind = ListType(5, MapType(6, StringType(), 7, POINT, value_required=False), element_required=False)
    arrow = pa.list_(pa.map_(pa.string(), POINT_ARROW))
    array = pa.array([[[("a", {"x": 1, "when": 0})]], None, [None, []], [[("b", None)]]], arrow)
    assert values(kind, array.slice(offset, 2)) == values(kind, array)[offset : offset + 2]


def test_rows_without_columns_are_counted() -> None:
    structs: Any = pa.array([{}, {}], pa.struct([]))
    batch = pa.RecordBatch.from_struct_array(structs)
    assert list(json_rows(Schema(), batch)) == [{}, {}]


def test_a_variant_is_the_value_that_it_holds_in_the_same_forms() -> None:
    held = [
        {"b": [1, None, True], "a": Decimal("1.50")},
        [date(2020, 1, 2), time(1, 2, 3), datetime(1, 1, 1), datetime(9999, 12, 31, tzinfo=UTC)],
        [math.inf, 0.1, b"\x00\xff", IDENTITY, "text"],
    ]
    nanoseconds = Variant(b"\x01\x00\x00", bytes([Primitive.TIMESTAMPTZ_NS << 2]) + (1).to_bytes(8, "little"))
    single = Variant(b"\x01\x00\x00", bytes([Primitive.FLOAT << 2]) + b"\xcd\xcc\xcc\x3d")
    column = variant_array([*map(Variant.of, held), nanoseconds, single, Variant.of(None), None])
    assert values(VariantType(), column) == [
        {"b": [1, None, True], "a": "1.50"},
        ["2020-01-02", "01:02:03.000000", "0001-01-01T00:00:00.000000", "9999-12-31T00:00:00.000000+00:00"],
        ["Infinity", 0.1, "00ff", str(IDENTITY), "text"],
        "1970-01-01T00:00:00.000000001+00:00",
        0.1,
        None,
        None,
    ]
