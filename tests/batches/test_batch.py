from __future__ import annotations

import datetime as dt
import uuid
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

from formatkit.batches.arrow import ArrowBatch, arrow_schema, column_of
from formatkit.contract import DataBatch
from formatkit.errors import ColumnNotFoundError, InvalidDataError

OPS: DataBatch[pa.RecordBatch] = ArrowBatch()
SCHEMA = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType()))
BATCH = pa.RecordBatch.from_arrays([pa.array([1, 2, 3], pa.int32()), pa.array(["x", None, "z"])], names=["a", "b"])
NO_COLUMNS = BATCH.select([])


def test_columns_are_picked_by_id_in_the_given_order() -> None:
    assert OPS.project(SCHEMA, [2, 1])(BATCH).to_pydict() == {"b": ["x", None, "z"], "a": [1, 2, 3]}
    assert OPS.project(SCHEMA, [2])(BATCH).to_pydict() == {"b": ["x", None, "z"]}


def test_picking_all_columns_returns_the_same_batch() -> None:
    assert OPS.project(SCHEMA, [1, 2])(BATCH) is BATCH


def test_picking_no_columns_keeps_the_number_of_rows() -> None:
    assert OPS.num_rows(OPS.project(SCHEMA, [])(BATCH)) == 3


def test_an_id_that_the_schema_lacks_is_an_error_while_compiling() -> None:
    with pytest.raises(ColumnNotFoundError, match=r"id 9.*a \(id 1\), b \(id 2\)"):
        OPS.project(SCHEMA, [1, 9])


@pytest.mark.parametrize("keep", [[True, False, True], np.array([1, 0, 1], bool), (True, False, True)], ids=type)
def test_rows_are_taken_by_any_buffer_of_booleans(keep: Any) -> None:
    assert OPS.take_rows(BATCH, keep).to_pydict() == {"a": [1, 3], "b": ["x", "z"]}


def test_taking_all_rows_returns_the_same_batch() -> None:
    assert OPS.take_rows(BATCH, [True] * 3) is BATCH


def test_rows_are_taken_from_batches_without_columns() -> None:
    assert OPS.num_rows(OPS.take_rows(NO_COLUMNS, [True, False, True])) == 2
    assert OPS.num_rows(OPS.take_rows(NO_COLUMNS, [False] * 3)) == 0


def test_there_must_be_a_mark_for_each_row() -> None:
    with pytest.raises(InvalidDataError, match="2 marks cannot select among 3 rows"):
        OPS.take_rows(BATCH, [True, False])


def test_a_slice_is_a_window_of_rows() -> None:
    assert OPS.slice(BATCH, 1, 1).to_pydict() == {"a": [2], "b": [None]}
    assert OPS.num_rows(OPS.slice(NO_COLUMNS, 1, 2)) == 2


def test_batches_of_different_forms_are_put_together_in_canonical_form() -> None:
    wide: list[Any] = [pa.array([4], pa.int64()), pa.array(["w"], pa.string_view())]
    other = pa.RecordBatch.from_arrays(wide, names=["q", "r"])
    encoded = pa.RecordBatch.from_arrays([BATCH.column(0), BATCH.column(1).dictionary_encode()], names=["a", "b"])
    result = OPS.concat(SCHEMA, [BATCH.slice(2), other, encoded.slice(0, 0), encoded.slice(1, 1)])
    assert result.schema.equals(arrow_schema(SCHEMA), check_metadata=True)
    assert result.to_pydict() == {"a": [3, 4, 2], "b": ["z", "w", None]}


def test_dictionaries_are_put_together_on_request() -> None:
    ops = ArrowBatch(dictionary_ids=frozenset({2}))
    result = ops.concat(SCHEMA, [BATCH.slice(0, 1), BATCH.slice(1)])
    assert result.schema.field("b").type == pa.dictionary(pa.int32(), pa.string())
    assert result.column(1).to_pylist() == ["x", None, "z"]


def test_nothing_put_together_is_an_empty_batch_of_the_schema() -> None:
    deep = StructType(NestedField(5, "u", UUIDType()))
    schema = Schema(
        *SCHEMA.fields,
        NestedField(3, "l", ListType(4, deep)),
        NestedField(6, "m", MapType(7, StringType(), 8, UUIDType())),
        NestedField(9, "n", UnknownType()),
    )
    result = OPS.concat(schema, [])
    assert result.schema.equals(arrow_schema(schema), check_metadata=True)
    assert OPS.num_rows(result) == 0
    assert OPS.num_rows(OPS.concat(Schema(), [])) == 0


