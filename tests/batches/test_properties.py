"""Batches of random schemas and values, against what plain Python says."""

from __future__ import annotations

import datetime as dt
import math
import operator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.expressions import BooleanExpression, BoundReference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
)

from formatkit.batches.arrow import arrow_schema, column_of
from formatkit.contract import MetricsMode
from support.batch_types import BatchType, every_batch_type

E: Any = expressions
FEW = settings(max_examples=30, deadline=None)

DATES = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
FLAT: dict[IcebergType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DecimalType(9, 2): st.integers(-999_999_999, 999_999_999).map(lambda unscaled: Decimal(unscaled).scaleb(-2)),
    DateType(): DATES,
    TimestampType(): st.datetimes(),
    StringType(): st.text(max_size=5),
    BinaryType(): st.binary(max_size=5),
    UUIDType(): st.uuids(),
}
WIDER: dict[IcebergType, tuple[IcebergType, Any]] = {
    IntegerType(): (LongType(), lambda value: value),
    FloatType(): (DoubleType(), lambda value: value),
    DecimalType(9, 2): (DecimalType(18, 2), lambda value: value),
    DateType(): (TimestampType(), lambda value: dt.datetime(value.year, value.month, value.day)),
}


def is_number(value: Any) -> bool:
    return not (isinstance(value, float) and math.isnan(value))


def comparable(value: Any) -> Any:
    """A form in which NaN equals itself and the zeros differ."""
    if isinstance(value, float):
        return ("float", "nan") if math.isnan(value) else ("float", value, math.copysign(1, value))
    if isinstance(value, tuple):
        return tuple(map(comparable, value))
    return [comparable(each) for each in value] if isinstance(value, list) else value


@st.composite
def evolutions(draw: st.DrawFn) -> tuple[IcebergType, IcebergType, st.SearchStrategy[Any], Any]:
    """A file type, a table type that it may become, values of it, and what becomes of a value that is not null."""
    counter = iter(range(10, 10_000))

    def evolution(depth: int) -> tuple[IcebergType, IcebergType, st.SearchStrategy[Any], Any]:
        kinds = ["flat", "wider"] + (["struct", "list", "map"] if depth else [])
        match draw(st.sampled_from(kinds)):
            case "flat":
                kind = draw(st.sampled_from(list(FLAT)))
                return kind, kind, FLAT[kind], lambda value: value
            case "wider":
                kind = draw(st.sampled_from(list(WIDER)))
                return kind, WIDER[kind][0], FLAT[kind], WIDER[kind][1]
            case "list":
                field_id = next(counter)
                old, new, values, change = evolution(depth - 1)
                return (
                    ListType(field_id, old, element_required=False),
                    ListType(field_id, new, element_required=False),
                    st.lists(st.none() | values, max_size=3),
                    lambda value: [each if each is None else change(each) for each in value],
                )
            case "map":
                key_id, value_id = next(counter), next(counter)
                old, new, values, change = evolution(depth - 1)
                return (
                    MapType(key_id, StringType(), value_id, old, value_required=False),
                    MapType(key_id, StringType(), value_id, new, value_required=False),
                    st.lists(st.tuples(st.text(max_size=2), st.none() | values), max_size=3),
                    lambda value: [(key, each if each is None else change(each)) for key, each in value],
                )
            case _:
                return structure(depth - 1)

    def structure(depth: int) -> tuple[StructType, StructType, st.SearchStrategy[Any], Any]:
        children = [(next(counter), *evolution(depth)) for _ in range(draw(st.integers(1, 3)))]
        order = draw(st.permutations(range(len(children))))
        kept = order[: draw(st.integers(0, len(order)))]
        added = NestedField(next(counter), "added", IntegerType(), initial_default=7)
        old = StructType(*(NestedField(field_id, f"old{field_id}", kind) for field_id, kind, *_ in children))
        new = [NestedField(children[i][0], f"new{i}", children[i][2]) for i in kept]

        def change(value: Any) -> Any:
            return (7, *(value[i] if value[i] is None else children[i][4](value[i]) for i in kept))

        values = st.tuples(*(st.none() | child[3] for child in children))
        return old, StructType(added, *new), values, change

    return structure(2)


