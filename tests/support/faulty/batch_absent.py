"""Evolutions of batches that fill what a file lacks wrongly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, NestedField, StructType

from formatkit.errors import InvalidDataError, MissingRequiredFieldError
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.batch import GOOD, batch_of, evolving, faulty

Asked = tuple[Schema, Schema, Mapping[int, Any]]


def asking(change: Callable[[Schema, Schema, Mapping[int, Any]], Asked]) -> Subject[Any]:
    """An evolution that does something else than it was asked for."""
    return faulty(evolve=lambda source, target, constants: GOOD.evolve(*change(source, target, constants)))


def fields_changed(schema: Schema, change: Callable[[NestedField], dict[str, Any]]) -> Schema:
    """The schema with every field changed that is not inside a list or a map."""

    def changed(field: NestedField) -> NestedField:
        kind: IcebergType = field.field_type
        if isinstance(kind, StructType):
            kind = StructType(*map(changed, kind.fields))
        return field.model_copy(update={"field_type": kind, **change(field)})

    return Schema(*map(changed, schema.fields))


@fault("evolving_shows_no_old_values_in_a_column_that_was_dropped_and_added_again")
def a_column_of_the_same_name_is_taken_for_the_old_one() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        ids = {field.name: field.field_id for field in target.fields}
        return (
            fields_changed(source, lambda field: {"field_id": ids.get(field.name, field.field_id)}),
            target,
            constants,
        )

    return asking(change)


@fault(
    "evolving_gives_an_absent_field_the_default_of_every_type",
    "evolving_takes_defaults_and_constants_as_values_of_python_too",
)
def defaults_are_ignored() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        return source, fields_changed(target, lambda _: {"initial_default": None, "required": False}), constants

    return asking(change)


@fault("evolving_takes_defaults_and_constants_as_values_of_python_too")
def only_internal_values_are_known() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        given = [*constants.values(), *(field.initial_default for field in target.fields)]
        if any(isinstance(value, date | datetime | time) for value in given):
            raise InvalidDataError("a date is not a value of the type date")
        return GOOD.evolve(source, target, constants)

    return faulty(evolve=compiled)


@fault("evolving_gives_an_absent_optional_field_null_of_every_type")
def absent_numbers_are_zero() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        kind = target.fields[-1].field_type
        if not (kind.is_primitive and str(kind) == "int"):
            return good
        return lambda batch: good(batch).set_column(1, "new", pa.array([0] * batch.num_rows, pa.int32()))

    return faulty(evolve=compiled)


@fault("evolving_takes_a_constant_before_a_default_even_if_it_is_null")
def a_null_constant_counts_for_none() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        return source, target, {key: value for key, value in constants.items() if value is not None}

    return asking(change)


@fault("evolving_takes_a_constant_before_a_default_even_if_it_is_null")
def a_constant_that_is_falsy_counts_for_none() -> Subject[Any]:
    return asking(lambda source, target, constants: (source, target, {k: v for k, v in constants.items() if v}))


@fault("evolving_takes_constants_inside_structs_too")
def constants_are_for_columns_only() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        columns = {field.field_id for field in target.fields}
        return source, target, {key: value for key, value in constants.items() if key in columns}

    return asking(change)


@fault("evolving_lets_a_stored_column_win_over_a_constant")
def a_constant_wins_over_a_stored_column() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        return lambda batch: batch_of(target, [dict(constants)] * batch.num_rows) if constants else good(batch)

    return faulty(evolve=compiled)


@fault("evolving_takes_a_tuple_as_the_constant_of_a_struct")
def the_constant_of_a_struct_is_lost() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        return source, target, {key: None if isinstance(value, tuple) else value for key, value in constants.items()}

    return asking(change)


@fault("evolving_builds_the_default_of_a_struct_from_its_children")
def the_default_of_a_struct_is_always_null() -> Subject[Any]:
    def without(field: NestedField) -> dict[str, Any]:
        return {"initial_default": None} if isinstance(field.field_type, StructType) else {}

    return asking(lambda source, target, constants: (source, fields_changed(target, without), constants))


@fault("evolving_never_gives_a_stored_null_the_default")
def a_stored_null_takes_the_default() -> Subject[Any]:
    return evolving(lambda _, after: {key: 5 if value is None else value for key, value in after.items()})


@fault("evolving_leaves_a_null_parent_null_when_a_child_is_added")
def a_null_parent_comes_to_life_with_its_defaults() -> Subject[Any]:
    return evolving(
        lambda _, after: {key: {11: None, 12: "d"} if value is None else value for key, value in after.items()}
    )


@fault("evolving_to_absent_children_alone_keeps_the_nulls_of_their_parent")
def a_parent_of_which_no_child_is_stored_is_never_null() -> Subject[Any]:
    return evolving(lambda _, after: {key: {12: "d"} if value is None else value for key, value in after.items()})


@fault("evolving_adds_children_inside_lists_and_maps_of_structs")
def null_lists_become_empty() -> Subject[Any]:
    return evolving(lambda _, after: {key: [] if value is None else value for key, value in after.items()})


@fault(
    "evolving_refuses_a_missing_required_field_while_compiling",
    "evolving_refuses_null_as_the_constant_of_a_required_field_while_compiling",
)
def a_missing_required_field_is_noticed_late() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        try:
            return GOOD.evolve(source, target, constants)
        except MissingRequiredFieldError as error:
            reason = error

        def step(_: pa.RecordBatch) -> pa.RecordBatch:
            raise reason

        return step

    return faulty(evolve=compiled)


@fault("evolving_does_not_miss_required_children_of_an_absent_optional_struct")
def required_children_of_an_absent_struct_are_missed() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        for field in target.fields:
            if isinstance(field.field_type, StructType) and field.field_id not in source.field_ids:
                GOOD.evolve(source, Schema(*field.field_type.fields), constants)
        return GOOD.evolve(source, target, constants)

    return faulty(evolve=compiled)


@fault("evolving_refuses_a_null_where_only_the_target_is_required")
def nulls_of_required_fields_pass() -> Subject[Any]:
    def change(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Asked:
        return source, fields_changed(target, lambda _: {"required": False}), constants

    return asking(change)


@fault("evolving_lets_a_null_parent_be_whatever_its_child_requires")
def a_required_child_is_required_under_a_null_parent_too() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            if any(column.null_count for column in batch.columns):
                raise InvalidDataError("column 'x.x' is required, but one of its values is null")
            return good(batch)

        return step

    return faulty(evolve=compiled)


@fault("evolving_lets_a_required_field_become_optional")
def what_was_required_stays_so() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        if [field.required for field in source.fields] != [field.required for field in target.fields]:
            raise InvalidDataError("a required column is asked for as an optional one")
        return GOOD.evolve(source, target, constants)

    return faulty(evolve=compiled)


@fault("evolving_keeps_the_number_of_rows_without_columns")
def rows_without_columns_are_forgotten() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        return good if target.fields else lambda batch: good(batch).slice(0, 0)

    return faulty(evolve=compiled)


@fault("evolving_a_batch_without_rows_gives_none")
def a_constant_column_has_a_row_at_least() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        one_row: Sequence[dict[int, Any]] = [{field.field_id: None for field in source.fields}]
        return lambda batch: good(batch if batch.num_rows else batch_of(source, one_row))

    return faulty(evolve=compiled)


@fault("evolving_by_one_step_fits_batches_of_any_length")
def a_constant_column_is_as_long_as_the_first_batch() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        lengths: list[int] = []

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            lengths.append(batch.num_rows)
            return good(batch).slice(0, lengths[0])

        return step

    return faulty(evolve=compiled)
