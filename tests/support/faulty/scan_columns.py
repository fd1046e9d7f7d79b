"""Batch operations that turn old columns into the wrong new ones: evolve and project."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    NestedField,
    StructType,
)

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.batch import Step
from formatkit.contract.fields import child_fields
from formatkit.errors import InvalidDataError
from formatkit.tck import Subject
from formatkit.tck.without_ids import renumbered
from support.faults import fault
from support.faulty.scan import columns_of, with_columns, with_operations

compute: Any = pc
Batch = pa.RecordBatch
Constants = Mapping[int, Any]


def evolving(change: Callable[[Schema, Schema, Constants], tuple[Schema, Schema, Constants]]) -> Subject[Any]:
    """Evolves well, but something else than it was asked for."""

    class Evolving(ArrowBatch):
        def evolve(self, source: Schema, target: Schema, constants: Constants) -> Step[Batch]:
            return super().evolve(*change(source, target, constants))

    return with_operations(Evolving())


def evolved(change: Callable[[NestedField, NestedField | None, Any, Constants], Any]) -> Subject[Any]:
    """Evolves well, and changes top-level columns after that; `change` is given target, source, column, constants."""

    class Evolved(ArrowBatch):
        def evolve(self, source: Schema, target: Schema, constants: Constants) -> Step[Batch]:
            step = super().evolve(source, target, constants)
            sources = {field.field_id: field for field in source.fields}

            def then(batch: Batch) -> Batch:
                good = step(batch)
                return with_columns(
                    good,
                    [
                        change(field, sources.get(field.field_id), column, constants)
                        for field, column in zip(target.fields, columns_of(good), strict=True)
                    ],
                )

            return then

    return with_operations(Evolved())


@fault(
    "renamed_columns_are_found_by_their_ids",
    "columns_that_swapped_their_names_keep_their_values",
    "a_name_that_moved_on_to_another_column_says_nothing",
    "files_of_any_age_are_read_as_the_table_is_now",
    "filters_find_nested_renamed_and_swapped_columns",
    "a_filtered_column_need_not_be_selected_and_may_bear_the_old_name_of_another",
    "columns_that_were_renamed_still_tell_deleted_rows",
)
def columns_are_matched_by_name() -> Subject[Any]:
    def by_name(source: Schema, target: Schema, constants: Constants) -> tuple[Schema, Schema, Constants]:
        ids = {field.field_id: -field.field_id for field in source.fields}
        names = {field.name: field.field_id for field in target.fields}
        ids |= {field.field_id: names[field.name] for field in source.fields if field.name in names}
        return renumbered(source, ids), target, constants

    return evolving(by_name)


@fault("columns_are_found_wherever_they_stand_in_the_file")
def columns_stay_in_the_order_of_the_file() -> Subject[Any]:
    class InFileOrder(ArrowBatch):
        def project(self, schema: Schema, field_ids: Sequence[int]) -> Step[Batch]:
            wanted = set(field_ids)
            return super().project(schema, [field.field_id for field in schema.fields if field.field_id in wanted])

    return with_operations(InFileOrder())


@fault("required_columns_may_become_optional")
def columns_must_be_as_required_as_they_were() -> Subject[Any]:
    def strict(source: Schema, target: Schema, constants: Constants) -> tuple[Schema, Schema, Constants]:
        required = {field.field_id for field in source.fields if field.required}
        if any(field.field_id in required and not field.required for field in target.fields):
            raise InvalidDataError("the column is required")
        return source, target, constants

    return evolving(strict)


@fault(
    "columns_that_were_added_later_are_null",
    "a_column_without_default_is_null",
    "filters_see_null_in_a_column_that_the_file_lacks",
    "transforms_other_than_identity_say_nothing_about_the_column",
)
def columns_that_are_absent_are_zero() -> Subject[Any]:
    def zero(field: NestedField, source: NestedField | None, column: Any, constants: Constants) -> Any:
        absent = source is None and field.field_id not in constants and field.initial_default is None
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        return compute.fill_null(column, 0) if absent and number else column

    return evolved(zero)


def promoting(change: Callable[[Any], Any]) -> Subject[Any]:
    """Changes columns whose type is not that of the file."""

    def promoted(field: NestedField, source: NestedField | None, column: Any, constants: Constants) -> Any:
        return change(column) if source is not None and source.field_type != field.field_type else column

    return evolved(promoted)


@fault(
    "ints_are_read_as_longs",
    "columns_that_were_promoted_tell_deleted_rows_by_what_they_became",
)
def ints_become_longs_by_way_of_floats() -> Subject[Any]:
    return promoting(lambda column: column.cast(pa.float32(), safe=False).cast(pa.int64(), safe=False))


@fault("floats_are_read_as_the_doubles_that_they_are")
def floats_become_doubles_by_way_of_text() -> Subject[Any]:
    return promoting(lambda column: column.cast(pa.float32()).cast(pa.string()).cast(pa.float64()))


@fault("decimals_are_read_with_more_digits")
def decimals_go_through_doubles() -> Subject[Any]:
    def rounded(column: Any) -> Any:
        if not pa.types.is_decimal(column.type):
            return column
        return pa.array(
            [value and Decimal(f"{float(value):.2f}") for value in column.to_pylist()], pa.decimal128(38, 2)
        )

    return promoting(rounded)


@fault(
    "dates_are_read_as_timestamps",
    "dates_that_became_moments_still_tell_deleted_rows",
)
def dates_become_noon() -> Subject[Any]:
    noon = pa.scalar(12 * 3600, pa.duration("s"))
    return promoting(lambda column: compute.add(column, noon.cast(pa.duration(column.type.unit))))


@fault("a_date_that_no_timestamp_can_hold_is_refused")
def values_that_do_not_fit_become_null() -> Subject[Any]:
    class Lenient(ArrowBatch):
        def evolve(self, source: Schema, target: Schema, constants: Constants) -> Step[Batch]:
            step = super().evolve(source, target, constants)
            without = renumbered(source, {2: -2})
            fallback = super().evolve(without, target, constants)

            def lenient(batch: Batch) -> Batch:
                try:
                    return step(batch)
                except InvalidDataError:
                    return fallback(batch)

            return lenient

    return with_operations(Lenient())


def _without_defaults(target: Schema, forget: Callable[[NestedField, int], bool]) -> Schema:
    """The target without the defaults of fields that `forget` names, given their depth."""

    def field_without(field: NestedField, depth: int) -> NestedField:
        changes: dict[str, Any] = {"field_type": type_without(field.field_type, depth)}
        if forget(field, depth):
            changes |= {"initial_default": None, "required": False}
        return field.model_copy(update=changes)

    def type_without(outer: IcebergType, depth: int) -> IcebergType:
        if isinstance(outer, StructType):
            return StructType(*(field_without(field, depth + 1) for field in outer.fields))
        inner = child_fields(outer)
        return outer if not inner else outer.model_copy(update=_children(outer, depth))

    def _children(outer: Any, depth: int) -> dict[str, Any]:
        names = [name for name in ("element_type", "value_type") if hasattr(outer, name)]
        return {name: type_without(getattr(outer, name), depth + 1) for name in names}

    return Schema(*(field_without(field, 0) for field in target.fields))


@fault(
    "a_column_that_the_file_lacks_takes_its_default",
    "columns_that_were_added_since_tell_deleted_rows_by_their_default",
)
def defaults_are_forgotten() -> Subject[Any]:
    return evolving(lambda source, target, known: (source, _without_defaults(target, lambda *_: True), known))


@fault("defaults_of_every_primitive_type_are_filled_in")
def defaults_that_are_falsy_are_forgotten() -> Subject[Any]:
    def falsy(field: NestedField, depth: int) -> bool:
        return not field.initial_default

    return evolving(lambda source, target, known: (source, _without_defaults(target, falsy), known))


@fault(
    "a_field_that_a_struct_lacks_takes_its_default_where_the_struct_is_not_null",
    "a_struct_two_levels_deep_takes_the_defaults_of_fields_that_it_lacks",
)
def defaults_inside_of_columns_are_forgotten() -> Subject[Any]:
    def nested(field: NestedField, depth: int) -> bool:
        return depth > 0

    return evolving(lambda source, target, known: (source, _without_defaults(target, nested), known))


@fault("a_struct_that_the_file_lacks_is_null_unless_its_default_is_the_empty_struct")
def defaults_of_structs_are_forgotten() -> Subject[Any]:
    def struct(field: NestedField, depth: int) -> bool:
        return isinstance(field.field_type, StructType)

    return evolving(lambda source, target, known: (source, _without_defaults(target, struct), known))


@fault("stored_values_and_nulls_win_over_defaults_of_every_type")
def nulls_take_the_default() -> Subject[Any]:
    def filled(field: NestedField, source: NestedField | None, column: Any, constants: Constants) -> Any:
        fills = isinstance(field.field_type, IntegerType) and field.initial_default is not None
        return compute.fill_null(column, field.initial_default) if fills else column

    return evolved(filled)
