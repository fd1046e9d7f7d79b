"""Evolution of batches where the file lacks a field: constants, defaults, nulls, and what may not be missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.errors import InvalidDataError, MissingRequiredFieldError
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.kits import BatchKit
from formatkit.tck.literals import internal
from formatkit.tck.naive import Row
from formatkit.tck.nesting import NESTINGS, list_of, map_of, one_column, with_default
from formatkit.tck.samples import SAMPLES

_ID = NestedField(1, "id", LongType())
_TWO_ROWS: Sequence[Row] = [{1: 1}, {1: None}]
_OLD = StructType(NestedField(11, "x", IntegerType()))
_NEW = StructType(NestedField(11, "x", IntegerType()), NestedField(12, "y", StringType(), initial_default="d"))
_PYTHONS_OWN: list[tuple[IcebergType, Any]] = [
    (BooleanType(), False),
    (IntegerType(), 0),
    (DoubleType(), 1),
    (DecimalType(9, 2), Decimal("1.1")),
    (DateType(), date(1969, 12, 31)),
    (TimeType(), time(1, 2, 3, 4)),
    (TimestampType(), datetime(1969, 1, 1, 1)),
    (TimestamptzType(), datetime(2020, 1, 1, tzinfo=UTC)),
    (StringType(), ""),
    (UUIDType(), UUID(int=7)),
    (BinaryType(), b""),
]


@check("B4", layer=Layer.BATCH)
def evolving_shows_no_old_values_in_a_column_that_was_dropped_and_added_again(kit: BatchKit[Any]) -> None:
    source, target = Schema(NestedField(1, "a", IntegerType())), Schema(NestedField(2, "a", IntegerType()))
    expect.equal_rows(kit.evolved(source, target, [{1: 1}, {1: 2}]), [{2: None}, {2: None}])
    inside = StructType(NestedField(13, "x", IntegerType()))
    found = kit.evolved(one_column(_OLD), one_column(inside), [{1: {11: 1}}, {1: None}])
    expect.equal_rows(found, [{1: {13: None}}, {1: None}], "rows of structs")


@check("B4", layer=Layer.BATCH)
def evolving_gives_an_absent_field_the_default_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        for default in (sample.ascending[0], sample.ascending[-1]):
            for required in (False, True):
                field = with_default(NestedField(2, "new", sample.kind, required=required), default)
                found = kit.evolved(Schema(_ID), Schema(_ID, field), _TWO_ROWS)
                expect.equal_rows(found, [{**row, 2: default} for row in _TWO_ROWS], f"default of {sample}")


@check("B4", layer=Layer.BATCH)
def evolving_takes_defaults_and_constants_as_values_of_python_too(kit: BatchKit[Any]) -> None:
    for kind, value in _PYTHONS_OWN:
        expected = [{**row, 2: internal(value, kind)} for row in _TWO_ROWS]
        field = NestedField(2, "new", kind)
        defaulted = kit.evolved(Schema(_ID), Schema(_ID, with_default(field, value)), _TWO_ROWS)
        expect.equal_rows(defaulted, expected, f"default {value!r}")
        constant = kit.evolved(Schema(_ID), Schema(_ID, field), _TWO_ROWS, {2: value})
        expect.equal_rows(constant, expected, f"constant {value!r}")


@check("B4", layer=Layer.BATCH)
def evolving_gives_an_absent_optional_field_null_of_every_type(kit: BatchKit[Any]) -> None:
    nested: list[IcebergType] = [_NEW, list_of(_NEW), map_of(_NEW), UnknownType()]
    for kind in [sample.kind for sample in SAMPLES] + nested:
        found = kit.evolved(Schema(_ID), Schema(_ID, NestedField(2, "new", kind)), _TWO_ROWS)
        expect.equal_rows(found, [{**row, 2: None} for row in _TWO_ROWS], f"absent {kind}")


@check("B4", layer=Layer.BATCH)
def evolving_takes_a_constant_before_a_default_even_if_it_is_null(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        field = with_default(NestedField(2, "new", sample.kind), sample.ascending[-1])
        for constant in (sample.ascending[0], None):
            found = kit.evolved(Schema(_ID), Schema(_ID, field), _TWO_ROWS, {2: constant})
            expect.equal_rows(found, [{**row, 2: constant} for row in _TWO_ROWS], f"constant {constant!r} of {sample}")


@check("B4", layer=Layer.BATCH)
def evolving_takes_constants_inside_structs_too(kit: BatchKit[Any]) -> None:
    found = kit.evolved(one_column(_OLD), one_column(_NEW), [{1: {11: 1}}, {1: None}], {12: "c"})
    expect.equal_rows(found, [{1: {11: 1, 12: "c"}}, {1: None}])


@check("B4", layer=Layer.BATCH)
def evolving_lets_a_stored_column_win_over_a_constant(kit: BatchKit[Any]) -> None:
    expect.equal_rows(kit.evolved(Schema(_ID), Schema(_ID), _TWO_ROWS, {1: 9}), _TWO_ROWS)


@check("B4", layer=Layer.BATCH)
def evolving_takes_a_tuple_as_the_constant_of_a_struct(kit: BatchKit[Any]) -> None:
    kind = StructType(NestedField(11, "x", DateType()), NestedField(12, "y", StringType()))
    target = Schema(_ID, NestedField(2, "s", kind))
    found = kit.evolved(Schema(_ID), target, _TWO_ROWS, {2: (18_262, None)})
    expect.equal_rows(found, [{**row, 2: {11: 18_262, 12: None}} for row in _TWO_ROWS])


@check("B4", layer=Layer.BATCH)
def evolving_builds_the_default_of_a_struct_from_its_children(kit: BatchKit[Any]) -> None:
    deep = StructType(
        with_default(NestedField(21, "inner", _NEW), ()),
        NestedField(22, "z", IntegerType(), initial_default=3),
        NestedField(23, "none", StructType(NestedField(24, "y", IntegerType(), initial_default=4))),
    )
    there = {21: {11: None, 12: "d"}, 22: 3, 23: None}
    for default, value in (((), there), (None, None)):
        target = Schema(_ID, with_default(NestedField(2, "new", deep), default))
        found = kit.evolved(Schema(_ID), target, _TWO_ROWS)
        expect.equal_rows(found, [{**row, 2: value} for row in _TWO_ROWS], f"struct with the default {default}")


@check("B4", layer=Layer.BATCH)
def evolving_never_gives_a_stored_null_the_default(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), initial_default=5))
    expect.equal_rows(kit.evolved(schema, schema, [{1: None}, {1: 1}]), [{1: None}, {1: 1}])


@check("B4", layer=Layer.BATCH)
def evolving_leaves_a_null_parent_null_when_a_child_is_added(kit: BatchKit[Any]) -> None:
    found = kit.evolved(one_column(_OLD), one_column(_NEW), [{1: None}, {1: {11: 1}}, {1: {11: None}}])
    expect.equal_rows(found, [{1: None}, {1: {11: 1, 12: "d"}}, {1: {11: None, 12: "d"}}])


@check("B4", layer=Layer.BATCH)
def evolving_to_absent_children_alone_keeps_the_nulls_of_their_parent(kit: BatchKit[Any]) -> None:
    only_new = StructType(NestedField(12, "y", StringType(), initial_default="d"))
    found = kit.evolved(one_column(_OLD), one_column(only_new), [{1: {11: 1}}, {1: None}])
    expect.equal_rows(found, [{1: {12: "d"}}, {1: None}])


@check("B4", layer=Layer.BATCH)
def evolving_adds_children_inside_lists_and_maps_of_structs(kit: BatchKit[Any]) -> None:
    before: list[Any] = [[{11: 1}, None], None, [], [{11: None}, {11: 2}], [None]]
    after: list[Any] = [[{11: 1, 12: "d"}, None], None, [], [{11: None, 12: "d"}, {11: 2, 12: "d"}], [None]]
    for name in ("list", "map"):
        nest, hold = NESTINGS[name]
        found = kit.evolved(
            one_column(nest(_OLD)), one_column(nest(_NEW)), [{1: each and hold(each)} for each in before]
        )
        expect.equal_rows(found, [{1: each and hold(each)} for each in after], f"{name}s of structs")


@check("B4", layer=Layer.BATCH)
def evolving_refuses_a_missing_required_field_while_compiling(kit: BatchKit[Any]) -> None:
    new = NestedField(12, "new", IntegerType(), required=True)
    old = StructType(NestedField(11, "x", IntegerType()))
    with expect.raises(MissingRequiredFieldError, when="a required column is missing"):
        kit.operations.evolve(Schema(*old.fields), Schema(*old.fields, new), {})
    for nest, _ in NESTINGS.values():
        source, target = one_column(nest(old)), one_column(nest(StructType(*old.fields, new)))
        with expect.raises(MissingRequiredFieldError, when=f"a required field is missing in {target}"):
            kit.operations.evolve(source, target, {})


@check("B4", layer=Layer.BATCH)
def evolving_refuses_null_as_the_constant_of_a_required_field_while_compiling(kit: BatchKit[Any]) -> None:
    target = Schema(_ID, NestedField(2, "new", IntegerType(), required=True))
    with expect.raises(MissingRequiredFieldError, when="the constant of a required column is null"):
        kit.operations.evolve(Schema(_ID), target, {2: None})


@check("B4", layer=Layer.BATCH)
def evolving_does_not_miss_required_children_of_an_absent_optional_struct(kit: BatchKit[Any]) -> None:
    target = Schema(_ID, NestedField(2, "s", StructType(NestedField(3, "x", IntegerType(), required=True))))
    expect.equal_rows(kit.evolved(Schema(_ID), target, _TWO_ROWS), [{**row, 2: None} for row in _TWO_ROWS])


@check("B4", layer=Layer.BATCH)
def evolving_refuses_a_null_where_only_the_target_is_required(kit: BatchKit[Any]) -> None:
    must = NestedField(11, "x", IntegerType(), required=True)
    cases: list[tuple[Schema, Schema, Any]] = [
        (one_column(IntegerType()), Schema(NestedField(1, "x", IntegerType(), required=True)), None),
        (one_column(_OLD), one_column(StructType(must)), {11: None}),
        (one_column(list_of(IntegerType())), one_column(ListType(90, IntegerType(), element_required=True)), [None]),
    ]
    for source, target, value in cases:
        with expect.raises(InvalidDataError, when=f"{value} is asked for as {target}"):
            kit.evolved(source, target, [{1: value}])


@check("B4", layer=Layer.BATCH)
def evolving_lets_a_null_parent_be_whatever_its_child_requires(kit: BatchKit[Any]) -> None:
    must = StructType(NestedField(11, "x", IntegerType(), required=True))
    rows: list[Row] = [{1: {11: 1}}, {1: None}]
    expect.equal_rows(kit.evolved(one_column(_OLD), one_column(must), rows), rows)


@check("B4", layer=Layer.BATCH)
def evolving_lets_a_required_field_become_optional(kit: BatchKit[Any]) -> None:
    source = Schema(NestedField(1, "x", IntegerType(), required=True))
    expect.equal_rows(kit.evolved(source, one_column(LongType()), [{1: 1}, {1: 2}]), [{1: 1}, {1: 2}])


@check("B4", layer=Layer.BATCH)
def evolving_keeps_the_number_of_rows_without_columns(kit: BatchKit[Any]) -> None:
    nothing = Schema()
    expect.equal(len(kit.evolved(Schema(_ID), nothing, _TWO_ROWS)), 2, "number of rows of which no column is left")
    new = Schema(NestedField(2, "new", StringType(), initial_default="x"))
    expect.equal_rows(kit.evolved(nothing, new, [{}, {}, {}]), [{2: "x"}] * 3, "columns of a batch that had none")


@check("B4", layer=Layer.BATCH)
def evolving_a_batch_without_rows_gives_none(kit: BatchKit[Any]) -> None:
    target = Schema(
        _ID, *(with_default(NestedField(n, f"c{n}", s.kind), s.ascending[0]) for n, s in enumerate(SAMPLES, 2))
    )
    expect.equal_rows(kit.evolved(Schema(_ID), target, []), [])
    expect.equal_rows(kit.evolved(one_column(list_of(_OLD)), one_column(list_of(_NEW)), []), [])


@check("B4", layer=Layer.BATCH)
def evolving_by_one_step_fits_batches_of_any_length(kit: BatchKit[Any]) -> None:
    target = Schema(
        _ID, NestedField(2, "new", StringType()), NestedField(3, "default", UUIDType(), initial_default=UUID(int=1))
    )
    step = kit.operations.evolve(Schema(_ID), target, {2: "x"})
    for length in (2, 5, 0, 3, 1):
        rows: list[Row] = [{1: number} for number in range(length)]
        expected = [{**row, 2: "x", 3: UUID(int=1).bytes} for row in rows]
        expect.equal_rows(kit.rows(target, step(kit.batch(Schema(_ID), rows))), expected, f"{length} rows")
