from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, LongType, NestedField, StringType, StructType, UUIDType

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import POS, InjectedColumn
from formatkit.errors import ColumnNotFoundError, InvalidDataError

OPS = ArrowBatch()
ROW_ID = NestedField(50, "row_id", LongType())


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_a_constant_is_appended_and_the_others_are_untouched() -> None:
    schema = Schema(NestedField(1, "a", StringType()))
    encoded = pa.array(["x", "y"]).dictionary_encode()
    injected = [
        InjectedColumn(field=NestedField(2, "file", StringType(), required=True), value="f.parquet"),
        InjectedColumn(field=NestedField(3, "none", IntegerType()), value=None),
    ]
    result = OPS.inject(schema, injected)(batch_of(a=encoded))
    assert result.to_pydict() == {"a": ["x", "y"], "file": ["f.parquet"] * 2, "none": [None, None]}
    assert result.schema.types == [encoded.type, pa.string(), pa.int32()]
    assert [field.nullable for field in result.schema] == [True, False, True]


def test_a_column_counts_from_a_value_along_another_column() -> None:
    schema = Schema(POS)
    injected = [InjectedColumn(field=ROW_ID, value=1000, plus=POS.field_id)]
    result = OPS.inject(schema, injected)(batch_of(_pos=pa.array([3, 5, None])))
    assert result.to_pydict() == {"_pos": [3, 5, None], "row_id": [1003, 1005, None]}


@pytest.mark.parametrize("offset", [0, 1])
def test_only_the_nulls_of_a_present_column_are_filled(offset: int) -> None:
    schema = Schema(ROW_ID, POS)
    batch = batch_of(row_id=pa.array([7, None, None]), _pos=pa.array([0, 1, 2])).slice(offset)
    result = OPS.inject(schema, [InjectedColumn(field=ROW_ID, value=100, plus=POS.field_id)])(batch)
    assert result.to_pydict() == {"row_id": [7, 101, 102][offset:], "_pos": [0, 1, 2][offset:]}


@pytest.mark.parametrize(
    ("kind", "column", "value", "expected"),
    [
        (UUIDType(), pa.array([bytes(16), None], pa.uuid()), uuid.UUID(int=5), [uuid.UUID(int=0), uuid.UUID(int=5)]),
        (StringType(), pa.array(["a", None], pa.string_view()), "b", ["a", "b"]),
        (StringType(), pa.array(["a", None]).dictionary_encode(), "b", ["a", "b"]),
        (
            StructType(NestedField(8, "x", UUIDType())),
            pa.StructArray.from_arrays(
                [pa.array([bytes(16), None], pa.uuid())], names=["x"], mask=pa.array([False, True])
            ),
            (uuid.UUID(int=5),),
            [{"x": uuid.UUID(int=0)}, {"x": uuid.UUID(int=5)}],
        ),
        (ListType(9, IntegerType(), element_required=False), pa.array([[1], None]), [2, None], [[1], [2, None]]),
    ],
)
def test_columns_of_every_kind_are_filled(kind: IcebergType, column: Any, value: Any, expected: list[Any]) -> None:
    field = NestedField(1, "c", kind)
    result = OPS.inject(Schema(field), [InjectedColumn(field=field, value=value)])(batch_of(c=column))
    assert result.column(0).to_pylist() == expected


@pytest.mark.parametrize(("column", "value"), [(pa.array([1, 2]), 5), (pa.array([1, None]), None)])
def test_a_batch_with_nothing_to_fill_is_returned_as_it_is(column: Any, value: int | None) -> None:
    batch = batch_of(row_id=column)
    assert OPS.inject(Schema(ROW_ID), [InjectedColumn(field=ROW_ID, value=value)])(batch) is batch


def test_columns_are_injected_into_batches_without_columns() -> None:
    empty = batch_of(a=pa.array([1, 2, 3])).select([])
    result = OPS.inject(Schema(), [InjectedColumn(field=ROW_ID, value=4)])(empty)
    assert result.to_pydict() == {"row_id": [4, 4, 4]}


def test_the_column_to_count_along_must_be_there() -> None:
    with pytest.raises(ColumnNotFoundError, match=str(POS.field_id)):
        OPS.inject(Schema(ROW_ID), [InjectedColumn(field=ROW_ID, value=1, plus=POS.field_id)])


def test_a_sum_outside_the_range_of_long_is_refused() -> None:
    step = OPS.inject(Schema(POS), [InjectedColumn(field=ROW_ID, value=2**63 - 1, plus=POS.field_id)])
    with pytest.raises(InvalidDataError, match="column 'row_id' leaves the range of long"):
        step(batch_of(_pos=pa.array([1])))
