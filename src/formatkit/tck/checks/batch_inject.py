"""Injection into batches: columns that are computed rather than read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from formatkit.contract import POS, InjectedColumn
from formatkit.contract.metadata_columns import FILE
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NESTED, PRIMITIVES, numbered
from formatkit.tck.kits import BatchKit
from formatkit.tck.literals import internal
from formatkit.tck.naive import Row
from formatkit.tck.nesting import list_of
from formatkit.tck.samples import SAMPLES

_STORED = Schema(NestedField(1, "a", StringType()))
_ROWS: Sequence[Row] = [{1: "x"}, {1: None}, {1: "z"}]
_ROW_ID = NestedField(50, "row_id", LongType())


@check("B5", layer=Layer.BATCH)
def injecting_a_constant_of_every_type_appends_it_to_each_row(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        for value in (sample.ascending[0], sample.ascending[-1], None):
            column = InjectedColumn(field=NestedField(2, "new", sample.kind), value=value)
            found = _injected(kit, _STORED, _ROWS, [column])
            expect.equal_rows(found, [{**row, 2: value} for row in _ROWS], f"constant {value!r} of {sample}")


@check("B5", layer=Layer.BATCH)
def injecting_takes_constants_as_values_of_python_too(kit: BatchKit[Any]) -> None:
    values: list[tuple[IcebergType, Any]] = [
        (DateType(), date(1969, 12, 31)),
        (TimestampType(), datetime(2020, 1, 1, 1, 2, 3, 4)),
        (DecimalType(9, 2), Decimal("1.1")),
        (UUIDType(), UUID(int=7)),
    ]
    for kind, value in values:
        column = InjectedColumn(field=NestedField(2, "new", kind), value=value)
        expected = [{**row, 2: internal(value, kind)} for row in _ROWS]
        expect.equal_rows(_injected(kit, _STORED, _ROWS, [column]), expected, f"constant {value!r}")


@check("B5", layer=Layer.BATCH)
def injecting_a_struct_or_a_list_appends_it_whole(kit: BatchKit[Any]) -> None:
    struct = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", StringType()))
    for kind, value, expected in (
        (struct, (1, None), {11: 1, 12: None}),
        (struct, None, None),
        (list_of(IntegerType()), [1, None], [1, None]),
        (list_of(IntegerType()), [], []),
    ):
        column = InjectedColumn(field=NestedField(2, "new", kind), value=value)
        found = _injected(kit, _STORED, _ROWS, [column])
        expect.equal_rows(found, [{**row, 2: expected} for row in _ROWS], f"constant {value!r} of {kind}")


@check("B5", layer=Layer.BATCH)
def injecting_several_columns_appends_them_in_their_order(kit: BatchKit[Any]) -> None:
    columns = [
        InjectedColumn(field=NestedField(9, "last id first", IntegerType()), value=9),
        InjectedColumn(field=FILE, value="file"),
        InjectedColumn(field=NestedField(3, "none", UUIDType()), value=None),
    ]
    expected = [{**row, 9: 9, FILE.field_id: "file", 3: None} for row in _ROWS]
    expect.equal_rows(_injected(kit, _STORED, _ROWS, columns), expected)


@check("B5", layer=Layer.BATCH)
def injecting_into_a_batch_without_rows_gives_columns_without_rows(kit: BatchKit[Any]) -> None:
    columns = [
        InjectedColumn(field=NestedField(number, f"c{number}", sample.kind), value=sample.ascending[0])
        for number, sample in enumerate(SAMPLES, 2)
    ]
    step = kit.operations.inject(_STORED, columns)
    batch = step(kit.batch(_STORED, []))
    expect.equal(kit.operations.num_rows(batch), 0, "number of rows")
    expect.equal(len(kit.form(batch)), 1 + len(columns), "number of columns")


@check("B5", layer=Layer.BATCH)
def injecting_into_a_batch_without_columns_fills_each_row(kit: BatchKit[Any]) -> None:
    found = _injected(kit, Schema(), [{}, {}, {}], [InjectedColumn(field=_ROW_ID, value=4)])
    expect.equal_rows(found, [{50: 4}] * 3)


@check("B5", layer=Layer.BATCH)
def injecting_a_sum_adds_the_other_column_row_by_row(kit: BatchKit[Any]) -> None:
    positions = [0, 5, 2**40, None]
    column = InjectedColumn(field=_ROW_ID, value=1000, plus=POS.field_id)
    found = _injected(kit, Schema(POS), [{POS.field_id: position} for position in positions], [column])
    expected = [{POS.field_id: position, 50: None if position is None else 1000 + position} for position in positions]
    expect.equal_rows(found, expected)


@check("B5", layer=Layer.BATCH)
def injecting_a_column_that_is_there_fills_only_its_nulls(kit: BatchKit[Any]) -> None:
    schema = Schema(_ROW_ID, NestedField(1, "a", StringType()))
    rows: list[Row] = [{50: 7, 1: "x"}, {50: None, 1: None}, {50: 0, 1: "z"}]
    found = _injected(kit, schema, rows, [InjectedColumn(field=_ROW_ID, value=100)])
    expect.equal_rows(found, [{50: 7, 1: "x"}, {50: 100, 1: None}, {50: 0, 1: "z"}])


@check("B5", layer=Layer.BATCH)
def injecting_fills_the_nulls_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        field = NestedField(2, "x", sample.kind)
        rows = numbered("nulls", x=(sample.kind, [None, sample.ascending[0], None])).rows
        schema = Schema(NestedField(1, "id", LongType(), required=True), field)
        found = _injected(kit, schema, rows, [InjectedColumn(field=field, value=sample.ascending[-1])])
        expected = [{**row, 2: sample.ascending[-1] if row[2] is None else row[2]} for row in rows]
        expect.equal_rows(found, expected, f"nulls of {sample} filled")


@check("B5", layer=Layer.BATCH)
def injecting_fills_nulls_with_the_sum_of_their_own_row(kit: BatchKit[Any]) -> None:
    schema = Schema(_ROW_ID, POS)
    rows: list[Row] = [{50: stored, POS.field_id: number} for number, stored in enumerate((7, None, None, 0))]
    column = InjectedColumn(field=_ROW_ID, value=100, plus=POS.field_id)
    expected = [{**row, 50: value} for row, value in zip(rows, (7, 101, 102, 0), strict=True)]
    expect.equal_rows(_injected(kit, schema, rows, [column]), expected)
    batch = kit.operations.slice(kit.batch(schema, rows), 1, 2)
    found = kit.rows(schema, kit.operations.inject(schema, [column])(batch))
    expect.equal_rows(found, expected[1:3], "rows of a slice")


@check("B5", layer=Layer.BATCH)
def injecting_null_leaves_what_is_there(kit: BatchKit[Any]) -> None:
    rows: list[Row] = [{50: 7}, {50: None}]
    expect.equal_rows(_injected(kit, Schema(_ROW_ID), rows, [InjectedColumn(field=_ROW_ID, value=None)]), rows)


@check("B5", layer=Layer.BATCH)
def injecting_leaves_the_values_of_other_columns_untouched(kit: BatchKit[Any]) -> None:
    column = InjectedColumn(field=FILE, value="file")
    for data in (NESTED, PRIMITIVES):
        expected = [{**row, FILE.field_id: "file"} for row in data.rows]
        expect.equal_rows(_injected(kit, data.schema, data.rows, [column]), expected, f"rows of {data.name}")


@check("B1", "B5", layer=Layer.BATCH)
def injecting_leaves_the_form_of_other_columns_as_it_is(kit: BatchKit[Any]) -> None:
    data = numbered("texts and bytes", text=(StringType(), ["a", "b", None]), bytes=(BinaryType(), [b"a", None, b"b"]))
    step = kit.operations.inject(data.schema, [InjectedColumn(field=FILE, value="file")])
    for form, batch in kit.forms(data.schema, data.rows):
        expect.equal(kit.form(step(batch))[:3], kit.form(batch), f"form {form!r} after an injection")


@check("B1", "B5", layer=Layer.BATCH)
def injecting_goes_by_id_where_another_column_has_the_same_name(kit: BatchKit[Any]) -> None:
    column = InjectedColumn(field=NestedField(2, "a", IntegerType()), value=5)
    batch = kit.operations.inject(_STORED, [column])(kit.batch(_STORED, _ROWS))
    output = Schema(*_STORED.fields, NestedField(2, "other", IntegerType()))
    expect.equal_rows(kit.rows(output, batch), [{**row, 2: 5} for row in _ROWS])


@check("B5", layer=Layer.BATCH)
def injecting_by_one_step_fits_batches_of_any_length(kit: BatchKit[Any]) -> None:
    step = kit.operations.inject(_STORED, [InjectedColumn(field=_ROW_ID, value=4)])
    output = Schema(*_STORED.fields, _ROW_ID)
    for length in (2, 5, 0, 3, 1):
        rows: list[Row] = [{1: str(number)} for number in range(length)]
        found = kit.rows(output, step(kit.batch(_STORED, rows)))
        expect.equal_rows(found, [{**row, 50: 4} for row in rows], f"{length} rows")


def _injected(kit: BatchKit[Any], schema: Schema, rows: Sequence[Row], columns: Sequence[InjectedColumn]) -> list[Row]:
    known = {field.field_id for field in schema.fields}
    appended = (column.field for column in columns if column.field.field_id not in known)
    batch = kit.operations.inject(schema, columns)(kit.batch(schema, rows))
    return kit.rows(Schema(*schema.fields, *appended), batch)
