"""Columns as arrays, rows found among key rows, and marks: what deletes need of a batch type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from formatkit.contract.metadata_columns import DELETED
from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import MANY_CHUNKS, NAN_AND_ZEROS, NANOSECONDS, NESTED, NULLS, PRIMITIVES
from formatkit.tck.histories import schemas
from formatkit.tck.kits import BatchKit
from formatkit.tck.naive import Row
from formatkit.tck.nesting import list_of, map_of, struct_of
from formatkit.tck.strategies import rows
from formatkit.tck.table_files import ID

_FLAT = (PRIMITIVES, NANOSECONDS, NULLS)
_POINT = StructType(NestedField(3, "x", IntegerType()), NestedField(4, "y", StringType()))
_PLACES = Schema(NestedField(2, "point", _POINT))
_MANY = 100_000


@check("B8", layer=Layer.BATCH)
def longs_are_given_as_numbers_in_every_form(kit: BatchKit[Any]) -> None:
    numbers = [0, -1, 2**63 - 1, -(2**63), 7]
    schema = Schema(NestedField(1, "other", StringType()), NestedField(2, "long", LongType()))
    plain: list[Row] = [{1: "x", 2: number} for number in numbers]
    for form, batch in kit.forms(schema, plain):
        found = np.asarray(kit.operations.longs(schema, 2)(batch))
        expect.equal((found.dtype, found.tolist()), (np.dtype(np.int64), numbers), f"the longs of a {form} batch")
    empty = kit.operations.longs(schema, 2)(kit.batch(schema, []))
    expect.equal(len(empty), 0, "longs of no rows")


@check("B8", layer=Layer.BATCH)
def a_null_among_longs_is_refused(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "long", LongType()))
    longs = kit.operations.longs(schema, 1)
    with expect.raises(InvalidDataError, when="asking for longs of which one is null"):
        longs(kit.batch(schema, [{1: 1}, {1: None}, {1: 0}]))


@check("B8", layer=Layer.BATCH)
def distinct_values_are_given_once_each_with_the_rows_that_have_them(kit: BatchKit[Any]) -> None:
    for data in _FLAT:
        twice = [*data.rows, *data.rows[::-1]]
        for form, batch in kit.forms(data.schema, twice):
            shown = list(kit.operations.rows(data.schema, kit.batch(data.schema, twice)))
            for place, field in enumerate(data.schema.fields):
                values, ordinals = kit.operations.distinct(data.schema, field.field_id)(batch)
                what = f"column {field.name} of {data.name}, {form}"
                found = [values[ordinal] for ordinal in ordinals]
                expect.equal(found, [row[place] for row in shown], f"the value of each row of {what}")
                expect.equal(len(values), len({repr(value) for value in found}), f"the number of values of {what}")


@check("B9", "X71", layer=Layer.BATCH)
def rows_are_found_among_keys_of_every_type_and_form(kit: BatchKit[Any]) -> None:
    for data in _FLAT:
        keys = data.rows[::2]
        for field in data.schema.fields:
            schema = Schema(field)
            for form, batch in kit.forms(schema, data.rows):
                for number, (_, stored) in enumerate(kit.forms(schema, keys)):
                    if number in (0, 2):  # keys as they are, and in dictionaries
                        found = kit.operations.locate(schema, [stored])(batch)
                        expect.equal(list(found), located(schema, keys, data.rows), f"keys of {field}, {form}")


@check("B9", "X71", layer=Layer.BATCH)
def a_null_equals_a_null_and_nothing_else(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType()))
    every: list[Row] = [{1: a, 2: b} for a in (None, 0, 1) for b in (None, "", "x")]
    for key in every:
        _compare(kit, schema, [[key]], every)
    _compare(kit, schema, [every[4:], every[:2]], every)


@check("B9", layer=Layer.BATCH)
def a_leaf_of_a_null_struct_is_null_to_keys(kit: BatchKit[Any]) -> None:
    every: list[Row] = [
        {2: point} for point in (None, {3: None, 4: None}, {3: 1, 4: None}, {3: 1, 4: "x"}, {3: 0, 4: ""})
    ]
    for key in every:
        _compare(kit, _PLACES, [[key]], every)
    deep = Schema(NestedField(1, "outer", struct_of(_POINT)))
    _compare(
        kit,
        deep,
        [[{1: None}]],
        [{1: None}, {1: {93: None}}, {1: {93: {3: None, 4: None}}}, {1: {93: {3: 1, 4: None}}}],
    )


@check("B9", layer=Layer.BATCH)
def keys_tell_zeros_apart_and_not_nans(kit: BatchKit[Any]) -> None:
    for kind in (FloatType, DoubleType):
        column = next(field for field in NAN_AND_ZEROS.schema.fields if isinstance(field.field_type, kind))
        schema = Schema(column)
        for row in {repr(row[column.field_id]): row for row in NAN_AND_ZEROS.rows}.values():
            _compare(kit, schema, [[row]], NAN_AND_ZEROS.rows)


@check("B9", layer=Layer.BATCH)
def the_first_of_equal_keys_is_found_all_batches_counted_through(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType()))
    chunks: list[list[Row]] = [
        [{1: 5, 2: "x"}, {1: None, 2: "x"}],
        [],
        [{1: 5, 2: "x"}, {1: 5, 2: None}, {1: 5, 2: None}],
        [{1: None, 2: "x"}, {1: 7, 2: "y"}],
    ]
    every = [row for chunk in chunks for row in chunk]
    _compare(kit, schema, chunks, [*every, {1: 7, 2: "x"}])
    _compare(kit, Schema(schema.fields[0]), chunks, [*every, {1: 8}])


@check("B9", "X71", layer=Layer.BATCH)
def a_hundred_thousand_keys_are_no_burden(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", IntegerType()))
    keys = kit.batch(schema, [{1: number, 2: number % 7} for number in range(_MANY)])
    plain: list[Row] = [{1: number, 2: number % 11} for number in range(0, 2 * _MANY, 101)]
    found = kit.operations.locate(schema, [keys])(kit.batch(schema, plain))
    expected = [row[1] if row[1] < _MANY and row[1] % 7 == row[2] else -1 for row in plain]
    expect.equal(list(found), expected, "keys of the rows")


@check("B9", layer=Layer.BATCH)
def keys_may_have_any_number_of_columns(kit: BatchKit[Any]) -> None:
    """The number of possible keys is then far beyond 64 bits."""
    fields = [NestedField(number, f"c{number}", IntegerType()) for number in range(1, 41)]
    schema = Schema(*fields)
    keys: list[Row] = [{field.field_id: (number * field.field_id) % 53 for field in fields} for number in range(80)]
    almost: list[Row] = [row | {40: row[40] + 1} for row in keys] + [row | {1: row[1] + 1} for row in keys]
    _compare(kit, schema, [keys[:30], keys[30:60]], [*keys, *almost])


@check("B9", layer=Layer.BATCH)
def nothing_is_found_where_there_are_no_keys_or_no_rows(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType()))
    some: list[Row] = [{1: None, 2: None}, {1: 1, 2: "x"}]
    for batches in range(3):
        _compare(kit, schema, [()] * batches, some)
    _compare(kit, schema, [some], [])


@check("B9", layer=Layer.BATCH)
def rows_are_not_compared_by_lists_and_maps(kit: BatchKit[Any]) -> None:
    for kind in (list_of(IntegerType()), map_of(IntegerType()), struct_of(list_of(IntegerType()))):
        with expect.raises(UnsupportedError, when=f"comparing rows by {kind}"):
            kit.operations.locate(Schema(ID, NestedField(2, "a", kind)), [])


@check("B9", "X71", layer=Layer.BATCH)
def random_rows_are_found_among_random_keys(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        drawn = data.draw(schemas(), label="schema")
        schema = Schema(*(field for field in drawn.fields if _is_comparable(field)))
        if schema.fields:
            plain = data.draw(rows(schema, min_size=3), label="rows")
            chunks = [plain[1::2], data.draw(rows(schema), label="keys")]
            _compare(kit, schema, chunks, plain)


@check("B10", "J22", layer=Layer.BATCH)
def marks_are_appended_and_nothing_else_is_touched(kit: BatchKit[Any]) -> None:
    for data in (NESTED, MANY_CHUNKS):
        marks = [number % 3 == 0 for number in range(len(data.rows))]
        output = Schema(*data.schema.fields, DELETED)
        mark = kit.operations.mark(data.schema, DELETED)
        for form, batch in kit.forms(data.schema, data.rows):
            marked = mark(batch, np.array(marks))
            expected = [row | {DELETED.field_id: flag} for row, flag in zip(data.rows, marks, strict=True)]
            expect.equal_rows(kit.rows(output, marked), expected, f"marked rows of {data.name}, {form}")
            expect.equal(kit.form(marked)[:-1], kit.form(batch), f"the form of columns that are {form}")


@check("B10", layer=Layer.BATCH)
def batches_without_rows_or_columns_can_be_marked(kit: BatchKit[Any]) -> None:
    output = Schema(*MANY_CHUNKS.schema.fields, DELETED)
    none = kit.operations.mark(MANY_CHUNKS.schema, DELETED)(kit.batch(MANY_CHUNKS.schema, []), np.array([], np.bool_))
    expect.equal_rows(kit.rows(output, none), [], "marked rows of none")
    nothing = Schema()
    marked = kit.operations.mark(nothing, DELETED)(kit.batch(nothing, [{}, {}]), np.array([True, False]))
    found = kit.rows(Schema(DELETED), marked)
    expect.equal_rows(found, [{DELETED.field_id: True}, {DELETED.field_id: False}], "marks of rows without columns")


def _compare(kit: BatchKit[Any], schema: Schema, keys: Sequence[Sequence[Row]], plain: Sequence[Row]) -> None:
    found = kit.operations.locate(schema, [kit.batch(schema, chunk) for chunk in keys])(kit.batch(schema, plain))
    every = [row for chunk in keys for row in chunk]
    expect.equal(list(found), located(schema, every, plain), f"keys of {schema.as_struct()}")


def located(schema: Schema, keys: Sequence[Row], plain: Sequence[Row]) -> list[int]:
    """For each row the number of the first key that equals it, or -1."""
    known = [_leaves(key, schema.as_struct()) for key in keys]
    sought = [_leaves(row, schema.as_struct()) for row in plain]
    return [known.index(row) if row in known else -1 for row in sought]


def _leaves(row: Row | None, struct: StructType) -> list[str]:
    """What tells a row from others; the text of a number tells zeros apart and takes all NaNs for one."""
    return list(_texts(row, struct))


def _texts(row: Row | None, struct: StructType) -> Iterator[str]:
    for field in struct.fields:
        value = None if row is None else row[field.field_id]
        if isinstance(field.field_type, StructType):
            yield from _texts(value, field.field_type)
        else:
            yield repr(value)


def _is_comparable(field: NestedField) -> bool:
    kind = field.field_type
    if isinstance(kind, StructType):
        return all(map(_is_comparable, kind.fields))
    return not isinstance(kind, ListType | MapType | VariantType)
