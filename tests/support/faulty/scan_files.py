"""Formats that lose or mix up what scans depend on: ids, names, positions, nulls, types."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import POS, BatchStream, Capability, ReadOptions, ReadResult
from formatkit.tck import Subject
from formatkit.tck.kits import Bridge
from formatkit.tck.without_ids import renumbered
from formatkit.tck.wrapping import WrappedFile, WrappedFormat
from support.faults import fault
from support.faulty.scan import GOOD, columns_of, reading, reporting, with_columns, with_files

compute: Any = pc


@fault("a_column_that_was_dropped_and_added_again_is_a_new_one")
def ids_are_not_stored() -> Subject[Any]:
    return reporting(lambda schema: renumbered(schema, {field_id: -field_id for field_id in schema.field_ids}))


@fault("a_format_without_ids_is_read_through_a_mapping_only")
def ids_are_made_up_from_positions() -> Subject[Any]:
    def numbered(schema: Schema) -> Schema:
        return Schema(*(field.model_copy(update={"field_id": n}) for n, field in enumerate(schema.fields, 1)))

    return reporting(numbered, without=[Capability.FIELD_IDS])


@fault("a_file_without_ids_is_refused_without_a_mapping")
def columns_are_left_out_of_the_schema() -> Subject[Any]:
    return reporting(lambda schema: Schema())


@fault("changes_of_type_that_iceberg_does_not_know_are_refused")
def longs_are_narrowed_to_ints() -> Subject[Any]:
    def narrowed(field: NestedField) -> NestedField:
        is_long = isinstance(field.field_type, LongType)
        return field.model_copy(update={"field_type": IntegerType()}) if is_long else field

    class Narrowing(WrappedFile[Any]):
        @property
        def schema(self) -> Schema:
            return Schema(*map(narrowed, self.file.schema.fields))

        def read(self, options: ReadOptions) -> ReadResult[Any]:
            stored = Schema(*(self.file.schema.find_field(field.name) for field in options.projection.fields))
            result = self.file.read(replace(options, projection=stored))
            batches = map(cast, result.batches)
            return ReadResult(batches=BatchStream(batches, result.batches.close), residual=result.residual)

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [column.cast(pa.int32()) if column.type == pa.int64() else column for column in columns_of(batch)]
        return with_columns(batch, columns)

    return with_files(Narrowing)


@fault("a_required_field_that_nobody_has_is_refused_before_any_row")
def a_column_is_reported_that_the_file_lacks() -> Subject[Any]:
    return reporting(lambda schema: Schema(*schema.fields, NestedField(3, "must", IntegerType())))


@fault(
    "a_file_without_ids_is_read_through_the_mapping",
    "filters_go_through_a_mapping_whose_ids_are_no_positions",
    "a_mapping_reaches_into_structs_lists_and_maps",
    "a_field_may_have_several_names_and_dots_are_letters",
    "columns_that_are_not_mapped_are_never_read",
    "the_caller_may_say_that_names_or_positions_tell_columns",
)
def columns_are_found_by_stored_ids_instead_of_names() -> Subject[Any]:
    class ByStoredIds(WrappedFile[Any]):
        def read(self, options: ReadOptions) -> ReadResult[Any]:
            stored = self.file.schema.fields
            ids = {field.field_id: position for position, field in enumerate(stored)}
            names = {field.name: position for position, field in enumerate(stored)}
            chosen = [ids.get(field.field_id, names[field.name]) for field in options.projection.fields]
            result = self.file.read(replace(options, projection=self.file.schema, predicate=AlwaysTrue()))
            batches = (batch.select(chosen) for batch in result.batches)
            return ReadResult(batches=BatchStream(batches, result.batches.close), residual=options.predicate)

    return with_files(ByStoredIds)


@fault("structs_may_grow_wherever_they_are")
def null_lists_are_read_as_empty_lists() -> Subject[Any]:
    def filled(column: Any) -> Any:
        if not pa.types.is_list(column.type):
            return column
        return pa.ListArray.from_arrays(_offsets(column), column.flatten(), type=column.type)

    return reading(lambda batch, options: with_columns(batch, [filled(column) for column in columns_of(batch)]))


def _offsets(lists: Any) -> Any:
    lengths = compute.fill_null(compute.list_value_length(lists), 0)
    sums = compute.cumulative_sum(lengths)
    return pa.concat_arrays([pa.array([0], pa.int32()), sums.cast(pa.int32())])


@fault(
    "null_structs_stay_null_when_only_fields_that_the_file_lacks_are_wanted",
    "a_file_that_stores_some_ids_is_taken_at_its_word",
)
def null_structs_are_read_as_structs_of_nulls() -> Subject[Any]:
    def revived(column: Any) -> Any:
        if not pa.types.is_struct(column.type):
            return column
        return pa.StructArray.from_arrays(column.flatten(), fields=list(column.type))

    return reading(lambda batch, options: with_columns(batch, [revived(column) for column in columns_of(batch)]))


@fault(
    "every_row_knows_its_position",
    "metadata_columns_can_be_filtered",
    "positions_count_from_the_start_of_the_file_whatever_is_skipped",
    "positions_and_row_ids_of_the_rows_that_are_left_do_not_move",
)
def positions_begin_anew_in_every_batch() -> Subject[Any]:
    return reading(lambda batch, options: _positioned(batch, options, range(batch.num_rows)))


@fault(
    "metadata_is_right_in_every_split",
    "lineage_does_not_depend_on_splits",
    "deleted_rows_are_gone_from_every_split",
)
def positions_are_relative_to_the_split() -> Subject[Any]:
    return with_files(_Numbering)


class _Numbering(WrappedFile[Any]):
    """Numbers the rows that it returns instead of those of the file."""

    def read(self, options: ReadOptions) -> ReadResult[Any]:
        result = self.file.read(options)
        ordinals = count()

        def numbered() -> Iterator[pa.RecordBatch]:
            for batch in result.batches:
                yield _positioned(batch, options, [next(ordinals) for _ in range(batch.num_rows)])

        return ReadResult(batches=BatchStream(numbered(), result.batches.close), residual=result.residual)


@fault("metadata_is_right_under_filters_and_any_batch_size")
def positions_are_lost_where_rows_are_left_out() -> Subject[Any]:
    class Filtering(WrappedFile[Any]):
        def read(self, options: ReadOptions) -> ReadResult[Any]:
            result = self.file.read(options)
            keep = ArrowBatch().filter(options.projection, options.predicate)
            return ReadResult(
                batches=BatchStream(map(keep, result.batches), result.batches.close), residual=AlwaysTrue()
            )

    return with_files(lambda file: _Numbering(Filtering(file)))


def _positioned(batch: pa.RecordBatch, options: ReadOptions, positions: Any) -> pa.RecordBatch:
    columns = columns_of(batch)
    if POS in options.projection.fields:
        columns[-1] = pa.array(positions, pa.int64())
    return with_columns(batch, columns)


@fault("columns_with_the_names_of_metadata_are_data")
def a_column_called_pos_is_taken_for_the_position() -> Subject[Any]:
    def misread(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
        columns = columns_of(batch)
        for index, field in enumerate(options.projection.fields):
            if field.name == "pos":
                columns[index] = pa.array(range(batch.num_rows), pa.int32())
        return with_columns(batch, columns)

    return reading(misread)


@fault("names_that_differ_by_case_alone_are_told_apart")
def columns_are_found_whatever_the_case_of_their_names() -> Subject[Any]:
    def confused(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
        first: dict[str, Any] = {}
        for field, column in zip(options.projection.fields, columns_of(batch), strict=True):
            first.setdefault(field.name.lower(), column)
        return with_columns(batch, [first[field.name.lower()] for field in options.projection.fields])

    return reading(confused)


@fault("names_in_filters_may_be_spelled_in_any_case_if_that_is_asked_for")
def columns_with_capitals_in_their_names_are_read_as_null() -> Subject[Any]:
    def lost(batch: pa.RecordBatch, options: ReadOptions) -> pa.RecordBatch:
        columns = [
            column if field.name == field.name.lower() else pa.nulls(batch.num_rows, column.type)
            for field, column in zip(options.projection.fields, columns_of(batch), strict=True)
        ]
        return with_columns(batch, columns)

    return reading(lost)


@fault("the_time_zone_of_the_machine_changes_no_answer")
def timestamps_are_read_in_the_time_zone_of_the_machine() -> Subject[Any]:
    def shifted(column: Any) -> Any:
        if column.type != pa.timestamp("us"):
            return column
        return compute.subtract(column, pa.scalar(time.timezone * 1_000_000, pa.duration("us")))

    return reading(lambda batch, options: with_columns(batch, [shifted(column) for column in columns_of(batch)]))


@fault("bounds_of_empty_texts_and_of_promoted_columns_skip_no_row")
def empty_texts_are_read_as_null() -> Subject[Any]:
    def emptied(column: Any) -> Any:
        if column.type != pa.string():
            return column
        return compute.if_else(compute.equal(column, ""), pa.scalar(None, pa.string()), column)

    return reading(lambda batch, options: with_columns(batch, [emptied(column) for column in columns_of(batch)]))


@fault("batches_are_of_the_type_that_the_plugin_names")
def tables_are_returned_where_batches_are_promised() -> Subject[Any]:
    return reading(lambda batch, options: pa.Table.from_batches([batch]))  # type: ignore[arg-type, return-value]


@fault("a_reader_that_returns_another_type_fails_at_the_first_batch")
def anything_goes_as_a_batch() -> Subject[Any]:
    class AnyBatch(ArrowBatch):
        batch_type: Any = object

    plugin = WrappedFormat[Any](GOOD, lambda file: file)
    plugin.batch_type = object
    return Subject(operations=AnyBatch(), plugin=plugin, bridge=Bridge(lambda batch: batch, lambda batch: batch))
