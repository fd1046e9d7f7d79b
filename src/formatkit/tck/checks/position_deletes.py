"""Rows that are deleted by their position in a file, whatever is skipped, split, filtered or asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

from formatkit.contract import POS, Capability
from formatkit.contract.metadata_columns import DELETED
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS
from formatkit.tck.deletions import EqualityDeletes, PositionDeletes
from formatkit.tck.naive import File
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, file_of

_MANY = File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows)
_LAST = len(MANY_CHUNKS.rows) - 1
# The first chunk, the last, one in the middle as a whole, and single rows of others.
_GONE = (0, 2, 21, 22, 23, 30, 41, _LAST - 1, _LAST)
_SOME = PositionDeletes(rows=[(0, position) for position in _GONE])
# They skip the first chunks, the last, some in between, and rows inside of them.
_FILTERS = (None, "id >= 10", "id < 50", "id > 20 and id < 25", "name = 'name 3'", "name is null", "id = 59", "id > 57")
_TABLE = Schema(ID, NestedField(2, "name", StringType()))


@check("P10", "X05", layer=Layer.SCAN)
def positions_count_from_the_start_of_the_file_whatever_is_skipped(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY], deletes=[_SOME]) as table:
        for where, batch_rows in zip(_FILTERS, cycle((1000, 1, 7))):
            table.compare(where, batch_rows=batch_rows)


@check("P10", "X05", layer=Layer.SCAN, when=Capability.SPLIT, twin="a_split_that_is_not_declared_is_refused")
def deleted_rows_are_gone_from_every_split(kit: ScanKit[Any]) -> None:
    file = replace(_MANY, deleted=_GONE)
    kit.compare_file(file, _MANY.schema, split_bytes=97, batch_rows=7)
    for output in (Schema(*_MANY.schema.fields, POS), Schema(DELETED, *_MANY.schema.fields)):
        for where in ("id > 20 and id < 25", "name = 'name 3'"):
            kit.compare_file(file, output, where, split_bytes=509)


@check("P10", "X05", layer=Layer.SCAN)
def deleted_rows_are_gone_whatever_columns_are_asked_for(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY], deletes=[_SOME]) as table:
        for select in (("score",), ("name", "id"), ("_pos",), ("_pos", "name", "_file"), ("_spec_id",)):
            table.compare("id > 20 and id < 25", select=select)
        table.compare(select=("_pos",))
        table.compare("_pos < 25 and _pos > 19", select=("id",))


@check("P10", "X05", layer=Layer.SCAN)
def rows_that_are_deleted_are_neither_counted_nor_taken_for_a_limit(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _MANY], deletes=[_SOME]) as table:
        for where in (None, "id >= 10", "id = 59"):
            expect.equal(table.scan(where).count(), len(table.expected(where)), f"the number of rows where {where}")
        for limit in (1, 51, 52, 200):
            found = table.rows(table.scan(limit=limit))
            expect.equal_rows(found, table.expected()[:limit], f"the first {limit} rows")


@check("P10", "X76", layer=Layer.SCAN)
def a_delete_file_may_name_many_files_in_any_order_and_more_than_once(kit: ScanKit[Any]) -> None:
    files = [file_of(_TABLE, *((10 * number + at, f"n{at}") for at in range(8))) for number in range(4)]
    beyond = [(2, 8), (2, 1000), (0, 2**40)]
    rows: list[tuple[int | str, int]] = [
        (3, 7),
        (0, 5),
        (1, 2),
        (0, 0),
        (3, 0),
        (0, 5),
        ("file:///nowhere/x", 1),
        (1, 3),
        (0, 1),
        *beyond,
    ]
    with kit.built([_TABLE], files, deletes=[PositionDeletes(rows=rows)]) as table:
        table.compare()
        table.compare("name = 'n5' or id = 37", select=("id", "_pos"))


@check("P10", "X76", layer=Layer.SCAN)
def delete_files_for_the_same_data_add_up(kit: ScanKit[Any]) -> None:
    files = [file_of(_TABLE, *((10 * number + at, f"n{at}") for at in range(8))) for number in range(2)]
    deletes = [
        PositionDeletes(rows=[(0, 1), (0, 2)]),
        PositionDeletes(rows=[(0, 2), (1, 3)]),
        PositionDeletes(rows=[(0, 7)], only=0, sequence_number=3),
        PositionDeletes(rows=[(1, 0)], only=1),
    ]
    with kit.built([_TABLE], files, deletes=deletes) as table:
        table.compare()
        table.compare("id > 6", select=("name", "_pos"))


@check("P10", layer=Layer.SCAN)
def a_file_may_lose_all_its_rows(kit: ScanKit[Any]) -> None:
    files = [file_of(_TABLE, *((number, "x") for number in range(9))), file_of(_TABLE, (9, "y"))]
    with kit.built([_TABLE], files, deletes=[PositionDeletes(rows=[(0, at) for at in range(9)])]) as table:
        table.compare()
        table.compare("id < 9")
        expect.equal(table.scan().count(), 1, "the number of rows")


@check("P10", "X76", layer=Layer.SCAN)
def odd_characters_in_paths_are_no_matter(kit: ScanKit[Any]) -> None:
    names = ("a b/c'd", "p=100%25/x", "ü€/\N{GRINNING FACE}", "q=a+b&c;d#e/f", "file_path=x")
    suffix = kit.format.plugin.file_format
    files = [
        file_of(_TABLE, *((10 * number + at, name) for at in range(5)), location=f"{name}.{suffix}")
        for number, name in enumerate(names)
    ]
    rows = [(number, number) for number in range(len(names))]
    with kit.built([_TABLE], files, deletes=[PositionDeletes(rows=rows)]) as table:
        table.compare()


@check("P10", "X76", layer=Layer.SCAN)
def paths_of_one_place_may_be_spelled_in_several_ways(kit: ScanKit[Any]) -> None:
    file = file_of(_TABLE, *((at, "x") for at in range(9)))
    spellings: list[Callable[[str], str]] = [str, "file:{}".format, "file://{}".format]
    for at, spelling in enumerate(spellings):
        deletes = [PositionDeletes(rows=[(0, at), (0, 8)], spelling=spelling)]
        with kit.built([_TABLE], [file], deletes=deletes) as table:
            table.compare()


@check("P10", "X76", layer=Layer.SCAN)
def rows_that_are_stored_beside_positions_say_nothing(kit: ScanKit[Any]) -> None:
    files = [file_of(_TABLE, *((10 * number + at, f"n{at}") for at in range(5))) for number in range(2)]
    with kit.built([_TABLE], files, deletes=[PositionDeletes(rows=[(1, 3), (0, 2), (0, 1)], copies=True)]) as table:
        table.compare()


@check("P6", "P10", "X75", "J22", layer=Layer.SCAN)
def deleted_rows_are_marked_where_the_mark_is_asked_for(kit: ScanKit[Any]) -> None:
    with kit.built([_MANY.schema], [_MANY, _MANY], deletes=[_SOME]) as table:
        table.compare(select=("_deleted",))
        table.compare(select=("id", "_deleted", "_pos"))
        table.compare("id > 20 and id < 25", select=("_pos", "_deleted"), batch_rows=2)
        for where in (
            "_deleted = true",
            "_deleted = false",
            "_deleted = true or id = 5",
            "_deleted = true and id > 25",
        ):
            table.compare(where)
        table.compare("_deleted = true", select=("_deleted", "id"))


@check("P6", "P10", "X75", layer=Layer.SCAN)
def deletes_of_both_kinds_work_together(kit: ScanKit[Any]) -> None:
    name = Schema(MANY_CHUNKS.schema.fields[1])
    score = Schema(MANY_CHUNKS.schema.fields[2])
    deletes = [
        _SOME,
        EqualityDeletes(ids=(2,), schema=name, rows=[{2: "name 3"}]),
        PositionDeletes(rows=[(0, 5), (1, 6)]),
        EqualityDeletes(ids=(3,), schema=score, rows=[{3: 1.25}, {3: 2.5}, {3: 7.0}]),
        EqualityDeletes(ids=(2,), schema=name, rows=[{2: None}], sequence_number=3),
    ]
    newer = File(schema=_MANY.schema, rows=_MANY.rows[:20], sequence_number=2)
    with kit.built([_MANY.schema], [_MANY, newer], deletes=deletes) as table:
        for where in (None, "id < 24", "name = 'name 3'", "name = 'name 4' and score > 2"):
            table.compare(where)
        for where in (None, "name = 'name 3'"):
            table.compare(where, select=("id", "_deleted", "_pos"))


@check("P7", "P10", layer=Layer.SCAN)
def positions_and_row_ids_of_the_rows_that_are_left_do_not_move(kit: ScanKit[Any]) -> None:
    schema = Schema(ID, NestedField(2, "after", IntegerType()))
    file = file_of(schema, *((at, at * 10) for at in range(12)), first_row_id=100, sequence_number=1)
    select = ("_row_id", "id", "_last_updated_sequence_number", "_pos")
    deletes = [PositionDeletes(rows=[(0, at) for at in (0, 4, 5, 11)])]
    with kit.built([schema], [file], deletes=deletes, format_version=3) as table:
        table.compare(select=select)
        table.compare("_row_id > 103 and id < 8", select=select)
