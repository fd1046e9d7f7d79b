"""Batch operations that do something wrong with the constants of a file: partition values, metadata, lineage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyiceberg.schema import Schema

from formatkit.contract.metadata_columns import FILE, PARTITION_ID, SPEC_ID
from formatkit.tck import Subject
from formatkit.tck.without_ids import renumbered
from support.faults import fault
from support.faulty.scan_columns import Constants, evolving


def knowing(change: Callable[[Constants, Schema], Constants]) -> Subject[Any]:
    """Evolves with other constants."""
    return evolving(lambda source, target, constants: (source, target, change(constants, target)))


@fault(
    "the_partitions_value_wins_if_the_caller_prefers_it",
    "filters_see_the_partitions_value_in_a_column_that_the_file_lacks",
    "files_of_several_specs_are_read_alike",
    "columns_that_only_the_partition_knows_tell_deleted_rows",
)
def constants_are_ignored() -> Subject[Any]:
    return knowing(lambda constants, target: {})


@fault("a_column_that_the_file_lacks_has_the_partitions_value_even_if_it_is_falsy", "no_row_is_deleted")
def constants_that_are_falsy_are_ignored() -> Subject[Any]:
    return knowing(lambda constants, target: {key: value for key, value in constants.items() if value})


@fault("a_null_of_the_partition_is_a_value_and_wins_over_the_default")
def constants_that_are_null_are_ignored() -> Subject[Any]:
    return knowing(lambda constants, target: {key: each for key, each in constants.items() if each is not None})


@fault("lineage_is_null_where_the_first_row_id_is_unknown")
def constants_that_are_null_become_zero() -> Subject[Any]:
    return knowing(lambda constants, target: {key: 0 if each is None else each for key, each in constants.items()})


@fault("a_partition_column_inside_a_struct_is_filled_in_where_the_struct_is_not_null")
def constants_reach_the_top_level_only() -> Subject[Any]:
    def top_level(constants: Constants, target: Schema) -> Constants:
        ids = {field.field_id for field in target.fields}
        return {key: value for key, value in constants.items() if key in ids}

    return knowing(top_level)


@fault("every_row_knows_its_file")
def locations_lose_their_scheme() -> Subject[Any]:
    return knowing(_replacing(FILE.field_id, lambda location: location.removeprefix("file://")))


@fault("every_row_knows_its_spec")
def every_spec_is_the_first() -> Subject[Any]:
    return knowing(_replacing(SPEC_ID.field_id, lambda spec: 0))


@fault("every_row_knows_its_partition")
def empty_partition_values_become_null() -> Subject[Any]:
    return knowing(_replacing(PARTITION_ID, lambda values: tuple(value or None for value in values)))


@fault("partition_fields_that_were_added_later_are_null")
def partitions_are_cut_off_at_the_first_null() -> Subject[Any]:
    return knowing(_replacing(PARTITION_ID, lambda values: None if None in values else values))


@fault("partition_fields_that_were_removed_are_null")
def partition_values_are_told_by_position() -> Subject[Any]:
    def packed(values: tuple[Any, ...]) -> tuple[Any, ...]:
        known = [value for value in values if value is not None]
        return (*known, *[None] * (len(values) - len(known)))

    return knowing(_replacing(PARTITION_ID, packed))


def _replacing(field_id: int, change: Callable[[Any], Any]) -> Callable[[Constants, Schema], Constants]:
    def replaced(constants: Constants, target: Schema) -> Constants:
        known = constants.get(field_id)
        return constants if known is None else {**constants, field_id: change(known)}

    return replaced


@fault("a_stored_column_wins_over_the_partitions_value")
def constants_win_over_stored_columns() -> Subject[Any]:
    def win(source: Schema, target: Schema, constants: Constants) -> tuple[Schema, Schema, Constants]:
        return renumbered(source, {field_id: -field_id for field_id in constants}), target, constants

    return evolving(win)