def test_rows_of_batches_without_columns_are_put_together() -> None:
    assert OPS.num_rows(OPS.concat(Schema(), [NO_COLUMNS, NO_COLUMNS])) == 6


UTC_TIME = dt.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=dt.UTC)
YEAR_10000 = 253_402_300_800_000_000


@pytest.mark.parametrize(
    ("kind", "column", "expected"),
    [
        (BooleanType(), pa.array([True, None]), [True, None]),
        (LongType(), pa.array([2**62, None], pa.int64()), [2**62, None]),
        (DecimalType(9, 2), pa.array([Decimal("1.10")], pa.decimal128(9, 2)), [Decimal("1.10")]),
        (DateType(), pa.array([dt.date(1969, 12, 31), None]), [dt.date(1969, 12, 31), None]),
        (DateType(), pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), [2**31 - 1]),
        (TimeType(), pa.array([dt.time(23, 59, 59, 999_999), None]), [dt.time(23, 59, 59, 999_999), None]),
        (TimestampType(), pa.array([UTC_TIME.replace(tzinfo=None)]), [UTC_TIME.replace(tzinfo=None)]),
        (TimestampType(), pa.array([YEAR_10000, -(2**62)], pa.timestamp("us")), [YEAR_10000, -(2**62)]),
        (TimestamptzType(), pa.array([UTC_TIME], pa.timestamp("us", "UTC")), [UTC_TIME]),
        (TimestamptzType(), pa.array([YEAR_10000], pa.timestamp("us", "UTC")), [YEAR_10000]),
        (TimestampNanoType(), pa.array([-1, None], pa.timestamp("ns")), [-1, None]),
        (TimestamptzNanoType(), pa.array([5], pa.timestamp("ns", "UTC")), [5]),
        (StringType(), pa.array(["é", None, ""], pa.large_string()), ["é", None, ""]),
        (BinaryType(), pa.array([b"\0", None]), [b"\0", None]),
        (UUIDType(), pa.array([uuid.UUID(int=1).bytes, None], pa.binary(16)), [uuid.UUID(int=1), None]),
        (UnknownType(), pa.nulls(2), [None, None]),
        (
            StructType(NestedField(2, "x", IntegerType()), NestedField(3, "y", DateType())),
            pa.array([{"x": 1, "y": dt.date(2020, 1, 1)}, None]),
            [(1, dt.date(2020, 1, 1)), None],
        ),
        (StructType(), pa.array([{}, None], pa.struct([])), [(), None]),
        (
            ListType(2, TimestampNanoType(), element_required=False),
            pa.array([[9], [1, None], None, []], pa.list_(pa.timestamp("ns"))).slice(1),
            [[1, None], None, []],
        ),
        (ListType(2, IntegerType()), pa.array([[1], [], []], pa.list_(pa.int32())).slice(0, 1), [[1]]),
        (
            MapType(2, StringType(), 3, ListType(4, IntegerType()), value_required=False),
            pa.array([[], [("a", [1]), ("b", None)], None], pa.map_(pa.string(), pa.list_(pa.int64()))).slice(1),
            [[("a", [1]), ("b", None)], None],
        ),
    ],
)
def test_rows_are_made_of_pythons_own_values(kind: IcebergType, column: Any, expected: list[Any]) -> None:
    schema = Schema(NestedField(1, "c", kind))
    batch = pa.RecordBatch.from_arrays([column], names=["c"])
    rows = [value for (value,) in OPS.rows(schema, batch)]
    assert rows == expected
    assert [type(value) for value in rows] == [type(value) for value in expected]


def test_there_is_a_row_for_each_row_of_a_batch_without_columns() -> None:
    assert list(OPS.rows(Schema(), NO_COLUMNS)) == [(), (), ()]
    assert list(OPS.rows(SCHEMA, BATCH.slice(0, 0))) == []


def test_a_column_made_of_values_reads_back_as_these_values() -> None:
    kind = StructType(
        NestedField(2, "u", UUIDType()),
        NestedField(3, "l", ListType(4, StructType(NestedField(5, "d", DateType())), element_required=False)),
        NestedField(6, "m", MapType(7, StringType(), 8, UUIDType(), value_required=False)),
    )
    values: list[Any] = [
        (uuid.UUID(int=1), [(dt.date(2020, 1, 1),), None], [("k", uuid.UUID(int=2)), ("n", None)]),
        None,
        (None, None, None),
        (None, [], []),
    ]
    schema = Schema(NestedField(1, "c", kind))
    column = column_of(kind, values)
    column.validate(full=True)
    assert [row[0] for row in OPS.rows(schema, pa.RecordBatch.from_arrays([column], names=["c"]))] == values
