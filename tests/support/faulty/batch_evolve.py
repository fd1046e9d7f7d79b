"""Evolutions of batches that are wrong in one thing each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    UnknownType,
)

from formatkit.errors import FormatkitError, IllegalPromotionError, InvalidDataError
from formatkit.tck import Subject
from formatkit.tck.rows import from_arrow
from support.faults import fault
from support.faulty.batch import GOOD, batch_of, evolving, faulty


def reading_as(change: Callable[[Schema, Schema], Schema]) -> Subject[Any]:
    """An evolution that takes the file's schema for another."""
    return faulty(evolve=lambda source, target, constants: GOOD.evolve(change(source, target), target, constants))


def spoiled(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with every leaf changed."""
    match value:
        case dict():
            return {key: spoiled(child, change) for key, child in value.items()}
        case list():
            return [spoiled(child, change) for child in value]
        case tuple():
            return tuple(spoiled(child, change) for child in value)
    return change(value)


def renumbered(source: IcebergType, target: IcebergType) -> IcebergType:
    """The source with the ids of the target's fields of the same names, at every level below the top."""
    match source, target:
        case StructType(), StructType():
            ids = {field.name: field for field in target.fields}
            fields = [
                NestedField(
                    ids[field.name].field_id if field.name in ids else field.field_id, field.name, field.field_type
                )
                for field in source.fields
            ]
            return StructType(*fields)
        case ListType(), ListType():
            element = renumbered(source.element_type, target.element_type)
            return ListType(source.element_id, element, source.element_required)
        case MapType(), MapType():
            value = renumbered(source.value_type, target.value_type)
            return MapType(source.key_id, source.key_type, source.value_id, value, source.value_required)
    return source


@fault("evolving_to_the_same_schema_keeps_every_value")
def evolving_drops_the_sign_of_zero() -> Subject[Any]:
    return evolving(lambda _, after: spoiled(after, lambda value: value + 0.0 if isinstance(value, float) else value))


@fault("evolving_what_already_is_as_asked_returns_the_same_object")
def evolving_always_makes_a_new_batch() -> Subject[Any]:
    return faulty(
        evolve=lambda source, target, constants: lambda batch: GOOD.evolve(source, target, constants)(batch).slice(0)
    )


@fault("evolving_gives_one_form_whatever_form_the_batch_has")
def evolving_leaves_the_form_as_it_came() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        return lambda batch: batch if source == target else good(batch)

    return faulty(evolve=compiled)


@fault("evolving_keeps_the_values_of_every_form")
def evolving_forgets_where_a_slice_begins() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            columns: list[Any] = [
                column.flatten() if isinstance(column, pa.ListArray) else column for column in batch.columns
            ]
            offset = max(column.offset for column in columns) if columns else 0
            return good(batch.slice(1) if offset else batch)

        return step

    return faulty(evolve=compiled)


@fault("evolving_promotes_exactly")
def floats_are_widened_by_their_digits() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        floats = isinstance(source.fields[0].field_type, FloatType)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = from_arrow(target, good(batch))
            return batch_of(target, [{1: row[1] and float(f"{row[1]:.7g}")} for row in rows])

        return step if floats else good

    return faulty(evolve=compiled)


@fault("evolving_promotes_inside_structs_lists_and_maps")
def dates_inside_others_become_days_not_midnights() -> Subject[Any]:
    def change(before: Any, after: Any) -> Any:
        match before, after:
            case dict(), dict():
                return {key: change(before[key], after[key]) for key in after}
            case list(), list():
                return [change(*pair) for pair in zip(before, after, strict=True)]
            case tuple(), tuple():
                return tuple(change(*pair) for pair in zip(before, after, strict=True))
        return before if isinstance(after, int) else after

    return evolving(lambda before, after: after if isinstance(after[1], int) else change(before, after))


@fault("evolving_a_column_of_unknown_type_gives_nulls_of_any_type")
def unknown_becomes_zero() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        zeros = isinstance(source.fields[0].field_type, UnknownType) and target.fields[0].field_type == LongType()
        return (lambda batch: batch_of(target, [{1: 0}] * batch.num_rows)) if zeros else good

    return faulty(evolve=compiled)


@fault("evolving_matches_columns_by_id_not_by_name_or_place")
def columns_are_matched_by_name() -> Subject[Any]:
    def by_name(source: Schema, target: Schema) -> Schema:
        ids = {field.name: field.field_id for field in target.fields}
        fields = (
            NestedField(ids.get(field.name, field.field_id), field.name, field.field_type) for field in source.fields
        )
        return Schema(*fields)

    return reading_as(by_name)


@fault("evolving_matches_columns_by_id_not_by_name_or_place")
def columns_are_matched_by_place() -> Subject[Any]:
    def by_place(source: Schema, target: Schema) -> Schema:
        pairs = zip(source.fields, target.fields, strict=True)
        return Schema(*(NestedField(other.field_id, field.name, field.field_type) for field, other in pairs))

    return reading_as(by_place)


@fault("evolving_gives_columns_the_names_and_the_order_that_are_asked_for")
def columns_keep_their_old_names() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        names = [source.find_field(field.field_id).name for field in target.fields]
        return lambda batch: good(batch).rename_columns(names)

    return faulty(evolve=compiled)


@fault("evolving_matches_children_by_id_at_every_level")
def children_are_matched_by_name() -> Subject[Any]:
    def by_name(source: Schema, target: Schema) -> Schema:
        pairs = zip(source.fields, target.fields, strict=True)
        return Schema(
            *(
                NestedField(field.field_id, field.name, renumbered(field.field_type, other.field_type))
                for field, other in pairs
            )
        )

    return reading_as(by_name)


@fault("evolving_drops_what_is_not_asked_for_at_every_level")
def null_elements_are_dropped_with_the_children() -> Subject[Any]:
    def without_nulls(value: Any) -> Any:
        return [each for each in value if each is not None] if isinstance(value, list) else value

    return evolving(lambda _, after: {key: without_nulls(value) for key, value in after.items()})


@fault("evolving_a_slice_evolves_its_own_rows_only")
def a_slice_begins_with_the_rows_before_it() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            first: Any = batch.column(0)
            whole = pa.Array.from_buffers(first.type, len(first), first.buffers())
            return good(batch.set_column(0, batch.schema.field(0), whole))

        return step

    return faulty(evolve=compiled)


@fault("evolving_a_slice_does_not_judge_the_values_beside_it")
def all_values_of_a_sliced_list_are_converted() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            lists: Any = batch.column(0)
            if len(lists.values) > len(lists.flatten()):
                raise InvalidDataError("column 'x' holds a value that does not fit")
            return good(batch)

        return step

    return faulty(evolve=compiled)


def accepting(error: type[FormatkitError], when: Callable[[Schema, Schema], bool]) -> Subject[Any]:
    """An evolution that does not refuse what it must."""

    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        try:
            return GOOD.evolve(source, target, constants)
        except error:
            if when(source, target):
                return lambda batch: batch
            raise

    return faulty(evolve=compiled)


@fault("evolving_refuses_every_other_change_of_type_while_compiling")
def the_scale_of_decimals_may_change() -> Subject[Any]:
    def decimals(source: Schema, target: Schema) -> bool:
        return all(str(schema.fields[0].field_type).startswith("decimal") for schema in (source, target))

    return accepting(IllegalPromotionError, decimals)


@fault("evolving_refuses_a_change_of_type_deep_inside_while_compiling")
def types_inside_lists_are_not_looked_at() -> Subject[Any]:
    return accepting(IllegalPromotionError, lambda source, _: isinstance(source.fields[0].field_type, ListType))


@fault("evolving_refuses_a_date_that_does_not_fit_the_timestamp")
def dates_wrap_around() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        dates = isinstance(source.fields[0].field_type, DateType)
        wide = isinstance(target.fields[0].field_type, TimestampType | TimestampNanoType)
        return (lambda batch: batch_of(target, [{1: 0}] * batch.num_rows)) if dates and wide else good

    return faulty(evolve=compiled)


@fault("evolving_refuses_a_value_that_does_not_fit_its_type")
def wide_integers_are_cut() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        if not isinstance(target.fields[0].field_type, IntegerType):
            return good
        return lambda batch: pa.RecordBatch.from_arrays([batch.column(0).cast(pa.int32(), safe=False)], names=["x"])

    return faulty(evolve=compiled)


@fault("evolving_a_batch_is_evolving_its_rows")
def evolving_turns_empty_lists_into_null() -> Subject[Any]:
    def emptied(value: Any) -> Any:
        match value:
            case dict():
                return {key: emptied(child) for key, child in value.items()}
            case list():
                return [emptied(child) for child in value] or None
        return value

    return evolving(lambda _, after: emptied(after))


@fault("evolving_step_by_step_is_evolving_at_once")
def the_last_row_is_lost_where_something_changes() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        changed = source.as_struct() != target.as_struct()
        return (lambda batch: good(batch).slice(0, max(batch.num_rows - 1, 0))) if changed else good

    return faulty(evolve=compiled)


@fault("evolving_to_the_same_schema_changes_nothing")
def evolving_reverses_the_rows() -> Subject[Any]:
    def compiled(source: Schema, target: Schema, constants: Mapping[int, Any]) -> Any:
        good = GOOD.evolve(source, target, constants)
        return lambda batch: good(batch).take(pa.array(range(batch.num_rows - 1, -1, -1), pa.int64()))

    return faulty(evolve=compiled)
