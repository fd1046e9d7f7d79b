"""Variants in Parquet files, whole and shredded."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import IsNull, NotNull, Reference
from pyiceberg.types import UnknownType

from formatkit import read_file
from formatkit.batches.arrow.types import arrow_type
from formatkit.batches.arrow.variant import variants
from formatkit.contract import Variant, VariantType
from formatkit.errors import FormatkitError, InvalidDataError, InvalidPredicateError
from formatkit.tck.rows import from_arrow
from support.foreign_parquet import parquet_bytes
from support.parquet_reading import open_bytes
from support.shredding import as_variant_columns, shredded_array, with_variant_ids

NULL = Variant.of(None)
DECIMALS = [pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(38, 2)]
TYPES: list[Any] = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), *DECIMALS, pa.date32(),
    pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"),
    pa.string(), pa.binary(), pa.uuid(),
]  # fmt: skip
LEAVES: list[Any] = [
    None, True, False, 1, -129, 40_000, -(2**31), 2**63 - 1, 1.5, -0.25, Decimal("1.25"), Decimal("-99999999999.99"),
    Decimal("123456789012345678901234567890.12"), date(1969, 12, 31), time(1, 2, 3, 4),
    datetime(1969, 1, 1, 0, 0, 1, 1), datetime(2021, 1, 1, tzinfo=UTC), "", "short", "long " * 20, b"\x00\xff",
    UUID(int=5), [], {},
]  # fmt: skip
LAYOUTS: list[Any] = [
    None,
    pa.int64(),
    {"a": pa.int32(), "b": pa.string()},
    {"a": None, "ä": pa.bool_()},
    {"a": {"b": pa.string(), "c": {"d": pa.date32()}}, "b": [pa.int64()]},
    [pa.string()],
    [None],
    [{"a": pa.float64(), "b": [pa.string()]}],
    [[pa.int64()]],
]
NAMES = st.sampled_from(["a", "b", "c", "d", "ä", "z"])
VALUES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def read_variants(data: bytes, name: str = "v", **options: Any) -> list[Variant | None]:
    table = read_file(data, file_format="parquet", **options).to_arrow()
    assert table.schema.field(name).type == arrow_type(VariantType())
    table.validate(full=True)
    return variants(table.column(name).combine_chunks())


def file_of(values: list[Any], layout: Any, **options: Any) -> bytes:
    return as_variant_columns(pa.table({"v": shredded_array(values, layout)}), "v", **options)


def plain(found: list[Variant | None]) -> list[Any]:
    return [_python(value) for value in found]


@given(st.lists(VALUES, min_size=1, max_size=6), st.sampled_from(LAYOUTS))
def test_shredded_values_are_put_together_again(values: list[Any], layout: Any) -> None:
    wrapped = [Variant.of(value) for value in values]
    assert plain(read_variants(file_of(wrapped, layout))) == values


WRAPPINGS: dict[str, Any] = {
    "alone": lambda inner: inner,
    "in an object": lambda inner: {"x": inner},
    "in an array": lambda inner: [inner],
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("wrap", WRAPPINGS.values(), ids=WRAPPINGS)
def test_every_type_can_be_shredded(kind: Any, wrap: Any) -> None:
    values = [Variant.of(wrap(leaf)) for leaf in LEAVES]
    expected = [wrap(_read_back(leaf, kind)) for leaf in LEAVES]
    assert plain(read_variants(file_of(values, wrap(kind)))) == expected


def _read_back(leaf: Any, kind: Any) -> Any:
    """Python has no timestamps in nanoseconds; those are read as integers."""
    if not isinstance(leaf, datetime) or not pa.types.is_timestamp(kind) or kind.unit != "ns":
        return leaf
    if (leaf.tzinfo is None) != (kind.tz is None):
        return leaf
    return (leaf - datetime(1970, 1, 1, tzinfo=leaf.tzinfo)) // timedelta(microseconds=1) * 1000


@pytest.mark.parametrize("layout", [None, pa.int64(), {"a": pa.int64()}, [pa.int64()]], ids=str)
def test_a_null_row_is_not_a_variant_null(layout: Any) -> None:
    first, second, third, last = read_variants(file_of([None, NULL, 5, None], layout))
    assert first is last is None
    assert second == NULL
    assert third is not None
    assert third.to_python() == 5


def test_a_missing_field_is_not_a_null_field() -> None:
    values = [{"a": None}, {}, {"b": 1}, {"a": 1}]
    assert plain(read_variants(file_of(values, {"a": pa.int64()}))) == values


def storage(rows: list[Any], *typed: Any) -> pa.Table:
    parts = [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary()), *typed]
    return pa.table({"v": pa.array(rows, pa.struct(parts))})


def test_a_missing_value_where_one_is_required_is_a_variant_null() -> None:
    rows: list[dict[str, Any]] = [{"metadata": b"\x01\x00\x00", "value": None}]
    assert read_variants(as_variant_columns(storage(rows), "v")) == [Variant(b"\x01\x00\x00", b"\x00")]
    typed = pa.field("typed_value", pa.list_(pa.field("element", pa.struct([("value", pa.binary())]), nullable=False)))
    rows = [{"metadata": b"\x01\x00\x00", "typed_value": [{"value": None}]}]
    assert plain(read_variants(as_variant_columns(storage(rows, typed), "v"))) == [[None]]


FIELD = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
OBJECT = pa.field("typed_value", pa.struct([pa.field("a", FIELD, nullable=False)]))
ARRAY = pa.field("typed_value", pa.list_(pa.field("element", FIELD, nullable=False)))


def test_a_shredded_field_is_never_taken_from_the_value() -> None:
    variant = Variant.of({"a": 1, "b": 2})
    rows = [
        {"metadata": variant.metadata, "value": variant.value, "typed_value": {"a": {"typed_value": 9}}},
        {"metadata": variant.metadata, "value": variant.value, "typed_value": {"a": {}}},
        {"metadata": variant.metadata, "value": variant.value, "typed_value": None},
    ]
    found = plain(read_variants(as_variant_columns(storage(rows, OBJECT), "v")))
    assert found == [{"a": 9, "b": 2}, {"b": 2}, {"a": 1, "b": 2}]


@pytest.mark.parametrize(
    ("typed", "value", "typed_value", "reason"),
    [
        pytest.param(pa.field("typed_value", pa.int64()), 1, 1, "a value and a typed value", id="primitive"),
        pytest.param(pa.field("typed_value", pa.int64()), None, 1, "a value and a typed value", id="variant null"),
        pytest.param(ARRAY, 1, [{"typed_value": 1}], "a value and a typed value", id="array"),
        pytest.param(ARRAY, [1], [], "a value and a typed value", id="two arrays"),
        pytest.param(
            ARRAY, ..., [{"value": b"\x00", "typed_value": 1}], "a value and a typed value", id="element of an array"
        ),
        pytest.param(
            OBJECT,
            ...,
            {"a": {"value": b"\x00", "typed_value": 1}},
            "a value and a typed value",
            id="field of an object",
        ),
        pytest.param(OBJECT, "x", {"a": {"typed_value": 9}}, "a value that is no object", id="object"),
        pytest.param(OBJECT, "x", {"a": {}}, "a value that is no object", id="empty object"),
        pytest.param(OBJECT, [1], {"a": {}}, "a value that is no object", id="object and array"),
    ],
)
@pytest.mark.parametrize("rows", [1, 5000])
def test_a_value_that_contradicts_the_typed_value_is_refused(
    typed: Any, value: Any, typed_value: Any, reason: str, rows: int
) -> None:
    names = Variant.of({"a": 1}).metadata
    stored = None if value is ... else Variant.of(value).value
    good = {"metadata": names, "value": Variant.of(7).value, "typed_value": None}
    bad = {"metadata": names, "value": stored, "typed_value": typed_value}
    with pytest.raises(InvalidDataError, match=f"a shredded variant is invalid: .*{reason}"):
        read_variants(as_variant_columns(storage([good] * (rows - 1) + [bad], typed), "v"))


def test_a_shredded_variant_without_metadata_is_refused() -> None:
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    table = pa.table({"v": pa.array([None, {"metadata": None, "value": None, "typed_value": 1}], kind)})
    with pytest.raises(InvalidDataError, match="a shredded variant has no metadata"):
        read_variants(as_variant_columns(table, "v"))


def test_a_field_that_the_metadata_lacks_is_refused() -> None:
    field = pa.struct([("value", pa.binary()), ("typed_value", pa.int64())])
    typed = pa.field("typed_value", pa.struct([pa.field("a", field, nullable=False)]))
    rows = [{"metadata": b"\x01\x00\x00", "typed_value": {"a": {"typed_value": 9}}}]
    with pytest.raises(InvalidDataError, match="'a' that its metadata lacks"):
        read_variants(as_variant_columns(storage(rows, typed), "v"))


def test_the_parts_are_found_by_name() -> None:
    kind = pa.struct(
        [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
    )
    values = [Variant.of({"a": [1]}), None, NULL]
    rows = [value and {"metadata": value.metadata, "value": value.value} for value in values]
    assert read_variants(as_variant_columns(pa.table({"v": pa.array(rows, kind)}), "v")) == values


@pytest.mark.parametrize("layout", [None, {"a": pa.int64()}], ids=["whole", "shredded"])
def test_variants_are_found_inside_structs_lists_and_maps(layout: Any) -> None:
    inner = shredded_array([{"a": 1}, NULL, None, {"a": "x", "b": [2]}], layout)
    offsets: Any = pa.array([0, 2, 2, 3, 4], pa.int32())
    struct = pa.struct([_with_id(pa.field("v", inner.type), 11), _with_id(pa.field("n", pa.int64()), 12)])
    mask = pa.array([False, False, True, False])
    columns: list[Any] = [
        pa.StructArray.from_arrays([inner, pa.array([1, 2, 3, 4])], fields=list(struct), mask=mask),
        pa.ListArray.from_arrays(offsets, inner).cast(pa.list_(_with_id(pa.field("element", inner.type), 21))),
        pa.MapArray.from_arrays(offsets, pa.array(["p", "q", "r", "s"]), inner).cast(
            pa.map_(
                _with_id(pa.field("key", pa.string(), nullable=False), 31), _with_id(pa.field("value", inner.type), 32)
            )
        ),
    ]
    fields = [
        _with_id(pa.field(name, column.type), number)
        for number, (name, column) in enumerate(zip("slm", columns, strict=True), 1)
    ]
    data = with_variant_ids(parquet_bytes(pa.Table.from_arrays(columns, schema=pa.schema(fields))), 11, 21, 32)
    scan = read_file(data, file_format="parquet")
    rows = from_arrow(scan.schema, scan.to_arrow())
    last = {"a": "x", "b": [2]}
    structs = [row[1] and {**row[1], 11: _python(row[1][11])} for row in rows]
    assert structs == [{11: {"a": 1}, 12: 1}, {11: None, 12: 2}, None, {11: last, 12: 4}]
    assert [[_python(value) for value in row[2]] for row in rows] == [[{"a": 1}, None], [], [None], [last]]
    maps = [[(key, _python(value)) for key, value in row[3]] for row in rows]
    assert maps == [[("p", {"a": 1}), ("q", None)], [], [("r", None)], [("s", last)]]
    assert rows[0][2][1] == NULL
    assert rows[2][2][0] is None


def _with_id(field: Any, number: int) -> Any:
    return field.with_metadata({"PARQUET:field_id": str(number)})


def _python(value: Variant | None) -> Any:
    return None if value is None else value.to_python()


@pytest.mark.parametrize("layout", [None, {"a": pa.int64()}], ids=["whole", "shredded"])
@pytest.mark.parametrize("rows", [10, 10_000])
def test_null_tests_are_the_only_filters(layout: Any, rows: int) -> None:
    values = [None if number % 3 else {"a": number} for number in range(rows)]
    table = pa.table({"n": pa.array(range(rows)), "v": shredded_array(values, layout)})
    data = as_variant_columns(table, "v", row_group_size=5_000)
    expected = [value for value in values if value is not None]
    assert plain(read_variants(data, where=NotNull(term=Reference("v")))) == expected
    assert plain(read_variants(data, where=IsNull(term=Reference("v")))) == [None] * (rows - len(expected))
    assert plain(read_variants(data, where="n = 3")) == [{"a": 3}]
    for wrong in ("v = 1", "v in ('a', 'b')", "v < 5", "v like 'a%'", "v is nan"):
        with pytest.raises(InvalidPredicateError, match="only `is null` and `is not null`"):
            read_file(data, wrong, file_format="parquet").to_arrow()


def test_other_columns_are_read_without_the_variant() -> None:
    table = pa.table({"v": shredded_array([{"a": 1}], {"a": pa.int64()}), "n": pa.array([1])})
    found = read_file(as_variant_columns(table, "v"), select=["n"], file_format="parquet").to_arrow()
    assert found.to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    ("typed", "reason"),
    [
        (pa.uint8(), "no variant has values of the type INT32 annotated UINT8"),
        (pa.uint32(), "no variant has values of the type INT32 annotated UINT32"),
        (pa.uint64(), "no variant has values of the type INT64 annotated UINT64"),
        (pa.float16(), "FLOAT16"),
        (pa.time32("ms"), "TIME in millis"),
        (pa.binary(4), "FIXED(4)"),
        (pa.timestamp("ms"), "TIMESTAMP in millis"),
        (pa.binary(3), "FIXED"),
        (pa.map_(pa.string(), pa.int32()), "annotated MAP"),
        (pa.struct([("a", pa.int32())]), "'a' in a typed value is not a group"),
        (pa.struct([("a", pa.struct([("b", pa.int32())]))]), "'a' has a field 'b'"),
        (pa.list_(pa.int32()), "'element' in a typed value is not a group"),
    ],
    ids=str,
)
def test_a_layout_that_the_specification_lacks_makes_the_column_unreadable(typed: Any, reason: str) -> None:
    rows = [{"metadata": b"\x01\x00\x00", "value": b"\x00"}]
    data = as_variant_columns(storage(rows, pa.field("typed_value", typed)), "v")
    file = open_bytes(data)
    assert file.schema.find_type("v") == UnknownType()
    assert reason in file.unreadable[1]


def test_damaged_files_give_an_error_or_rows_but_never_end_the_process() -> None:
    values = [
        {"a": number, "b": [f"text {number}", None], "c": {"d": 1.5}} if number % 3 else NULL for number in range(50)
    ]
    whole = file_of(values, {"a": pa.int32(), "b": [pa.string()]})
    dice = random.Random(7)
    refused = 0
    for _ in range(200):
        data = bytearray(whole)
        for _ in range(dice.randint(1, 3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        cut = bytes(data[: dice.randrange(len(data))]) if dice.random() < 0.2 else bytes(data)
        try:
            for value in read_variants(cut):
                _python(value)
        except (FormatkitError, AssertionError):
            refused += 1
    assert refused > 50
