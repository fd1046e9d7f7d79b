"""Rows that do not fit the schema are completed by its rules, or refused with nothing left behind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from formatkit.contract import WriteOptions
from formatkit.errors import FormatkitError, InvalidDataError, SchemaResolutionError
from formatkit.io import MemorySink
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.kits import FormatKit
from formatkit.tck.naive import Row
from formatkit.tck.written import write_arrow

_REQUIRED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "list", ListType(21, LongType(), element_required=True)),
    NestedField(3, "struct", StructType(NestedField(31, "x", LongType(), required=True))),
    NestedField(4, "map", MapType(41, StringType(), 42, LongType(), value_required=True)),
)
_OPTIONAL = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "list", ListType(21, LongType(), element_required=False)),
    NestedField(3, "struct", StructType(NestedField(31, "x", LongType()))),
    NestedField(4, "map", MapType(41, StringType(), 42, LongType(), value_required=False)),
)
_GOOD: Row = {1: 1, 2: [1], 3: {31: 1}, 4: [("k", 1)]}


@check("W2", "W4", "X80", layer=Layer.FORMAT)
def a_null_where_a_value_is_required_is_refused(kit: FormatKit[Any]) -> None:
    for bad in ({1: None}, {2: [1, None]}, {3: {31: None}}, {4: [("k", None)]}):
        batch = kit.batches.batch(_OPTIONAL, [_GOOD, {**_GOOD, **bad}])
        sink = MemorySink()
        with (
            expect.raises(InvalidDataError, when=f"writing {bad} where a value is required"),
            kit.plugin.writer().open(sink, WriteOptions(schema=_REQUIRED)) as writer,
        ):
            writer.write(batch)
        expect.that(sink.data is None, f"a file is left after {bad} was refused")


@check("W1", "X59", layer=Layer.FORMAT)
def what_is_required_below_a_null_is_not_demanded(kit: FormatKit[Any]) -> None:
    rows: list[Row] = [{1: 1, 2: None, 3: None, 4: None}, {1: 2, 2: [], 3: {31: 5}, 4: []}, _GOOD]
    stored = kit.write(_REQUIRED, rows)
    expect.equal_rows(kit.everything(stored), rows, "rows with nulls above required fields")


@check("W2", "X59", "X80", layer=Layer.FORMAT)
def optional_columns_that_the_data_lacks_are_null(kit: FormatKit[Any]) -> None:
    found = kit.everything(write_arrow(kit, MemorySink(), pa.table({"id": pa.array([1, 2], pa.int64())}), _REQUIRED))
    expect.equal_rows(found, [{1: number, 2: None, 3: None, 4: None} for number in (1, 2)])


@check("W2", "X80", layer=Layer.FORMAT)
def columns_in_another_order_go_where_their_names_say(kit: FormatKit[Any]) -> None:
    point = StructType(NestedField(31, "x", LongType()), NestedField(32, "y", LongType()))
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()), NestedField(3, "point", point))
    data = pa.table({"point": [{"y": 4, "x": 3}], "b": [2], "a": [1]})
    found = kit.everything(write_arrow(kit, MemorySink(), data, schema))
    expect.equal_rows(found, [{1: 1, 2: 2, 3: {31: 3, 32: 4}}], "rows given in another order of columns")


@check("W2", "X81", layer=Layer.FORMAT)
def columns_that_the_data_lacks_take_their_write_default(kit: FormatKit[Any]) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "must", LongType(), required=True, write_default=7),
        NestedField(3, "may", StringType(), write_default="x"),
    )
    found = kit.everything(write_arrow(kit, MemorySink(), pa.table({"id": [1]}), schema))
    expect.equal_rows(found, [{1: 1, 2: 7, 3: "x"}], "rows with write defaults")


@check("W4", "X80", "X81", layer=Layer.FORMAT)
def columns_that_are_missing_surplus_or_of_another_type_are_refused(kit: FormatKit[Any]) -> None:
    good = {"id": pa.array([1], pa.int64())}
    bad = {
        "a required column that is missing": {"list": pa.array([[1]], pa.list_(pa.int64()))},
        "a column that the schema lacks": {**good, "surplus": pa.array([1])},
        "text for numbers": {"id": pa.array(["1"])},
        "a struct for a list": {**good, "list": pa.array([{"x": 1}])},
    }
    for what, columns in bad.items():
        _is_refused(kit, pa.table(columns), _REQUIRED, SchemaResolutionError, what)


@check("W1", "X33", layer=Layer.FORMAT)
def small_and_unsigned_integers_are_stored_as_they_are(kit: FormatKit[Any]) -> None:
    schema = Schema(NestedField(1, "int", IntegerType()), NestedField(2, "long", LongType()))
    for narrow, wide, most in (
        (pa.int8(), pa.uint32(), 2**32 - 1),
        (pa.uint8(), pa.int16(), 2**15 - 1),
        (pa.uint16(), pa.uint64(), 2**63 - 1),
    ):
        data = pa.table({"int": pa.array([1, None], narrow), "long": pa.array([most, 0], wide)})
        found = kit.everything(write_arrow(kit, MemorySink(), data, schema))
        expect.equal_rows(found, [{1: 1, 2: most}, {1: None, 2: 0}], f"rows of {narrow} and {wide}")


@check("W4", "X33", "X34", "X30", layer=Layer.FORMAT)
def values_that_their_type_cannot_hold_are_refused(kit: FormatKit[Any]) -> None:
    """Numbers out of range, bytes of another length and nanoseconds for microseconds are refused, never changed."""
    cases: tuple[tuple[str, IcebergType, pa.Array[Any]], ...] = (
        ("an unsigned number above 2^63", LongType(), pa.array([2**63], pa.uint64())),
        ("a long for an int", IntegerType(), pa.array([2**31], pa.int64())),
        ("four bytes for a fixed of three", FixedType(3), pa.array([b"abcd"])),
        ("two bytes for a fixed of three", FixedType(3), pa.array([b"ab"])),
        ("fifteen bytes for a uuid", UUIDType(), pa.array([b"x" * 15])),
        ("nanoseconds for microseconds", TimestampType(), pa.array([1_500], pa.timestamp("ns"))),
    )
    for what, kind, column in cases:
        schema = Schema(NestedField(1, "x", kind))
        _is_refused(kit, pa.table({"x": column}), schema, FormatkitError, what)


@check("W4", "X31", layer=Layer.FORMAT)
def moments_of_another_zone_are_refused(kit: FormatKit[Any]) -> None:
    """A zone is neither added nor dropped, and one other than UTC is not converted in silence."""
    noon = datetime(2021, 6, 1, 12, tzinfo=UTC)
    naive, utc, other = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("us", "Asia/Kolkata")
    for kind, given in ((TimestampType(), utc), (TimestamptzType(), naive), (TimestamptzType(), other)):
        column = pa.array([noon if given.tz else noon.replace(tzinfo=None)], given)
        schema = Schema(NestedField(1, "at", kind))
        _is_refused(kit, pa.table({"at": column}), schema, SchemaResolutionError, f"{given} for {kind}")


def _is_refused(kit: FormatKit[Any], data: pa.Table, schema: Schema, error: type[Exception], what: str) -> None:
    sink = MemorySink()
    with expect.raises(error, when=f"writing {what}"):
        write_arrow(kit, sink, data, schema)
    expect.that(sink.data is None, f"a file is left after {what} was refused")
