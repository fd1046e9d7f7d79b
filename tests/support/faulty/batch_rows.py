"""Batches that lose, repeat or misshow rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow.forms import decode
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.batch import GOOD, faulty


@fault("rows_are_counted")
def a_batch_has_one_row_at_least() -> Subject[Any]:
    return faulty(num_rows=lambda batch: max(batch.num_rows, 1))


@fault("rows_without_columns_are_counted_taken_cut_and_put_together")
def rows_without_columns_are_lost_when_put_together() -> Subject[Any]:
    def concat(schema: Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return GOOD.concat(schema, batches if schema.fields else batches[:1])

    return faulty(concat=concat)


@fault("rows_that_are_marked_are_taken_and_no_others")
def rows_that_are_not_marked_are_taken() -> Subject[Any]:
    return faulty(take_rows=lambda batch, keep: GOOD.take_rows(batch, [not mark for mark in keep]))


@fault("rows_are_taken_by_any_buffer_of_booleans")
def marks_are_read_where_their_memory_begins() -> Subject[Any]:
    def take_rows(batch: pa.RecordBatch, keep: Any) -> pa.RecordBatch:
        if isinstance(keep, np.ndarray) and keep.strides[0] < 0:
            keep = keep[::-1]
        return GOOD.take_rows(batch, keep)

    return faulty(take_rows=take_rows)


@fault("a_slice_is_the_window_of_rows_that_is_asked_for")
def a_slice_is_one_row_short() -> Subject[Any]:
    return faulty(slice=lambda batch, offset, length: batch.slice(offset, max(length - 1, 0)))


@fault("a_slice_is_the_window_of_rows_that_is_asked_for")
def the_length_of_a_slice_is_taken_for_its_end() -> Subject[Any]:
    return faulty(slice=lambda batch, offset, length: batch.slice(offset, max(length - offset, 0)))


@fault("a_slice_of_a_slice_counts_from_its_own_first_row")
def a_slice_counts_from_where_its_memory_begins() -> Subject[Any]:
    def cut(batch: pa.RecordBatch, offset: int, length: int) -> pa.RecordBatch:
        first: Any = batch.column(0)
        return batch.slice(max(offset - first.offset, 0), length)

    return faulty(slice=cut)


@fault("a_slice_leaves_the_form_of_columns_as_it_is")
def a_slice_is_decoded() -> Subject[Any]:
    def cut(batch: pa.RecordBatch, offset: int, length: int) -> pa.RecordBatch:
        part = batch.slice(offset, length)
        return pa.RecordBatch.from_arrays([decode(each) for each in part.columns], names=part.schema.names)

    return faulty(slice=cut)


@fault("batches_are_put_together_in_their_order")
def batches_are_put_together_backwards() -> Subject[Any]:
    return faulty(concat=lambda schema, batches: GOOD.concat(schema, batches[::-1]))


@fault("batches_without_rows_do_not_disturb_the_others")
def batches_end_with_the_first_that_is_empty() -> Subject[Any]:
    def concat(schema: Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        lengths = [batch.num_rows for batch in batches]
        return GOOD.concat(schema, batches[: lengths.index(0)] if 0 in lengths else batches)

    return faulty(concat=concat)


@fault("batches_of_different_forms_are_put_together_in_one")
def a_batch_that_is_alone_keeps_its_form() -> Subject[Any]:
    def concat(schema: Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return batches[0] if len(batches) == 1 else GOOD.concat(schema, batches)

    return faulty(concat=concat)


@fault("no_batches_put_together_are_an_empty_batch_of_the_schema")
def no_batches_put_together_have_no_columns() -> Subject[Any]:
    def concat(schema: Schema, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        if batches:
            return GOOD.concat(schema, batches)
        names = [f"column {place}" for place in range(len(schema.fields))]
        return GOOD.concat(schema, batches).rename_columns(names)

    return faulty(concat=concat)


@fault("rows_are_shown_as_values_of_python")
def dates_are_shown_as_days() -> Subject[Any]:
    def shown(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        columns: list[Any] = [
            column.cast(pa.int32()) if pa.types.is_date32(column.type) else column for column in batch.columns
        ]
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return iter(rows)

    return faulty(rows=shown)


@fault("rows_show_structs_as_tuples_and_maps_as_lists_of_pairs")
def structs_are_shown_as_dictionaries() -> Subject[Any]:
    def shown(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
        return iter([tuple(row.values()) for row in batch.to_pylist()])

    return faulty(rows=shown)


@fault("slices_put_together_are_the_whole")
def a_slice_overlaps_the_one_before_it() -> Subject[Any]:
    def cut(batch: pa.RecordBatch, offset: int, length: int) -> pa.RecordBatch:
        back = min(offset, 1)
        return batch.slice(offset - back, length + back)

    return faulty(slice=cut)
