"""Filters of batches that are wrong in one thing each; many of them were seen in released readers."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Not, Or
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, StructType, UUIDType

from formatkit.batches.arrow.forms import decode
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.batch import GOOD, Leaf, faulty, filtering

ORDERS = ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual")


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


@fault("a_filter_by_equality_keeps_equal_values_of_every_type")
def equality_of_numbers_goes_through_single_precision() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if leaf.operator == "EqualTo" and isinstance(leaf.value, float) and math.isfinite(leaf.value):
            return bool(abs(leaf.value - leaf.literals[0]) < 1e-7)
        return leaf.answer

    return filtering(judge)


@fault("a_filter_by_inequality_keeps_nulls_and_all_other_values_of_every_type")
def inequality_drops_nulls() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer and not (leaf.operator == "NotEqualTo" and leaf.value is None))


@fault("a_filter_by_order_follows_the_order_of_every_type")
def less_than_takes_the_bound_too() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "LessThan" and leaf.value == leaf.literals[0]))


@fault("a_filter_by_order_drops_nulls_of_every_type")
def null_lies_below_every_value() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.value is None and leaf.operator.startswith("LessThan")))


@fault("a_filter_by_order_or_equality_drops_nan")
def nan_lies_above_every_number() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (is_nan(leaf.value) and leaf.operator.startswith("GreaterThan")))


@fault("a_filter_by_order_or_equality_drops_nan")
def nan_equals_any_number() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (is_nan(leaf.value) and leaf.operator == "EqualTo"))


@fault("a_filter_by_inequality_keeps_nan")
def nan_is_not_unequal_to_a_number() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer and not (is_nan(leaf.value) and leaf.operator == "NotEqualTo"))


@fault("a_filter_by_a_set_keeps_its_members_of_every_type")
def a_set_keeps_nulls_too() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "In" and leaf.value is None))


@fault("a_filter_that_rules_out_a_set_keeps_nulls_and_all_other_values_of_every_type")
def a_set_that_is_ruled_out_drops_nulls() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer and not (leaf.operator == "NotIn" and leaf.value is None))


@fault("a_filter_for_nulls_finds_them_in_every_type")
def an_empty_string_is_null() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "IsNull" and leaf.value == ""))


@fault("a_filter_for_nan_tells_it_from_null_and_from_infinity")
def null_is_dropped_where_nan_is_ruled_out() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer and not (leaf.operator == "NotNaN" and leaf.value is None))


@fault("a_filter_for_nan_tells_it_from_null_and_from_infinity")
def every_float_is_nan() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "IsNaN" and leaf.value is not None))


@fault("a_filter_takes_both_zeros_as_equal")
def minus_zero_does_not_equal_zero() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if leaf.operator in ("EqualTo", "In") and isinstance(leaf.value, float):
            return repr(leaf.value) in map(repr, leaf.literals)
        return leaf.answer

    return filtering(judge)


@fault("a_filter_by_a_prefix_drops_nulls_and_its_opposite_keeps_them")
def null_is_dropped_where_a_prefix_is_ruled_out() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer and not (leaf.operator == "NotStartsWith" and leaf.value is None))


@fault("a_filter_by_a_prefix_drops_nulls_and_its_opposite_keeps_them")
def a_prefix_is_a_pattern() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "StartsWith" and "%" in leaf.literals[0]))


@fault("a_filter_orders_strings_by_their_utf8_bytes")
def strings_order_by_their_utf16_units() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if leaf.operator == "GreaterThan" and isinstance(leaf.value, str):
            return bool(leaf.value.encode("utf-16-be") > leaf.literals[0].encode("utf-16-be"))
        return leaf.answer

    return filtering(judge)


@fault("a_filter_orders_uuid_fixed_and_binary_by_unsigned_bytes")
def uuids_order_by_signed_halves() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if leaf.operator == "LessThan" and isinstance(leaf.kind, UUIDType) and leaf.value is not None:
            return _signed(leaf.value) < _signed(leaf.literals[0])
        return leaf.answer

    return filtering(judge)


@fault("a_filter_orders_uuid_fixed_and_binary_by_unsigned_bytes")
def fixed_orders_by_signed_bytes() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if leaf.operator == "GreaterThan" and isinstance(leaf.kind, FixedType) and leaf.value is not None:
            return _signed(leaf.value) > _signed(leaf.literals[0])
        return leaf.answer

    return filtering(judge)


def _signed(value: bytes) -> int:
    return int.from_bytes(value[:8], "big", signed=True)


@fault("a_filter_by_a_set_of_any_size_keeps_exactly_its_members")
def sets_of_more_than_200_members_keep_everything() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or len(leaf.literals) > 200)


@fault("a_filter_by_a_set_of_strings_of_any_size_keeps_exactly_its_members")
def sets_of_more_than_200_strings_keep_those_between_the_ends() -> Subject[Any]:
    def judge(leaf: Leaf) -> bool:
        if len(leaf.literals) > 200 and leaf.value is not None:
            return bool(min(leaf.literals) <= leaf.value <= max(leaf.literals))
        return leaf.answer

    return filtering(judge)


@fault("a_filter_combines_conditions_by_two_valued_logic")
def both_conditions_are_taken_for_either() -> Subject[Any]:
    def wrong(predicate: BooleanExpression) -> BooleanExpression:
        return Or(predicate.left, predicate.right) if isinstance(predicate, And) else predicate

    return faulty(filter=lambda schema, predicate: GOOD.filter(schema, wrong(predicate)))


@fault("a_filter_that_is_negated_keeps_exactly_the_other_rows")
def a_negated_order_loses_nulls() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        if isinstance(predicate, Not):
            return GOOD.filter(schema, ~predicate.child)
        return GOOD.filter(schema, predicate)

    return faulty(filter=compiled)


@fault("a_filter_nests_conditions_to_any_depth")
def a_negation_is_not_handed_down() -> Subject[Any]:
    def wrong(predicate: BooleanExpression) -> BooleanExpression:
        if isinstance(predicate, Not) and isinstance(predicate.child, Or):
            return Or(Not(predicate.child.left), Not(predicate.child.right))
        return predicate

    return faulty(filter=lambda schema, predicate: GOOD.filter(schema, wrong(predicate)))


@fault("a_filter_on_a_leaf_of_a_struct_takes_null_parents_as_null")
def a_leaf_under_a_null_parent_fails_every_condition() -> Subject[Any]:
    def compiled(schema: Schema, predicate: Any) -> Any:
        good = GOOD.filter(schema, predicate)
        outer = next(
            position for position, field in enumerate(schema.fields) if isinstance(field.field_type, StructType)
        )
        return lambda batch: good(batch.filter(batch.column(outer).is_valid()))

    return faulty(filter=compiled)


@fault("a_filter_does_not_see_what_lies_under_a_null_parent")
def a_leaf_is_read_without_its_parents() -> Subject[Any]:
    def compiled(schema: Schema, predicate: Any) -> Any:
        bare = Schema(predicate.term.ref().field)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            parent: Any = batch.column(1)
            leaf = parent.field(0)
            marked = pa.RecordBatch.from_arrays([leaf, pa.array(range(batch.num_rows))], names=["leaf", "row"])
            kept = GOOD.filter(bare, predicate)(marked).column(1)
            return batch.take(kept)

        return step

    return faulty(filter=compiled)


@fault("a_filter_for_nulls_sees_structs_lists_and_maps_as_wholes")
def an_empty_list_is_null() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.operator == "IsNull" and leaf.value == []))


@fault("a_filter_finds_its_column_by_id_not_by_place_or_name")
def the_column_of_a_filter_is_found_by_the_order_of_ids() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        in_order = Schema(*sorted(schema.fields, key=lambda field: field.field_id))
        return GOOD.filter(in_order, predicate)

    return faulty(filter=compiled)


@fault("a_filter_treats_every_physical_form_alike")
def dictionaries_are_compared_by_their_entries_alone() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        good = GOOD.filter(schema, predicate)

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            encoded = any(isinstance(column, pa.DictionaryArray) for column in batch.columns)
            return good(batch.slice(0, 1) if encoded else batch)

        return step

    return faulty(filter=compiled)


@fault("a_filter_leaves_the_form_of_columns_as_it_is")
def a_filter_decodes_all_columns() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        good = GOOD.filter(schema, predicate)
        names = [field.name for field in schema.fields]
        return lambda batch: good(pa.RecordBatch.from_arrays([decode(each) for each in batch.columns], names=names))

    return faulty(filter=compiled)


@fault("a_filter_that_keeps_all_rows_returns_the_same_object")
def a_filter_always_copies() -> Subject[Any]:
    return faulty(filter=lambda schema, predicate: lambda batch: GOOD.filter(schema, predicate)(batch).slice(0))


@fault("a_filter_that_no_row_passes_leaves_an_empty_batch")
def a_filter_that_is_never_true_is_forgotten() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        return (lambda batch: batch) if isinstance(predicate, AlwaysFalse) else GOOD.filter(schema, predicate)

    return faulty(filter=compiled)


@fault("a_filter_of_a_batch_without_rows_leaves_it_without_rows")
def a_batch_without_rows_gets_one() -> Subject[Any]:
    def step(batch: pa.RecordBatch) -> pa.RecordBatch:
        types: list[Any] = batch.schema.types
        return pa.RecordBatch.from_arrays([pa.nulls(1, kind) for kind in types], names=batch.schema.names)

    return faulty(
        filter=lambda schema, predicate: (
            lambda batch: GOOD.filter(schema, predicate)(batch) if batch.num_rows else step(batch)
        )
    )


@fault("a_filter_step_can_be_applied_to_many_batches")
def a_filter_remembers_its_first_batch() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        answers: list[pa.RecordBatch] = []

        def step(batch: pa.RecordBatch) -> pa.RecordBatch:
            answers.append(GOOD.filter(schema, predicate)(batch))
            return answers[0]

        return step

    return faulty(filter=compiled)


@fault("any_filter_keeps_the_rows_that_an_evaluator_keeps_row_by_row")
def null_passes_every_comparison() -> Subject[Any]:
    return filtering(lambda leaf: leaf.answer or (leaf.value is None and leaf.operator in ("EqualTo", *ORDERS)))


@fault("two_filters_in_turn_keep_what_both_at_once_keep")
def a_conjunction_keeps_what_its_first_part_keeps() -> Subject[Any]:
    def wrong(predicate: BooleanExpression) -> BooleanExpression:
        return predicate.left if isinstance(predicate, And) else predicate

    return faulty(filter=lambda schema, predicate: GOOD.filter(schema, wrong(predicate)))


@fault("a_filter_and_its_negation_share_out_all_rows")
def a_negation_is_handed_down_as_if_there_were_no_nulls() -> Subject[Any]:
    return faulty(filter=lambda schema, predicate: GOOD.filter(schema, rewrite_not(predicate)))


@fault("filters_and_projections_may_trade_places")
def a_filter_is_forgotten_where_its_column_stands_alone() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        return (lambda batch: batch) if len(schema.fields) == 1 else GOOD.filter(schema, predicate)

    return faulty(filter=compiled)


@fault("taking_the_rows_that_match_is_filtering")
def the_last_row_is_lost_in_a_filter() -> Subject[Any]:
    def compiled(schema: Schema, predicate: BooleanExpression) -> Any:
        good = GOOD.filter(schema, predicate)
        return lambda batch: good(batch.slice(0, max(batch.num_rows - 1, 0)))

    return faulty(filter=compiled)
