"""Rows of batches: taken, cut out, put together, counted and shown."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import DATA_SETS, MANY_CHUNKS, NANOSECONDS, NESTED, PRIMITIVES
from formatkit.tck.kits import BatchKit
from formatkit.tck.literals import internal
from formatkit.tck.naive import Row
from formatkit.tck.nesting import list_of, map_of, one_column

_MOMENT = datetime(2020, 1, 1, 1, 2, 3, 4)
_SHOWN: list[tuple[IcebergType, list[Any]]] = [
    (BooleanType(), [True, False, None]),
    (IntegerType(), [1, -1, None]),
    (DoubleType(), [1.0, -0.5, None]),
    (DecimalType(9, 2), [Decimal("1.10"), None]),
    (DateType(), [date(1969, 12, 31), None]),
    (TimeType(), [time(23, 59, 59, 999_999), None]),
    (TimestampType(), [_MOMENT, None]),
    (TimestamptzType(), [_MOMENT.replace(tzinfo=UTC), None]),
    (TimestampNanoType(), [-1, None]),
    (StringType(), ["é", "", None]),
    (BinaryType(), [b"\0", b"", None]),
    (UUIDType(), [UUID(int=1), None]),
]


@check("B7", layer=Layer.BATCH)
def rows_are_counted(kit: BatchKit[Any]) -> None:
    for data in (NESTED, MANY_CHUNKS):
        for count in (0, 1, 2, len(data.rows)):
            found = kit.operations.num_rows(kit.batch(data.schema, data.rows[:count]))
            expect.equal(found, count, f"number of rows of {data.name}")


@check("B7", layer=Layer.BATCH)
def rows_without_columns_are_counted_taken_cut_and_put_together(kit: BatchKit[Any]) -> None:
    operations, batch = kit.operations, kit.batch(Schema(), [{}, {}, {}])
    for found, expected in (
        (batch, 3),
        (operations.take_rows(batch, [True, False, True]), 2),
        (operations.take_rows(batch, [False] * 3), 0),
        (operations.slice(batch, 1, 2), 2),
        (operations.concat(Schema(), [batch, batch]), 6),
        (operations.concat(Schema(), []), 0),
    ):
        expect.equal(operations.num_rows(found), expected, "number of rows of a batch without columns")


@check("B7", layer=Layer.BATCH)
def rows_that_are_marked_are_taken_and_no_others(kit: BatchKit[Any]) -> None:
    for data in (NESTED, PRIMITIVES):
        count = len(data.rows)
        batch = kit.batch(data.schema, data.rows)
        for number in range(2**count):
            keep = [bool(number >> place & 1) for place in range(count)]
            found = kit.rows(data.schema, kit.operations.take_rows(batch, keep))
            expected = [row for row, kept in zip(data.rows, keep, strict=True) if kept]
            expect.equal_rows(found, expected, f"rows of {data.name} marked by {keep}")


@check("B7", layer=Layer.BATCH)
def rows_are_taken_by_any_buffer_of_booleans(kit: BatchKit[Any]) -> None:
    marks = [True, False, True, True]
    batch = kit.batch(PRIMITIVES.schema, PRIMITIVES.rows)
    expected = [row for row, kept in zip(PRIMITIVES.rows, marks, strict=True) if kept]
    buffers: list[Any] = [
        marks,
        tuple(marks),
        np.array(marks),
        np.array([*marks, False])[:4],
        np.array(marks[::-1])[::-1],
    ]
    for keep in buffers:
        found = kit.rows(PRIMITIVES.schema, kit.operations.take_rows(batch, keep))
        expect.equal_rows(found, expected, f"rows marked by a {type(keep).__name__}")


@check("B7", layer=Layer.BATCH)
def a_slice_is_the_window_of_rows_that_is_asked_for(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        batch, count = kit.batch(data.schema, data.rows), len(data.rows)
        for offset, length in (
            (0, count),
            (0, 1),
            (count - 1, 1),
            (1, count - 1),
            (count // 2, count - count // 2),
            (0, 0),
        ):
            found = kit.rows(data.schema, kit.operations.slice(batch, offset, length))
            what = f"{length} rows of {data.name} from {offset}"
            expect.equal_rows(found, data.rows[offset : offset + length], what)


@check("B7", layer=Layer.BATCH)
def a_slice_of_a_slice_counts_from_its_own_first_row(kit: BatchKit[Any]) -> None:
    outer = kit.operations.slice(kit.batch(MANY_CHUNKS.schema, MANY_CHUNKS.rows), 10, 30)
    found = kit.rows(MANY_CHUNKS.schema, kit.operations.slice(outer, 5, 7))
    expect.equal_rows(found, MANY_CHUNKS.rows[15:22])


@check("B1", "B7", layer=Layer.BATCH)
def a_slice_leaves_the_form_of_columns_as_it_is(kit: BatchKit[Any]) -> None:
    for form, batch in kit.forms(PRIMITIVES.schema, PRIMITIVES.rows):
        expect.equal(kit.form(kit.operations.slice(batch, 1, 2)), kit.form(batch), f"form {form!r} of a slice")


@check("B7", layer=Layer.BATCH)
def batches_are_put_together_in_their_order(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        for size in (1, 2, 5):
            parts = [
                kit.batch(data.schema, data.rows[start : start + size]) for start in range(0, len(data.rows), size)
            ]
            whole = kit.operations.concat(data.schema, parts)
            expect.equal_rows(kit.rows(data.schema, whole), data.rows, f"rows of {data.name} from batches of {size}")


@check("B7", layer=Layer.BATCH)
def batches_without_rows_do_not_disturb_the_others(kit: BatchKit[Any]) -> None:
    empty = kit.batch(NESTED.schema, [])
    parts = [empty, kit.batch(NESTED.schema, NESTED.rows[:2]), empty, kit.batch(NESTED.schema, NESTED.rows[2:]), empty]
    expect.equal_rows(kit.rows(NESTED.schema, kit.operations.concat(NESTED.schema, parts)), NESTED.rows)


@check("B1", "B7", layer=Layer.BATCH)
def batches_of_different_forms_are_put_together_in_one(kit: BatchKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        forms = list(kit.forms(data.schema, data.rows))
        canonical = kit.form(kit.operations.concat(data.schema, []))
        together = kit.operations.concat(data.schema, [batch for _, batch in forms])
        expect.equal_rows(kit.rows(data.schema, together), [*data.rows] * len(forms), f"rows of {data.name}")
        expect.equal(kit.form(together), canonical, f"form of {data.name}")
        for form, batch in forms:
            alone = kit.operations.concat(data.schema, [batch])
            expect.equal(kit.form(alone), canonical, f"form of {data.name} that came in the form {form!r}")


@check("B7", layer=Layer.BATCH)
def no_batches_put_together_are_an_empty_batch_of_the_schema(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        nothing = kit.operations.concat(data.schema, [])
        expect.equal_rows(kit.rows(data.schema, nothing), [], f"rows of {data.name}")
        names = kit.bridge.to_arrow(nothing).schema.names
        expect.equal(names, [field.name for field in data.schema.fields], f"columns of {data.name}")


@check("B7", layer=Layer.BATCH)
def rows_are_shown_as_values_of_python(kit: BatchKit[Any]) -> None:
    for kind, values in _SHOWN:
        batch = kit.batch(one_column(kind), [{1: internal(value, kind)} for value in values])
        shown = list(kit.operations.rows(one_column(kind), batch))
        expect.equal(shown, [(value,) for value in values], f"rows of {kind}")
        expect.equal([type(row[0]) for row in shown], [type(value) for value in values], f"values of {kind}")


@check("B7", layer=Layer.BATCH)
def rows_show_structs_as_tuples_and_maps_as_lists_of_pairs(kit: BatchKit[Any]) -> None:
    struct = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", DateType()))
    cases: list[tuple[IcebergType, list[Any], list[Any]]] = [
        (struct, [{11: 1, 12: 0}, None, {11: None, 12: None}], [(1, date(1970, 1, 1)), None, (None, None)]),
        (list_of(struct), [[{11: 1, 12: None}, None], [], None], [[(1, None), None], [], None]),
        (
            map_of(list_of(DateType())),
            [[("a", [-1]), ("b", None)], [], None],
            [[("a", [date(1969, 12, 31)]), ("b", None)], [], None],
        ),
    ]
    for kind, values, expected in cases:
        batch = kit.batch(one_column(kind), [{1: value} for value in values])
        shown = list(kit.operations.rows(one_column(kind), batch))
        expect.equal(shown, [(value,) for value in expected], f"rows of {kind}")


@check("B7", layer=Layer.BATCH)
def rows_are_shown_for_every_row_of_a_batch_without_columns(kit: BatchKit[Any]) -> None:
    nothing: list[Row] = [{}, {}, {}]
    expect.equal(list(kit.operations.rows(Schema(), kit.batch(Schema(), nothing))), [(), (), ()], "rows")
    expect.equal(list(kit.operations.rows(NESTED.schema, kit.batch(NESTED.schema, []))), [], "rows of an empty batch")
