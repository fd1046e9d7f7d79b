"""Projections of batches that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.forms import decode
from formatkit.errors import ColumnNotFoundError
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.batch import GOOD, faulty


@fault("projecting_one_column_gives_its_values", "projecting_goes_by_id_not_by_name_or_place")
def ids_are_taken_for_places() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        places = [(field_id - 1) % len(schema.fields) for field_id in field_ids]
        return lambda batch: batch.select(places)

    return faulty(project=compiled)


@fault("projecting_many_columns_gives_them_in_the_order_that_is_asked_for")
def columns_come_in_the_order_of_the_schema() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        places = {field.field_id: place for place, field in enumerate(schema.fields)}
        return GOOD.project(schema, sorted(field_ids, key=lambda field_id: places.get(field_id, 0)))

    return faulty(project=compiled)


@fault("projecting_all_columns_changes_nothing")
def the_last_of_all_columns_is_left_out() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        everything = len(field_ids) == len(schema.fields) > 0
        return GOOD.project(schema, field_ids[:-1] if everything else field_ids)

    return faulty(project=compiled)


@fault("projecting_twice_gives_what_projecting_once_gives")
def projecting_all_columns_reverses_them() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        everything = len(field_ids) == len(schema.fields)
        return GOOD.project(schema, field_ids[::-1] if everything else field_ids)

    return faulty(project=compiled)


@fault("projecting_an_id_that_the_schema_lacks_is_refused", "projecting_a_field_inside_a_column_is_refused")
def unknown_ids_are_left_out() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        known = {field.field_id for field in schema.fields}
        return GOOD.project(schema, [field_id for field_id in field_ids if field_id in known])

    return faulty(project=compiled)


@fault("projecting_a_field_inside_a_column_is_refused")
def an_unknown_id_is_noticed_with_the_first_batch() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        try:
            return GOOD.project(schema, field_ids)
        except ColumnNotFoundError:
            return lambda batch: batch

    return faulty(project=compiled)


@fault(
    "projecting_no_columns_keeps_the_number_of_rows",
    "rows_are_shown_for_every_row_of_a_batch_without_columns",
)
def a_batch_without_columns_has_no_rows() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        good = GOOD.project(schema, field_ids)
        return good if field_ids else lambda batch: good(batch).slice(0, 0)

    return faulty(project=compiled)


@fault("projecting_a_batch_without_rows_gives_none")
def a_projection_of_nothing_has_a_row() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        good = GOOD.project(schema, field_ids)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            chosen = good(batch)
            types: list[Any] = chosen.schema.types
            nulls = [pa.nulls(1, kind) for kind in types]
            return chosen if batch.num_rows else pa.RecordBatch.from_arrays(nulls, names=chosen.schema.names)

        return step

    return faulty(project=compiled)


@fault("projecting_leaves_the_form_of_columns_as_it_is")
def projecting_decodes_columns() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        good = GOOD.project(schema, field_ids)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            chosen = good(batch)
            return pa.RecordBatch.from_arrays([decode(each) for each in chosen.columns], names=chosen.schema.names)

        return step

    return faulty(project=compiled)


@fault("what_is_injected_can_be_projected_away")
def the_first_row_is_lost_with_a_column() -> Subject[Any]:
    def compiled(schema: Schema, field_ids: Sequence[int]) -> Any:
        good = GOOD.project(schema, field_ids)
        return good if len(field_ids) == len(schema.fields) else lambda batch: good(batch).slice(1)

    return faulty(project=compiled)
