"""Metrics of batches: counts and bounds by Iceberg's rules, against values in a known order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from pyiceberg.conversions import from_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract import ColumnMetrics, FileMetrics, MetricsMode
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import DATA_SETS, NESTED
from formatkit.tck.kits import BatchKit
from formatkit.tck.metrics import manifest_metrics
from formatkit.tck.naive import Row
from formatkit.tck.nesting import NESTINGS, one_column
from formatkit.tck.samples import FLOATS, SAMPLES

_LAST = "\U0010ffff"
_LEAF = 1


@check("B6", layer=Layer.BATCH)
def bounds_are_the_least_and_the_greatest_value_of_every_type(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        found = _column(kit, sample.kind, "full", sample.shuffled)
        least, most = sample.ascending[0], sample.ascending[-1]
        expect.equal((found.lower, found.upper), (least, most), f"bounds of {sample}")
        kinds = (type(found.lower), type(found.upper))
        expect.equal(kinds, (type(least), type(most)), f"types of the bounds of {sample}")


@check("B6", layer=Layer.BATCH)
def bounds_of_a_single_value_are_that_value(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        for value in sample.ascending:
            found = _column(kit, sample.kind, "full", [value])
            expect.equal((found.lower, found.upper), (value, value), f"bounds of {sample} {value!r}")


@check("B6", layer=Layer.BATCH)
def bounds_lie_in_whichever_batch_holds_them(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        nulls, middle, whole = [None, None], [sample.ascending[1]], list(sample.ascending)
        for parts in ([nulls, middle, whole], [whole, middle, nulls], [middle, [], whole, nulls]):
            found = _column(kit, sample.kind, "full", *parts)
            bounds = (sample.ascending[0], sample.ascending[-1])
            expect.equal((found.lower, found.upper), bounds, f"bounds of {sample} in batches {parts}")


@check("B6", layer=Layer.BATCH)
def counts_are_those_of_all_batches(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        found = _column(kit, sample.kind, "counts", sample.shuffled, [], [None], list(sample.ascending))
        values = 2 * len(sample.ascending) + 3 + 1 + len(sample.ascending)
        expect.equal((found.value_count, found.null_count), (values, 4), f"counts of {sample}")


@check("B6", layer=Layer.BATCH)
def a_column_of_nulls_has_counts_and_no_bounds(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        found = _column(kit, sample.kind, "full", [None, None], [None])
        expect.equal((found.value_count, found.null_count), (3, 3), f"counts of {sample}")
        expect.equal((found.lower, found.upper), (None, None), f"bounds of {sample}")


@check("B6", layer=Layer.BATCH)
def nan_is_counted_for_floats_and_for_them_alone(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        found = _column(kit, sample.kind, "counts", sample.shuffled)
        expect.equal(found.nan_count, 0 if sample.kind in FLOATS else None, f"number of NaN in {sample}")
    for kind in FLOATS:
        found = _column(kit, kind, "counts", [math.nan, 1.0, None], [math.nan, math.nan], [math.inf])
        counts = (found.value_count, found.null_count, found.nan_count)
        expect.equal(counts, (6, 1, 3), f"counts of values, nulls and NaN in {kind}")


@check("B6", layer=Layer.BATCH)
def nan_is_never_a_bound(kit: BatchKit[Any]) -> None:
    for kind in FLOATS:
        for parts in (
            [[math.nan, 2.0, math.nan, 1.0]],
            [[1.0, math.nan, 2.0]],
            [[math.nan], [2.0, 1.0], [math.nan, None]],
        ):
            found = _column(kit, kind, "full", *parts)
            expect.equal((found.lower, found.upper), (1.0, 2.0), f"bounds of {kind} in batches {parts}")
        nothing = _column(kit, kind, "full", [math.nan, None, math.nan])
        expect.equal((nothing.lower, nothing.upper), (None, None), f"bounds of {kind} that is all NaN")


@check("B6", layer=Layer.BATCH)
def minus_zero_lies_below_zero(kit: BatchKit[Any]) -> None:
    for kind, (values, lower, upper) in product(FLOATS, _ZEROS):
        for parts in ([values], [[value] for value in values], [values[::-1]]):
            found = _column(kit, kind, "full", *parts)
            expect.equal((repr(found.lower), repr(found.upper)), (repr(lower), repr(upper)), f"bounds of {parts}")


@check("B6", "X62", layer=Layer.BATCH)
def long_strings_are_shortened_by_code_points(kit: BatchKit[Any]) -> None:
    for value, length, lower, upper in _TEXTS:
        found = _column(kit, StringType(), f"truncate({length})", [value])
        expect.equal((found.lower, found.upper), (lower, upper), f"bounds of {value!r} in {length} code points")


@check("B6", "X62", layer=Layer.BATCH)
def an_upper_bound_of_strings_is_text_and_not_below_any_of_them(kit: BatchKit[Any]) -> None:
    tricky = ["", "a", "e\u0301", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f600", _LAST, "\x7f", "\0"]
    texts = [first + second for first, second in product(tricky, tricky)]
    for text, length in product(texts, (1, 2)):
        found = _column(kit, StringType(), f"truncate({length})", [text])
        expect.that(found.lower.encode() <= text.encode(), f"{found.lower!r} is no lower bound of {text!r}")
        good = found.upper is None or found.upper.encode() >= text.encode()
        expect.that(good, f"{found.upper!r} is no upper bound of {text!r}")


@check("B6", layer=Layer.BATCH)
def long_binaries_are_shortened_by_bytes(kit: BatchKit[Any]) -> None:
    for value, length, lower, upper in _BYTES:
        found = _column(kit, BinaryType(), f"truncate({length})", [value])
        expect.equal((found.lower, found.upper), (lower, upper), f"bounds of {value[:20]!r} in {length} bytes")


@check("B6", "X62", layer=Layer.BATCH)
def an_upper_bound_is_shortened_once_after_all_batches(kit: BatchKit[Any]) -> None:
    parts: list[list[Any]] = [["abz"], ["ab", None], ["aby"], ["ac"]]
    expect.equal(_column(kit, StringType(), "truncate(2)", *parts).upper, "ac", "upper bound of two code points")
    expect.equal(_column(kit, StringType(), "truncate(2)", *parts[:3]).upper, "ac", "upper bound of two code points")
    expect.equal(_column(kit, StringType(), "full", *parts[:3]).upper, "abz", "upper bound of full length")


@check("B6", layer=Layer.BATCH)
def bounds_of_other_types_are_never_shortened(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        if not isinstance(sample.kind, StringType | BinaryType):
            found = _column(kit, sample.kind, "truncate(1)", sample.shuffled)
            bounds = (sample.ascending[0], sample.ascending[-1])
            expect.equal((found.lower, found.upper), bounds, f"bounds of {sample}")


@check("B6", layer=Layer.BATCH)
def modes_say_what_is_recorded(kit: BatchKit[Any]) -> None:
    schema = Schema(NestedField(1, "a", IntegerType()), NestedField(2, "b", DoubleType()))
    rows: list[Row] = [{1: 1, 2: 1.0}, {1: None, 2: math.nan}]
    counts = {
        1: ColumnMetrics(value_count=2, null_count=1),
        2: ColumnMetrics(value_count=2, null_count=0, nan_count=1),
    }
    bounds = {
        1: ColumnMetrics(value_count=2, null_count=1, lower=1, upper=1),
        2: ColumnMetrics(value_count=2, null_count=0, nan_count=1, lower=1.0, upper=1.0),
    }
    for mode, columns in (("none", {}), ("counts", counts), ("truncate(16)", bounds), ("full", bounds)):
        found = _collected(kit, schema, {1: mode, 2: mode}, rows)
        expect.equal(found, FileMetrics(row_count=2, columns=columns), f"metrics of mode {mode}")


@check("B6", layer=Layer.BATCH)
def a_column_has_the_mode_of_its_own(kit: BatchKit[Any]) -> None:
    schema = Schema(*(NestedField(number, f"c{number}", StringType()) for number in (1, 2, 3, 4)))
    rows: list[Row] = [dict.fromkeys((1, 2, 3, 4), "abc")]
    found = _collected(kit, schema, {1: "full", 2: "truncate(1)", 4: "counts"}, rows)
    expected = {
        1: ColumnMetrics(value_count=1, null_count=0, lower="abc", upper="abc"),
        2: ColumnMetrics(value_count=1, null_count=0, lower="a", upper="b"),
        4: ColumnMetrics(value_count=1, null_count=0),
    }
    expect.equal(found.columns, expected, "metrics of four columns, of which one has no mode")


@check("B6", layer=Layer.BATCH)
def a_leaf_of_a_struct_counts_its_null_parents_as_nulls(kit: BatchKit[Any]) -> None:
    found = _collected(kit, NESTED.schema, {43: "full", 41: "full"}, NESTED.rows)
    expected = {
        41: ColumnMetrics(value_count=5, null_count=2, lower=1, upper=5),
        43: ColumnMetrics(value_count=5, null_count=3, nan_count=0, lower=-0.0, upper=0.5),
    }
    expect.equal(found.columns, expected, "metrics of leaves inside structs")


@check("B6", layer=Layer.BATCH)
def what_lies_under_a_null_parent_is_no_value(kit: BatchKit[Any]) -> None:
    schema = one_column(StructType(NestedField(11, "x", LongType(), required=True)))
    found = _collected(kit, schema, {11: "full"}, [{1: {11: 5}}, {1: None}, {1: {11: 7}}])
    expected = ColumnMetrics(value_count=3, null_count=1, lower=5, upper=7)
    expect.equal(found.columns[11], expected, "metrics of a required leaf under an optional parent")


@check("B6", layer=Layer.BATCH)
def leaves_inside_lists_and_maps_have_no_bounds(kit: BatchKit[Any]) -> None:
    for name, (nest, hold) in NESTINGS.items():
        if name == "struct":
            continue
        schema = one_column(nest(IntegerType()))
        modes = dict.fromkeys(sorted(schema.field_ids), "full")
        for field_id, found in _collected(kit, schema, modes, [{1: hold([1, 2])}, {1: None}]).columns.items():
            expect.equal((found.lower, found.upper), (None, None), f"bounds of field {field_id} inside a {name}")


@check("B6", layer=Layer.BATCH)
def a_column_of_unknown_type_has_counts_only(kit: BatchKit[Any]) -> None:
    found = _column(kit, UnknownType(), "full", [None, None])
    expect.equal(found, ColumnMetrics(value_count=2, null_count=2), "metrics of a column of unknown type")


@check("B6", layer=Layer.BATCH)
def a_file_without_batches_has_metrics_of_no_rows(kit: BatchKit[Any]) -> None:
    modes = {_LEAF: MetricsMode.parse("full")}
    for sample in SAMPLES:
        found = kit.operations.collector(one_column(sample.kind), modes).finish()
        expect.equal(found.row_count, 0, "number of rows")
        column = found.columns[_LEAF]
        counts = (column.value_count, column.null_count, column.lower, column.upper)
        expect.equal(counts, (0, 0, None, None), f"counts and bounds of {sample} without rows")


@check("B6", layer=Layer.BATCH)
def decimals_in_bounds_keep_their_scale(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        found = _column(kit, sample.kind, "full", sample.shuffled)
        bounds = (sample.ascending[0], sample.ascending[-1])
        expect.equal((str(found.lower), str(found.upper)), tuple(map(str, bounds)), f"digits of the bounds of {sample}")


@check("B1", "B6", layer=Layer.BATCH)
def metrics_are_the_same_for_every_physical_form(kit: BatchKit[Any]) -> None:
    for sample in SAMPLES:
        rows: list[Row] = [{1: value} for value in sample.shuffled]
        plain = _column(kit, sample.kind, "full", sample.shuffled)
        for form, batch in kit.forms(one_column(sample.kind), rows):
            collector = kit.operations.collector(one_column(sample.kind), {_LEAF: MetricsMode.parse("full")})
            collector.update(batch)
            expect.equal(collector.finish().columns[_LEAF], plain, f"metrics of {sample} in the form {form!r}")


@check("B1", "B6", layer=Layer.BATCH)
def metrics_do_not_see_dictionary_entries_that_no_row_has(kit: BatchKit[Any]) -> None:
    rows: list[Row] = [{1: text} for text in ("a", "m", None, "m", "z")]
    for form, batch in kit.forms(one_column(StringType()), rows):
        collector = kit.operations.collector(one_column(StringType()), {_LEAF: MetricsMode.parse("full")})
        collector.update(kit.operations.slice(batch, 1, 3))
        expected = ColumnMetrics(value_count=3, null_count=1, lower="m", upper="m")
        expect.equal(collector.finish().columns[_LEAF], expected, f"metrics of a slice of the form {form!r}")


@check("B6", layer=Layer.BATCH)
def metrics_of_every_data_set_are_those_of_plain_rows(kit: BatchKit[Any]) -> None:
    for data in DATA_SETS:
        truth = manifest_metrics(data.schema, data.rows)
        modes = dict.fromkeys(truth["value_counts"], "full")
        found = _collected(kit, data.schema, modes, data.rows)
        expect.equal(found.row_count, len(data.rows), f"number of rows of {data.name}")
        for field_id in truth["value_counts"]:
            _compare(found.columns[field_id], truth, data.schema.find_field(field_id))


def _compare(found: ColumnMetrics, truth: Mapping[str, Mapping[int, Any]], field: NestedField) -> None:
    """The counts must be those of the truth; the bounds too, if it has them: it gives those of short values only."""
    counts = (found.value_count, found.null_count, found.nan_count)
    names = ("value_counts", "null_value_counts", "nan_value_counts")
    expect.equal(counts, tuple(truth[name].get(field.field_id) for name in names), f"counts of {field.name}")
    if isinstance(field.field_type, PrimitiveType):
        for bound, name in ((found.lower, "lower_bounds"), (found.upper, "upper_bounds")):
            if field.field_id in truth[name] and not isinstance(field.field_type, StringType | BinaryType):
                expected = from_bytes(field.field_type, truth[name][field.field_id])
                expect.equal(bound, expected, f"{name} of {field.name}")


def _column(kit: BatchKit[Any], kind: IcebergType, mode: str, *parts: Sequence[Any]) -> ColumnMetrics:
    """The metrics of one column that comes in several batches."""
    batches = [[{_LEAF: value} for value in values] for values in parts]
    return _collected(kit, one_column(kind), {_LEAF: mode}, *batches).columns[_LEAF]


def _collected(kit: BatchKit[Any], schema: Schema, modes: Mapping[int, str], *parts: Sequence[Row]) -> FileMetrics:
    parsed = {field_id: MetricsMode.parse(mode) for field_id, mode in modes.items()}
    collector = kit.operations.collector(schema, parsed)
    for rows in parts:
        collector.update(kit.batch(schema, rows))
    return collector.finish()


# Values, then the lower and the upper bound.
_ZEROS: list[tuple[list[Any], float, float]] = [
    ([0.0], 0.0, 0.0),
    ([-0.0], -0.0, -0.0),
    ([0.0, -0.0], -0.0, 0.0),
    ([None, 0.0, math.nan, -0.0], -0.0, 0.0),
    ([-0.0, 1.0], -0.0, 1.0),
    ([0.0, 1.0], 0.0, 1.0),
    ([-1.0, -0.0], -1.0, -0.0),
    ([-1.0, 0.0], -1.0, 0.0),
]
# A value, the length of bounds, then the lower and the upper bound.
_TEXTS: list[tuple[str, int, str, str | None]] = [
    ("abc", 3, "abc", "abc"),
    ("abcd", 3, "abc", "abd"),
    ("", 1, "", ""),
    ("ab", 16, "ab", "ab"),
    ("ab\u0301c", 2, "ab", "ac"),
    ("\U0001f600\U0001f600", 1, "\U0001f600", "\U0001f601"),
    ("a\ud7ffx", 2, "a\ud7ff", "a\ue000"),
    ("a\uffffx", 2, "a\uffff", "a\U00010000"),
    (f"a{_LAST}x", 2, f"a{_LAST}", "b"),
    (f"a{_LAST}{_LAST}x", 3, f"a{_LAST}{_LAST}", "b"),
    (_LAST + "x", 1, _LAST, None),
    (_LAST * 3, 2, _LAST * 2, None),
    (_LAST * 2, 2, _LAST * 2, _LAST * 2),
    ("x" * 10_000, 16, "x" * 16, "x" * 15 + "y"),
]
_BYTES: list[tuple[bytes, int, bytes, bytes | None]] = [
    (b"abc", 3, b"abc", b"abc"),
    (b"abcd", 3, b"abc", b"abd"),
    (b"a\xffx", 2, b"a\xff", b"b"),
    (b"\xff\xffx", 2, b"\xff\xff", None),
    (b"", 1, b"", b""),
    (bytes(10_000), 2, bytes(2), b"\0\1"),
]
