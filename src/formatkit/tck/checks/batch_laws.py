"""Laws for any schema, rows and predicate: how operations on batches agree with each other, and with the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from pyiceberg.expressions import And, BooleanExpression, Not
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, PrimitiveType, StructType

from formatkit.contract import InjectedColumn, MetricsMode
from formatkit.contract.metadata_columns import FILE
from formatkit.kernel import bind
from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.histories import histories, schemas
from formatkit.tck.kits import BatchKit
from formatkit.tck.naive import Row
from formatkit.tck.strategies import predicates, rows

_NUMBER = NestedField(1000, "row number", LongType(), required=True)


@check("B2", "X26", layer=Layer.BATCH)
def any_filter_keeps_the_rows_that_an_evaluator_keeps_row_by_row(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema, plain = _numbered_rows(data)
        batch = kit.batch(schema, plain)
        for predicate in data.draw(_several(predicates(schema)), label="predicates"):
            expected = [row for row in plain if naive.matches(row, schema, predicate)]
            expect.equal_rows(_filtered(kit, schema, batch, predicate), expected, f"rows where {predicate}")


@check("B2", layer=Layer.BATCH)
def two_filters_in_turn_keep_what_both_at_once_keep(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema, plain = _numbered_rows(data)
        batch = kit.batch(schema, plain)
        for first, second in pairwise(data.draw(_several(predicates(schema)), label="predicates")):
            between = kit.operations.filter(schema, bind(schema, first))(batch)
            at_once = _filtered(kit, schema, batch, And(first, second))
            expect.equal_rows(_filtered(kit, schema, between, second), at_once, f"rows where {first}, then {second}")


@check("B2", layer=Layer.BATCH)
def a_filter_and_its_negation_share_out_all_rows(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema, plain = _numbered_rows(data)
        batch = kit.batch(schema, plain)
        for predicate in data.draw(_several(predicates(schema)), label="predicates"):
            # Binding hands negations down to the conditions, so this one is put on top afterwards.
            others = kit.operations.filter(schema, Not(bind(schema, predicate)))(batch)
            both = _filtered(kit, schema, batch, predicate) + kit.rows(schema, others)
            together = sorted(both, key=lambda row: int(row[_NUMBER.field_id]))
            expect.equal_rows(together, plain, f"rows where {predicate}, and where it is not so")


@check("B2", "B3", layer=Layer.BATCH)
def filters_and_projections_may_trade_places(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema, plain = _numbered_rows(data)
        chosen = data.draw(st.lists(st.sampled_from(schema.fields), min_size=1, unique_by=id), label="columns")
        output = Schema(*chosen)
        project = kit.operations.project(schema, [field.field_id for field in chosen])
        batch = kit.batch(schema, plain)
        for predicate in data.draw(_several(predicates(output)), label="predicates"):
            filtered_first = project(kit.operations.filter(schema, bind(schema, predicate))(batch))
            found = _filtered(kit, output, project(batch), predicate)
            expect.equal_rows(found, kit.rows(output, filtered_first), f"rows where {predicate}, projected first")


@check("B2", "B7", layer=Layer.BATCH)
def taking_the_rows_that_match_is_filtering(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema, plain = _numbered_rows(data)
        batch = kit.batch(schema, plain)
        for predicate in data.draw(_several(predicates(schema)), label="predicates"):
            taken = kit.operations.take_rows(batch, [naive.matches(row, schema, predicate) for row in plain])
            found = _filtered(kit, schema, batch, predicate)
            expect.equal_rows(found, kit.rows(schema, taken), f"rows where {predicate}")


@check("B4", layer=Layer.BATCH)
def evolving_a_batch_is_evolving_its_rows(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        versions = data.draw(histories(), label="history")
        source, target = versions[0], versions[-1]
        plain = data.draw(rows(source), label="rows")
        expected = [naive.evolve(row, source, target) for row in plain]
        expect.equal_rows(kit.evolved(source, target, plain), expected, "rows as the last schema sees them")


@check("B4", layer=Layer.BATCH)
def evolving_step_by_step_is_evolving_at_once(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        versions = data.draw(histories(), label="history")
        middle = data.draw(st.sampled_from(versions), label="middle")
        source, target = versions[0], versions[-1]
        plain = data.draw(rows(source), label="rows")
        half = kit.operations.evolve(source, middle, {})(kit.batch(source, plain))
        in_steps = kit.rows(target, kit.operations.evolve(middle, target, {})(half))
        expect.equal_rows(in_steps, kit.evolved(source, target, plain), "rows that were evolved in two steps")


@check("B1", "B4", layer=Layer.BATCH)
def evolving_to_the_same_schema_changes_nothing(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema = data.draw(schemas(), label="schema")
        plain = data.draw(rows(schema), label="rows")
        once = kit.operations.evolve(schema, schema, {})(kit.batch(schema, plain))
        expect.equal_rows(kit.rows(schema, once), plain)
        twice = kit.operations.evolve(schema, schema, {})(once)
        expect.that(twice is once, "a batch that was evolved is evolved again")


@check("B7", layer=Layer.BATCH)
def slices_put_together_are_the_whole(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema = data.draw(schemas(), label="schema")
        plain = data.draw(rows(schema), label="rows")
        batch = kit.batch(schema, plain)
        cuts = data.draw(st.lists(st.integers(0, len(plain)), max_size=4).map(sorted), label="cuts")
        edges = [0, *cuts, len(plain)]
        slices = [kit.operations.slice(batch, start, end - start) for start, end in pairwise(edges)]
        expect.equal_rows(kit.rows(schema, kit.operations.concat(schema, slices)), plain)


@check("B3", "B5", layer=Layer.BATCH)
def what_is_injected_can_be_projected_away(kit: BatchKit[Any]) -> None:
    @kit.random(st.data())
    def holds(data: st.DataObject) -> None:
        schema = data.draw(schemas(), label="schema")
        plain = data.draw(rows(schema), label="rows")
        more = kit.operations.inject(schema, [InjectedColumn(field=FILE, value="file")])(kit.batch(schema, plain))
        ids = [field.field_id for field in schema.fields]
        less = kit.operations.project(Schema(*schema.fields, FILE), ids)(more)
        expect.equal_rows(kit.rows(schema, less), plain)


@check("B6", layer=Layer.BATCH)
def bounds_enclose_every_value_however_long_they_may_be(kit: BatchKit[Any]) -> None:
    @kit.random(st.data(), st.integers(1, 3))
    def holds(data: st.DataObject, length: int) -> None:
        schema = data.draw(schemas(), label="schema")
        plain = data.draw(rows(schema), label="rows")
        leaves = {field.field_id: values for field, values in _leaves(schema.as_struct(), plain)}
        collector = kit.operations.collector(schema, dict.fromkeys(leaves, MetricsMode.parse(f"truncate({length})")))
        collector.update(kit.batch(schema, plain))
        metrics = collector.finish().columns
        for field_id, values in leaves.items():
            found = metrics[field_id]
            counts = (found.value_count, found.null_count)
            expect.equal(counts, (len(values), values.count(None)), f"counts of field {field_id}")
            for value in values:
                if value is not None and not (isinstance(value, float) and math.isnan(value)):
                    below = _ordered(found.lower) <= _ordered(value)
                    above = found.upper is None or _ordered(value) <= _ordered(found.upper)
                    expect.that(below and above, f"{value!r} is outside of {found.lower!r} to {found.upper!r}")


@check("B6", layer=Layer.BATCH)
def metrics_do_not_depend_on_how_rows_are_cut_into_batches(kit: BatchKit[Any]) -> None:
    @kit.random(st.data(), st.integers(1, 4))
    def holds(data: st.DataObject, size: int) -> None:
        schema = data.draw(schemas(), label="schema")
        plain = data.draw(rows(schema), label="rows")
        modes = {field.field_id: MetricsMode.parse("full") for field, _ in _leaves(schema.as_struct(), plain)}
        whole, cut = kit.operations.collector(schema, modes), kit.operations.collector(schema, modes)
        whole.update(kit.batch(schema, plain))
        for start in range(0, len(plain), size):
            cut.update(kit.batch(schema, plain[start : start + size]))
        expect.equal(cut.finish(), whole.finish(), f"metrics of batches of {size}")


def _several(conditions: st.SearchStrategy[BooleanExpression]) -> st.SearchStrategy[list[BooleanExpression]]:
    """Schemas and rows take longer to think up than conditions, so there are some for each."""
    return st.lists(conditions, min_size=2, max_size=6)


def _numbered_rows(data: st.DataObject) -> tuple[Schema, list[Row]]:
    """A schema and rows of it, with a column that tells equal rows apart."""
    schema = data.draw(schemas(), label="schema")
    plain = data.draw(rows(schema, min_size=2), label="rows")
    return Schema(_NUMBER, *schema.fields), [{_NUMBER.field_id: number, **row} for number, row in enumerate(plain)]


def _filtered(kit: BatchKit[Any], schema: Schema, batch: Any, predicate: BooleanExpression) -> list[Row]:
    return kit.rows(schema, kit.operations.filter(schema, bind(schema, predicate))(batch))


def _leaves(struct: StructType, plain: Sequence[Row | None]) -> Iterator[tuple[NestedField, list[Any]]]:
    """The leaves that have bounds, those outside of lists and maps, with their values."""
    for field in struct.fields:
        values = [None if row is None else row[field.field_id] for row in plain]
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type, values)
        elif isinstance(field.field_type, PrimitiveType):
            yield field, values


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
