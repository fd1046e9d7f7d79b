"""What a manifest says of a file that was written: counts, bounds and sizes of its columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from formatkit.contract import Capability
from formatkit.contract.fields import child_fields
from formatkit.tck import expect
from formatkit.tck.check import Layer, check
from formatkit.tck.datasets import BEFORE_1970, DECIMALS, NESTED, PRIMITIVES, numbered
from formatkit.tck.kits import FormatKit
from formatkit.tck.written import bounds, manifest_entry

_MODE = "write.metadata.metrics.default"
_COLUMN_MODE = "write.metadata.metrics.column."
_FLAT = numbered("flat", text=(StringType(), ["b", None, "ab", "c"]), number=(IntegerType(), [3, 1, None, 2]))
_NO_SIZES = "column_sizes_that_are_not_declared_are_absent"


@check("B6", "J45", layer=Layer.FORMAT)
def counts_and_bounds_are_recorded_without_being_asked_for(kit: FormatKit[Any]) -> None:
    entry = manifest_entry(kit, _FLAT.schema, _FLAT.rows)
    expect.equal(entry.record_count, 4, "record count")
    expect.equal(entry.value_counts, {1: 4, 2: 4, 3: 4}, "value counts")
    expect.equal(entry.null_value_counts, {1: 0, 2: 1, 3: 1}, "null counts")
    for field_id, expected in {1: (0, 3), 2: ("ab", "c"), 3: (1, 3)}.items():
        expect.equal(bounds(entry, _FLAT.schema, field_id), expected, f"bounds of column {field_id}")


@check("B6", "J46", layer=Layer.FORMAT)
def metrics_mode_none_records_nothing_but_rows(kit: FormatKit[Any]) -> None:
    entry = manifest_entry(kit, _FLAT.schema, _FLAT.rows, {_MODE: "none"})
    expect.equal(entry.record_count, 4, "record count")
    expect.equal(_recorded(entry), set(), "what is recorded")


@check("B6", "J47", layer=Layer.FORMAT)
def metrics_mode_counts_records_no_bounds(kit: FormatKit[Any]) -> None:
    entry = manifest_entry(kit, _FLAT.schema, _FLAT.rows, {_MODE: "counts"})
    expect.equal((entry.value_counts, entry.null_value_counts), ({1: 4, 2: 4, 3: 4}, {1: 0, 2: 1, 3: 1}), "counts")
    expect.equal(_recorded(entry) & {"lower_bounds", "upper_bounds"}, set(), "bounds that are recorded")


@check("B6", "J48", layer=Layer.FORMAT)
def truncated_text_bounds_enclose_the_values(kit: FormatKit[Any]) -> None:
    data = numbered("texts", text=(StringType(), ["abcdefghij", "abcdezyxwv", "abcdeAAAAA"]))
    entry = manifest_entry(kit, data.schema, data.rows, {_MODE: "truncate(5)"})
    expect.equal(bounds(entry, data.schema, 2), ("abcde", "abcdf"), "bounds of texts cut to five code points")
    expect.equal(bounds(entry, data.schema, 1), (0, 2), "bounds of numbers, which are not cut")


@check("B6", "J49", layer=Layer.FORMAT)
def truncated_binary_bounds_enclose_the_values(kit: FormatKit[Any]) -> None:
    data = numbered("bytes", a=(BinaryType(), [bytes(range(1, 13))]), b=(BinaryType(), [b"\x01" + b"\xff" * 9]))
    entry = manifest_entry(kit, data.schema, data.rows, {_MODE: "truncate(5)"})
    expect.equal(bounds(entry, data.schema, 2), (b"\1\2\3\4\5", b"\1\2\3\4\6"), "bounds of bytes cut to five")
    expect.equal(bounds(entry, data.schema, 3), (b"\1" + b"\xff" * 4, b"\2"), "bounds of bytes that end in 255")


@check("B6", "J50", layer=Layer.FORMAT)
def metrics_modes_of_single_columns_are_kept(kit: FormatKit[Any]) -> None:
    modes = {_MODE: "counts", f"{_COLUMN_MODE}text": "none", f"{_COLUMN_MODE}number": "full"}
    entry = manifest_entry(kit, _FLAT.schema, _FLAT.rows, modes)
    expect.equal(entry.value_counts, {1: 4, 3: 4}, "value counts")
    expect.equal(set(entry.lower_bounds or ()), {3}, "columns with bounds")
    expect.equal(bounds(entry, _FLAT.schema, 3), (1, 3), "bounds of the column that has all metrics")
    expect.that(2 not in (entry.column_sizes or {}), "the size of a column without metrics is recorded")


@check("B6", "J51", "X63", layer=Layer.FORMAT)
def nan_is_counted_and_is_no_bound(kit: FormatKit[Any]) -> None:
    values = [math.nan, 1.5, math.nan, -2.5, None, 0.5, math.nan]
    data = numbered("NaN among values", double=(DoubleType(), values), float=(FloatType(), values))
    entry = manifest_entry(kit, data.schema, data.rows)
    expect.equal(entry.nan_value_counts, {2: 3, 3: 3}, "NaN counts")
    expect.equal(entry.value_counts, {1: 7, 2: 7, 3: 7}, "value counts, which NaN is among")
    for field_id in (2, 3):
        expect.equal(bounds(entry, data.schema, field_id), (-2.5, 1.5), f"bounds of column {field_id}")


@check("B6", "J52", layer=Layer.FORMAT)
def infinities_are_bounds_and_nan_is_not(kit: FormatKit[Any]) -> None:
    values = [math.nan, 1.0, -math.inf, 0.0, math.inf, -0.0, -1.0, math.nan]
    data = numbered("infinities", double=(DoubleType(), values), float=(FloatType(), values))
    entry = manifest_entry(kit, data.schema, data.rows)
    for field_id in (2, 3):
        expect.equal(bounds(entry, data.schema, field_id), (-math.inf, math.inf), f"bounds of column {field_id}")


@check("B6", "J53", "X64", layer=Layer.FORMAT)
def negative_zero_is_below_zero_in_bounds(kit: FormatKit[Any]) -> None:
    for values in ([-0.0, 0.0], [0.0, -0.0], [0.0] * 4, [-0.0] * 4, [0.0] * 3 + [-0.0], [-0.0] * 3 + [0.0]):
        data = numbered("zeros", double=(DoubleType(), values), float=(FloatType(), values))
        entry = manifest_entry(kit, data.schema, data.rows)
        negative = [math.copysign(1.0, value) < 0 for value in values]
        expected = (-0.0 if any(negative) else 0.0, -0.0 if all(negative) else 0.0)
        for field_id in (2, 3):
            expect.equal_rows([bounds(entry, data.schema, field_id)], [expected], f"bounds of {values}")


@check("B6", "X61", layer=Layer.FORMAT)
def extremes_in_the_middle_of_many_chunks_are_found(kit: FormatKit[Any]) -> None:
    numbers = [None] * 3 + [5, 6, 7] + [9, -4, 8] + [3, None, 5] + [None] * 3
    texts = [None if number is None else f"{number + 10:03}" for number in numbers]
    data = numbered("chunks", number=(LongType(), numbers), text=(StringType(), texts))
    entry = manifest_entry(kit, data.schema, data.rows)
    expect.equal(entry.null_value_counts, {1: 0, 2: 7, 3: 7}, "null counts over all chunks")
    expect.equal(bounds(entry, data.schema, 2), (-4, 9), "bounds over all chunks")
    expect.equal(bounds(entry, data.schema, 3), ("006", "019"), "bounds of texts over all chunks")


@check("B6", "X62", layer=Layer.FORMAT)
def truncated_text_bounds_are_text_of_any_alphabet(kit: FormatKit[Any]) -> None:
    """An upper bound that was cut ends in the next code point, which may not be half of a pair."""
    most = "\U0010ffff"
    cases: dict[str, tuple[str, str | None]] = {
        "": ("", ""),
        "ab": ("ab", "ab"),
        "abcd": ("ab", "ac"),
        "a\ud7ffx": ("a\ud7ff", "a\ue000"),
        "a\uffffx": ("a\uffff", "a\U00010000"),
        f"a{most}x": (f"a{most}", "b"),
        f"{most}{most}x": (most * 2, None),
        "e\u0301\u0301": ("e\u0301", "e\u0302"),
        "\U0001f600\U0001f601\U0001f602": ("\U0001f600\U0001f601", "\U0001f600\U0001f602"),
    }
    names = {f"c{number}": (StringType(), [text]) for number, text in enumerate(cases)}
    data = numbered("texts of any alphabet", **names)
    entry = manifest_entry(kit, data.schema, data.rows, {_MODE: "truncate(2)"})
    for field, (text, expected) in zip(data.schema.fields[1:], cases.items(), strict=True):
        expect.equal(bounds(entry, data.schema, field.field_id), expected, f"bounds of {text!r} cut to two code points")


@check("B6", "X63", layer=Layer.FORMAT)
def columns_without_a_value_have_counts_and_no_bounds(kit: FormatKit[Any]) -> None:
    nan = math.nan
    columns: dict[str, tuple[IcebergType, Sequence[Any]]] = {
        "nulls": (LongType(), [None] * 4),
        "nans": (DoubleType(), [nan] * 4),
        "both": (FloatType(), [nan, None, None, nan]),
        "one": (StringType(), [None, None, "x", None]),
    }
    data = numbered("hardly any values", **columns)
    entry = manifest_entry(kit, data.schema, data.rows)
    expect.equal(entry.null_value_counts, {1: 0, 2: 4, 3: 0, 4: 2, 5: 3}, "null counts")
    expect.equal(entry.nan_value_counts, {3: 4, 4: 2}, "NaN counts")
    found = {field.name: bounds(entry, data.schema, field.field_id) for field in data.schema.fields[1:]}
    expect.equal(
        found, {"nulls": (None, None), "nans": (None, None), "both": (None, None), "one": ("x", "x")}, "bounds"
    )


@check("B6", "X65", layer=Layer.FORMAT)
def leaves_of_structs_have_metrics_and_those_of_lists_have_none(kit: FormatKit[Any]) -> None:
    """A null struct counts as a null of each leaf in it; leaves inside lists and maps have no counts and no bounds."""
    entry = manifest_entry(kit, NESTED.schema, NESTED.rows)
    expect.equal(entry.value_counts, {1: 5, 41: 5, 43: 5, 44: 5, 7: 5}, "value counts of leaves")
    expect.equal(entry.null_value_counts, {1: 0, 41: 2, 43: 3, 44: 3, 7: 1}, "null counts of leaves")
    expect.equal(bounds(entry, NESTED.schema, 41), (1, 5), "bounds of a leaf in a struct")
    expect.equal_rows([bounds(entry, NESTED.schema, 44)], [(1.5, 1.5)], "bounds of a leaf in a struct of a struct")
    named = manifest_entry(kit, NESTED.schema, NESTED.rows, {_MODE: "none", f"{_COLUMN_MODE}outer.point.x": "full"})
    expect.equal(named.value_counts, {43: 5}, "value counts where one leaf is asked for by its dotted name")


@check("B6", "X65", layer=Layer.FORMAT)
def only_the_first_hundred_columns_have_metrics_unless_asked_for(kit: FormatKit[Any]) -> None:
    schema = Schema(*(NestedField(number, f"c{number}", LongType()) for number in range(1, 104)))
    rows = [dict.fromkeys(range(1, 104), 7)]
    limited = manifest_entry(kit, schema, rows, {f"{_COLUMN_MODE}c103": "counts"})
    expect.equal(sorted(limited.value_counts or ()), [*range(1, 101), 103], "columns with counts")
    expect.equal(sorted(limited.lower_bounds or ()), [*range(1, 101)], "columns with bounds")
    everything = manifest_entry(kit, schema, rows, {_MODE: "full"})
    expect.equal(sorted(everything.lower_bounds or ()), [*range(1, 104)], "columns with bounds if all are asked for")


@check("B6", "X66", layer=Layer.FORMAT)
def bounds_of_every_type_are_its_true_extremes(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, DECIMALS, BEFORE_1970):
        entry = manifest_entry(kit, data.schema, data.rows, {_MODE: "full"})
        for field in data.schema.fields:
            present = [row[field.field_id] for row in data.rows if row[field.field_id] is not None]
            expected = (min(present), max(present))
            found = bounds(entry, data.schema, field.field_id)
            expect.equal(found, expected, f"bounds of {field.name} ({field.field_type}) in {data.name}")


@check("B6", "X67", layer=Layer.FORMAT)
def long_values_have_bounds_too(kit: FormatKit[Any]) -> None:
    data = numbered(
        "long", text=(StringType(), ["b" * 9000, "a" * 9000]), bytes=(BinaryType(), [b"\1" * 9000, b"\0" * 9000])
    )
    entry = manifest_entry(kit, data.schema, data.rows)
    expect.equal(bounds(entry, data.schema, 2), ("a" * 16, "b" * 15 + "c"), "bounds of long texts")
    expect.equal(bounds(entry, data.schema, 3), (b"\0" * 16, b"\1" * 15 + b"\2"), "bounds of long bytes")


@check("W5", "J45", "J47", layer=Layer.FORMAT, when=Capability.COLUMN_SIZES, twin=_NO_SIZES)
def every_leaf_has_a_size_and_all_fit_into_the_file(kit: FormatKit[Any]) -> None:
    for data in (PRIMITIVES, NESTED):
        stored = kit.write(data.schema, data.rows)
        sizes = stored.result.column_sizes or {}
        leaves = {field.field_id for field in _leaves(data.schema.as_struct())}
        expect.equal(leaves - sizes.keys(), set(), f"leaves of {data.name} without a size")
        expect.that(all(size > 0 for size in sizes.values()), f"sizes that are not positive: {sizes}")
        expect.that(sum(sizes[leaf] for leaf in leaves) <= len(stored.data), f"columns larger than their file: {sizes}")


@check("W5", "J45", layer=Layer.FORMAT, when=Capability.COLUMN_SIZES, twin=_NO_SIZES)
def a_column_with_more_bytes_has_the_larger_size(kit: FormatKit[Any]) -> None:
    noise = [bytes((number * 37 + place * place * 11) % 256 for place in range(400)) for number in range(6)]
    data = numbered("two columns", small=(BinaryType(), [b"x"] * 6), large=(BinaryType(), noise))
    sizes = kit.write(data.schema, data.rows).result.column_sizes or {}
    expect.that(sizes.get(2, 0) < sizes.get(3, 0), f"sizes of a small column 2 and a large column 3: {sizes}")


@check("W5", "X70", layer=Layer.FORMAT, unless=Capability.COLUMN_SIZES)
def column_sizes_that_are_not_declared_are_absent(kit: FormatKit[Any]) -> None:
    stored = kit.write(PRIMITIVES.schema, PRIMITIVES.rows)
    expect.equal(stored.result.column_sizes, None, "column sizes of a format that does not declare them")


def _recorded(entry: DataFile) -> set[str]:
    """The names of the maps that say something about a column."""
    names = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    return {name for name in names if getattr(entry, name)}


def _leaves(struct: StructType) -> list[NestedField]:
    found: list[NestedField] = []
    for field in child_fields(struct):
        found += _below(field)
    return found


def _below(field: NestedField) -> list[NestedField]:
    children = child_fields(field.field_type)
    return [leaf for child in children for leaf in _below(child)] if children else [field]