@every_batch_type
@FEW
@given(evolution=evolutions(), data=st.data())
def test_evolving_a_batch_is_evolving_its_rows(batches: BatchType, evolution: Any, data: st.DataObject) -> None:
    old, new, values, change = evolution
    rows = data.draw(st.lists(values, min_size=1, max_size=8))
    source, target = Schema(*old.fields), Schema(*new.fields)
    columns = [column_of(field.field_type, [row[i] for row in rows]) for i, field in enumerate(old.fields)]
    structs: Any = pa.Array.from_buffers(pa.struct(arrow_schema(source)), len(rows), [None], children=columns)
    start = data.draw(st.integers(0, len(rows)))
    batch = batches.batch(pa.RecordBatch.from_struct_array(structs.slice(start)).columns)
    result = batches.operations.evolve(source, target, {})(batch)
    batches.canonical(target, result)
    assert comparable(batches.rows(target, result)) == comparable([change(row) for row in rows[start:]])


COMPARISONS: dict[Any, Any] = {
    E.BoundEqualTo: operator.eq,
    E.BoundNotEqualTo: operator.ne,
    E.BoundLessThan: operator.lt,
    E.BoundGreaterThanOrEqual: operator.ge,
}


def internal(value: Any) -> Any:
    match value:
        case UUID():
            return value.bytes
        case dt.datetime():
            return (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
    return value


@every_batch_type
@FEW
@given(kind=st.sampled_from(list(FLAT)), nested=st.booleans(), data=st.data())
def test_a_predicate_keeps_the_rows_that_python_keeps(
    batches: BatchType, kind: IcebergType, nested: bool, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | FLAT[kind], min_size=1, max_size=8))
    pool = [value for value in values if value is not None and is_number(value)]
    pool = pool or [data.draw(FLAT[kind].filter(is_number))]
    leaf = NestedField(2, "leaf", kind)
    schema = Schema(NestedField(1, "top", StructType(leaf)) if nested else leaf, NestedField(3, "row", LongType()))
    term = BoundReference(leaf, schema.accessor_for_field(2))

    def predicate(depth: int) -> tuple[BooleanExpression, Any]:
        operation = data.draw(st.sampled_from(["compare", "in", "null"] + (["and", "or", "not"] if depth else [])))
        match operation:
            case "and" | "or":
                (left, left_of), (right, right_of) = predicate(depth - 1), predicate(depth - 1)
                if operation == "and":
                    return E.And(left, right), lambda value: left_of(value) and right_of(value)
                return E.Or(left, right), lambda value: left_of(value) or right_of(value)
            case "not":
                child, of = predicate(depth - 1)
                return E.Not(child), lambda value: not of(value)
            case "in":
                members = data.draw(st.lists(st.sampled_from(pool), min_size=2, max_size=3))
                node = E.BoundIn(term, {literal(internal(member)) for member in members})
                return node, lambda value: value is not None and value in [internal(member) for member in members]
            case "null":
                return E.BoundIsNull(term), lambda value: value is None
        relation = data.draw(st.sampled_from(list(COMPARISONS)))
        right = internal(data.draw(st.sampled_from(pool)))
        null_matches = relation is E.BoundNotEqualTo
        return relation(
            term, literal(right)
        ), lambda value: null_matches if value is None else COMPARISONS[relation](value, right)

    expression, matches = predicate(2)
    column = column_of(kind, values)
    if nested:
        column = pa.StructArray.from_arrays([column], names=["leaf"])
    batch = batches.batch([column, pa.array(range(len(values)))])
    expected = [row for row, value in enumerate(values) if matches(internal(value))]
    assert batches.column(schema, batches.operations.filter(schema, expression)(batch), 1) == expected


@every_batch_type
@FEW
@given(kind=st.sampled_from(list(FLAT)), cut=st.integers(0, 8), length=st.integers(1, 3), data=st.data())
def test_bounds_enclose_every_value_however_it_is_cut_into_batches(
    batches: BatchType, kind: IcebergType, cut: int, length: int, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | FLAT[kind], max_size=8))
    modes = {1: MetricsMode.parse(f"truncate({length})")}
    collector = batches.operations.collector(Schema(NestedField(1, "c", kind)), modes)
    for part in (values[:cut], values[cut:]):
        collector.update(batches.batch([column_of(kind, part)]))
    metrics = collector.finish().columns[1]
    present = [internal(value) for value in values if value is not None]
    numbers = list(filter(is_number, present))
    assert metrics.value_count == len(values)
    assert metrics.null_count == len(values) - len(present)
    assert metrics.nan_count in (None, len(present) - len(numbers))
    assert (metrics.lower is None) == (not numbers)
    for value in numbers:
        assert metrics.lower <= value
        assert metrics.upper is None or value <= metrics.upper
    if isinstance(metrics.upper, str):
        metrics.upper.encode()
