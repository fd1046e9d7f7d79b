"""Readers that return other columns than were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from formatkit.contract import ByteSource, Capability, FormatFile, OpenOptions, ReadOptions, ReadResult
from formatkit.errors import ColumnNotFoundError
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.reading import File, changing, misreading, opening, whole, yielding

Batches = Iterator[pa.RecordBatch]
Result = ReadResult[pa.RecordBatch]


@fault("only_the_columns_that_are_asked_for_come_back")
def the_projection_is_ignored() -> Subject[Any]:
    return misreading(lambda file, options: file.read(replace(options, projection=file.schema)))


@fault("columns_come_back_in_the_order_of_the_projection")
def columns_are_handed_out_from_the_last_to_the_first() -> Subject[Any]:
    def turned(batches: Batches, options: ReadOptions) -> Batches:
        return (batch.select(list(reversed(range(batch.num_columns)))) for batch in batches)

    return yielding(turned)


@fault("columns_are_found_by_name_whatever_ids_the_projection_gives_them")
def columns_are_looked_up_by_the_ids_of_the_file() -> Subject[Any]:
    def read(file: File, options: ReadOptions) -> Result:
        for field in options.projection.fields:
            if field.field_id not in file.schema.field_ids:
                raise ColumnNotFoundError(field.name, [])
        return file.read(options)

    return misreading(read)


@fault("an_empty_projection_gives_the_number_of_rows")
def a_file_has_no_rows_when_no_columns_are_wanted() -> Subject[Any]:
    return yielding(lambda batches, options: batches if options.projection.fields else [])


@fault("an_empty_projection_gives_the_number_of_rows_of_each_split")
def rows_without_columns_are_counted_in_the_whole_file() -> Subject[Any]:
    return changing(lambda options: options if options.projection.fields else replace(options, split=None))


def _unpruned(file: File, options: ReadOptions) -> Result:
    return file.read(replace(options, projection=whole(file.schema, options.projection)))


@fault("fields_inside_structs_lists_and_maps_are_pruned")
def columns_are_pruned_only_at_the_top() -> Subject[Any]:
    return misreading(_unpruned)


@fault("any_part_of_a_random_schema_can_be_asked_for")
def structs_are_never_pruned() -> Subject[Any]:
    return misreading(_unpruned)


@fault("bytes_of_columns_that_are_not_asked_for_are_not_read")
def the_whole_file_is_read_before_anything_else() -> Subject[Any]:
    good = ParquetFormat()

    def open_file(source: ByteSource, options: OpenOptions) -> FormatFile[pa.RecordBatch]:
        source.read(0, source.size())
        return good.reader().open(source, options)

    return opening(open_file, good=good)


@fault("texts_come_back_in_dictionary_form_when_asked")
def dictionaries_are_declared_and_not_handed_out() -> Subject[Any]:
    return changing(lambda options: replace(options, dictionary_columns=frozenset()))


@fault("dictionary_form_that_is_not_declared_changes_no_value")
def null_texts_are_empty_where_dictionaries_are_wanted() -> Subject[Any]:
    def filled(batches: Batches, options: ReadOptions) -> Batches:
        for batch in batches:
            column: Any = pa.array(["" if text is None else text for text in batch.column(1).to_pylist()])
            yield batch.set_column(1, "name", column) if options.dictionary_columns else batch

    return yielding(filled, hides=[Capability.DICTIONARY])


@fault("batches_are_of_the_declared_type")
def batches_are_tables() -> Subject[Any]:
    def tables(batches: Batches, options: ReadOptions) -> Iterator[Any]:
        return (pa.Table.from_batches([batch]) for batch in batches)

    return yielding(tables)


def _evolved(file: File, options: ReadOptions) -> Result:
    return replace(file.read(options), schema_evolved=True)


@fault("batches_are_in_the_target_if_the_reader_says_so")
def batches_of_the_file_are_said_to_be_those_of_the_table() -> Subject[Any]:
    return misreading(_evolved, declares=[Capability.EVOLVE])


@fault("a_target_that_is_not_declared_changes_nothing")
def batches_are_evolved_without_a_declaration() -> Subject[Any]:
    return misreading(lambda file, options: _evolved(file, options) if options.target else file.read(options))


@fault("a_reader_that_is_given_no_target_does_not_evolve")
def batches_are_said_to_be_evolved_into_no_target() -> Subject[Any]:
    return misreading(lambda file, options: file.read(options) if options.target else _evolved(file, options))
