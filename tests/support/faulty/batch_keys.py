"""Batches that give wrong arrays, find rows among the wrong keys, or mark the wrong rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from formatkit.batches.arrow.forms import decode
from formatkit.contract.batch import Booleans, Longs
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.tck import Subject
from formatkit.tck.naive import Row
from formatkit.tck.rows import from_arrow
from support.faults import fault
from support.faulty.batch import GOOD, batch_of, faulty

Batch = pa.RecordBatch
Key = tuple[Any, ...]


@fault("longs_are_given_as_numbers_in_every_form")
def longs_are_given_as_doubles() -> Subject[Any]:
    def compiled(schema: Schema, field_id: int) -> Callable[[Batch], Longs]:
        good = GOOD.longs(schema, field_id)
        return lambda batch: good(batch).astype(np.float64).astype(np.int64)

    return faulty(longs=compiled)


@fault("a_null_among_longs_is_refused")
def a_null_among_longs_is_zero() -> Subject[Any]:
    def compiled(schema: Schema, field_id: int) -> Callable[[Batch], Longs]:
        good = GOOD.longs(schema, field_id)

        def longs(batch: Batch) -> Longs:
            try:
                return good(batch)
            except InvalidDataError:
                return np.array([row[field_id] or 0 for row in from_arrow(schema, batch)])

        return longs

    return faulty(longs=compiled)


@fault("distinct_values_are_given_once_each_with_the_rows_that_have_them")
def nulls_are_the_last_of_the_distinct_values() -> Subject[Any]:
    def compiled(schema: Schema, field_id: int) -> Callable[[Batch], tuple[Sequence[Any], Longs]]:
        place = [field.field_id for field in schema.fields].index(field_id)

        def distinct(batch: Batch) -> tuple[Sequence[Any], Longs]:
            column = [row[place] for row in GOOD.rows(schema, batch)]
            values = [value for value in dict.fromkeys(column) if value is not None]
            return values, np.array([values.index(value) if value in values else -1 for value in column])

        return distinct

    return faulty(distinct=compiled)


def locating(equal: Callable[[Key, Key], bool], *, last: bool = False) -> Subject[Any]:
    """Finds keys by a comparison of leaves; the last of several if that is asked for."""

    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        GOOD.locate(schema, [])  # refuses what cannot be compared
        known = [_leaves(row, schema.as_struct()) for batch in keys for row in from_arrow(schema, batch)]

        def locate(batch: Batch) -> Longs:
            return np.array([first(_leaves(row, schema.as_struct())) for row in from_arrow(schema, batch)], np.int64)

        def first(row: Key) -> int:
            found = [number for number, key in enumerate(known) if equal(key, row)]
            return -1 if not found else found[-1] if last else found[0]

        return locate

    return faulty(locate=compiled)


def _leaves(row: Row | None, struct: StructType) -> Key:
    leaves: list[Any] = []
    for field in struct.fields:
        value = None if row is None else row[field.field_id]
        leaves += _leaves(value, field.field_type) if isinstance(field.field_type, StructType) else [repr(value)]
    return tuple(leaves)


@fault("rows_are_found_among_keys_of_every_type_and_form", "random_rows_are_found_among_random_keys")
def texts_are_compared_by_their_first_letters() -> Subject[Any]:
    return locating(lambda key, row: [each[:3] for each in key] == [each[:3] for each in row])


@fault("a_null_equals_a_null_and_nothing_else")
def a_null_key_equals_nothing() -> Subject[Any]:
    return locating(lambda key, row: key == row and "None" not in key)


@fault("a_null_equals_a_null_and_nothing_else")
def a_null_row_equals_every_key() -> Subject[Any]:
    return locating(lambda key, row: all(have in (want, "None") for want, have in zip(key, row, strict=True)))


@fault("a_leaf_of_a_null_struct_is_null_to_keys")
def null_structs_equal_null_structs_only() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        known = [repr(row) for batch in keys for row in from_arrow(schema, batch)]
        return lambda batch: np.array(
            [known.index(repr(row)) if repr(row) in known else -1 for row in from_arrow(schema, batch)], np.int64
        )

    return faulty(locate=compiled)


@fault("keys_tell_zeros_apart_and_not_nans")
def numbers_are_compared_as_python_compares_them() -> Subject[Any]:
    zeros = {"-0.0": "0.0"}
    return locating(lambda key, row: [zeros.get(each, each) for each in key] == [zeros.get(each, each) for each in row])


@fault("keys_tell_zeros_apart_and_not_nans")
def a_nan_equals_nothing() -> Subject[Any]:
    return locating(lambda key, row: key == row and "nan" not in key)


@fault("the_first_of_equal_keys_is_found_all_batches_counted_through")
def the_last_of_equal_keys_is_found() -> Subject[Any]:
    return locating(lambda key, row: key == row, last=True)


@fault("the_first_of_equal_keys_is_found_all_batches_counted_through")
def keys_are_counted_in_their_own_batch() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        steps = [GOOD.locate(schema, [batch]) for batch in keys]
        return lambda batch: np.max([np.full(batch.num_rows, -1), *(step(batch) for step in steps)], axis=0)

    return faulty(locate=compiled)


@fault("a_hundred_thousand_keys_are_no_burden")
def keys_are_tried_in_a_recursion() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        known = [repr(row) for batch in keys for row in from_arrow(schema, batch)]

        def first(row: str, number: int) -> int:
            if number == len(known):
                return -1
            return number if known[number] == row else first(row, number + 1)

        return lambda batch: np.array([first(repr(row), 0) for row in from_arrow(schema, batch)], np.int64)

    return faulty(locate=compiled)


@fault("keys_may_have_any_number_of_columns")
def columns_are_combined_into_64_bits() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        def codes(batch: Batch) -> list[int]:
            rows = [tuple(row.values()) for row in from_arrow(schema, batch)]
            return [sum(value << 6 * place for place, value in enumerate(row)) % 2**64 for row in rows]

        known = [code for batch in keys for code in codes(batch)]
        return lambda batch: np.array([known.index(code) if code in known else -1 for code in codes(batch)], np.int64)

    return faulty(locate=compiled)


@fault("nothing_is_found_where_there_are_no_keys_or_no_rows")
def every_row_is_the_first_of_no_keys() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        good = GOOD.locate(schema, keys)
        empty = not any(batch.num_rows for batch in keys)
        return lambda batch: np.zeros(batch.num_rows, np.int64) if empty else good(batch)

    return faulty(locate=compiled)


@fault("rows_are_not_compared_by_lists_and_maps")
def lists_and_maps_equal_nothing() -> Subject[Any]:
    def compiled(schema: Schema, keys: Sequence[Batch]) -> Callable[[Batch], Longs]:
        try:
            return GOOD.locate(schema, keys)
        except UnsupportedError:
            return lambda batch: np.full(batch.num_rows, -1, np.int64)

    return faulty(locate=compiled)


def marking(change: Callable[[Batch], Batch], *, flip: bool = False) -> Subject[Any]:
    """Marks batches that were changed before, or the wrong rows."""

    def compiled(schema: Schema, field: NestedField) -> Callable[[Batch, Booleans], Batch]:
        good = GOOD.mark(schema, field)
        return lambda batch, marks: good(change(batch), ~marks if flip else marks)

    return faulty(mark=compiled)


@fault("marks_are_appended_and_nothing_else_is_touched")
def rows_that_are_left_are_marked() -> Subject[Any]:
    return marking(lambda batch: batch, flip=True)


@fault("marks_are_appended_and_nothing_else_is_touched")
def marking_decodes_columns() -> Subject[Any]:
    return marking(
        lambda batch: pa.RecordBatch.from_arrays([decode(each) for each in batch.columns], names=batch.schema.names)
    )


@fault("batches_without_rows_or_columns_can_be_marked")
def a_batch_without_columns_is_not_marked() -> Subject[Any]:
    def compiled(schema: Schema, field: NestedField) -> Callable[[Batch, Booleans], Batch]:
        good = GOOD.mark(schema, field)
        return lambda batch, marks: good(batch, marks) if batch.num_columns else batch_of(Schema(field), [])

    return faulty(mark=compiled)
