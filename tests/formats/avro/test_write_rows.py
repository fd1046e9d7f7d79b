"""What the encoder writes is, byte for byte, what fastavro writes for the same rows, and decodes to them."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
)

from formatkit.contract.variant import VariantType
from formatkit.errors import InvalidDataError
from formatkit.tck.histories import histories
from formatkit.tck.rows import comparable, to_arrow
from formatkit.tck.strategies import rows
from support.arrow_forms import FORMS
from support.avro_writing import (
    block_rows,
    decoded,
    encoded,
    payload,
    stored_rows,
    stored_schema,
    write_columns,
    written,
)
from support.typed_values import ALL_TYPES, TypedValues

TINY_BLOCKS = {"write.avro.block-size-bytes": "1", "write.avro.compression-codec": "uncompressed"}


def optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


def required(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=True)


@given(data=st.data(), history=histories(), batch_rows=st.integers(1, 5), block_bytes=st.sampled_from([1, 40, 10_000]))
def test_random_rows_are_encoded_as_fastavro_encodes_them(
    data: st.DataObject, history: tuple[Schema, ...], batch_rows: int, block_bytes: int
) -> None:
    schema = history[-1]
    expected: list[Any] = data.draw(rows(schema, min_size=1))
    batches = to_arrow(schema, expected, ids=False).to_batches(max_chunksize=batch_rows)
    content, result = written(schema, batches, properties={"write.avro.block-size-bytes": str(block_bytes)})
    assert result.row_count == len(expected)
    assert payload(content) == encoded(stored_schema(content), schema, expected)
    assert comparable(decoded(content, schema)) == comparable(expected)


@given(data=st.data(), history=histories(most_changes=0), cuts=st.lists(st.integers(0, 12), min_size=2, max_size=2))
def test_slices_are_encoded_without_their_surroundings(
    data: st.DataObject, history: tuple[Schema, ...], cuts: list[int]
) -> None:
    schema = history[-1]
    table: list[Any] = data.draw(rows(schema, min_size=4))
    start, end = sorted(cut % len(table) for cut in cuts)
    (batch,) = to_arrow(schema, table, ids=False).to_batches()
    content, _ = written(schema, [batch.slice(start, end + 1 - start)])
    assert payload(content) == encoded(stored_schema(content), schema, table[start : end + 1])


@pytest.mark.parametrize("typed", ALL_TYPES, ids=str)
def test_every_type_in_every_arrow_form_gives_the_same_bytes(typed: TypedValues) -> None:
    schema = Schema(optional(1, "a", typed.iceberg))
    values = typed.with_specials
    for name, form in FORMS.items():
        if (column := form(typed.column(values))) is not None:
            content = write_columns(schema, column)
            assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values]), name


@pytest.mark.parametrize(
    "value", [0, 1, -1, *(sign * 2**bits + off for bits in range(6, 63) for sign in (1, -1) for off in (-1, 0, 1))]
)
def test_numbers_of_every_length_are_encoded(value: int) -> None:
    schema = Schema(required(1, "a", LongType()))
    content = write_columns(schema, pa.array([value], pa.int64()))
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value}])


@pytest.mark.parametrize("precision", range(1, 39))
def test_decimals_of_every_precision_reach_their_extremes(precision: int) -> None:
    schema = Schema(required(1, "a", DecimalType(precision, 0)))
    most = 10**precision - 1
    values = [Decimal(number) for number in (most, -most, 0, -1, 1)]
    content = write_columns(schema, pa.array(values, pa.decimal128(precision, 0)))
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values])


@pytest.mark.parametrize("precision", [1, 9, 18, 19, 35])
def test_a_decimal_too_long_for_its_bytes_is_refused(precision: int) -> None:
    digits = pa.array([Decimal(1), Decimal(-(10**38 - 1))], pa.decimal128(38, 0))
    overlong = pa.Array.from_buffers(pa.decimal128(precision, 0), 2, digits.buffers())
    schema = Schema(required(1, "price", DecimalType(precision, 0)))
    with pytest.raises(InvalidDataError, match=r"'price' holds a decimal .* row 1"):
        write_columns(schema, overlong)


@pytest.mark.parametrize("precision", [9, 19])
def test_what_lies_under_a_null_decimal_is_not_looked_at(precision: int) -> None:
    digits = pa.array([Decimal(1), Decimal(10**38 - 1)], pa.decimal128(38, 0))
    buffers = [pa.py_buffer(b"\x01"), digits.buffers()[1]]
    column = pa.Array.from_buffers(pa.decimal128(precision, 0), 2, buffers)
    schema = Schema(optional(1, "price", DecimalType(precision, 0)))
    content = write_columns(schema, column)
    assert payload(content) == encoded(stored_schema(content), schema, [{1: Decimal(1)}, {1: None}])


@pytest.mark.parametrize("length", [*range(70), 127, 128, 8191, 8192, 300_000])
def test_text_of_every_length_is_copied_whole(length: int) -> None:
    values = ["x" * length, "", "é" * (length // 2), "y" * length]
    schema = Schema(required(1, "a", StringType()))
    content = write_columns(schema, pa.array(values))
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values])


def test_the_bits_of_a_nan_are_kept() -> None:
    bits = [0x7FF8000000000000, 0x7FF8000000000123, 0xFFF0000000000001]
    schema = Schema(required(1, "a", DoubleType()), required(2, "b", FloatType()))
    doubles = np.array(bits, np.uint64).view(np.float64)
    floats = np.array([0x7FC00001, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    content = write_columns(schema, pa.array(doubles), pa.array(floats))
    stored = b"".join(double.tobytes() + single.tobytes() for double, single in zip(doubles, floats, strict=True))
    assert payload(content) == stored
    assert math.isnan(struct.unpack("<d", stored[:8])[0])


def test_what_lies_under_a_null_list_is_not_written() -> None:
    hidden = pa.ListArray.from_arrays(pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5]))
    validity = pa.py_buffer(bytes([0b101]))
    column = pa.Array.from_buffers(hidden.type, 3, [validity, hidden.buffers()[1]], children=[hidden.values])
    schema = Schema(optional(1, "a", ListType(2, LongType(), element_required=True)))
    expected: list[dict[int, Any]] = [{1: [1, 2]}, {1: None}, {1: [5]}]
    content = write_columns(schema, column)
    assert payload(content) == encoded(stored_schema(content), schema, expected)


def test_nulls_in_required_children_of_a_null_struct_are_not_looked_at() -> None:
    schema = Schema(optional(1, "s", StructType(required(2, "a", IntegerType()), required(3, "b", StringType()))))
    children: list[Any] = [pa.array([1, None, 3], pa.int32()), pa.array(["x", None, "z"])]
    column = pa.StructArray.from_arrays(children, names=["a", "b"], mask=pa.array([False, True, False]))
    content = write_columns(schema, column)
    expected: list[dict[int, Any]] = [{1: {2: 1, 3: "x"}}, {1: None}, {1: {2: 3, 3: "z"}}]
    assert payload(content) == encoded(stored_schema(content), schema, expected)


@pytest.mark.parametrize("key", [StringType(), IntegerType()])
def test_maps_with_offsets_at_every_level_are_read_from_the_right_place(key: Any) -> None:
    keys = pa.array(["z", "a", "b", "c", "d"]) if isinstance(key, StringType) else pa.array([9, 1, 2, 3, 4], pa.int32())
    items = pa.array([0, 0, 10, 20, 30, 40])
    entries = pa.StructArray.from_arrays([keys, items.slice(1)], names=["key", "value"]).slice(1)
    map_type: Any = pa.map_(keys.type, pa.field("value", items.type, nullable=False))
    offsets = pa.array([0, 1, 1, 3, 4], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(map_type, 3, [None, offsets], offset=1, children=[entries])
    schema = Schema(required(1, "m", MapType(2, key, 3, LongType(), value_required=True)))
    a, b, c, d = keys.to_pylist()[1:]
    expected: list[dict[int, Any]] = [{1: []}, {1: [(b, 20), (c, 30)]}, {1: [(d, 40)]}]
    assert a not in (b, c, d)
    content = write_columns(schema, column)
    assert payload(content) == encoded(stored_schema(content), schema, expected)


@pytest.mark.parametrize("form", ["large", "fixed size", "view"])
def test_lists_in_every_arrow_form_give_the_same_bytes(form: str) -> None:
    schema = Schema(optional(1, "a", ListType(2, StringType(), element_required=False)))
    values: list[Any] = [["a", None], None, ["", "bcd"]]
    types = {
        "large": pa.large_list(pa.large_string()),
        "fixed size": pa.list_(pa.string(), 2),
        "view": pa.list_view(pa.string()),
    }
    content = write_columns(schema, pa.array(values, types[form]))
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values])


def test_rows_longer_than_a_block_grow_it() -> None:
    schema = Schema(required(1, "a", ListType(2, StringType(), element_required=True)))
    values = [["x" * 700] * count for count in (1, 400, 0, 3, 2000)]
    properties = {"write.avro.block-size-bytes": "1000"}
    content = write_columns(schema, pa.array(values), properties=properties)
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values])
    assert block_rows(content) == [2, 2, 1]


def test_each_row_is_a_block_of_its_own_if_blocks_are_tiny() -> None:
    schema = Schema(required(1, "a", LongType()))
    batches = pa.table({"a": range(10)}).to_batches(max_chunksize=3)
    assert block_rows(written(schema, batches, properties=TINY_BLOCKS)[0]) == [1] * 10


def test_a_block_takes_rows_of_several_batches() -> None:
    schema = Schema(required(1, "a", LongType()))
    batches = pa.table({"a": range(100)}).to_batches(max_chunksize=3)
    assert block_rows(written(schema, batches)[0]) == [100]


def test_variants_are_records_of_two_binaries() -> None:
    schema = Schema(optional(1, "v", VariantType()))
    value = {"metadata": b"\x01\0\0", "value": b"\x0c\x07"}
    kind = pa.struct(
        [pa.field("metadata", pa.binary(), nullable=False), pa.field("value", pa.binary(), nullable=False)]
    )
    content = write_columns(schema, pa.array([value, None], kind))
    assert payload(content) == b"\x02\x06\x01\0\0\x04\x0c\x07" + b"\0"


@pytest.mark.parametrize("kind", [GeometryType(), GeographyType(), BinaryType()], ids=str)
def test_shapes_are_stored_as_bytes(kind: Any) -> None:
    schema = Schema(optional(1, "g", kind))
    content = write_columns(schema, pa.array([b"\x01\x02", None, b""]))
    assert payload(content) == b"\x02\x04\x01\x02" + b"\0" + b"\x02\0"


def test_nothing_is_stored_for_columns_of_no_known_type() -> None:
    schema = Schema(
        optional(1, "u", UnknownType()),
        required(2, "a", LongType()),
        optional(3, "s", StructType(optional(4, "u", UnknownType()), optional(5, "b", LongType()))),
        optional(6, "v", UnknownType()),
    )
    inner = pa.StructArray.from_arrays([pa.nulls(2), pa.array([None, 3])], names=["u", "b"])
    content = write_columns(schema, pa.nulls(2), pa.array([1, 2]), inner, pa.nulls(2))
    assert stored_rows(content) == [{"a": 1, "s": {"b": None}}, {"a": 2, "s": {"b": 3}}]


def test_rows_of_nothing_but_unknown_are_counted() -> None:
    schema = Schema(optional(1, "u", UnknownType()))
    content = write_columns(schema, pa.nulls(5))
    assert stored_rows(content) == [{"u": None}] * 5


def test_lists_of_unknown_keep_their_lengths() -> None:
    schema = Schema(optional(1, "l", ListType(2, UnknownType(), element_required=False)))
    content = write_columns(schema, pa.array([[None, None], None, []], pa.list_(pa.null())))
    assert [row["l"] for row in stored_rows(content)] == [[None, None], None, []]


def test_structs_of_nothing_but_unknown_keep_their_nulls() -> None:
    schema = Schema(optional(1, "s", StructType(optional(2, "u", UnknownType()))))
    column = pa.StructArray.from_arrays([pa.nulls(2)], names=["u"], mask=pa.array([False, True]))
    content = write_columns(schema, column)
    assert [row["s"] for row in stored_rows(content)] == [{"u": None}, None]


@pytest.mark.parametrize("offsets", [[0, 9, 2], [0, -5, 1], [2, 1, 3]])
@pytest.mark.parametrize("kind", ["text", "list"])
def test_offsets_that_lead_outside_are_refused(offsets: list[int], kind: str) -> None:
    column: Any
    buffer = pa.py_buffer(np.array(offsets, np.int32).tobytes())
    if kind == "text":
        column = pa.Array.from_buffers(pa.string(), 2, [None, buffer, pa.py_buffer(b"abc")])
        schema = Schema(required(1, "a", StringType()))
    else:
        column = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, buffer], children=[pa.array([1, 2, 3])])
        schema = Schema(required(1, "a", ListType(2, LongType(), element_required=False)))
    with pytest.raises(InvalidDataError, match=r"'a' has offsets that lie outside of its values, in row 0"):
        write_columns(schema, column)


@pytest.mark.parametrize("size", [1, 4, 8, 15, 16, 17, 1000])
def test_fixed_bytes_of_any_size_are_copied(size: int) -> None:
    schema = Schema(optional(1, "a", FixedType(size)))
    values = [bytes([i]) * size if i % 3 else None for i in range(50)]
    content = write_columns(schema, pa.array(values, pa.binary(size)))
    assert payload(content) == encoded(stored_schema(content), schema, [{1: value} for value in values])
