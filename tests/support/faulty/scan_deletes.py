"""Scans that go by wrong rules for deletes: those of engines in the wild."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.batch import Booleans
from formatkit.tck import Subject
from formatkit.tck.deletions import Deletes, DeletionVector, EqualityDeletes, PositionDeletes
from formatkit.tck.naive import Row
from formatkit.tck.table_files import PARTITION
from support.faults import fault
from support.faulty.batch_keys import locating, null_structs_equal_null_structs_only
from support.faulty.deletes import GOOD, altering, dropping, mistaking
from support.faulty.scan import with_operations

Batch = pa.RecordBatch


@fault(
    "deleted_rows_are_gone_whatever_columns_are_asked_for",
    "rows_that_are_deleted_are_neither_counted_nor_taken_for_a_limit",
    "any_question_to_a_table_with_any_deletes_is_answered_rightly",
)
def deletes_are_forgotten() -> Subject[Any]:
    return dropping(lambda delete: True)


@fault("a_delete_file_may_name_many_files_in_any_order_and_more_than_once")
def a_delete_file_is_read_until_it_names_another_file() -> Subject[Any]:
    return altering(
        lambda delete: replace(delete, rows=[row for row in delete.rows if row[0] == delete.rows[0][0]]),
        PositionDeletes,
    )


@fault("delete_files_for_the_same_data_add_up")
def the_last_delete_file_wins() -> Subject[Any]:
    return mistaking(lambda deletes: deletes[-1:])


@fault("a_file_may_lose_all_its_rows")
def the_last_row_of_a_delete_file_is_lost() -> Subject[Any]:
    return altering(lambda delete: replace(delete, rows=delete.rows[:-1]), PositionDeletes)


@fault("odd_characters_in_paths_are_no_matter")
def paths_are_quoted() -> Subject[Any]:
    return altering(lambda delete: replace(delete, spelling=quote), PositionDeletes)


@fault("paths_of_one_place_may_be_spelled_in_several_ways")
def paths_are_compared_as_they_are_spelled() -> Subject[Any]:
    return dropping(lambda delete: delete.spelling is not None, PositionDeletes)


@fault("rows_that_are_stored_beside_positions_say_nothing")
def delete_files_with_further_columns_are_passed_over() -> Subject[Any]:
    return dropping(lambda delete: delete.copies, PositionDeletes)


@fault("deleted_rows_are_marked_where_the_mark_is_asked_for")
def rows_that_are_left_are_marked() -> Subject[Any]:
    class Marking(ArrowBatch):
        def mark(self, schema: Schema, field: NestedField) -> Callable[[Batch, Booleans], Batch]:
            good = super().mark(schema, field)
            return lambda batch, marks: good(batch, ~marks)

    return with_operations(Marking())


@fault("deletes_of_both_kinds_work_together")
def rows_are_deleted_by_equality_only_where_none_are_by_position() -> Subject[Any]:
    def without(deletes: Sequence[Deletes]) -> Sequence[Deletes]:
        positions = [each for each in deletes if isinstance(each, PositionDeletes)]
        return positions or deletes

    return mistaking(without)


def comparing(subject: Subject[Any]) -> Subject[Any]:
    """A batch type that compares rows wrongly, in scans of a good format."""
    return replace(subject, plugin=GOOD)


@fault("a_value_deletes_no_null_and_a_null_deletes_nothing_else")
def a_null_is_deleted_with_any_value() -> Subject[Any]:
    return comparing(locating(lambda key, row: key == row or "None" in row))


@fault("a_value_deletes_no_null_and_a_null_deletes_nothing_else")
def a_null_deletes_nothing() -> Subject[Any]:
    return comparing(locating(lambda key, row: key == row and "None" not in key))


@fault("rows_must_be_equal_in_all_columns")
def rows_are_equal_if_one_column_is() -> Subject[Any]:
    return comparing(locating(lambda key, row: any(one == other for one, other in zip(key, row, strict=True))))


@fault("a_hundred_thousand_deleted_rows_are_no_burden")
def only_so_many_deleted_rows_are_read() -> Subject[Any]:
    return altering(lambda delete: replace(delete, rows=delete.rows[10:40]), EqualityDeletes)


@fault("columns_of_every_type_can_tell_deleted_rows")
def texts_are_compared_by_their_first_letters() -> Subject[Any]:
    return comparing(locating(lambda key, row: [each[:3] for each in key] == [each[:3] for each in row]))


@fault("columns_inside_of_structs_can_tell_deleted_rows")
def a_null_struct_equals_no_struct_of_nulls() -> Subject[Any]:
    return comparing(null_structs_equal_null_structs_only())


@fault(
    "a_delete_file_may_hold_the_equal_columns_alone",
    "columns_that_are_not_asked_for_still_tell_deleted_rows",
    "columns_that_the_table_dropped_still_tell_deleted_rows",
)
def delete_files_that_lack_columns_are_passed_over() -> Subject[Any]:
    return dropping(lambda delete: len(delete.schema.fields) < 3, EqualityDeletes)


@fault("columns_that_are_not_compared_say_nothing")
def all_columns_of_a_delete_file_are_compared() -> Subject[Any]:
    return altering(
        lambda delete: replace(delete, ids=tuple(field.field_id for field in delete.schema.fields)), EqualityDeletes
    )


@fault("columns_of_a_delete_file_may_stand_in_any_order")
def columns_are_told_by_the_order_of_ids() -> Subject[Any]:
    def by_place(delete: EqualityDeletes) -> EqualityDeletes:
        columns = [field.field_id for field in delete.schema.fields]
        read = dict(zip(delete.ids, columns, strict=False))
        rows: list[Row] = [{each: row[read.get(each, each)] for each in columns} for row in delete.rows]
        return replace(delete, rows=rows)

    return altering(by_place, EqualityDeletes)


@fault("rows_outside_of_the_bounds_of_deletes_are_safe_and_nulls_are_not_outside")
def files_without_values_are_outside_of_all_bounds() -> Subject[Any]:
    return altering(
        lambda delete: replace(delete, rows=[row for row in delete.rows if None not in row.values()]), EqualityDeletes
    )


def older(by: int, kind: type[Deletes]) -> Subject[Any]:
    """Deletes of a kind are taken to be older than they are."""
    return altering(lambda delete: replace(delete, sequence_number=delete.sequence_number - by), kind)


@fault("deletes_by_equality_concern_older_files_only")
def deletes_by_equality_concern_files_of_the_same_age() -> Subject[Any]:
    return older(-1, EqualityDeletes)


@fault("deletes_by_position_concern_files_of_their_own_age_too")
def deletes_by_position_concern_older_files_only() -> Subject[Any]:
    return older(1, PositionDeletes)


@fault("deletion_vectors_concern_files_of_their_own_age_too")
def deletion_vectors_concern_older_files_only() -> Subject[Any]:
    return older(1, DeletionVector)


def partitioned(change: Callable[[Row], Row]) -> Subject[Any]:
    """Deletes are taken to be of other partitions; `change` is given the values of one."""
    return altering(
        lambda delete: replace(delete, partition=None if delete.partition is None else change(delete.partition))
    )


@fault("deletes_stay_inside_of_their_partition")
def a_null_partition_is_partition_zero() -> Subject[Any]:
    return partitioned(lambda values: {field: value or 0 for field, value in values.items()})


@fault("the_same_values_under_another_spec_are_another_partition")
def partitions_are_told_by_values_alone() -> Subject[Any]:
    def in_every_spec(deletes: Sequence[Deletes]) -> Iterator[Deletes]:
        for delete in deletes:
            value = next(iter((delete.partition or {}).values()))
            for spec_id in (0, 1):
                yield replace(delete, spec_id=spec_id, partition={PARTITION + spec_id: value})

    return mistaking(in_every_spec)


@fault("deletes_by_equality_without_a_partition_concern_all")
def deletes_without_a_partition_concern_no_partition() -> Subject[Any]:
    return dropping(lambda delete: delete.spec_id == 2, EqualityDeletes)


@fault("deletes_by_position_without_a_partition_concern_no_other")
def deletes_by_position_without_a_partition_concern_all() -> Subject[Any]:
    return mistaking(
        lambda deletes: [*deletes, *(replace(each, spec_id=0, partition={PARTITION: 3}) for each in deletes)]
    )


@fault("partitions_of_several_fields_are_equal_in_all_of_them")
def the_first_field_tells_the_partition() -> Subject[Any]:
    return partitioned(lambda values: values | {PARTITION + 3: "x"})


@fault("partitions_of_numbers_tell_zeros_apart_and_not_nans")
def zeros_are_one_partition() -> Subject[Any]:
    return partitioned(lambda values: {field: value + 0.0 for field, value in values.items()})


@fault("partitions_of_numbers_tell_zeros_apart_and_not_nans")
def a_partition_of_nan_equals_none() -> Subject[Any]:
    return dropping(lambda delete: any(value != value for value in (delete.partition or {}).values()))


@fault("a_deletion_vector_stands_in_for_the_position_delete_files_of_its_data_file")
def deletion_vectors_and_position_deletes_add_up() -> Subject[Any]:
    return altering(lambda vector: replace(vector, positions=[*vector.positions, 2, 3]), DeletionVector)


@fault("a_deletion_vector_of_another_partition_is_refused")
def deletion_vectors_are_told_by_their_data_file_alone() -> Subject[Any]:
    return altering(lambda vector: replace(vector, spec_id=0, partition={PARTITION: 1}), DeletionVector)


@fault("a_deletion_vector_that_is_older_than_its_data_file_is_refused")
def the_age_of_deletion_vectors_is_not_looked_at() -> Subject[Any]:
    return older(-100, DeletionVector)


@fault("deletion_vectors_of_every_shape_are_read")
def positions_are_read_as_32_bits() -> Subject[Any]:
    return altering(
        lambda vector: replace(vector, positions=[position % 2**32 for position in vector.positions]), DeletionVector
    )


@fault("one_file_may_hold_many_deletion_vectors")
def the_first_deletion_vector_of_a_file_is_read() -> Subject[Any]:
    def first(deletes: Sequence[Any]) -> list[Deletes]:
        return [replace(each, positions=deletes[0].positions) for each in deletes]

    return mistaking(first)


@fault("damage_to_a_deletion_vector_is_noticed_before_a_row_is_returned")
def checksums_are_not_looked_at() -> Subject[Any]:
    return altering(lambda vector: replace(vector, damage=None), DeletionVector)


@fault("a_deletion_vector_that_is_not_the_one_of_the_manifest_is_refused")
def what_the_manifest_says_is_not_compared() -> Subject[Any]:
    return altering(lambda vector: replace(vector, miscounted=0, belongs_to=None), DeletionVector)
