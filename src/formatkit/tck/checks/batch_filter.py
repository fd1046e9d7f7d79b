"""Filters of batches: the two-valued logic of Iceberg's expressions, for every operator and type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from pyiceberg import expressions
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, BoundReference, Not, Or
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from formatkit.tck import expect, naive
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import NESTED, DataSet, numbered
from formatkit.tck.kits import BatchKit
from formatkit.tck.samples import FLOATS, SAMPLES, Sample

_E: Any = expressions  # PyIceberg's constructors are not the ones that their types tell of
_OPERATORS: dict[str, Any] = {
    "=": _E.BoundEqualTo,
    "!=": _E.BoundNotEqualTo,
    "<": _E.BoundLessThan,
    "<=": _E.BoundLessThanOrEqual,
    ">": _E.BoundGreaterThan,
    ">=": _E.BoundGreaterThanOrEqual,
    "starts with": _E.BoundStartsWith,
    "not starts with": _E.BoundNotStartsWith,
    "in": _E.BoundIn,
    "not in": _E.BoundNotIn,
    "is null": _E.BoundIsNull,
    "is not null": _E.BoundNotNull,
    "is NaN": _E.BoundIsNaN,
    "is not NaN": _E.BoundNotNaN,
}
_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COLUMN = 2
_TWO_COLUMNS = numbered(
    "two columns with nulls",
    a=(IntegerType(), [1, 1, 1, None, None, None, 2, 2, 2]),
    b=(IntegerType(), [1, None, 2, 1, None, 2, 1, None, 2]),
)


@check("B2", layer=Layer.BATCH)
def a_filter_by_equality_keeps_equal_values_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        data = _column(sample.kind, sample.shuffled)
        for value in sample.ascending:
            _judge(kit, data, _where(data.schema, "=", value), [own == value for own in sample.shuffled])


@check("B2", "X09", layer=Layer.BATCH)
def a_filter_by_inequality_keeps_nulls_and_all_other_values_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        data = _column(sample.kind, sample.shuffled)
        for value in sample.ascending:
            _judge(kit, data, _where(data.schema, "!=", value), [own != value for own in sample.shuffled])


@check("B2", layer=Layer.BATCH)
def a_filter_by_order_follows_the_order_of_every_type(kit: BatchKit[Any]) -> None:
    for sample, (symbol, holds) in product(SAMPLES, _ORDERS.items()):
        ranks = range(len(sample.ascending))
        data = _column(sample.kind, sample.ascending)
        for rank in ranks:
            keep = [holds(own, rank) for own in ranks]
            _judge(kit, data, _where(data.schema, symbol, sample.ascending[rank]), keep)


@check("B2", "X10", layer=Layer.BATCH)
def a_filter_by_order_drops_nulls_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        least, most = sample.ascending[0], sample.ascending[-1]
        data = _column(sample.kind, [None, least, None, most, None])
        _judge(kit, data, _where(data.schema, "<", most), [False, True, False, False, False])
        _judge(kit, data, _where(data.schema, "<=", most), [False, True, False, True, False])
        _judge(kit, data, _where(data.schema, ">", least), [False, False, False, True, False])
        _judge(kit, data, _where(data.schema, ">=", least), [False, True, False, True, False])


@check("B2", "X10", "X11", layer=Layer.BATCH)
def a_filter_by_order_or_equality_drops_nan(kit: BatchKit[Any]) -> None:
    comparisons = {"=": operator.eq, **_ORDERS}
    for kind, (symbol, holds) in product(FLOATS, comparisons.items()):
        for values in ([math.nan, 1.0, math.nan], [math.nan] * 3, [1.0, None, math.nan]):
            data = _column(kind, values)
            for bound in (0.5, 1.0, math.inf, -math.inf):
                keep = [own is not None and not math.isnan(own) and holds(own, bound) for own in values]
                _judge(kit, data, _where(data.schema, symbol, bound), keep)


@check("B2", "X11", layer=Layer.BATCH)
def a_filter_by_inequality_keeps_nan(kit: BatchKit[Any]) -> None:
    for kind in FLOATS:
        data = _column(kind, [math.nan, 1.0, None, 2.0])
        _judge(kit, data, _where(data.schema, "!=", 1.0), [True, False, True, True])
        _judge(kit, data, _where(data.schema, "not in", 1.0, 2.0), [True, False, True, False])


@check("B2", layer=Layer.BATCH)
def a_filter_by_a_set_keeps_its_members_of_every_type(kit: BatchKit[Any]) -> None:
    for sample, members in _sets():
        data = _column(sample.kind, sample.shuffled)
        _judge(kit, data, _where(data.schema, "in", *members), [own in members for own in sample.shuffled])


@check("B2", "X09", layer=Layer.BATCH)
def a_filter_that_rules_out_a_set_keeps_nulls_and_all_other_values_of_every_type(kit: BatchKit[Any]) -> None:
    for sample, members in _sets():
        data = _column(sample.kind, sample.shuffled)
        _judge(kit, data, _where(data.schema, "not in", *members), [own not in members for own in sample.shuffled])


@check("B2", layer=Layer.BATCH)
def a_filter_for_nulls_finds_them_in_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        for values in (sample.shuffled, [None] * 3, list(sample.ascending)):
            data = _column(sample.kind, values)
            _judge(kit, data, _where(data.schema, "is null"), [own is None for own in values])
            _judge(kit, data, _where(data.schema, "is not null"), [own is not None for own in values])


@check("B2", "X09", "X11", layer=Layer.BATCH)
def a_filter_for_nan_tells_it_from_null_and_from_infinity(kit: BatchKit[Any]) -> None:
    for kind in FLOATS:
        data = _column(kind, [math.nan, None, math.inf, 0.0, math.nan])
        _judge(kit, data, _where(data.schema, "is NaN"), [True, False, False, False, True])
        _judge(kit, data, _where(data.schema, "is not NaN"), [False, True, True, True, False])


@check("B2", "X23", layer=Layer.BATCH)
def a_filter_takes_both_zeros_as_equal(kit: BatchKit[Any]) -> None:
    for kind, zero in product(FLOATS, (0.0, -0.0)):
        for values in ([-0.0, -0.0], [0.0, 0.0], [0.0, -0.0, 1.5]):
            data = _column(kind, values)
            for symbol, literals in (("=", [zero]), ("in", [zero, 9.0]), ("<=", [zero])):
                _judge(kit, data, _where(data.schema, symbol, *literals), [own == 0 for own in values])
            for symbol, literals in (("!=", [zero]), ("not in", [zero, 9.0]), (">", [zero])):
                _judge(kit, data, _where(data.schema, symbol, *literals), [own != 0 for own in values])
            _judge(kit, data, _where(data.schema, "<", zero), [False for _ in values])


@check("B2", "X09", layer=Layer.BATCH)
def a_filter_by_a_prefix_drops_nulls_and_its_opposite_keeps_them(kit: BatchKit[Any]) -> None:
    texts = ["", "a", "ab", "abc", "b", "A", "é", "%a", "a%", None]
    for prefix in ("", "a", "ab", "abcd", "é", "%", "_"):
        starts = [text is not None and text.startswith(prefix) for text in texts]
        data = _column(StringType(), texts)
        _judge(kit, data, _where(data.schema, "starts with", prefix), starts)
        _judge(kit, data, _where(data.schema, "not starts with", prefix), [not does for does in starts])


@check("B2", layer=Layer.BATCH)
def a_filter_orders_strings_by_their_utf8_bytes(kit: BatchKit[Any]) -> None:
    data = _column(StringType(), ["\U0001f600", "\uffff", "z", "Z", "é", "e\u0301", "a\0", "a"])
    _judge(kit, data, _where(data.schema, ">", "\uffff"), [True, *[False] * 7])
    _judge(kit, data, _where(data.schema, "<", "a\0"), [False, False, False, True, False, False, False, True])
    _judge(kit, data, _where(data.schema, ">=", "é"), [True, True, False, False, True, False, False, False])


@check("B2", layer=Layer.BATCH)
def a_filter_orders_uuid_fixed_and_binary_by_unsigned_bytes(kit: BatchKit[Any]) -> None:
    low, high = b"\x7f" + b"\xff" * 15, b"\x80" + bytes(15)
    for kind in (UUIDType(), FixedType(16), BinaryType()):
        data = _column(kind, [high, low, None])
        _judge(kit, data, _where(data.schema, "<", high), [False, True, False])
        _judge(kit, data, _where(data.schema, ">", low), [True, False, False])
    data = _column(BinaryType(), [b"\x80\0", b"\x80", b"\x7f\xff", b""])
    _judge(kit, data, _where(data.schema, "<=", b"\x80"), [False, True, True, True])


@check("B2", "X26", layer=Layer.BATCH)
def a_filter_by_a_set_of_any_size_keeps_exactly_its_members(kit: BatchKit[Any]) -> None:
    values = [None, *range(-5, 300), 9_998, 9_999, 10_000, 19_998, 19_999, 20_000]
    data = _column(LongType(), values)
    for size in (1, 200, 201, 10_000):
        members = {number * 2 for number in range(size)}
        _judge(kit, data, _where(data.schema, "in", *members), [own in members for own in values])
        _judge(kit, data, _where(data.schema, "not in", *members), [own not in members for own in values])


@check("B2", "X26", layer=Layer.BATCH)
def a_filter_by_a_set_of_strings_of_any_size_keeps_exactly_its_members(kit: BatchKit[Any]) -> None:
    values = [None, "", "0", "00", "199", "200", "201", "9999", "10000", "é"]
    data = _column(StringType(), values)
    for size in (1, 200, 201, 10_000):
        members = {str(number) for number in range(size)}
        _judge(kit, data, _where(data.schema, "in", *members), [own in members for own in values])


@check("B2", "X26", layer=Layer.BATCH)
def a_filter_combines_conditions_by_two_valued_logic(kit: BatchKit[Any]) -> None:
    data, schema = _TWO_COLUMNS, _TWO_COLUMNS.schema
    a, b = _where(schema, "=", 1, column=2), _where(schema, "=", 1, column=3)
    _judge(kit, data, And(a, b), [row[2] == 1 and row[3] == 1 for row in data.rows])
    _judge(kit, data, Or(a, b), [row[2] == 1 or row[3] == 1 for row in data.rows])


@check("B2", "X26", layer=Layer.BATCH)
def a_filter_that_is_negated_keeps_exactly_the_other_rows(kit: BatchKit[Any]) -> None:
    texts = _column(StringType(), ["a", None, "ab", "", "b"])
    doubles = _column(DoubleType(), [1.0, None, math.nan, 2.0, -0.0])
    conditions = [(texts, _where(texts.schema, symbol, "a")) for symbol in ("starts with", "not starts with")]
    conditions += [(doubles, _where(doubles.schema, symbol, 1.0)) for symbol in ("=", "!=", *_ORDERS)]
    conditions += [(doubles, _where(doubles.schema, symbol, 1.0, 2.0)) for symbol in ("in", "not in")]
    conditions += [(doubles, _where(doubles.schema, symbol)) for symbol in _OPERATORS if symbol.startswith("is ")]
    for data, condition in conditions:
        _judge(kit, data, Not(condition), [not naive.matches(row, data.schema, condition) for row in data.rows])


@check("B2", "X26", layer=Layer.BATCH)
def a_filter_nests_conditions_to_any_depth(kit: BatchKit[Any]) -> None:
    data, schema = _TWO_COLUMNS, _TWO_COLUMNS.schema
    a, b = _where(schema, ">", 1, column=2), _where(schema, "is null", column=3)
    _judge(kit, data, Not(Or(a, b)), [not ((row[2] or 0) > 1 or row[3] is None) for row in data.rows])
    _judge(kit, data, Not(And(a, Not(b))), [not ((row[2] or 0) > 1 and row[3] is not None) for row in data.rows])
    deep: BooleanExpression = a
    for number in range(60):
        deep = Not(And(deep, AlwaysTrue())) if number % 2 else Not(Or(AlwaysFalse(), deep))
    _judge(kit, data, deep, [(row[2] or 0) > 1 for row in data.rows])


@check("B2", layer=Layer.BATCH)
def a_filter_on_a_leaf_of_a_struct_takes_null_parents_as_null(kit: BatchKit[Any]) -> None:
    for symbol, literals, keep in (
        ("=", [0.5], [0]),
        ("!=", [0.5], [1, 2, 3, 4]),
        ("<", [9.0], [0, 4]),
        ("is null", [], [1, 2, 3]),
        ("is not null", [], [0, 4]),
    ):
        condition = _where(NESTED.schema, symbol, *literals, column=43)
        _judge(kit, NESTED, condition, [number in keep for number in range(5)])


@check("B2", layer=Layer.BATCH)
def a_filter_does_not_see_what_lies_under_a_null_parent(kit: BatchKit[Any]) -> None:
    required = StructType(NestedField(11, "x", IntegerType(), required=True))
    data = numbered("required child", parent=(required, [{11: 0}, None, {11: 1}, None]))
    for symbol, literals, keep in (
        ("=", [0], [0]),
        ("!=", [1], [0, 1, 3]),
        ("<", [1], [0]),
        ("in", [0, 1], [0, 2]),
    ):
        condition = _where(data.schema, symbol, *literals, column=11)
        _judge(kit, data, condition, [number in keep for number in range(4)])


@check("B2", layer=Layer.BATCH)
def a_filter_for_nulls_sees_structs_lists_and_maps_as_wholes(kit: BatchKit[Any]) -> None:
    for column, nulls in ((2, [1]), (3, [1]), (4, [1]), (5, [1]), (6, [1]), (42, [1, 2]), (45, [1, 2])):
        are_null = [number in nulls for number in range(5)]
        _judge(kit, NESTED, _where(NESTED.schema, "is null", column=column), are_null)
        not_null = [not each for each in are_null]
        _judge(kit, NESTED, _where(NESTED.schema, "is not null", column=column), not_null)


@check("B2", layer=Layer.BATCH)
def a_filter_finds_its_column_by_id_not_by_place_or_name(kit: BatchKit[Any]) -> None:
    schema = Schema(
        NestedField(7, "b", IntegerType()), NestedField(5, "a", IntegerType()), NestedField(1, "c", IntegerType())
    )
    data = DataSet("ids out of order", schema, [{7: 1, 5: 2, 1: 3}, {7: 2, 5: 3, 1: 1}, {7: 3, 5: 1, 1: 2}])
    for column in (7, 5, 1):
        condition = _where(schema, "=", 1, column=column)
        _judge(kit, data, condition, [row[column] == 1 for row in data.rows])


@check("B1", "B2", layer=Layer.BATCH)
def a_filter_treats_every_physical_form_alike(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        data = _column(sample.kind, sample.shuffled)
        conditions = [_where(data.schema, symbol, sample.ascending[1]) for symbol in ("=", "!=", "<", ">=")]
        conditions += [_where(data.schema, symbol, *sample.ascending[:2]) for symbol in ("in", "not in")]
        conditions += [_where(data.schema, symbol) for symbol in ("is null", "is not null")]
        for (form, batch), condition in product(kit.forms(data.schema, data.rows), conditions):
            left = kit.operations.filter(data.schema, condition)(batch)
            expected = [row for row in data.rows if naive.matches(row, data.schema, condition)]
            what = f"rows of {data.name} in the form {form!r} where {_words(condition)}"
            expect.equal_rows(kit.rows(data.schema, left), expected, what)


@check("B1", layer=Layer.BATCH)
def a_filter_leaves_the_form_of_columns_as_it_is(kit: BatchKit[Any]) -> None:
    data = numbered("texts and bytes", text=(StringType(), ["a", "b", None]), bytes=(BinaryType(), [b"a", None, b"b"]))
    for form, batch in kit.forms(data.schema, data.rows):
        left = kit.operations.filter(data.schema, _where(data.schema, "!=", 1, column=1))(batch)
        expect.equal(kit.form(left), kit.form(batch), f"form {form!r} after a filter")


@check("B2", layer=Layer.BATCH)
def a_filter_that_keeps_all_rows_returns_the_same_object(kit: BatchKit[Any]) -> None:
    data = _column(IntegerType(), [1, 2, 3])
    batch = kit.batch(data.schema, data.rows)
    for condition in (
        AlwaysTrue(),
        _where(data.schema, "<", 9),
        _where(data.schema, "is not null"),
        Or(_where(data.schema, "<=", 2), _where(data.schema, ">", 2)),
    ):
        left = kit.operations.filter(data.schema, condition)(batch)
        expect.that(left is batch, f"a filter that keeps all rows ({_words(condition)}) made a new batch")


@check("B2", layer=Layer.BATCH)
def a_filter_that_no_row_passes_leaves_an_empty_batch(kit: BatchKit[Any]) -> None:
    for data in (NESTED, _column(IntegerType(), [1, 2, None])):
        for condition in (AlwaysFalse(), _where(data.schema, "<", 0, column=1)):
            _judge(kit, data, condition, [False for _ in data.rows])


@check("B2", layer=Layer.BATCH)
def a_filter_of_a_batch_without_rows_leaves_it_without_rows(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        schema = _column(sample.kind, []).schema
        batch = kit.batch(schema, [])
        for symbol, literals in (("=", sample.ascending[:1]), ("in", sample.ascending[:2]), ("is null", [])):
            left = kit.operations.filter(schema, _where(schema, symbol, *literals))(batch)
            expect.equal(kit.operations.num_rows(left), 0, f"number of rows of {sample}")
            expect.that(left is batch, f"a filter of no rows of {sample} made a new batch")


@check("B2", layer=Layer.BATCH)
def a_filter_step_can_be_applied_to_many_batches(kit: BatchKit[Any]) -> None:
    schema = _column(IntegerType(), []).schema
    step = kit.operations.filter(schema, _where(schema, ">", 1))
    for values in ([1, 2], [], [5, None, 0, 7], [1], [9, 9, 9]):
        rows = _column(IntegerType(), values).rows
        expected = [row for row in rows if (row[2] or 0) > 1]
        expect.equal_rows(kit.rows(schema, step(kit.batch(schema, rows))), expected, f"rows of {values} above 1")


def _column(kind: IcebergType, values: Sequence[Any]) -> DataSet:
    """A column of these values, behind one that counts the rows."""
    return numbered(f"column of {kind}", x=(kind, values))


def _where(schema: Schema, symbol: str, *literals: Any, column: int = _COLUMN) -> BooleanExpression:
    term = BoundReference(schema.find_field(column), schema.accessor_for_field(column))
    if symbol in ("in", "not in"):
        return _OPERATORS[symbol](term, {literal(value) for value in literals})  # type: ignore[no-any-return]
    return _OPERATORS[symbol](term, *map(literal, literals))  # type: ignore[no-any-return]


def _sets() -> Iterator[tuple[Sample, list[Any]]]:
    for sample in SAMPLES:
        for members in (sample.ascending[:1], sample.ascending[:2], sample.ascending[-2:], sample.ascending):
            yield sample, list(members)


def _judge(kit: BatchKit[Any], data: DataSet, condition: BooleanExpression, keep: Sequence[bool]) -> None:
    """The condition must keep exactly the rows that are marked."""
    expected = [row for row, kept in zip(data.rows, keep, strict=True) if kept]
    left = kit.operations.filter(data.schema, condition)(kit.batch(data.schema, data.rows))
    expect.equal_rows(kit.rows(data.schema, left), expected, f"rows of {data.name} where {_words(condition)}")


def _words(condition: BooleanExpression) -> str:
    """The condition as people write it."""
    match condition:
        case And() | Or():
            word = "and" if isinstance(condition, And) else "or"
            return f"({_words(condition.left)} {word} {_words(condition.right)})"
        case Not():
            return f"not {_words(condition.child)}"
        case AlwaysTrue() | AlwaysFalse():
            return "true" if isinstance(condition, AlwaysTrue) else "false"
    named: Any = condition
    symbol = next(symbol for symbol, kind in _OPERATORS.items() if isinstance(condition, kind))
    literals = getattr(named, "literals", None) or [each for each in [getattr(named, "literal", None)] if each]
    shown = ", ".join(sorted(repr(each.value) for each in literals)[:4])
    return f"{named.term.ref().field.name} {symbol} {shown}".rstrip()
