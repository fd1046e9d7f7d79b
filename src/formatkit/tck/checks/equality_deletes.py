"""Rows that are deleted because they equal others, in columns that may have changed since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
)

from formatkit.contract import Capability
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS, NANOSECONDS, PRIMITIVES
from formatkit.tck.deletions import EqualityDeletes
from formatkit.tck.literals import internal
from formatkit.tck.naive import File, Row
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.table_files import ID, PARTITION, file_of, partitioned_by

_A, _B = NestedField(2, "a", IntegerType()), NestedField(3, "b", StringType())
_TABLE = Schema(ID, _A, _B)
_EVERY = [(10 * i + j, a, b) for i, a in enumerate((None, 0, 1)) for j, b in enumerate((None, "", "x"))]
_FILE = file_of(_TABLE, *_EVERY)
_DATED = Schema(ID, NestedField(2, "when", DateType()))
_MANY = 100_000


@check("P10", "X71", layer=Layer.SCAN)
def a_value_deletes_no_null_and_a_null_deletes_nothing_else(kit: ScanKit[Any]) -> None:
    for value in (None, 0):
        with kit.built([_TABLE], [_FILE], deletes=[equal((_A,), [value])]) as table:
            table.compare()


@check("P10", "X71", layer=Layer.SCAN)
def rows_must_be_equal_in_all_columns(kit: ScanKit[Any]) -> None:
    for keys in ([(None, "x"), (1, None)], [(None, None), (0, ""), (2, "x"), (1, "x")]):
        with kit.built([_TABLE], [_FILE], deletes=[equal((_A, _B), *keys)]) as table:
            table.compare()
            table.compare("a = 0 or b is null", select=("id",))


@check("P10", "X71", layer=Layer.SCAN)
def a_hundred_thousand_deleted_rows_are_no_burden(kit: ScanKit[Any]) -> None:
    keys: list[Row] = [{1: 3 * number} for number in range(_MANY)]
    deletes = [EqualityDeletes(ids=(1,), schema=Schema(ID), rows=keys)]
    with _in_large_chunks(kit).built(
        [MANY_CHUNKS.schema], [File(schema=MANY_CHUNKS.schema, rows=MANY_CHUNKS.rows)], deletes=deletes
    ) as table:
        table.compare()
        table.compare("id > 20 and id < 30", select=("name",))


@check("P10", "X71", "X74", layer=Layer.SCAN)
def columns_of_every_type_can_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    """Each column has rows of its own, which are told by a number, so that its deletes are seen alone."""
    part = NestedField(900, "part", IntegerType())
    for data in (PRIMITIVES, NANOSECONDS) if kit.format.nanoseconds else (PRIMITIVES,):
        rows: list[Row] = []
        deletes = []
        for at, column in enumerate(field for field in data.schema.fields if _may_be_key(field)):
            own = [row | {part.field_id: at} for row in data.rows]
            keys = [own[at % len(own)], own[2]]
            deletes.append(
                EqualityDeletes(ids=(column.field_id, part.field_id), schema=Schema(column, part), rows=keys)
            )
            rows += own
        schema = Schema(*data.schema.fields, part)
        with kit.built([schema], [File(schema=schema, rows=rows)], deletes=deletes, format_version=3) as table:
            table.compare(select=("id", "part", "_deleted"))


@check("P10", "X71", layer=Layer.SCAN)
def columns_inside_of_structs_can_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    inner = NestedField(4, "inner", StructType(NestedField(5, "x", IntegerType()), NestedField(6, "y", StringType())))
    schema = Schema(ID, NestedField(3, "outer", StructType(inner, NestedField(7, "z", IntegerType(), required=True))))
    structs = [
        None,
        {4: None, 7: 1},
        {4: {5: None, 6: "x"}, 7: 2},
        {4: {5: 1, 6: "x"}, 7: 3},
        {4: {5: 1, 6: None}, 7: 4},
    ]
    file = file_of(schema, *enumerate(structs))
    only_x = Schema(_nested(3, "outer", _nested(4, "inner", NestedField(5, "x", IntegerType()))))
    for value in (None, 1):
        delete = EqualityDeletes(ids=(5,), schema=only_x, rows=[{3: {4: {5: value}}}])
        with kit.built([schema], [file], deletes=[delete]) as table:
            table.compare()
            table.compare(select=("id",))


@check("P10", "X73", layer=Layer.SCAN)
def a_delete_file_may_hold_the_equal_columns_alone(kit: ScanKit[Any]) -> None:
    must = NestedField(4, "must", IntegerType(), required=True)
    schema = Schema(ID, _A, must)
    file = file_of(schema, (0, 1, 1), (1, None, 1), (2, 2, 1))
    with kit.built([schema], [file], deletes=[equal((_A,), [2], [None])]) as table:
        table.compare()


@check("P10", "X73", layer=Layer.SCAN)
def columns_that_are_not_compared_say_nothing(kit: ScanKit[Any]) -> None:
    stored: list[Row] = [{1: 999, 2: 0, 3: "nobody"}, {1: 998, 2: None, 3: None}]
    with kit.built([_TABLE], [_FILE], deletes=[EqualityDeletes(ids=(2,), schema=_TABLE, rows=stored)]) as table:
        table.compare()
        table.compare(select=("b",))


@check("P10", "X73", layer=Layer.SCAN)
def columns_of_a_delete_file_may_stand_in_any_order(kit: ScanKit[Any]) -> None:
    twins = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType()))
    file = file_of(twins, *((10 * a + b, a, b) for a in range(4) for b in range(4)))
    for columns, ids in ((twins.fields[::-1], (2, 3)), (twins.fields, (3, 2)), (twins.fields[::-1], (3, 1, 2))):
        delete = EqualityDeletes(ids=ids, schema=Schema(*columns), rows=[{1: 12, 2: 1, 3: 2}, {1: 31, 2: 3, 3: 1}])
        with kit.built([twins], [file], deletes=[delete]) as table:
            table.compare()


@check("P10", "X74", layer=Layer.SCAN)
def columns_that_are_not_asked_for_still_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    with kit.built([_TABLE], [_FILE], deletes=[equal((_A, _B), (0, "x"), (None, None)), equal((_B,), [""])]) as table:
        for select in (("id",), ("b",), ("a", "id"), ("_pos",)):
            table.compare(select=select)
        table.compare("b = 'x'", select=("_file", "id"))
        expect.equal(table.scan().count(), len(table.expected()), "the number of rows")


@check("P10", "X74", layer=Layer.SCAN)
def columns_that_the_table_dropped_still_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    now = Schema(ID, _B, schema_id=1)
    with kit.built([_TABLE, now], [_FILE], deletes=[equal((_A,), [0], [None]), equal((_A, _B), (1, "x"))]) as table:
        table.compare()
        table.compare("b = 'x'", select=("id", "_deleted"))


@check("P10", "X74", layer=Layer.SCAN)
def columns_that_were_added_since_tell_deleted_rows_by_their_default(kit: ScanKit[Any]) -> None:
    added = NestedField(4, "added", IntegerType(), initial_default=7, write_default=7)
    plain = NestedField(5, "plain", StringType())
    now = Schema(ID, _A, added, plain, schema_id=1)
    old = file_of(Schema(ID, _A), *((number, number % 3) for number in range(9)))
    new = file_of(now, (20, 0, 7, "x"), (21, 1, 8, None), (22, 2, None, "x"))
    for delete in (
        equal((added,), [7]),
        equal((added,), [8]),
        equal((plain,), [None]),
        equal((plain, _A), ("x", 0), (None, 1)),
    ):
        with kit.built([Schema(ID, _A), now], [old, new], deletes=[delete], format_version=3) as table:
            table.compare()
            table.compare(select=("a",))


@check("P10", "X74", layer=Layer.SCAN)
def columns_that_were_promoted_tell_deleted_rows_by_what_they_became(kit: ScanKit[Any]) -> None:
    narrow, wide = (
        Schema(ID, NestedField(2, "n", kind), schema_id=age) for age, kind in enumerate((IntegerType(), LongType()))
    )
    small, large = (
        Schema(ID, NestedField(2, "n", DecimalType(precision, 2)), schema_id=age)
        for age, precision in enumerate((4, 20))
    )
    for then, now, values in (
        (narrow, wide, (1, 2, None, 2**31 - 1)),
        (small, large, ("1.25", "-1.25", None, "99.99")),
    ):
        old, new = (file_of(schema, *enumerate(values)) for schema in (then, now))
        for age in (then, now):
            key = age.fields[1]
            delete = equal((key,), [values[1]], [values[3]])
            with kit.built([then, now], [old, new], deletes=[delete]) as table:
                table.compare()


@check("P10", "X74", layer=Layer.SCAN)
def dates_that_became_moments_still_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    now = Schema(ID, NestedField(2, "when", TimestampType()), schema_id=1)
    old = file_of(_DATED, (0, date(2020, 1, 1)), (1, date(1969, 12, 31)), (2, None))
    new = file_of(now, (3, "2020-01-01T00:00:00"), (4, "2020-01-01T00:00:01"), (5, None))
    for schema, value in ((_DATED, date(2020, 1, 1)), (now, "2020-01-01T00:00:00"), (now, "1969-12-31T00:00:00")):
        delete = equal((schema.fields[1],), [value])
        with kit.built([_DATED, now], [old, new], deletes=[delete], format_version=3) as table:
            table.compare()


@check(
    "P10",
    "X74",
    layer=Layer.SCAN,
    when=Capability.FIELD_IDS,
    twin="a_format_without_ids_is_read_through_a_mapping_only",
)
def columns_that_were_renamed_still_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    """The names of two columns are swapped, so that whoever goes by names deletes other rows."""
    swapped = Schema(ID, NestedField(2, "b", IntegerType()), NestedField(3, "a", IntegerType()), schema_id=1)
    then = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType()))
    old, new = file_of(then, (0, 1, 2), (1, 2, 1), (2, 3, 3)), file_of(swapped, (3, 1, 2), (4, 2, 1))
    for schema in (then, swapped):
        delete = equal((schema.fields[1],), [2])
        with kit.built([then, swapped], [old, new], deletes=[delete]) as table:
            table.compare()


@check("P8", "P10", "X74", layer=Layer.SCAN)
def columns_that_only_the_partition_knows_tell_deleted_rows(kit: ScanKit[Any]) -> None:
    stored = Schema(ID, _B)
    specs = [partitioned_by(2), PartitionSpec(spec_id=1)]
    files = [
        file_of(
            stored,
            (10 * (value or 0), "x"),
            (10 * (value or 0) + 1, "y"),
            partition={PARTITION: value},
            constants={2: value},
        )
        for value in (None, 1, 2)
    ]
    everywhere = replace(equal((_A, _B), (1, "x"), (None, "y"), (2, "z")), spec_id=1)
    with kit.built([_TABLE], files, deletes=[everywhere], specs=specs) as table:
        table.compare()
        table.compare(select=("id", "_deleted"))


@check("P10", layer=Layer.SCAN)
def rows_outside_of_the_bounds_of_deletes_are_safe_and_nulls_are_not_outside(kit: ScanKit[Any]) -> None:
    files = [
        file_of(_TABLE, (0, 1, "a"), (1, 5, "b")),
        file_of(_TABLE, (2, 10, None), (3, None, "b")),
        file_of(_TABLE, (4, None, None), (5, None, None)),
        file_of(_TABLE, (6, 7, "c" * 40), (7, 8, "c" * 41)),
    ]
    for delete in (equal((_A,), [6]), equal((_A,), [5], [None]), equal((_A,), [None]), equal((_B,), ["c" * 40])):
        with kit.built([_TABLE], files, deletes=[delete]) as table:
            table.compare()


def equal(columns: Sequence[NestedField], *keys: Sequence[Any], **facts: Any) -> EqualityDeletes:
    """Delete the rows that equal one of the keys in these columns."""
    rows: list[Row] = [
        {column.field_id: internal(value, column.field_type) for column, value in zip(columns, key, strict=True)}
        for key in keys
    ]
    schema = Schema(*(column.model_copy(update={"initial_default": None}) for column in columns))
    return EqualityDeletes(ids=tuple(column.field_id for column in columns), schema=schema, rows=rows, **facts)


def _in_large_chunks(kit: ScanKit[Any]) -> ScanKit[Any]:
    return replace(kit, format=replace(kit.format, small_chunks={}, batch_rows=_MANY))


def _may_be_key(field: NestedField) -> bool:
    return isinstance(field.field_type, PrimitiveType) and str(field.field_type) not in ("float", "double")


def _nested(field_id: int, name: str, *children: NestedField) -> NestedField:
    return NestedField(field_id, name, StructType(*children))
