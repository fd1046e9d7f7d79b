"""Projection of batches: top-level columns by id."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, IntegerType, NestedField, StringType

from formatkit.errors import ColumnNotFoundError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import DATA_SETS, NESTED, PRIMITIVES, WIDE, DataSet, numbered
from formatkit.tck.kits import BatchKit


@check("B3", layer=Layer.BATCH)
def projecting_one_column_gives_its_values(kit: BatchKit[Any]) -> None:
    for data in DATA_SETS:
        _judge(kit, data, *([field.field_id] for field in data.schema.fields))


@check("B3", layer=Layer.BATCH)
def projecting_many_columns_gives_them_in_the_order_that_is_asked_for(kit: BatchKit[Any]) -> None:
    for data in (NESTED, PRIMITIVES, WIDE):
        ids = [field.field_id for field in data.schema.fields]
        _judge(kit, data, ids[::-1], ids[::2], ids[1::2][::-1], [ids[-1], ids[0], ids[1]])


@check("B3", layer=Layer.BATCH)
def projecting_all_columns_changes_nothing(kit: BatchKit[Any]) -> None:
    for data in DATA_SETS:
        _judge(kit, data, [field.field_id for field in data.schema.fields])


@check("B3", layer=Layer.BATCH)
def projecting_goes_by_id_not_by_name_or_place(kit: BatchKit[Any]) -> None:
    schema = Schema(
        NestedField(3, "b", IntegerType()), NestedField(1, "c", IntegerType()), NestedField(2, "a", IntegerType())
    )
    data = DataSet("ids out of order", schema, [{3: 30, 1: 10, 2: 20}, {3: None, 1: 11, 2: 21}])
    _judge(kit, data, [1], [2], [3], [1, 2, 3], [2, 3])


@check("B3", layer=Layer.BATCH)
def projecting_twice_gives_what_projecting_once_gives(kit: BatchKit[Any]) -> None:
    for data, chosen in ((NESTED, [7, 2, 4]), (PRIMITIVES, [3, 1])):
        once = kit.operations.project(data.schema, chosen)(kit.batch(data.schema, data.rows))
        output = Schema(*(data.schema.find_field(field_id) for field_id in chosen))
        twice = kit.operations.project(output, chosen)(once)
        expect.equal(kit.form(twice), kit.form(once), "columns after the second projection")
        expect.equal_rows(kit.rows(output, twice), kit.rows(output, once), "rows after the second projection")


@check("B3", layer=Layer.BATCH)
def projecting_an_id_that_the_schema_lacks_is_refused(kit: BatchKit[Any]) -> None:
    for schema, chosen in ((PRIMITIVES.schema, [1, 999]), (PRIMITIVES.schema, [999]), (Schema(), [1])):
        with expect.raises(ColumnNotFoundError, when=f"columns {chosen} are asked for"):
            kit.operations.project(schema, chosen)


@check("B3", layer=Layer.BATCH)
def projecting_a_field_inside_a_column_is_refused(kit: BatchKit[Any]) -> None:
    for inside in (41, 43, 31, 50):
        with expect.raises(ColumnNotFoundError, when=f"field {inside} inside a column is asked for"):
            kit.operations.project(NESTED.schema, [inside])


@check("B3", layer=Layer.BATCH)
def projecting_no_columns_keeps_the_number_of_rows(kit: BatchKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        for rows in (data.rows, data.rows[:1], []):
            nothing = kit.operations.project(data.schema, [])(kit.batch(data.schema, rows))
            expect.equal(kit.operations.num_rows(nothing), len(rows), "number of rows without columns")


@check("B3", layer=Layer.BATCH)
def projecting_a_batch_without_rows_gives_none(kit: BatchKit[Any]) -> None:
    batch = kit.operations.project(NESTED.schema, [4, 2])(kit.batch(NESTED.schema, []))
    output = Schema(NESTED.schema.find_field(4), NESTED.schema.find_field(2))
    expect.equal_rows(kit.rows(output, batch), [])


@check("B1", layer=Layer.BATCH)
def projecting_leaves_the_form_of_columns_as_it_is(kit: BatchKit[Any]) -> None:
    data = numbered("texts and bytes", text=(StringType(), ["a", "b", None]), bytes=(BinaryType(), [b"a", None, b"b"]))
    for form, batch in kit.forms(data.schema, data.rows):
        chosen = kit.operations.project(data.schema, [3, 2])(batch)
        expect.equal(kit.form(chosen), kit.form(batch)[:0:-1], f"form {form!r} after a projection")


def _judge(kit: BatchKit[Any], data: DataSet, *choices: list[int]) -> None:
    whole = kit.batch(data.schema, data.rows)
    for chosen in choices:
        output = Schema(*(data.schema.find_field(field_id) for field_id in chosen))
        batch = kit.operations.project(data.schema, chosen)(whole)
        names = [field.name for field in output.fields]
        expect.equal(kit.bridge.to_arrow(batch).schema.names, names, f"columns {chosen} of {data.name}")
        expected = [{field_id: row[field_id] for field_id in chosen} for row in data.rows]
        expect.equal_rows(kit.rows(output, batch), expected, f"columns {chosen} of {data.name}")
