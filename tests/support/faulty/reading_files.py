"""Readers that are wrong about batches, handles and damage, and files that are wrong about themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType

from formatkit.contract import BatchStream, ByteSource, Capability, OpenOptions, ReadOptions, ReadResult
from formatkit.errors import ConfigurationError, CorruptFileError, StorageError
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.reading import FaultyFile, File, asked, changing, describing, misreading, opening, yielding

Batches = Iterator[pa.RecordBatch]
Result = ReadResult[pa.RecordBatch]


@fault("no_batch_is_larger_than_was_asked_for")
def the_size_of_batches_is_ignored() -> Subject[Any]:
    return changing(lambda options: replace(options, batch_rows=1000))


@fault("rows_come_in_file_order_whatever_the_size_of_batches")
def batches_come_as_they_are_ready() -> Subject[Any]:
    return yielding(lambda batches, options: reversed(list(batches)))


@fault("rows_that_match_come_in_file_order")
def batches_of_a_filtered_read_come_as_they_are_ready() -> Subject[Any]:
    return yielding(lambda batches, options: reversed(list(batches)) if asked(options) else batches)


def _reusing(batches: Batches, shared: Any) -> Batches:
    """Batches whose first column is a view of memory that the next batch is decoded into."""
    for batch in batches:
        values = batch.column(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        shared[: len(values)] = values
        column = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(shared)])
        yield batch.set_column(0, batch.schema.field(0), column)


@fault("batches_stay_valid_after_the_next_one_is_read")
def memory_is_used_again_for_the_next_batch() -> Subject[Any]:
    return yielding(lambda batches, options: _reusing(batches, np.zeros(1000, np.int64)))


@fault("batches_stay_valid_after_everything_was_closed")
def memory_is_given_back_when_the_read_is_closed() -> Subject[Any]:
    def read(file: File, options: ReadOptions) -> Result:
        pages: list[Any] = []

        def views(batches: Batches) -> Batches:
            for batch in batches:
                pages.append(np.zeros(1000, np.int64))
                yield from _reusing(iter([batch]), pages[-1])

        def release() -> None:
            for page in pages:
                page[:] = -1

        result = file.read(options)
        return replace(result, batches=BatchStream(views(result.batches), release))

    return misreading(read)


def _opening(change: Any) -> Subject[Any]:
    """A plugin whose opened files are changed by a function of the source and the good file."""
    return opening(lambda source, options: cast("File", change(source, ArrowFormat().reader().open(source, options))))


@fault("a_read_that_is_closed_early_releases_its_handles")
def a_read_leaves_its_handle_open() -> Subject[Any]:
    class Leaking(FaultyFile):
        handles: Any = ()

    def change(source: ByteSource, good: File) -> FaultyFile:
        def read(file: File, options: ReadOptions) -> Result:
            leaking.handles = (*leaking.handles, source.open())
            return file.read(options)

        leaking = Leaking(good, read)
        return leaking

    return _opening(change)


@fault("closing_a_file_leaves_its_source_to_the_caller")
def closing_a_file_closes_its_source() -> Subject[Any]:
    def change(source: ByteSource, good: File) -> Any:
        file: Any = FaultyFile(good, lambda inner, options: inner.read(options))
        file.close = source.close
        return file

    return _opening(change)


def _ending(kind: type[Exception]) -> Subject[Any]:
    """A plugin for which an error is the end of the data."""

    def until_error(batches: Batches) -> Batches:
        try:
            yield from batches
        except kind:
            return

    return yielding(lambda batches, options: until_error(batches))


@fault("a_storage_that_fails_is_reported_and_released")
def a_storage_that_fails_ends_the_data() -> Subject[Any]:
    return _ending(StorageError)


@fault("a_file_whose_middle_is_overwritten_loses_no_row_silently")
def damage_ends_the_data() -> Subject[Any]:
    return _ending(CorruptFileError)


class _EmptyFile:
    """What a careless reader makes of a file that it cannot open."""

    schema = Schema()

    def read(self, options: ReadOptions) -> Result:
        return ReadResult(batches=BatchStream(iter(())), residual=options.predicate)

    def close(self) -> None:
        pass


@fault("a_truncated_file_is_corrupt_and_never_shorter")
def a_file_that_was_cut_is_taken_for_an_empty_one() -> Subject[Any]:
    def open_file(source: ByteSource, options: OpenOptions) -> File:
        try:
            return ArrowFormat().reader().open(source, options)
        except CorruptFileError:
            return cast("File", _EmptyFile())

    return opening(open_file)


@fault("bytes_that_are_no_file_are_corrupt_and_named")
def errors_do_not_say_which_file_is_corrupt() -> Subject[Any]:
    def open_file(source: ByteSource, options: OpenOptions) -> File:
        try:
            return ArrowFormat().reader().open(source, options)
        except CorruptFileError:
            raise CorruptFileError("a file is corrupt") from None

    return opening(open_file)


@fault("reads_of_one_file_do_not_disturb_each_other")
def reads_share_a_cursor() -> Subject[Any]:
    def change(source: ByteSource, good: File) -> FaultyFile:
        streams: list[Batches] = []

        def read(file: File, options: ReadOptions) -> Result:
            result = file.read(options)
            streams.append(result.batches)
            return replace(result, batches=BatchStream(iter(streams[0])))

        return FaultyFile(good, read)

    return _opening(change)


@fault("one_reader_serves_several_threads")
def a_reader_remembers_the_file_that_it_opened_last() -> Subject[Any]:
    opened: list[ByteSource] = []

    def open_file(source: ByteSource, options: OpenOptions) -> File:
        opened.append(source)
        time.sleep(0.02)
        return ArrowFormat().reader().open(opened[-1], options)

    return opening(open_file)


@fault("splits_of_one_open_file_are_read_in_several_threads")
def a_file_remembers_the_split_that_was_asked_for_last() -> Subject[Any]:
    wanted: list[ReadOptions] = []

    def read(file: File, options: ReadOptions) -> Result:
        wanted.append(options)
        time.sleep(0.02)
        return file.read(wanted[-1])

    return misreading(read)


def _with_longs(schema: Schema) -> Schema:
    return Schema(*(field.model_copy(update={"field_type": LongType()}) for field in schema.fields))


@fault("columns_have_the_types_that_were_written")
def every_column_is_a_long() -> Subject[Any]:
    return describing(schema=_with_longs)


@fault("columns_have_the_names_that_were_written")
def names_are_in_capitals() -> Subject[Any]:
    def shout(schema: Schema) -> Schema:
        return Schema(*(field.model_copy(update={"name": field.name.upper()}) for field in schema.fields))

    return describing(schema=shout)


@fault("every_column_of_an_own_file_is_readable")
def a_column_that_was_written_cannot_be_read() -> Subject[Any]:
    return describing(unreadable=lambda found: {1: "nobody knows"})


@fault("the_number_of_rows_is_right_or_unknown")
def rows_are_counted_from_zero() -> Subject[Any]:
    return describing(row_count=lambda rows: rows - 1)


@fault("the_reader_finds_the_split_offsets_that_the_writer_reported")
def split_offsets_are_those_of_the_ends() -> Subject[Any]:
    return describing(split_offsets=lambda offsets: offsets[1:])


@fault("a_file_that_cannot_be_split_names_no_offsets")
def a_file_that_cannot_be_split_names_offsets() -> Subject[Any]:
    return describing(split_offsets=lambda offsets: offsets, hides=[Capability.SPLIT])


@fault("key_value_pairs_are_found_in_the_file")
def key_value_pairs_are_lost() -> Subject[Any]:
    return describing(metadata=lambda found: {})


@fault("metadata_of_a_file_that_is_not_declared_is_refused")
def key_value_pairs_are_taken_without_a_declaration() -> Subject[Any]:
    return describing(metadata=lambda found: {}, hides=[Capability.FILE_METADATA])


@fault("unknown_read_properties_are_ignored")
def unknown_properties_are_refused() -> Subject[Any]:
    def read(file: File, options: ReadOptions) -> Result:
        if options.properties:
            raise ConfigurationError(f"unknown properties: {', '.join(options.properties)}")
        return file.read(options)

    return misreading(read)


@fault("the_description_for_people_is_json")
def the_description_holds_bytes() -> Subject[Any]:
    return describing(describe=lambda found: lambda: {"magic": b"ARROW1"})
