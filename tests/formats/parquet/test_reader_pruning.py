"""Row groups are left out by statistics and bloom filters, and never one that holds a matching row."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyiceberg.expressions
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import ColumnMetrics, ReadOptions
from formatkit.contract.pruning import ColumnGate
from formatkit.formats.parquet.elements import Element
from formatkit.formats.parquet.pruning.bloom import xxh64
from formatkit.formats.parquet.pruning.statistics import StoredLeaf
from formatkit.formats.parquet.reader import ParquetDataFile
from formatkit.formats.parquet.types import primitive_type
from formatkit.kernel import bind
from formatkit.tck import naive, strategies
from formatkit.tck.rows import comparable, from_arrow, to_arrow
from support.foreign_parquet import (
    BYTE_ARRAY,
    DECIMAL,
    DOUBLE,
    FIXED,
    INT32,
    INT64,
    JSON,
    TIMESTAMP_MILLIS,
    UINT_32,
    Node,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.mutations.parquet_file import ParquetFile
from support.mutations.tree import Node as Tree
from support.mutations.tree import Numbered
from support.parquet_reading import open_bytes

# The constructors take a name and a value, which their annotations do not tell.
ex: Any = pyiceberg.expressions


def row_groups_read(file: ParquetDataFile, predicate: BooleanExpression) -> tuple[int, list[Any]]:
    """How many row groups were read, and the values of the first column that pass the residual."""
    bound = bind(file.schema, predicate)
    result = file.read(ReadOptions(projection=file.schema, predicate=bound))
    keep = ArrowBatch().filter(file.schema, result.residual)
    values = [value for batch in result.batches for value in keep(batch).column(0).to_pylist()]
    return result.counters["row_groups_read"], values


def one_column_file(values: list[Any], kind: pa.DataType, group: int = 2, **options: Any) -> ParquetDataFile:
    return open_bytes(parquet_bytes(pa.table({"c": pa.array(values, kind)}), row_group_size=group, **options))


@pytest.mark.parametrize(
    ("predicate", "groups", "values"),
    [
        (ex.EqualTo("c", 3), 1, [3]),
        (ex.GreaterThan("c", 3), 1, [4]),
        (ex.LessThan("c", 1), 0, []),
        (ex.In("c", {2, 3}), 2, [2, 3]),
        (ex.IsNull("c"), 1, [None, None]),
        (ex.NotNull("c"), 2, [1, 2, 3, 4]),
        (ex.NotEqualTo("c", 3), 3, [1, 2, 4, None, None]),
    ],
)
def test_row_groups_that_cannot_match_are_not_read(predicate: Any, groups: int, values: list[Any]) -> None:
    file = one_column_file([1, 2, 3, 4, None, None], pa.int64())
    assert row_groups_read(file, predicate) == (groups, values)


@pytest.mark.parametrize("bound", [1, 2])
def test_no_residual_is_left_because_rows_that_do_not_match_are_filtered_out(bound: int) -> None:
    file = one_column_file([1, 2, 3, 4], pa.int64())
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, ex.GreaterThan("c", bound))))
    assert result.residual == AlwaysTrue()
    assert [row["c"] for batch in result.batches for row in batch.to_pylist()] == list(range(bound + 1, 5))


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_and_signed_zeros_hide_no_row(kind: pa.DataType) -> None:
    values = [math.nan, math.nan, math.nan, 1.0, -0.0, -0.0, 0.0, 0.0, None, 2.0]
    file = one_column_file(values, kind)
    assert row_groups_read(file, ex.EqualTo("c", 0.0))[1] == [-0.0, -0.0, 0.0, 0.0]
    assert row_groups_read(file, ex.In("c", {-0.0}))[1] == [-0.0, -0.0, 0.0, 0.0]
    assert len(row_groups_read(file, ex.IsNaN("c"))[1]) == 3
    assert row_groups_read(file, ex.NotNaN("c"))[1] == [1.0, -0.0, -0.0, 0.0, 0.0, None, 2.0]
    assert row_groups_read(file, ex.GreaterThan("c", 1.5)) == (1 + 1, [2.0])
    assert len(row_groups_read(file, ex.NotEqualTo("c", 1.0))[1]) == len(values) - 1


@pytest.mark.parametrize(
    ("column", "stored", "expected"),
    [
        (leaf("c", DOUBLE), ("<d", math.nan, 1.0), (None, None)),
        (leaf("c", DOUBLE), ("<d", 1.0, math.nan), (None, None)),
        (leaf("c", DOUBLE), ("<d", 0.0, -0.0), (0.0, -0.0)),
        (leaf("c", DOUBLE), ("<f", 1.0, 2.0), (None, None)),
        (leaf("c", FIXED, length=2, logical={15: {}}), ("2s", b"\x00\x3c", b"\x00\x7e"), (None, None)),
        (leaf("c", FIXED, length=2, logical={15: {}}), ("1s", b"\x00", b"\x00"), (None, None)),
        (leaf("c", INT32, converted=UINT_32), ("<i", -1, 7), (None, None)),
        (leaf("c", INT32, converted=UINT_32), ("<i", 7, -1), (7, 2**32 - 1)),
        (leaf("c", INT64, converted=TIMESTAMP_MILLIS), ("<q", 0, 2**62), (None, None)),
        (leaf("c", BYTE_ARRAY), ("1s", b"b", b"a"), (None, None)),
        (leaf("c", BYTE_ARRAY, converted=JSON), ("3s", b"ab\xc3", b"bb\xc3"), ("ab", None)),
        (leaf("c", BYTE_ARRAY, converted=JSON), ("3s", b"a\xc3b", b"bbb"), (None, None)),
        (leaf("c", BYTE_ARRAY, logical={17: {}}), ("1s", b"a", b"b"), (None, None)),
        (
            leaf("c", FIXED, length=4, converted=DECIMAL, precision=9, scale=0),
            ("3s", b"\0\0\1", b"\0\0\2"),
            (None, None),
        ),
        (leaf("c", INT32, converted=DECIMAL, precision=2, scale=0), ("<i", 1, 100), (None, None)),
    ],
)
def test_bounds_that_writers_get_wrong_are_mended_or_ignored(
    column: list[Node], stored: tuple[str, Any, Any], expected: tuple[Any, Any]
) -> None:
    (fields,) = column
    element = Element.from_thrift({**fields, 4: b"c"})
    layout, *values = stored
    kind = primitive_type(element)
    assert kind is not None
    lower, upper = StoredLeaf(element, kind).bounds(*(struct.pack(layout, value) for value in values))
    found = ColumnGate(kind).admit(ColumnMetrics(lower=lower, upper=upper), 2)
    assert repr((found.lower, found.upper)) == repr(expected)


@pytest.mark.parametrize("digits", [9, 18, 25, 38])
@pytest.mark.parametrize("as_integer", [False, True])
def test_negative_decimals_are_pruned_in_every_physical_form(digits: int, as_integer: bool) -> None:
    values = [Decimal(number).scaleb(-2) for number in (-300, -200, -100, 100, 200, 300)]
    file = one_column_file(values, pa.decimal128(digits, 2), store_decimal_as_integer=as_integer)
    assert row_groups_read(file, ex.LessThan("c", Decimal("-1.50"))) == (1, values[:2])
    assert row_groups_read(file, ex.GreaterThan("c", Decimal("1.50"))) == (1, values[4:])


def foreign(values: list[Any], kind: pa.DataType, column: list[Node], **options: Any) -> ParquetDataFile:
    data = parquet_bytes(pa.table({"c": pa.array(values, kind)}), row_group_size=2, store_schema=False, **options)
    return open_bytes(with_schema(data, column))


def test_unsigned_integers_in_signed_statistics_lose_no_row() -> None:
    file = foreign([1, -1, -5, -4], pa.int32(), leaf("c", INT32, converted=UINT_32))
    assert row_groups_read(file, ex.GreaterThan("c", 5))[1] == [2**32 - 1, 2**32 - 5, 2**32 - 4]
    assert row_groups_read(file, ex.LessThan("c", 5)) == (1, [1])


def test_statistics_in_milliseconds_are_compared_in_microseconds() -> None:
    file = foreign([1, 2, 3, 4], pa.int64(), leaf("c", INT64, converted=TIMESTAMP_MILLIS))
    groups, values = row_groups_read(file, ex.LessThan("c", "1970-01-01T00:00:00.003+00:00"))
    assert (groups, len(values)) == (1, 2)


def test_binary_and_fixed_statistics_are_unsigned() -> None:
    for kind in (pa.binary(), pa.binary(1)):
        file = one_column_file([b"\x01", b"\x7f", b"\x80", b"\xff"], kind)
        assert row_groups_read(file, ex.GreaterThan("c", b"\x7f")) == (1, [b"\x80", b"\xff"])


def test_text_in_other_annotations_is_pruned_too() -> None:
    file = foreign([b"a", b"b", b"c", b"d"], pa.binary(), leaf("c", BYTE_ARRAY, converted=JSON))
    assert row_groups_read(file, ex.StartsWith("c", "c")) == (1, ["c"])


def test_int96_statistics_are_ignored() -> None:
    file = one_column_file([1, 2, 3, 4], pa.timestamp("us"), use_deprecated_int96_timestamps=True)
    groups, values = row_groups_read(file, ex.LessThanOrEqual("c", "1970-01-01T00:00:00.000001+00:00"))
    assert (groups, len(values)) == (2, 1)


@pytest.mark.parametrize(
    "options", [{"write_statistics": False}, {"write_statistics": ["other"]}, {}], ids=["none", "of others", "all"]
)
def test_missing_statistics_change_no_answer(options: dict[str, Any]) -> None:
    file = one_column_file(["b", None, "a" * 5000, "c", None, None], pa.string(), **options)
    assert row_groups_read(file, ex.EqualTo("c", "c"))[1] == ["c"]
    assert row_groups_read(file, ex.IsNull("c"))[1] == [None] * 3
    assert row_groups_read(file, ex.NotEqualTo("c", "c"))[1] == ["b", None, "a" * 5000, None, None]


def with_old_statistics(data: bytes, highest: bytes, lowest: bytes) -> bytes:
    """The file as old writers left it: bounds in the fields that the format replaced, and none in the new ones."""
    new = b"\x36\x00" + b"\x28" + text_field(highest) + b"\x18" + text_field(lowest) + b"\x11\x11\x00"
    old = b"\x18" + text_field(highest) + b"\x18" + text_field(lowest) + b"\x16\x00" + b"\x41\x11\x00"
    assert new in data
    return data.replace(new, old)


def text_field(value: bytes) -> bytes:
    return bytes([len(value)]) + value


def test_bounds_of_text_in_the_sort_order_of_old_writers_are_ignored() -> None:
    data = parquet_bytes(pa.table({"c": ["a", "z"]}))
    old = open_bytes(with_old_statistics(data, b"z", b"a"))
    assert row_groups_read(open_bytes(data), ex.GreaterThan("c", "zz"))[0] == 0
    assert row_groups_read(old, ex.GreaterThan("c", "zz")) == (1, [])
    assert row_groups_read(old, ex.IsNull("c"))[0] == 0


def test_leaves_of_structs_are_pruned_and_lists_before_them_do_not_shift_columns() -> None:
    rows = [{"l": [9, 9], "s": {"a": number, "b": None}} for number in (1, 2, 3, 4)]
    kinds = pa.schema([("l", pa.list_(pa.int64())), ("s", pa.struct([("a", pa.int64()), ("b", pa.int64())]))])
    file = open_bytes(parquet_bytes(pa.Table.from_pylist(rows, kinds), row_group_size=2))
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, ex.GreaterThan("s.a", 2))))
    assert result.counters["row_groups_read"] == 1
    assert [batch.to_pylist() for batch in result.batches] == [rows[2:]]


def test_the_predicate_uses_the_ids_of_the_projection() -> None:
    file = open_bytes(parquet_bytes(pa.table({"a": [1, 2, 3, 4], "b": [4, 3, 2, 1]}), row_group_size=2))
    swapped = Schema(
        *(
            NestedField(number, field.name, field.field_type)
            for number, field in zip((50, 40), file.schema.fields, strict=True)
        )
    )
    result = file.read(ReadOptions(projection=swapped, predicate=bind(swapped, ex.LessThan("b", 2))))
    assert [batch.to_pylist() for batch in result.batches] == [[{"a": 4, "b": 1}]]


# Published test vectors of the algorithm, seed 0.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_values_are_hashed_as_the_format_says(data: bytes, expected: int) -> None:
    assert xxh64(data) == expected


BLOOM_COLUMNS: list[tuple[pa.DataType, Callable[[int], Any]]] = [
    (pa.int32(), lambda n: n),
    (pa.int64(), lambda n: n - 500),
    (pa.float32(), lambda n: n / 2),
    (pa.float64(), lambda n: n / 2),
    (pa.string(), lambda n: f"värde {n}" * (n % 7)),
    (pa.binary(), lambda n: bytes([n % 256, n // 256])),
    (pa.binary(4), lambda n: n.to_bytes(4, "big")),
    (pa.decimal128(9, 2), lambda n: Decimal(n).scaleb(-2)),
    (pa.decimal128(30, 2), lambda n: Decimal(-n).scaleb(-2)),
    (pa.date32(), lambda n: n),
    (pa.timestamp("us"), lambda n: n * 1000),
]


@pytest.mark.parametrize(
    ("kind", "make"), BLOOM_COLUMNS, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
def test_bloom_filters_exclude_row_groups_and_never_one_that_holds_the_value(
    kind: pa.DataType, make: Callable[[int], Any]
) -> None:
    # Even numbers, the extremes in every row group, so that only the filter can tell.
    groups = [[0, *range(2 + 2 * part, 998, 20), 998] for part in range(10)]
    values = [make(number) for group in groups for number in group]
    table = pa.table({"c": pa.array(values, kind)})
    options = {"bloom_filter_options": {"c": {"ndv": 100, "fpp": 0.001}}, "use_dictionary": False}
    file = open_bytes(parquet_bytes(table, row_group_size=len(groups[0]), **options))
    assert file.describe()["bloom_filters"] == ["c"]
    literal = file_literal(file, values[5])
    assert row_groups_read(file, ex.EqualTo("c", literal))[0] < 4
    assert len(row_groups_read(file, ex.EqualTo("c", literal))[1]) >= 1
    assert len(row_groups_read(file, ex.In("c", {literal, file_literal(file, values[60])}))[1]) >= 2
    absent = file_literal(file, make(501))
    assert row_groups_read(file, ex.EqualTo("c", absent)) == (0, [])


def file_literal(file: ParquetDataFile, value: Any) -> Any:
    """The value as a caller of the predicate would spell it."""
    scalar = pa.scalar(value, ArrowBatch().concat(file.schema, []).schema.field(0).type)
    return scalar.as_py()


def test_zeros_of_both_signs_are_found_through_a_bloom_filter() -> None:
    table = pa.table({"c": pa.array([-0.0, 5.0])})
    file = open_bytes(parquet_bytes(table, bloom_filter_options={"c": {"ndv": 10, "fpp": 0.001}}))
    assert row_groups_read(file, ex.EqualTo("c", 0.0)) == (1, [-0.0])


def _wrong_fields(field: Tree) -> list[list[Tree]]:
    numbers = [Tree("int", value, field.key) for value in (0, -32, 33, 1 << 31, 1 << 62)]
    unions = [Tree("struct", [], field.key), Tree("struct", [Tree("struct", [], Numbered("2", 2))], field.key)]
    return [[], *([node] for node in (*numbers, *unions, Tree("bytes", b"12345678", field.key)))]


@pytest.mark.parametrize("field", ["numBytes", "algorithm", "hash", "compression"])
@pytest.mark.parametrize("with_length", [True, False], ids=["with a length", "without a length"])
def test_a_damaged_bloom_filter_excludes_no_row_group(field: str, with_length: bool) -> None:
    values = [*range(500), *range(501, 1000)]
    good = parquet_bytes(pa.table({"c": values}), bloom_filter_options={"c": {"ndv": 999, "fpp": 0.001}})
    assert row_groups_read(open_bytes(good), ex.EqualTo("c", 500)) == (0, [])
    bloom = ParquetFile(good).chunks[0].bloom
    assert bloom is not None
    for wrong in _wrong_fields(bloom[field]):
        parts = ParquetFile(good)
        others = [each for each in bloom.value if each.key != field]
        parts.chunks[0].bloom = Tree("struct", sorted([*others, *wrong], key=lambda each: each.key.number))
        if not with_length:
            record = parts.chunks[0].record["meta_data"]
            record.value = [each for each in record.value if each.key != "bloom_filter_length"]
        assert row_groups_read(open_bytes(parts.to_bytes()), ex.EqualTo("c", 500)) == (1, [])


@pytest.mark.parametrize("field", ["bloom_filter_offset", "bloom_filter_length"])
@pytest.mark.parametrize("value", [-1, 0, 5, 1 << 20, 1 << 40, (1 << 63) - 1])
def test_a_bloom_filter_at_a_wrong_place_excludes_no_row_group(field: str, value: int) -> None:
    table = pa.table({"c": [*range(500), *range(501, 1000)]})
    parts = ParquetFile(parquet_bytes(table, bloom_filter_options={"c": {"ndv": 999, "fpp": 0.001}}))
    place = parts.chunks[0].record["meta_data"][field]
    place.value, place.edited = value, True
    assert row_groups_read(open_bytes(parts.to_bytes()), ex.EqualTo("c", 500)) == (1, [])


@given(st.data())
@settings(max_examples=settings.default.max_examples * 2 if settings.default else 60)
def test_pruning_and_residual_give_the_rows_of_the_naive_evaluator(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(strategies.leaf_types(), min_size=1, max_size=3))
    schema = Schema(*(NestedField(index + 1, f"c{index}", kind) for index, kind in enumerate(kinds)))
    rows = data.draw(strategies.rows(schema, min_size=1))
    predicate = data.draw(strategies.predicates(schema))
    options = data.draw(
        st.fixed_dictionaries(
            {
                "row_group_size": st.integers(1, 5),
                "use_dictionary": st.booleans(),
                "write_statistics": st.booleans(),
                "store_decimal_as_integer": st.booleans(),
                "store_schema": st.booleans(),
            }
        )
    )
    file = open_bytes(parquet_bytes(to_arrow(schema, rows), **options))
    result = file.read(
        ReadOptions(
            projection=file.schema, predicate=bind(file.schema, predicate), batch_rows=data.draw(st.integers(1, 9))
        )
    )
    keep = ArrowBatch().filter(file.schema, result.residual)
    found = [row for batch in result.batches for row in from_arrow(schema, pa.Table.from_batches([keep(batch)]))]
    assert comparable(found) == comparable(row for row in rows if naive.matches(row, schema, predicate))
