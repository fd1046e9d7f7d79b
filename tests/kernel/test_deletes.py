"""Deleted rows of one file, compared with sets of positions and of keys in plain Python."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)

from formatkit.contract.metadata_columns import DELETED, POS, ROW_ID
from formatkit.errors import MissingRequiredFieldError
from formatkit.kernel import EqualityDeletes, FileRequest, RowDeletes, bind, plan, read
from support.rowbatch import Row, RowBatch, RowOps
from support.rowformat import RowFile

OPS = RowOps()
STORED = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "s", StructType(NestedField(4, "x", IntegerType()), NestedField(5, "y", StringType()))),
    NestedField(6, "day", DateType()),
)
ROWS: list[Row] = [
    (1, "a", (1, "p"), 10),
    (2, None, None, 11),
    (None, "c", (None, None), None),
    (4, "a", (4, "q"), 13),
    (5, "e", (1, None), 14),
    (1, "a", (1, "p"), 15),
    (7, None, (7, "r"), 16),
]
TABLE = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "s", StructType(NestedField(4, "x", LongType()), NestedField(5, "y", StringType()))),
    NestedField(7, "added", StringType(), initial_default="new"),
    NestedField(8, "empty", StringType()),
    NestedField(9, "part", StringType()),
)
ALL = Schema(*TABLE.fields, POS, DELETED, ROW_ID)
KEY_FIELDS = {field.field_id: field for field in TABLE.fields} | {6: NestedField(6, "day", TimestampType())}


def at(*positions: int) -> RowDeletes[RowBatch]:
    return RowDeletes(positions=np.array(positions, np.int64))


def equal(ids: list[int], *keys: Row, first: int | None = None) -> EqualityDeletes[RowBatch]:
    schema = Schema(*(KEY_FIELDS[each] for each in ids))
    return EqualityDeletes(schema=schema, locate=OPS.locate(schema, [RowBatch(tuple(keys))]), first=first)


def by_value(*deletes: EqualityDeletes[RowBatch]) -> RowDeletes[RowBatch]:
    return RowDeletes(equality=deletes)


def request(
    deletes: RowDeletes[RowBatch] | None, select: tuple[str, ...] = ("_pos",), where: str = "true", **options: Any
) -> FileRequest:
    return FileRequest(
        schema=Schema(*(ALL.find_field(name) for name in select)),
        predicate=bind(ALL, where),
        location="f.rows",
        deletes=deletes,
        partition_constants={9: "p"},
        **options,
    )


def read_rows(asked: FileRequest, file: RowFile | None = None) -> list[Row]:
    with read(file or RowFile(STORED, ROWS), OPS, asked) as batches:
        returned = list(batches)
    assert all(batch.rows for batch in returned)
    return [row for batch in returned for row in batch.rows]


def positions(asked: FileRequest, file: RowFile | None = None) -> list[int]:
    return [row[0] for row in read_rows(asked, file)]


def test_rows_at_deleted_positions_are_left_out() -> None:
    assert read_rows(request(at(0, 3, 6), ("id",))) == [(2,), (None,), (5,), (1,)]


def test_positions_beyond_the_end_do_no_harm() -> None:
    assert positions(request(at(0, 7, 2**40))) == [1, 2, 3, 4, 5, 6]


def test_a_file_whose_rows_are_all_deleted_has_no_batches() -> None:
    assert read_rows(request(at(*range(7)), ("id",), batch_rows=2)) == []


def test_without_deletes_the_readers_own_batches_are_returned() -> None:
    file = RowFile(STORED, ROWS)
    read_rows(request(RowDeletes(), ("name",)), file)
    assert [field.name for field in file.requests[0].projection.fields] == ["name"]


@pytest.mark.parametrize("effort", ["none", "rows"])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_positions_are_those_of_the_file_whatever_was_filtered(effort: Any, batch_rows: int) -> None:
    file = RowFile(STORED, ROWS, effort=effort)
    asked = request(at(0, 4), where="id < 6", batch_rows=batch_rows)
    assert positions(asked, file) == [1, 3, 5]
    assert repr(file.requests[0].predicate) != "AlwaysTrue()"


@pytest.mark.parametrize(
    ("deletes", "kept"),
    [
        pytest.param([equal([1], (1,), (4,))], [1, 2, 4, 6], id="values"),
        pytest.param([equal([1], (None,))], [0, 1, 3, 4, 5, 6], id="null deletes nulls only"),
        pytest.param([equal([2], ("a",))], [1, 2, 4, 6], id="a value keeps nulls"),
        pytest.param([equal([1, 2], (1, "a"), (2, "a"), (7, None))], [1, 2, 3, 4], id="several columns"),
        pytest.param([equal([2, 1], ("a", 1))], [1, 2, 3, 4, 6], id="columns in another order"),
        pytest.param([equal([1], (1,)), equal([2], (None,))], [2, 3, 4], id="several groups"),
        pytest.param([equal([1])], [0, 1, 2, 3, 4, 5, 6], id="no keys"),
        pytest.param([equal([1], (2**33 + 1,), (2,))], [0, 2, 3, 4, 5, 6], id="promoted, not cut off"),
        pytest.param([equal([6], (10 * 86_400_000_000,), (1,))], [1, 2, 3, 4, 5, 6], id="dropped and promoted"),
        pytest.param([equal([7], ("new",))], [], id="the default of a column that the file lacks"),
        pytest.param([equal([7], (None,), ("old",))], [0, 1, 2, 3, 4, 5, 6], id="not the default"),
        pytest.param([equal([8], (None,))], [], id="null where the file lacks the column"),
        pytest.param([equal([9, 1], ("p", 1), ("q", 2))], [1, 2, 3, 4, 6], id="the partition's constant"),
        pytest.param([equal([1], (1,), (2,), (1,), first=1)], [1, 2, 3, 4, 6], id="the first keys only"),
        pytest.param([equal([1], (2,), (1,), first=0)], [0, 1, 2, 3, 4, 5, 6], id="none of the keys"),
    ],
)
def test_rows_that_equal_a_key_are_left_out(deletes: list[EqualityDeletes[RowBatch]], kept: list[int]) -> None:
    assert positions(request(by_value(*deletes))) == kept


def test_a_key_may_be_a_part_of_a_struct() -> None:
    schema = Schema(NestedField(3, "s", StructType(NestedField(4, "x", LongType()))))
    deletes = EqualityDeletes(schema=schema, locate=OPS.locate(schema, [RowBatch((((1,),), (None,)))]))
    assert positions(request(by_value(deletes))) == [3, 6]
    assert [row[0] for row in read_rows(request(by_value(deletes), ("s",)))] == [(4, "q"), (7, "r")]


def test_only_the_columns_of_keys_are_read_besides_those_that_are_asked_for() -> None:
    file = RowFile(STORED, ROWS)
    assert read_rows(request(by_value(equal([2], ("a",))), ("id",)), file) == [(2,), (None,), (5,), (7,)]
    assert [field.name for field in file.requests[0].projection.fields] == ["id", "name"]


def test_a_key_column_that_is_required_and_absent_does_not_stop_a_read_without_it() -> None:
    schema = Schema(NestedField(20, "late", StringType(), required=False))
    deletes = by_value(EqualityDeletes(schema=schema, locate=OPS.locate(schema, [RowBatch((("x",),))])))
    assert len(positions(request(deletes))) == len(ROWS)
    required = replace(request(deletes), schema=Schema(NestedField(20, "late", StringType(), required=True)))
    with pytest.raises(MissingRequiredFieldError, match="late"):
        read_rows(required)


@pytest.mark.parametrize("select", [("_deleted", "id"), ("id", "_deleted"), ("_pos", "_deleted")])
def test_rows_are_marked_where_the_mark_is_asked_for(select: tuple[str, ...]) -> None:
    deletes = replace(at(0, 4), equality=(equal([2], (None,)),))
    values = {"_pos": range(7), "id": [row[0] for row in ROWS], "_deleted": [n in (0, 4, 1, 6) for n in range(7)]}
    wanted = list(zip(*(values[name] for name in select), strict=True))
    assert read_rows(request(deletes, select, batch_rows=3)) == wanted


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("_deleted = true", [0, 4]),
        ("_deleted = false", [1, 2, 3, 5, 6]),
        ("_deleted = true and id = 5", [4]),
        ("_deleted = true or id = 7", [0, 4, 6]),
        ("_deleted is null", []),
    ],
)
@pytest.mark.parametrize("effort", ["none", "rows"])
def test_a_filter_may_ask_for_the_mark(where: str, found: list[int], effort: Any) -> None:
    assert positions(request(at(0, 4), where=where), RowFile(STORED, ROWS, effort=effort)) == found


def test_without_deletes_no_row_is_marked() -> None:
    assert positions(request(None, where="_deleted = false")) == list(range(7))
    assert {row[0] for row in read_rows(request(None, ("_deleted",)))} == {False}


def test_deleted_rows_that_nobody_wants_to_tell_are_kept_as_they_are() -> None:
    file = RowFile(STORED, ROWS)
    asked = request(at(0, 4), ("id",), keep_deleted=True)
    assert len(read_rows(asked, file)) == len(ROWS)
    assert [field.name for field in file.requests[0].projection.fields] == ["id"]


def test_row_ids_count_deleted_rows() -> None:
    asked = request(at(0, 4), ("_row_id", "_deleted"), first_row_id=100, sequence_number=1)
    assert read_rows(asked)[:2] == [(100, True), (101, False)]
    asked = request(at(0, 4), ("_row_id",), first_row_id=100, sequence_number=1)
    assert [row[0] for row in read_rows(asked)] == [101, 102, 103, 105, 106]


def test_a_reader_that_evolves_is_not_asked_to_where_rows_are_deleted() -> None:
    assert read_rows(request(at(0), ("id",)), RowFile(STORED, ROWS, evolves=True))[0] == (2,)


def test_deleted_rows_are_counted_and_the_plan_says_what_is_done() -> None:
    deletes = replace(at(0, 4, 99), equality=(equal([2], (None,)),))
    file = RowFile(STORED, ROWS)
    with read(file, OPS, request(deletes)) as stream:
        list(stream)
        assert dict(stream.counters) == {"rows": 7, "rows_deleted": 4}
    assert plan(STORED, {}, request(deletes)).steps[:2] == ("delete by position", "delete by equality")
    assert plan(STORED, {}, request(at(1), ("_deleted",))).steps[0] == "mark by position"


@given(
    deleted=st.sets(st.integers(0, 60)),
    keys=st.sets(st.none() | st.integers(0, 9)),
    values=st.lists(st.none() | st.integers(0, 9), max_size=50),
    batch_rows=st.integers(1, 20),
    least=st.integers(0, 9),
    marking=st.booleans(),
    effort=st.sampled_from(["none", "rows"]),
)
def test_any_deletes_agree_with_sets(
    deleted: set[int], keys: set[Any], values: list[Any], batch_rows: int, least: int, marking: bool, effort: Any
) -> None:
    deletes = RowDeletes(
        positions=np.array(sorted(deleted), np.int64), equality=(equal([1], *((key,) for key in keys)),)
    )
    file = RowFile(STORED, [(value, None, None, None) for value in values], effort=effort)
    select = ("_pos", "_deleted") if marking else ("_pos",)
    asked = request(deletes, select, f"id >= {least} or id is null", batch_rows=batch_rows)
    everything = [
        (position, position in deleted or value in keys)
        for position, value in enumerate(values)
        if value is None or value >= least
    ]
    wanted = everything if marking else [(position,) for position, marked in everything if not marked]
    assert read_rows(asked, file) == wanted
