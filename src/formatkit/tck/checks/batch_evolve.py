"""Evolution of batches: a file's columns as the table sees them, by id at every level."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.errors import IllegalPromotionError, InvalidDataError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import DATA_SETS, NANOSECONDS, NESTED
from formatkit.tck.kits import BatchKit
from formatkit.tck.literals import internal
from formatkit.tck.naive import Row
from formatkit.tck.nesting import NESTINGS, list_of, map_of, one_column
from formatkit.tck.samples import SAMPLES

_DAY = 86_400_000_000
_PROMOTIONS: list[tuple[IcebergType, IcebergType, list[Any], list[Any]]] = [
    (IntegerType(), LongType(), [-(2**31), None, 2**31 - 1], [-(2**31), None, 2**31 - 1]),
    (
        FloatType(),
        DoubleType(),
        [internal(0.1, FloatType()), None, math.nan, -0.0],
        [0.10000000149011612, None, math.nan, -0.0],
    ),
    (DecimalType(9, 2), DecimalType(38, 2), [Decimal("-9999999.99"), None], [Decimal("-9999999.99"), None]),
    (DateType(), TimestampType(), [-719_162, -1, None, 2_932_896], [-719_162 * _DAY, -_DAY, None, 2_932_896 * _DAY]),
    (DateType(), TimestampNanoType(), [-1, None, 1], [-_DAY * 1000, None, _DAY * 1000]),
]
_OLD = StructType(NestedField(11, "x", IntegerType()))
_NEW = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", StringType(), initial_default="d"))
_KINDS: list[IcebergType] = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    StringType(),
    BinaryType(),
    UUIDType(),
    FixedType(8),
    DecimalType(9, 2),
    DecimalType(18, 2),
    DecimalType(18, 4),
    _OLD,
    list_of(StringType()),
    map_of(StringType()),
]
# Reading binary as text is left to the batch type: Iceberg's rules lack it, and many files need it.
_LEGAL = {
    (IntegerType(), LongType()),
    (FloatType(), DoubleType()),
    (DateType(), TimestampType()),
    (DateType(), TimestampNanoType()),
    (DecimalType(9, 2), DecimalType(18, 2)),
    (BinaryType(), StringType()),
}


@check("B4", layer=Layer.BATCH)
def evolving_to_the_same_schema_keeps_every_value(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        expect.equal_rows(kit.evolved(data.schema, data.schema, data.rows), data.rows, f"rows of {data.name}")


@check("B4", layer=Layer.BATCH)
def evolving_what_already_is_as_asked_returns_the_same_object(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        batch = kit.operations.concat(data.schema, [kit.batch(data.schema, data.rows)])
        evolved = kit.operations.evolve(data.schema, data.schema, {})(batch)
        expect.that(evolved is batch, f"a batch of {data.name} that is what is asked for was made anew")


@check("B1", layer=Layer.BATCH)
def evolving_gives_one_form_whatever_form_the_batch_has(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        canonical = kit.form(kit.operations.concat(data.schema, []))
        step = kit.operations.evolve(data.schema, data.schema, {})
        for form, batch in kit.forms(data.schema, data.rows):
            expect.equal(kit.form(step(batch)), canonical, f"form of {data.name} that came in the form {form!r}")


@check("B1", "B4", layer=Layer.BATCH)
def evolving_keeps_the_values_of_every_form(kit: BatchKit[Any]) -> None:
    for data in (*DATA_SETS, NANOSECONDS):
        step = kit.operations.evolve(data.schema, data.schema, {})
        for form, batch in kit.forms(data.schema, data.rows):
            found = kit.rows(data.schema, step(batch))
            expect.equal_rows(found, data.rows, f"rows of {data.name} that came in the form {form!r}")


@check("B4", layer=Layer.BATCH)
def evolving_promotes_exactly(kit: BatchKit[Any]) -> None:
    for source, target, before, after in _PROMOTIONS:
        found = kit.evolved(one_column(source), one_column(target), [{1: value} for value in before])
        expect.equal_rows(found, [{1: value} for value in after], f"{source} as {target}")


@check("B4", layer=Layer.BATCH)
def evolving_promotes_inside_structs_lists_and_maps(kit: BatchKit[Any]) -> None:
    for source, target, before, after in _PROMOTIONS:
        for nest, hold in NESTINGS.values():
            found = kit.evolved(one_column(nest(source)), one_column(nest(target)), [{1: None}, {1: hold(before)}])
            expect.equal_rows(found, [{1: None}, {1: hold(after)}], f"{nest(source)} as {nest(target)}")


@check("B4", layer=Layer.BATCH)
def evolving_a_column_of_unknown_type_gives_nulls_of_any_type(kit: BatchKit[Any]) -> None:
    nested: list[IcebergType] = [_NEW, list_of(_NEW), map_of(_NEW)]
    for target in [sample.kind for sample in SAMPLES] + nested:
        found = kit.evolved(one_column(UnknownType()), one_column(target), [{1: None}] * 2)
        expect.equal_rows(found, [{1: None}] * 2, f"unknown as {target}")


@check("B4", layer=Layer.BATCH)
def evolving_matches_columns_by_id_not_by_name_or_place(kit: BatchKit[Any]) -> None:
    source = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", IntegerType()))
    rows: list[Row] = [{1: 1, 2: 10}, {1: None, 2: 20}]
    for target in (
        Schema(NestedField(2, "b", IntegerType()), NestedField(1, "a", IntegerType())),
        Schema(NestedField(1, "b", IntegerType()), NestedField(2, "a", IntegerType())),
        Schema(NestedField(2, "a", IntegerType()), NestedField(1, "b", IntegerType())),
        Schema(NestedField(1, "c", IntegerType()), NestedField(2, "d", IntegerType())),
    ):
        expect.equal_rows(kit.evolved(source, target, rows), rows, f"rows as {target}")


@check("B4", layer=Layer.BATCH)
def evolving_gives_columns_the_names_and_the_order_that_are_asked_for(kit: BatchKit[Any]) -> None:
    source = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", StringType()))
    target = Schema(NestedField(2, "text", StringType()), NestedField(1, "b", IntegerType()))
    batch = kit.operations.evolve(source, target, {})(kit.batch(source, [{1: 1, 2: "x"}]))
    expect.equal(kit.bridge.to_arrow(batch).schema.names, ["text", "b"], "names of the columns")


@check("B4", layer=Layer.BATCH)
def evolving_matches_children_by_id_at_every_level(kit: BatchKit[Any]) -> None:
    source = StructType(NestedField(11, "a", IntegerType()), NestedField(12, "b", IntegerType()))
    target = StructType(NestedField(12, "a", IntegerType()), NestedField(11, "b", LongType()))
    for nest, hold in NESTINGS.values():
        rows: list[Row] = [{1: hold([{11: 1, 12: 2}, None, {11: None, 12: 4}])}, {1: None}]
        expect.equal_rows(
            kit.evolved(one_column(nest(source)), one_column(nest(target)), rows), rows, f"{nest(target)}"
        )


@check("B4", layer=Layer.BATCH)
def evolving_drops_what_is_not_asked_for_at_every_level(kit: BatchKit[Any]) -> None:
    wide = StructType(NestedField(11, "a", IntegerType()), NestedField(12, "b", list_of(StringType(), 90)))
    for nest, hold in NESTINGS.values():
        source = Schema(NestedField(1, "x", nest(wide)), NestedField(9, "dropped", StringType()))
        rows: list[Row] = [{1: hold([{11: 1, 12: ["x"]}, None, {11: None, 12: None}]), 9: "gone"}]
        target = one_column(nest(StructType(NestedField(11, "a", IntegerType()))))
        expected = [{1: hold([{11: 1}, None, {11: None}])}]
        expect.equal_rows(kit.evolved(source, target, rows), expected, f"rows as {target}")


@check("B1", "B4", layer=Layer.BATCH)
def evolving_a_slice_evolves_its_own_rows_only(kit: BatchKit[Any]) -> None:
    renamed = Schema(
        *(NestedField(field.field_id, f"new {field.name}", field.field_type) for field in NESTED.schema.fields)
    )
    whole = kit.batch(NESTED.schema, NESTED.rows)
    step = kit.operations.evolve(NESTED.schema, renamed, {})
    for offset, length in ((0, 5), (1, 4), (1, 2), (2, 1), (3, 2), (5, 0)):
        found = kit.rows(renamed, step(kit.operations.slice(whole, offset, length)))
        expect.equal_rows(found, NESTED.rows[offset : offset + length], f"{length} rows from {offset}")


@check("B1", "B4", layer=Layer.BATCH)
def evolving_a_slice_does_not_judge_the_values_beside_it(kit: BatchKit[Any]) -> None:
    source, target = one_column(list_of(DateType())), one_column(list_of(TimestampNanoType()))
    batch = kit.operations.slice(kit.batch(source, [{1: [2**31 - 1]}, {1: [1]}, {1: None}]), 1, 2)
    found = kit.rows(target, kit.operations.evolve(source, target, {})(batch))
    expect.equal_rows(found, [{1: [_DAY * 1000]}, {1: None}])


@check("B4", layer=Layer.BATCH)
def evolving_refuses_every_other_change_of_type_while_compiling(kit: BatchKit[Any]) -> None:
    for source, target in permutations(_KINDS, 2):
        if (source, target) not in _LEGAL:
            with expect.raises(IllegalPromotionError, when=f"{source} is asked for as {target}"):
                kit.operations.evolve(one_column(source), one_column(target), {})


@check("B4", layer=Layer.BATCH)
def evolving_refuses_a_change_of_type_deep_inside_while_compiling(kit: BatchKit[Any]) -> None:
    for nest, _ in NESTINGS.values():
        source, target = one_column(nest(StringType())), one_column(nest(LongType()))
        with expect.raises(IllegalPromotionError, when=f"{source} is asked for as {target}"):
            kit.operations.evolve(source, target, {})


@check("B4", layer=Layer.BATCH)
def evolving_refuses_a_date_that_does_not_fit_the_timestamp(kit: BatchKit[Any]) -> None:
    for target in (TimestampType(), TimestampNanoType()):
        for days in (2**31 - 1, -(2**31)):
            with expect.raises(InvalidDataError, when=f"day {days} is asked for as {target}"):
                kit.evolved(one_column(DateType()), one_column(target), [{1: 0}, {1: days}])


@check("B1", "B4", layer=Layer.BATCH)
def evolving_refuses_a_value_that_does_not_fit_its_type(kit: BatchKit[Any]) -> None:
    for kind, column in (
        (IntegerType(), pa.array([2**31], pa.int64())),
        (IntegerType(), pa.array([-(2**40)], pa.int64())),
        (LongType(), pa.array([2**63], pa.uint64())),
        (DecimalType(3, 2), pa.array([Decimal("123.45")], pa.decimal128(9, 2))),
        (TimestampType(), pa.array([1], pa.timestamp("ns"))),
    ):
        batch = kit.bridge.from_arrow(pa.RecordBatch.from_arrays([column], names=["x"]))
        with expect.raises(InvalidDataError, when=f"a {column.type} beyond {kind} is asked for"):
            kit.operations.evolve(one_column(kind), one_column(kind), {})(batch)
