"""Readers that are wrong about byte ranges and positions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.contract import POS, Capability, ReadOptions, ReadResult, Split
from formatkit.errors import UnsupportedError
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.reading import File, asked, changing, misreading, yielding


def _moved(options: ReadOptions, before: int, after: int) -> ReadOptions:
    """Asked for a range that begins earlier and ends later."""
    if options.split is None:
        return options
    start = max(options.split.start - before, 0)
    return replace(options, split=Split(start, max(options.split.end + after - start, 0)))


@fault("splits_of_any_size_hold_every_row_once_in_order")
def chunks_belong_to_every_split_that_they_overlap() -> Subject[Any]:
    return changing(lambda options: _moved(options, 200, 200))


@fault("splits_of_random_files_hold_every_row_that_matches_once_with_its_position")
def a_split_is_forgotten_where_rows_are_filtered() -> Subject[Any]:
    return changing(lambda options: replace(options, split=None) if asked(options) else options)


@fault("splits_that_end_one_byte_beside_a_chunk_lose_nothing")
def chunks_across_a_border_belong_to_no_split() -> Subject[Any]:
    return changing(lambda options: _moved(options, 0, -300))


@fault("splits_at_the_split_offsets_hold_one_chunk_each")
def splits_are_ignored() -> Subject[Any]:
    return changing(lambda options: replace(options, split=None))


@fault("a_split_without_bytes_holds_no_rows")
def no_length_is_taken_for_any_length() -> Subject[Any]:
    return changing(lambda options: options if options.split and options.split.length else replace(options, split=None))


def _refused(file: File, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
    if options.split is not None:
        raise UnsupportedError("files are read as a whole")
    return file.read(options)


@fault("a_split_that_is_the_whole_file_holds_every_row")
def a_split_that_is_the_whole_file_is_refused() -> Subject[Any]:
    return misreading(_refused, hides=[Capability.SPLIT])


@fault("a_split_that_is_not_declared_is_refused")
def every_split_is_the_whole_file_to_a_format_that_cannot_split() -> Subject[Any]:
    return misreading(lambda file, options: file.read(replace(options, split=None)), hides=[Capability.SPLIT])


def _renumbered(
    batches: Iterator[pa.RecordBatch], options: ReadOptions, *, each_batch: bool
) -> Iterator[pa.RecordBatch]:
    """Positions that count what is returned."""
    seen = 0
    for batch in batches:
        if options.projection.fields[-1:] != (POS,):
            yield batch
            continue
        start = 0 if each_batch else seen
        counted = pa.array(range(start, start + batch.num_rows), pa.int64())
        yield batch.set_column(batch.num_columns - 1, batch.schema.field(batch.num_columns - 1), counted)
        seen += batch.num_rows


@fault("positions_can_be_asked_for_alone")
def a_file_has_no_rows_when_only_positions_are_wanted() -> Subject[Any]:
    return yielding(lambda batches, options: [] if options.projection == Schema(POS) else batches)


@fault("positions_count_on_from_batch_to_batch")
def positions_begin_again_in_every_batch() -> Subject[Any]:
    return yielding(lambda batches, options: _renumbered(batches, options, each_batch=True))


@fault("positions_are_those_of_the_file_when_rows_are_left_out")
def positions_are_lost_under_pruning() -> Subject[Any]:
    def count(batches: Iterator[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return _renumbered(batches, options, each_batch=False) if asked(options) else batches

    return yielding(count, good=ParquetFormat())


@fault("positions_are_those_of_the_file_in_every_split")
def positions_begin_again_in_every_split_that_is_filtered() -> Subject[Any]:
    def count(batches: Iterator[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return _renumbered(batches, options, each_batch=False) if options.split and asked(options) else batches

    return yielding(count)


@fault("positions_are_right_in_a_split_that_begins_inside_a_chunk")
def positions_begin_again_in_every_split() -> Subject[Any]:
    def count(batches: Iterator[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
        return _renumbered(batches, options, each_batch=False) if options.split else batches

    return yielding(count)
