"""Readers that leave out rows which match, or claim to have answered what they have not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, BoundEqualTo, BoundIn, BoundPredicate, Or

from formatkit.contract import Capability, ReadOptions, ReadResult
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck import Subject, naive
from support.faults import fault
from support.faulty.reading import File, answering, asked, misreading

LONG = 64


def _leaves(predicate: BooleanExpression) -> Iterator[BoundPredicate]:
    match predicate:
        case And(left=left, right=right) | Or(left=left, right=right):
            yield from _leaves(left)
            yield from _leaves(right)
        case BoundPredicate():
            yield predicate


def _values(row: naive.Row) -> list[Any]:
    return list(row.values())


def _matches(row: naive.Row, options: ReadOptions) -> bool:
    return naive.matches(row, options.projection, options.predicate)


def _has_columns_without_values(rows: list[naive.Row], options: ReadOptions) -> bool:
    """Whether no row of a chunk has a value, not even NaN, in a top-level column that was asked about."""
    ids = [leaf.term.ref().field.field_id for leaf in _leaves(options.predicate)]
    return any(all(_is_nothing(row.get(field_id)) for row in rows) for field_id in ids)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _claiming(file: File, options: ReadOptions) -> ReadResult[Any]:
    return replace(file.read(options), residual=AlwaysTrue())


@fault("a_filter_gives_exactly_the_rows_that_match")
def nothing_is_filtered_and_nothing_left_over() -> Subject[Any]:
    return misreading(_claiming)


@fault("a_filter_gives_exactly_the_rows_that_match")
def one_side_of_a_conjunction_is_forgotten() -> Subject[Any]:
    def read(file: File, options: ReadOptions) -> ReadResult[Any]:
        predicate = options.predicate
        residual = predicate.left if isinstance(predicate, And) else predicate
        return replace(file.read(options), residual=residual)

    return misreading(read)


@fault("any_predicate_with_its_residual_gives_the_exact_answer")
def filters_lose_the_last_row_of_each_batch() -> Subject[Any]:
    return answering(lambda row, rows, options: row is not rows[-1] or not asked(options))


@fault("null_rows_are_kept_where_a_value_is_excluded")
def null_rows_are_dropped_by_every_filter() -> Subject[Any]:
    return answering(lambda row, rows, options: None not in _values(row) or not asked(options))


@fault("null_and_nan_rows_fail_comparisons")
def null_rows_pass_comparisons() -> Subject[Any]:
    return answering(lambda row, rows, options: _matches(row, options) or None in _values(row), exactly=True)


@fault("null_tests_find_the_nulls_of_every_chunk")
def chunks_of_nulls_are_thought_to_be_empty() -> Subject[Any]:
    return answering(lambda row, rows, options: not _has_columns_without_values(rows, options))


@fault("chunks_that_have_no_bounds_are_read")
def chunks_without_bounds_are_skipped() -> Subject[Any]:
    return answering(lambda row, rows, options: not _has_columns_without_values(rows, options))


@fault("nan_hides_no_row_beside_it")
def chunks_with_nan_are_skipped() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        return not any(isinstance(value, float) and math.isnan(value) for each in rows for value in _values(each))

    return answering(keep)


@fault("zeros_of_either_sign_are_equal")
def bounds_of_negative_zero_do_not_hold_zero() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        predicate = options.predicate
        return not isinstance(predicate, BoundEqualTo) or repr(row[2]) == repr(predicate.literal.value)

    return answering(keep)


@fault("a_filter_finds_its_leaf_among_nested_columns")
def leaves_of_null_structs_pass_every_filter() -> Subject[Any]:
    return answering(lambda row, rows, options: _matches(row, options) or row.get(2, 0) is None, exactly=True)


@fault("the_ids_of_the_projection_say_which_column_a_predicate_means")
def predicates_go_by_the_order_of_ids() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        ordered = sorted(row)
        return naive.matches(dict(zip(ordered, _values(row), strict=True)), options.projection, options.predicate)

    return answering(keep, exactly=True)


@fault("nanoseconds_are_compared_to_the_last_digit")
def nanoseconds_are_cut_before_they_are_compared() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        cut = {key: value if key == 1 or value is None else value // 1000 * 1000 for key, value in row.items()}
        return _matches(cut, options)

    return answering(keep, exactly=True)


@fault("values_that_are_too_long_for_statistics_are_found")
def values_beyond_a_cut_bound_are_lost() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        return not any(isinstance(value, str) and len(value) > LONG for value in _values(row))

    return answering(keep)


@fault("filters_see_through_every_encoding")
def values_outside_the_dictionary_are_lost() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        return _values(row)[1] in {_values(each)[1] for each in rows[:3]} or not asked(options)

    return answering(keep)


@fault("bytes_are_compared_without_sign")
def chunks_are_pruned_by_bytes_with_a_sign() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        return not any(isinstance(value, bytes) and value >= b"\x80" for value in _values(row))

    return answering(keep)


@fault("days_and_moments_before_1970_are_compared_rightly")
def days_before_1970_are_thought_to_be_far_in_the_future() -> Subject[Any]:
    return answering(lambda row, rows, options: not any(isinstance(value, int) and value < 0 for value in _values(row)))


@fault("decimals_of_any_width_are_compared_rightly")
def bounds_of_negative_decimals_are_read_without_sign() -> Subject[Any]:
    def keep(row: naive.Row, rows: list[naive.Row], options: ReadOptions) -> bool:
        return not any(isinstance(value, Decimal) and value < 0 for value in _values(row))

    return answering(keep)


@fault("long_lists_of_values_and_deep_nesting_are_answered")
def lists_of_more_than_200_values_are_given_up() -> Subject[Any]:
    def read(file: File, options: ReadOptions) -> ReadResult[Any]:
        too_many = isinstance(options.predicate, BoundIn) and len(options.predicate.literals) > 200
        return _claiming(file, options) if too_many else file.read(options)

    return misreading(read)


@fault("chunks_that_cannot_match_are_not_returned")
def skipping_is_declared_and_not_done() -> Subject[Any]:
    return misreading(lambda file, options: file.read(options), declares=[Capability.SKIP_CHUNKS])


@fault("a_reader_that_skips_no_chunks_returns_every_chunk")
def chunks_are_skipped_without_a_declaration() -> Subject[Any]:
    hidden = [Capability.SKIP_CHUNKS, Capability.FILTER_ROWS]
    return misreading(lambda file, options: file.read(options), good=ParquetFormat(), hides=hidden)


@fault("rows_that_fail_are_not_returned_where_nothing_is_left_over")
def filtering_is_declared_and_not_done() -> Subject[Any]:
    return misreading(lambda file, options: file.read(options), declares=[Capability.FILTER_ROWS])


@fault("a_reader_that_filters_no_rows_returns_the_whole_predicate")
def rows_are_filtered_without_a_declaration() -> Subject[Any]:
    hidden = [Capability.FILTER_ROWS]
    return misreading(lambda file, options: file.read(options), good=ParquetFormat(), hides=hidden)
