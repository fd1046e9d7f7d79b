from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import polars as pl
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

from formatkit.batches.arrow import ArrowBatch, column_of
from formatkit.batches.polars import polars_type, series_of
from formatkit.errors import ColumnNotFoundError, InvalidDataError
from support.batch_types import ARROW, BatchType, every_batch_type

A, B = NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType())
SCHEMA = Schema(A, B)
COLUMNS: list[Any] = [pa.array([1, 2, 3], pa.int32()), pa.array(["x", None, "z"])]


@every_batch_type
def test_picking_all_columns_returns_the_same_batch(batches: BatchType) -> None:
    batch = batches.batch(COLUMNS)
    assert batches.operations.project(SCHEMA, [1, 2])(batch) is batch


@every_batch_type
def test_an_id_that_the_schema_lacks_is_an_error_while_compiling(batches: BatchType) -> None:
    with pytest.raises(ColumnNotFoundError, match=r"id 9.*a \(id 1\), b \(id 2\)"):
        batches.operations.project(SCHEMA, [1, 9])


@every_batch_type
def test_taking_all_rows_returns_the_same_batch(batches: BatchType) -> None:
    batch = batches.batch(COLUMNS)
    assert batches.operations.take_rows(batch, [True] * 3) is batch


@every_batch_type
def test_there_must_be_a_mark_for_each_row(batches: BatchType) -> None:
    with pytest.raises(InvalidDataError, match="2 marks cannot select among 3 rows"):
        batches.operations.take_rows(batches.batch(COLUMNS), [True, False])


@every_batch_type
def test_batches_of_different_forms_are_put_together_in_canonical_form(batches: BatchType) -> None:
    operations = batches.operations
    plain = batches.batch(COLUMNS)
    other = batches.batch([pa.array([4], pa.int64()), pa.array(["w"], pa.string_view())])
    encoded = batches.batch([COLUMNS[0], COLUMNS[1].dictionary_encode()])
    parts = [operations.slice(plain, 2, 1), other, operations.slice(encoded, 0, 0), operations.slice(encoded, 1, 1)]
    result = batches.canonical(SCHEMA, operations.concat(SCHEMA, parts))
    assert result.to_pydict() == {"a": [3, 4, 2], "b": ["z", "w", None]}


def test_dictionaries_are_put_together_on_request() -> None:
    ops = ArrowBatch(dictionary_ids=frozenset({2}))
    batch: pa.RecordBatch = ARROW.batch(COLUMNS)
    result = ops.concat(SCHEMA, [batch.slice(0, 1), batch.slice(1)])
    assert result.schema.field("b").type == pa.dictionary(pa.int32(), pa.string())
    assert result.column(1).to_pylist() == ["x", None, "z"]


@every_batch_type
def test_nothing_put_together_is_an_empty_batch_of_the_schema(batches: BatchType) -> None:
    deep = StructType(NestedField(5, "u", UUIDType()))
    schema = Schema(
        *SCHEMA.fields,
        NestedField(3, "l", ListType(4, deep)),
        NestedField(6, "m", MapType(7, StringType(), 8, UUIDType())),
        NestedField(9, "n", UnknownType()),
    )
    operations = batches.operations
    assert batches.canonical(schema, operations.concat(schema, [])).num_rows == 0
    assert operations.num_rows(operations.concat(Schema(), [])) == 0


UTC_TIME = dt.datetime(2020, 1, 1, 1, 2, 3, 4, tzinfo=dt.UTC)
YEAR_10000 = 253_402_300_800_000_000


@every_batch_type
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
def test_rows_are_made_of_pythons_own_values(
    batches: BatchType, kind: IcebergType, column: Any, expected: list[Any]
) -> None:
    rows = batches.column(Schema(NestedField(1, "c", kind)), batches.batch([column]))
    assert rows == expected
    assert [type(value) for value in rows] == [type(value) for value in expected]


@every_batch_type
def test_a_column_made_of_values_reads_back_as_these_values(batches: BatchType) -> None:
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
    assert batches.column(schema, batches.batch([column])) == values
    assert series_of(kind, values).equals(pl.Series(pl.from_arrow(column)).cast(polars_type(kind)))
