"""How incoming columns are fitted to the schema: by name, without loss, or not at all."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
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
    GeometryType,
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
    UUIDType,
)

from formatkit.batches.arrow import ArrowBatch
from formatkit.batches.arrow.types import arrow_schema
from formatkit.errors import InvalidDataError, MissingRequiredFieldError, SchemaResolutionError
from formatkit.write.matching import Matcher
from support.arrow_forms import FORMS


def match(schema: Schema, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    matcher = Matcher(schema, ArrowBatch())
    rows = []
    for batch in batches:
        matched = matcher.match(batch)
        assert matched.schema == arrow_schema(schema)
        rows += matched.to_pylist()
    return rows


def one_column(kind: IcebergType, *, required: bool = False) -> Schema:
    return Schema(NestedField(1, "a", kind, required=required))


MIDNIGHT = datetime(2020, 1, 1)

ACCEPTED: list[tuple[IcebergType, Any, Any]] = [
    (BooleanType(), pa.array([True]), True),
    *((IntegerType(), pa.array([7], kind), 7) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())),
    *((LongType(), pa.array([7], kind), 7) for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint32(), pa.uint64())),
    (FloatType(), pa.array(np.array([1.5], np.float16)), 1.5),
    (FloatType(), pa.array([1.5], pa.float32()), 1.5),
    (DoubleType(), pa.array(np.array([1.5], np.float16)), 1.5),
    (DoubleType(), pa.array([0.1], pa.float64()), 0.1),
    (DecimalType(9, 2), pa.array([Decimal("1.25")], pa.decimal128(5, 2)), Decimal("1.25")),
    (DecimalType(9, 2), pa.array([Decimal("1.25")], pa.decimal256(9, 2)), Decimal("1.25")),
    (DecimalType(9, 2), pa.array([Decimal("1.25")], pa.decimal32(9, 2)), Decimal("1.25")),
    (DateType(), pa.array([date(2020, 1, 2)], pa.date32()), date(2020, 1, 2)),
    (DateType(), pa.array([date(2020, 1, 2)], pa.date64()), date(2020, 1, 2)),
    *(
        (TimeType(), pa.array([3_600], pa.time32("s")).cast(kind), time(1))
        for kind in (pa.time32("s"), pa.time64("ns"))
    ),
    *((TimestampType(), pa.array([MIDNIGHT], pa.timestamp(unit)), MIDNIGHT) for unit in ("s", "ms", "us", "ns")),
    *((TimestampNanoType(), pa.array([MIDNIGHT], pa.timestamp(unit)), MIDNIGHT) for unit in ("s", "us", "ns")),
    (StringType(), pa.array(["é"], pa.large_string()), "é"),
    (StringType(), pa.array(["é"], pa.string_view()), "é"),
    (StringType(), pa.array(["é"]).dictionary_encode(), "é"),
    (StringType(), pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["é"])), "é"),
    (BinaryType(), pa.array([b"\xff"], pa.large_binary()), b"\xff"),
    (BinaryType(), pa.array([b"\xff"], pa.binary_view()), b"\xff"),
    (GeometryType(), pa.array([b"\xff"]), b"\xff"),
    (FixedType(2), pa.array([b"ab"], pa.binary(2)), b"ab"),
    (FixedType(2), pa.array([b"ab"], pa.large_binary()), b"ab"),
    (ListType(2, LongType(), element_required=False), pa.array([[1, None]], pa.large_list(pa.uint16())), [1, None]),
    (ListType(2, LongType(), element_required=False), pa.array([[1, None]], pa.list_(pa.int8(), 2)), [1, None]),
    (ListType(2, LongType(), element_required=False), pa.array([[1, None]], pa.list_view(pa.int8())), [1, None]),
    (
        MapType(2, StringType(), 3, IntegerType(), value_required=False),
        pa.array([[("k", 1)]], pa.map_(pa.large_string(), pa.int8())),
        [("k", 1)],
    ),
]


@pytest.mark.parametrize(
    ("kind", "column", "value"), ACCEPTED, ids=[f"{column.type}-as-{kind}" for kind, column, _ in ACCEPTED]
)
def test_types_that_lose_nothing_are_accepted(kind: IcebergType, column: Any, value: Any) -> None:
    assert match(one_column(kind), pa.record_batch({"a": column})) == [{"a": value}]


@pytest.mark.parametrize("zone", ["UTC", "+00:00", "Etc/UTC"])
@pytest.mark.parametrize("kind", [TimestamptzType(), TimestamptzNanoType()])
def test_other_names_of_utc_are_accepted(kind: IcebergType, zone: str) -> None:
    column = pa.array([MIDNIGHT], pa.timestamp("us", zone))
    (row,) = match(one_column(kind), pa.record_batch({"a": column}))
    assert row["a"].timestamp() == 1_577_836_800


@pytest.mark.parametrize("storage", [pa.binary(16), pa.binary(), pa.binary_view()])
def test_uuids_come_as_bytes_too(storage: Any) -> None:
    (row,) = match(one_column(UUIDType()), pa.record_batch({"a": pa.array([b"\1" * 16], storage)}))
    assert row["a"].bytes == b"\1" * 16


REFUSED: list[tuple[IcebergType, Any]] = [
    (IntegerType(), pa.int64()),
    (IntegerType(), pa.uint32()),
    (IntegerType(), pa.float32()),
    (LongType(), pa.float64()),
    (LongType(), pa.string()),
    (FloatType(), pa.float64()),
    (DoubleType(), pa.int32()),
    (DecimalType(9, 2), pa.decimal128(10, 2)),
    (DecimalType(9, 2), pa.decimal128(9, 3)),
    (DecimalType(9, 2), pa.decimal128(5, 1)),
    (DateType(), pa.timestamp("us")),
    (TimestampType(), pa.date32()),
    (TimestampType(), pa.int64()),
    (TimestampType(), pa.timestamp("us", "UTC")),
    (TimestamptzType(), pa.timestamp("us")),
    (TimestamptzType(), pa.timestamp("us", "Europe/Berlin")),
    (TimestamptzNanoType(), pa.timestamp("ns", "Europe/Berlin")),
    (StringType(), pa.binary()),
    (BinaryType(), pa.string()),
    (FixedType(2), pa.binary(3)),
    (UUIDType(), pa.string()),
    (UUIDType(), pa.binary(15)),
    (BooleanType(), pa.int8()),
    (ListType(2, LongType(), element_required=False), pa.int64()),
    (ListType(2, LongType(), element_required=False), pa.list_(pa.string())),
    (StructType(NestedField(2, "x", LongType(), required=False)), pa.list_(pa.int64())),
    (MapType(2, StringType(), 3, LongType(), value_required=False), pa.list_(pa.int64())),
    (LongType(), pa.duration("us")),
]


@pytest.mark.parametrize(("kind", "arrow"), REFUSED, ids=[f"{arrow}-as-{kind}" for kind, arrow in REFUSED])
def test_types_that_could_lose_something_are_refused(kind: IcebergType, arrow: Any) -> None:
    with pytest.raises(SchemaResolutionError, match=r"column 'a(\.element)?' has the Arrow type"):
        match(one_column(kind), pa.record_batch({"a": pa.nulls(1, arrow)}))


def test_a_foreign_zone_is_told_what_to_do() -> None:
    with pytest.raises(SchemaResolutionError, match="cast it to the zone UTC"):
        match(one_column(TimestamptzType()), pa.record_batch({"a": pa.nulls(1, pa.timestamp("us", "Europe/Berlin"))}))


UNFITTING: list[tuple[IcebergType, Any]] = [
    (LongType(), pa.array([2**63], pa.uint64())),
    (TimestampType(), pa.array([1], pa.timestamp("ns"))),
    (TimestampType(), pa.array([2**62], pa.timestamp("s"))),
    (TimestampNanoType(), pa.array([2**62], pa.timestamp("us"))),
    (TimeType(), pa.array([1], pa.time64("ns"))),
    (FixedType(2), pa.array([b"abc"])),
    (UUIDType(), pa.array([b"short"])),
]


@pytest.mark.parametrize(("kind", "column"), UNFITTING, ids=[f"{column.type}-as-{kind}" for kind, column in UNFITTING])
def test_values_that_do_not_fit_are_refused(kind: IcebergType, column: Any) -> None:
    with pytest.raises(InvalidDataError, match="'a'"):
        match(one_column(kind), pa.record_batch({"a": column}))


WIDE = Schema(
    NestedField(1, "a", LongType(), required=True),
    NestedField(2, "b", StringType(), required=False),
    NestedField(3, "c", LongType(), required=False, write_default=42),
    NestedField(4, "d", StringType(), required=True, write_default="none"),
)


def test_columns_are_matched_by_name_in_any_order() -> None:
    batch = pa.record_batch({"d": ["w"], "c": [1], "b": ["x"], "a": [0]})
    assert match(WIDE, batch) == [{"a": 0, "b": "x", "c": 1, "d": "w"}]


def test_missing_columns_take_their_write_default_or_null() -> None:
    assert match(WIDE, pa.record_batch({"a": [1, 2]})) == [
        {"a": 1, "b": None, "c": 42, "d": "none"},
        {"a": 2, "b": None, "c": 42, "d": "none"},
    ]


def test_an_initial_default_is_not_written() -> None:
    schema = Schema(
        NestedField(1, "a", LongType(), required=False),
        NestedField(2, "b", LongType(), required=False, initial_default=1),
    )
    assert match(schema, pa.record_batch({"a": [1]})) == [{"a": 1, "b": None}]


def test_an_explicit_null_is_not_replaced_by_the_default() -> None:
    assert match(WIDE, pa.record_batch({"a": [1], "c": pa.nulls(1)}))[0]["c"] is None


def test_a_missing_required_column_is_named() -> None:
    with pytest.raises(MissingRequiredFieldError, match="column 'a' is required"):
        match(WIDE, pa.record_batch({"b": ["x"]}))


def test_an_extra_column_is_named() -> None:
    with pytest.raises(SchemaResolutionError, match="column 'zzz' of the data is not in the schema"):
        match(WIDE, pa.record_batch({"a": [1], "zzz": [1]}))


def test_names_are_matched_exactly() -> None:
    with pytest.raises(SchemaResolutionError, match="column 'A' of the data is not in the schema"):
        match(WIDE, pa.record_batch({"A": [1]}))


def test_a_column_that_comes_twice_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(SchemaResolutionError, match="several columns 'a'"):
        match(WIDE, batch)


def point(first_id: int) -> StructType:
    return StructType(
        NestedField(first_id, "x", LongType(), required=True),
        NestedField(first_id + 1, "y", LongType(), required=False, write_default=5),
    )


POINT = point(11)
NESTED = Schema(
    NestedField(1, "s", POINT, required=False),
    NestedField(2, "l", ListType(3, point(21), element_required=False), required=False),
)


def test_struct_fields_are_matched_by_name_at_every_level() -> None:
    batch = pa.RecordBatch.from_pylist([{"l": [{"y": 1, "x": 2}, None], "s": {"y": 3, "x": 4}}, {"l": None, "s": None}])
    assert match(NESTED, batch) == [
        {"s": {"x": 4, "y": 3}, "l": [{"x": 2, "y": 1}, None]},
        {"s": None, "l": None},
    ]


def test_missing_struct_fields_take_their_write_default() -> None:
    batch = pa.RecordBatch.from_pylist([{"s": {"x": 4}, "l": [{"x": 1}]}, {"s": None, "l": []}])
    assert match(NESTED, batch) == [{"s": {"x": 4, "y": 5}, "l": [{"x": 1, "y": 5}]}, {"s": None, "l": []}]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"s": {"x": 1, "z": 1}}, "column 's.z' of the data"),
        ({"l": [{"x": 1, "z": 1}]}, "column 'l.element.z' of the data"),
        ({"s": {"y": 1}}, "column 's.x' is required"),
        ({"l": [{"y": 1}]}, "column 'l.element.x' is required"),
    ],
)
def test_complaints_about_nested_fields_name_their_path(row: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchemaResolutionError, match=complaint):
        match(NESTED, pa.RecordBatch.from_pylist([row]))


def test_an_absent_optional_struct_does_not_demand_its_required_fields() -> None:
    assert match(NESTED, pa.RecordBatch.from_pylist([{"l": None}])) == [{"s": None, "l": None}]


def test_a_struct_default_is_made_of_the_defaults_of_its_fields() -> None:
    inner = StructType(
        NestedField(3, "x", LongType(), required=True, write_default=1), NestedField(4, "y", LongType(), required=False)
    )
    field = NestedField(2, "s", inner, required=True)
    field = field.model_copy(update={"write_default": ()})
    schema = Schema(NestedField(1, "a", LongType(), required=False), field)
    assert match(schema, pa.record_batch({"a": [7]})) == [{"a": 7, "s": {"x": 1, "y": None}}]


LONGS = ListType(2, LongType(), element_required=False)
NULL_TYPES: dict[str, tuple[IcebergType, Any, list[Any]]] = {
    "column": (LongType(), pa.nulls(2), [None, None]),
    "struct column": (POINT, pa.nulls(2), [None, None]),
    "empty lists": (LONGS, pa.array([[], None]), [[], None]),
    "lists of null": (LONGS, pa.array([[None], []]), [[None], []]),
    "large lists of null": (LONGS, pa.array([[None], []], pa.large_list(pa.null())), [[None], []]),
    "map values": (
        MapType(2, StringType(), 3, LongType(), value_required=False),
        pa.array([[], [("k", None)]], pa.map_(pa.string(), pa.null())),
        [[], [("k", None)]],
    ),
    "struct field": (
        StructType(NestedField(2, "x", StringType(), required=False)),
        pa.array([{"x": None}, None], pa.struct([("x", pa.null())])),
        [{"x": None}, None],
    ),
}


@pytest.mark.parametrize(("kind", "column", "expected"), NULL_TYPES.values(), ids=NULL_TYPES)
def test_arrows_null_type_stands_for_any_type(kind: IcebergType, column: Any, expected: list[Any]) -> None:
    assert [row["a"] for row in match(one_column(kind), pa.record_batch({"a": column}))] == expected


REQUIRED_NULLS: list[tuple[IcebergType, list[Any], Any, str, int]] = [
    (LongType(), [1, 2, None], pa.int64(), "a", 2),
    (ListType(2, LongType(), element_required=True), [[1], None, [], [None, 2]], pa.list_(pa.int64()), "a.element", 3),
    (POINT, [{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())]), "a.x", 2),
    (
        MapType(2, StringType(), 3, LongType(), value_required=True),
        [None, [("k", 1), ("l", None)]],
        pa.map_(pa.string(), pa.int64()),
        "a.value",
        1,
    ),
    (
        ListType(2, POINT, element_required=False),
        [[None], [{"x": 1}, None, {"x": None}]],
        pa.list_(pa.struct([("x", pa.int64())])),
        "a.element.x",
        1,
    ),
]


@pytest.mark.parametrize(
    ("kind", "values", "arrow", "name", "row"), REQUIRED_NULLS, ids=[case[3] for case in REQUIRED_NULLS]
)
@pytest.mark.parametrize("sliced", [False, True])
def test_the_first_null_in_a_required_field_is_named(
    kind: IcebergType, values: list[Any], arrow: Any, name: str, row: int, sliced: bool
) -> None:
    schema = one_column(kind, required=isinstance(kind, LongType))
    column = pa.array(values, arrow)
    if sliced:
        column = pa.array([values[0], *values, values[0]], arrow).slice(1, len(values))
    whole = pa.array([values[0]], arrow)
    batches = [pa.record_batch({"a": whole})] * 10 + [pa.record_batch({"a": column})]
    with pytest.raises(InvalidDataError, match=f"column '{name}' is required, but null in row {10 + row} "):
        match(schema, *batches)


def test_required_fields_of_null_parents_are_no_concern() -> None:
    values: list[Any] = [None, {"x": 1, "y": None}]
    column = pa.array(values, pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    assert [row["a"] for row in match(one_column(POINT), pa.record_batch({"a": column}))] == values


@pytest.mark.parametrize(
    "form", ["plain", "dictionary", "dictionary with null and repeated values", "run ends", "view"]
)
def test_nulls_are_seen_through_encodings(form: str) -> None:
    batch = pa.record_batch({"a": FORMS[form](pa.array(["x", None]))})
    with pytest.raises(InvalidDataError, match="null in row 1 "):
        match(one_column(StringType(), required=True), batch)


def test_a_batch_that_fits_is_passed_on_as_it_is() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1])], schema=arrow_schema(one_column(LongType())))
    assert Matcher(one_column(LongType()), ArrowBatch()).match(batch) is batch
