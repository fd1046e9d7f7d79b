from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, ListType, LongType, NestedField, StringType, StructType, UUIDType

from formatkit.contract import POS, InjectedColumn
from formatkit.errors import ColumnNotFoundError, InvalidDataError
from support.batch_types import ARROW, BatchType, every_batch_type

ROW_ID = NestedField(50, "row_id", LongType())


def inject(
    batches: BatchType, schema: Schema, columns: Sequence[InjectedColumn], *stored: Any
) -> list[tuple[Any, ...]]:
    """The rows of a batch of stored columns, once the columns are injected."""
    result = batches.operations.inject(schema, columns)(batches.batch(stored))
    known = {field.field_id for field in schema.fields}
    appended = (column.field for column in columns if column.field.field_id not in known)
    return batches.rows(Schema(*schema.fields, *appended), result)


def test_other_columns_are_untouched() -> None:
    encoded = pa.array(["x", "y"]).dictionary_encode()
    injected = [InjectedColumn(field=NestedField(2, "file", StringType(), required=True), value="f.parquet")]
    step = ARROW.operations.inject(Schema(NestedField(1, "a", StringType())), injected)
    result: pa.RecordBatch = step(ARROW.batch([encoded]))
    assert result.schema.types == [encoded.type, pa.string()]
    assert [field.nullable for field in result.schema] == [True, False]


@every_batch_type
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
            [(uuid.UUID(int=0),), (uuid.UUID(int=5),)],
        ),
        (ListType(9, IntegerType(), element_required=False), pa.array([[1], None]), [2, None], [[1], [2, None]]),
    ],
)
def test_columns_of_every_kind_are_filled(
    batches: BatchType, kind: IcebergType, column: Any, value: Any, expected: list[Any]
) -> None:
    field = NestedField(1, "c", kind)
    rows = inject(batches, Schema(field), [InjectedColumn(field=field, value=value)], column)
    assert [row[0] for row in rows] == expected


@every_batch_type
@pytest.mark.parametrize(("column", "value"), [(pa.array([1, 2]), 5), (pa.array([1, None]), None)])
def test_a_batch_with_nothing_to_fill_is_returned_as_it_is(batches: BatchType, column: Any, value: int | None) -> None:
    batch = batches.batch([column])
    assert batches.operations.inject(Schema(ROW_ID), [InjectedColumn(field=ROW_ID, value=value)])(batch) is batch


@every_batch_type
def test_the_column_to_count_along_must_be_there(batches: BatchType) -> None:
    with pytest.raises(ColumnNotFoundError, match=str(POS.field_id)):
        batches.operations.inject(Schema(ROW_ID), [InjectedColumn(field=ROW_ID, value=1, plus=POS.field_id)])


@every_batch_type
@pytest.mark.parametrize(("start", "position"), [(2**63 - 1, 1), (1, 2**63 - 1), (-1, -(2**63))])
def test_a_sum_outside_the_range_of_long_is_refused(batches: BatchType, start: int, position: int) -> None:
    injected = [InjectedColumn(field=ROW_ID, value=start, plus=POS.field_id)]
    with pytest.raises(InvalidDataError, match="column 'row_id' leaves the range of long"):
        inject(batches, Schema(POS), injected, pa.array([position]))
