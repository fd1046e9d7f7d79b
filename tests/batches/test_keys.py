"""Columns as arrays, rows found among key rows, and rows marked: what applying deletes is made of."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow import column_of
from formatkit.contract.metadata_columns import DELETED, POS
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError, UnsupportedError
from support.batch_types import ARROW, BatchType, every_batch_type
from support.rowbatch import RowBatch, RowOps

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]
PAIR = StructType(NestedField(2, "x", IntegerType()), NestedField(3, "y", StringType()))


def schema_of(*types: IcebergType) -> Schema:
    return Schema(*(NestedField(10 * number + 1, f"c{number}", kind) for number, kind in enumerate(types)))


def batch_of(batches: BatchType, schema: Schema, rows: list[tuple[Any, ...]]) -> Any:
    columns = [column_of(field.field_type, [row[i] for row in rows]) for i, field in enumerate(schema.fields)]
    return batches.batch(columns, len(rows))


def located(batches: BatchType, schema: Schema, keys: list[list[tuple[Any, ...]]], rows: list[tuple[Any, ...]]) -> Any:
    locate = batches.operations.locate(schema, [batch_of(batches, schema, each) for each in keys])
    found = locate(batch_of(batches, schema, rows))
    assert found.dtype == np.int64
    return found.tolist()


@every_batch_type
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (BooleanType(), [True, False]),
        (IntegerType(), [1, -5, 2**31 - 1]),
        (LongType(), [1, -5, 2**63 - 1]),
        (FloatType(), [1.5, 0.0, -0.0, NAN]),
        (DoubleType(), [1.5, 0.0, -0.0, NAN]),
        (DecimalType(38, 2), [Decimal("1.00"), Decimal("-1e35")]),
        (DateType(), [dt.date(2020, 1, 1), dt.date(1, 1, 1)]),
        (TimeType(), [dt.time(1, 2, 3, 4), dt.time(0)]),
        (TimestampType(), [dt.datetime(2020, 1, 1, 1), dt.datetime(1, 1, 1)]),
        (TimestamptzType(), [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
        (TimestampNanoType(), [1, 2, -(2**63)]),
        (StringType(), ["", "a", "ä" * 40, "a\0"]),
        (BinaryType(), [b"", b"a", b"\xff" * 40, b"a\0"]),
        (FixedType(3), [b"abc", b"\0\0\0"]),
        (UUIDType(), [uuid.UUID(int=0), uuid.UUID(int=2**127)]),
    ],
)
def test_each_value_is_found_and_no_other_is(batches: BatchType, kind: IcebergType, values: list[Any]) -> None:
    schema = schema_of(kind)
    everything = [(value,) for value in [*values, None]]
    for number, key in enumerate(everything):
        wanted = [0 if other == number else -1 for other in range(len(everything))]
        assert located(batches, schema, [[key]], everything) == wanted
    assert located(batches, schema, [everything], everything) == list(range(len(everything)))


@every_batch_type
def test_all_kinds_of_nan_are_the_same(batches: BatchType) -> None:
    assert located(batches, schema_of(DoubleType()), [[(OTHER_NAN,)]], [(NAN,), (1.0,)]) == [0, -1]


@every_batch_type
def test_the_first_of_equal_keys_counts_through_all_batches(batches: BatchType) -> None:
    keys: list[list[tuple[Any, ...]]] = [[(7,), (8,)], [], [(8,), (9,), (None,)], [(None,)]]
    assert located(batches, schema_of(LongType()), keys, [(9,), (8,), (None,), (7,), (1,)]) == [3, 1, 4, 0, -1]


@every_batch_type
@pytest.mark.parametrize("keys", [[], [[]]])
def test_nothing_is_found_among_no_keys(batches: BatchType, keys: list[list[tuple[Any, ...]]]) -> None:
    assert located(batches, schema_of(LongType()), keys, [(1,), (None,)]) == [-1, -1]


@every_batch_type
def test_a_batch_without_rows_finds_nothing(batches: BatchType) -> None:
    assert located(batches, schema_of(LongType()), [[(1,)]], []) == []


@every_batch_type
def test_a_leaf_of_a_null_struct_is_null(batches: BatchType) -> None:
    schema = Schema(NestedField(1, "s", PAIR), NestedField(4, "z", LongType()))
    keys = [[((None, None), 1), ((1, None), 1)]]
    rows = [(None, 1), ((1, None), 1), ((1, "a"), 1), (None, 2), ((None, None), 1)]
    assert located(batches, schema, keys, rows) == [0, 1, -1, -1, 0]


@every_batch_type
def test_what_can_only_be_null_equals_itself(batches: BatchType) -> None:
    schema = schema_of(UnknownType(), LongType())
    assert located(batches, schema, [[(None, 1)]], [(None, 1), (None, 2)]) == [0, -1]
    assert located(batches, schema_of(UnknownType()), [[(None,)]], [(None,), (None,)]) == [0, 0]


@every_batch_type
@pytest.mark.parametrize("kind", [ListType(2, LongType()), VariantType()])
def test_columns_that_are_not_compared_are_refused_while_compiling(batches: BatchType, kind: IcebergType) -> None:
    with pytest.raises(UnsupportedError, match="c0"):
        batches.operations.locate(schema_of(kind), [])


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(0, 3),
        st.none() | st.sampled_from(["a", "b", ""]),
        st.none() | st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from(["x", "y"])),
        st.none() | st.booleans(),
    ),
    max_size=12,
)


@every_batch_type
@given(keys=st.lists(ROWS, max_size=3), rows=ROWS)
def test_any_rows_are_found_as_by_comparing_one_by_one(
    batches: BatchType, keys: list[list[tuple[Any, ...]]], rows: list[tuple[Any, ...]]
) -> None:
    schema = Schema(
        NestedField(11, "i", LongType()),
        NestedField(12, "t", StringType()),
        NestedField(13, "s", PAIR),
        NestedField(14, "b", BooleanType()),
    )
    naive = RowOps().locate(schema, [RowBatch(tuple(each)) for each in keys])(RowBatch(tuple(rows)))
    assert located(batches, schema, keys, rows) == naive.tolist()


def test_many_columns_of_many_values_do_not_overflow() -> None:
    count, width = 3_000, 8
    schema = schema_of(*[LongType()] * width)
    keys = [tuple((row * (2 * column + 1)) % count for column in range(width)) for row in range(count)]
    rows = [*keys[::-1], (*keys[0][:-1], 1)]
    assert located(ARROW, schema, [keys], rows) == [*range(count - 1, -1, -1), -1]


@every_batch_type
def test_a_long_column_comes_as_an_array(batches: BatchType) -> None:
    batch = batches.batch([pa.array([5, 6, 2**40]), pa.array([1, None, 2])])
    schema = Schema(POS, NestedField(2, "n", LongType()))
    assert batches.operations.longs(schema, POS.field_id)(batch).tolist() == [5, 6, 2**40]
    with pytest.raises(InvalidDataError, match=r"'n' holds 1 null"):
        batches.operations.longs(schema, 2)(batch)


@every_batch_type
@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", None, "a", "b"]),
        pa.array(["x", "b", None, "a", "b"], pa.large_string())[1:],
        pa.array(["b", None, "a", "b"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_distinct_values_come_once_each(batches: BatchType, column: Any) -> None:
    values, codes = batches.operations.distinct(schema_of(StringType()), 1)(batches.batch([column]))
    assert [values[code] for code in codes] == ["b", None, "a", "b"]
    assert len(values) == 3


@every_batch_type
def test_marks_become_a_column(batches: BatchType) -> None:
    marks = np.array([True, False])
    for types, rows in (((LongType(),), [(1,), (None,)]), ((), [(), ()])):
        schema = schema_of(*types)
        marked = batches.operations.mark(schema, DELETED)(batch_of(batches, schema, rows), marks)
        assert batches.rows(Schema(*schema.fields, DELETED), marked) == [(*rows[0], True), (*rows[1], False)]


@every_batch_type
def test_a_mark_may_have_the_name_of_another_column(batches: BatchType) -> None:
    batch = batches.batch([pa.array([1])])
    schema = Schema(NestedField(1, "c0", LongType()))
    mark = DELETED.model_copy(update={"name": "c0"})
    marked = batches.operations.mark(schema, mark)(batch, np.array([True]))
    assert batches.rows(Schema(*schema.fields, DELETED), marked) == [(1, True)]
