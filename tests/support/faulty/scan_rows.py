"""Batch operations that choose the wrong rows, or number them wrongly: filter and inject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundGreaterThan,
    BoundLessThan,
    BoundNotNull,
    BoundPredicate,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    FixedType,
    StructType,
    UUIDType,
)

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import InjectedColumn
from formatkit.contract.batch import Step
from formatkit.kernel.predicates import leaves, rewrite
from formatkit.tck import Subject
from support.faults import fault
from support.faulty.scan import columns_of, with_columns, with_operations

# The published stubs lack this signature.
less_than: Callable[..., BooleanExpression] = BoundLessThan
Batch = pa.RecordBatch


def injecting(change: Callable[[InjectedColumn], InjectedColumn], *, overwrites: bool = False) -> Subject[Any]:
    """Injects other columns; those that are stored are replaced by nulls first if it overwrites."""

    class Injecting(ArrowBatch):
        def inject(self, schema: Schema, columns: Sequence[InjectedColumn]) -> Step[Batch]:
            step = super().inject(schema, [change(column) for column in columns])
            ids = {column.field.field_id for column in columns} if overwrites else set()

            def injected(batch: Batch) -> Batch:
                emptied = [
                    pa.nulls(len(column), column.type) if field.field_id in ids else column
                    for field, column in zip(schema.fields, columns_of(batch), strict=True)
                ]
                return step(with_columns(batch, emptied))

            return injected

    return with_operations(Injecting())


@fault("lineage_that_is_not_stored_is_inherited")
def every_row_has_the_first_row_id() -> Subject[Any]:
    return injecting(lambda column: replace(column, plus=None))


@fault(
    "lineage_that_is_stored_wins_and_its_nulls_are_inherited",
    "lineage_is_right_whatever_is_stored_and_filtered",
)
def stored_lineage_is_overwritten() -> Subject[Any]:
    return injecting(lambda column: column, overwrites=True)


def filtering(change: Callable[[BooleanExpression], BooleanExpression]) -> Subject[Any]:
    """Filters well, but by another predicate."""

    class Filtering(ArrowBatch):
        def filter(self, schema: Schema, predicate: BooleanExpression) -> Step[Batch]:
            return super().filter(schema, change(predicate))

    return with_operations(Filtering())


@fault(
    "filters_on_promoted_columns_compare_the_values_that_they_became",
    "filters_keep_and_drop_nulls_nans_and_zeros_as_the_spec_says",
    "any_question_to_a_table_that_has_lived_is_answered_rightly",
)
def nulls_are_dropped_as_in_sql() -> Subject[Any]:
    def sql(predicate: BooleanExpression) -> BooleanExpression:
        for leaf in leaves(predicate):
            if "Null" not in type(leaf).__name__:
                predicate = And(predicate, BoundNotNull(term=leaf.term))
        return predicate

    return filtering(sql)


@fault("filters_order_bytes_unsigned_and_decimals_as_numbers")
def bytes_are_signed() -> Subject[Any]:
    def signed(leaf: BoundPredicate) -> BooleanExpression:
        bytes_are_compared = isinstance(leaf.term.ref().field.field_type, BinaryType | FixedType | UUIDType)
        # What is less than 0x80 is negative, or more, if the first bit is a sign.
        if isinstance(leaf, BoundGreaterThan) and bytes_are_compared:
            return less_than(leaf.term, leaf.literal)
        return leaf

    return filtering(lambda predicate: rewrite(predicate, signed))


@fault(
    "filters_see_the_default_of_a_column_that_the_file_lacks",
    "filters_on_columns_that_files_lack_answer_as_if_they_were_stored",
)
def no_struct_is_null() -> Subject[Any]:
    def never(leaf: BoundPredicate) -> BooleanExpression:
        is_struct = isinstance(leaf.term.ref().field.field_type, StructType)
        return AlwaysTrue() if is_struct and isinstance(leaf, BoundNotNull) else leaf

    return filtering(lambda predicate: rewrite(predicate, never))


@fault(
    "a_partition_column_need_not_be_selected_to_be_filtered",
    "a_partition_column_that_was_dropped_is_in_nobodys_way",
)
def filters_are_ignored() -> Subject[Any]:
    return filtering(lambda predicate: AlwaysTrue())
