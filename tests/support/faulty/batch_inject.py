"""Injections into batches that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import PrimitiveType, StructType, UUIDType

from formatkit.batches.arrow.forms import decode
from formatkit.contract import InjectedColumn
from formatkit.errors import InvalidDataError
from formatkit.tck import Subject
from formatkit.tck.rows import from_arrow
from support.faults import fault
from support.faulty.batch import GOOD, batch_of, faulty, injecting


@fault("injecting_a_constant_of_every_type_appends_it_to_each_row")
def uuids_are_injected_as_null() -> Subject[Any]:
    return injecting(
        lambda column: replace(column, value=None) if isinstance(column.field.field_type, UUIDType) else column
    )


@fault("injecting_takes_constants_as_values_of_python_too")
def dates_are_no_constants() -> Subject[Any]:
    def change(column: InjectedColumn) -> InjectedColumn:
        if isinstance(column.value, date):
            raise InvalidDataError("a date is not a value of the type date")
        return column

    return injecting(change)


@fault("injecting_a_struct_or_a_list_appends_it_whole")
def structs_are_injected_as_null() -> Subject[Any]:
    return injecting(
        lambda column: replace(column, value=None) if isinstance(column.field.field_type, StructType) else column
    )


@fault("injecting_several_columns_appends_them_in_their_order")
def only_the_last_of_several_columns_has_its_value() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        return GOOD.inject(schema, [*(replace(column, value=None) for column in columns[:-1]), *columns[-1:]])

    return faulty(inject=compiled)


@fault("injecting_into_a_batch_without_rows_gives_columns_without_rows")
def nothing_is_injected_into_a_batch_without_rows() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)
        return lambda batch: good(batch) if batch.num_rows else batch

    return faulty(inject=compiled)


@fault("injecting_into_a_batch_without_columns_fills_each_row")
def one_row_is_injected_into_a_batch_without_columns() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)
        return lambda batch: good(batch) if batch.num_columns else good(batch).slice(0, 1)

    return faulty(inject=compiled)


@fault("injecting_a_sum_adds_the_other_column_row_by_row", "injecting_fills_nulls_with_the_sum_of_their_own_row")
def every_row_gets_the_first_sum() -> Subject[Any]:
    return injecting(lambda column: replace(column, plus=None))


@fault("injecting_a_column_that_is_there_fills_only_its_nulls", "injecting_fills_nulls_with_the_sum_of_their_own_row")
def stored_values_are_overwritten() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)
        ids = {column.field.field_id: column.value for column in columns}
        return lambda batch: batch_of(schema, [{**row, **ids} for row in from_arrow(schema, good(batch))])

    return faulty(inject=compiled)


@fault("injecting_fills_the_nulls_of_every_type")
def nulls_stay_where_a_column_is_stored() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        return GOOD.inject(schema, [column for column in columns if column.field.field_id not in schema.field_ids])

    return faulty(inject=compiled)


@fault("injecting_null_leaves_what_is_there")
def null_is_injected_over_stored_values() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        nulls = {column.field.field_id: None for column in columns if column.value is None}
        return lambda batch: batch_of(schema, [{**row, **nulls} for row in from_arrow(schema, batch)])

    return faulty(inject=compiled)


@fault("injecting_leaves_the_values_of_other_columns_untouched")
def other_columns_lose_their_nulls() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)
        emptied = {
            field.field_id: 0
            for field in schema.fields
            if isinstance(field.field_type, PrimitiveType) and str(field.field_type) == "int"
        }

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = from_arrow(schema, batch)
            filled = [{key: emptied.get(key) if value is None else value for key, value in row.items()} for row in rows]
            return good(batch_of(schema, filled))

        return step

    return faulty(inject=compiled)


@fault("injecting_leaves_the_form_of_other_columns_as_it_is")
def other_columns_are_decoded() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            return good(pa.RecordBatch.from_arrays([decode(each) for each in batch.columns], names=batch.schema.names))

        return step

    return faulty(inject=compiled)


@fault("injecting_goes_by_id_where_another_column_has_the_same_name")
def a_column_of_the_same_name_is_replaced() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            injected = good(batch)
            names = {column.field.name for column in columns}
            stored = [place for place, name in enumerate(batch.schema.names) if name in names]
            for place in stored:
                injected = injected.set_column(
                    place, injected.schema.field(place), pa.nulls(batch.num_rows, pa.string())
                )
            return injected

        return step

    return faulty(inject=compiled)


@fault("injecting_by_one_step_fits_batches_of_any_length")
def a_step_injects_for_as_many_rows_as_it_saw_first() -> Subject[Any]:
    def compiled(schema: Schema, columns: Sequence[InjectedColumn]) -> Any:
        good = GOOD.inject(schema, columns)
        lengths: list[int] = []

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            lengths.append(batch.num_rows)
            return good(batch).slice(0, lengths[0])

        return step

    return faulty(inject=compiled)
