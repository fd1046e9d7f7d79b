"""A decimal of more digits than its type has is refused wherever it is decoded, and rules nothing out before that."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, NestedField

import formatkit
from formatkit.errors import InvalidDataError
from support.decode_paths import WAYS, Read
from support.foreign_parquet import (
    BYTE_ARRAY,
    DECIMAL,
    FIXED,
    INT32,
    INT64,
    LIST,
    REPEATED,
    Node,
    group,
    leaf,
    parquet_bytes,
    with_schema,
)
from support.shredding import as_variant_columns

LONG = 1_234_567
STORED: dict[str, tuple[Any, list[Node], Any]] = {
    "int32": (pa.int32(), leaf("d", INT32, converted=DECIMAL, precision=4, scale=2), lambda value: value),
    "int64": (pa.int64(), leaf("d", INT64, converted=DECIMAL, precision=4, scale=2), lambda value: value),
    "fixed": (
        pa.binary(5),
        leaf("d", FIXED, length=5, converted=DECIMAL, precision=4, scale=2),
        lambda value: value.to_bytes(5, "big", signed=True),
    ),
    "long fixed": (
        pa.binary(20),
        leaf("d", FIXED, length=20, converted=DECIMAL, precision=4, scale=2),
        lambda value: value.to_bytes(20, "big", signed=True),
    ),
    "binary": (
        pa.binary(),
        leaf("d", BYTE_ARRAY, converted=DECIMAL, precision=4, scale=2),
        lambda value: value.to_bytes(3, "big", signed=True),
    ),
}
each_form = pytest.mark.parametrize("form", STORED)
each_way = pytest.mark.parametrize("read", WAYS.values(), ids=WAYS.keys())
REFUSED = r"column 'd' holds a decimal of more digits than decimal\(4, 2\) has: 12345\.67; leave the column out"


def file_of(form: str, values: list[int | None], **options: Any) -> bytes:
    kind, element, encode = STORED[form]
    stored = pa.array([None if value is None else encode(value) for value in values], kind)
    table = pa.table({"d": stored, "n": pa.array(range(len(values)), pa.int32())})
    return with_schema(parquet_bytes(table, store_schema=False, **options), element, leaf("n", INT32))


@each_way
@each_form
@pytest.mark.parametrize("copies", [1, 2000], ids=["few", "many"])
def test_the_value_is_refused_and_the_others_are_read(form: str, read: Read, copies: int) -> None:
    good = [9999, None, -9999]
    expected = [Decimal("99.99"), None, Decimal("-99.99")] * copies
    assert read(file_of(form, good * copies), select=("d",)) == expected
    with pytest.raises(InvalidDataError, match=REFUSED):
        read(file_of(form, good * copies + [LONG]), select=("d",))


@each_way
@pytest.mark.parametrize("precision", [1, 9, 18, 19, 20, 21, 37, 38])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_the_largest_value_of_a_type_is_read_and_the_next_is_refused(
    read: Read, precision: int, sign: int, dictionary: bool
) -> None:
    def file(value: int) -> bytes:
        stored = [number.to_bytes(16, "big", signed=True) for number in (0, value, sign)] * 2000
        table = pa.table({"d": pa.array([None, *stored], pa.binary(16))})
        element = leaf("d", FIXED, length=16, converted=DECIMAL, precision=precision, scale=0)
        return with_schema(parquet_bytes(table, store_schema=False, use_dictionary=dictionary), element)

    limit = 10**precision
    most = Decimal(sign * (limit - 1))
    assert read(file(sign * (limit - 1)), select=("d",)) == [None, *([Decimal(0), most, Decimal(sign)] * 2000)]
    with pytest.raises(InvalidDataError, match=f"column 'd' holds a decimal of more digits than .*: {sign * limit};"):
        read(file(sign * limit), select=("d",))


@each_way
@each_form
@pytest.mark.parametrize("where", ["d = 1.00", "d != 1.00", "d < 50", "d > 50", "d is not null", "d in (1.00, 2.00)"])
@pytest.mark.parametrize("statistics", [True, False])
def test_filters_answer_the_same_with_and_without_statistics(
    form: str, read: Read, where: str, statistics: bool
) -> None:
    data = file_of(form, [LONG], write_statistics=statistics, write_page_index=statistics)
    with pytest.raises(InvalidDataError, match=REFUSED):
        read(data, where=where, select=("d",))


@each_form
def test_a_filter_that_no_value_of_the_type_matches_finds_nothing(form: str) -> None:
    data = file_of(form, [LONG, 100])
    assert formatkit.read_file(data, "d > 100", file_format="parquet").count() == 0


def test_a_wider_type_of_the_table_does_not_make_it_fit() -> None:
    data = file_of("int32", [LONG])
    schema = Schema(NestedField(1, "d", DecimalType(20, 2), required=False))
    for where in (None, "d = 12345.67"):
        scan = formatkit.read_file(data, where, schema=schema, file_format="parquet")
        if where is None:
            with pytest.raises(InvalidDataError, match=REFUSED):
                scan.to_arrow()
        else:
            assert scan.count() == 0


@each_way
def test_other_columns_are_read_without_it(read: Read) -> None:
    assert read(file_of("int32", [LONG, 1]), select=("n",)) == [0, 1]


def test_it_is_found_inside_lists() -> None:
    table = pa.table({"l": pa.array([[1], [LONG]], pa.list_(pa.int32()))})
    element = leaf("element", INT32, converted=DECIMAL, precision=4, scale=2)
    column = group("l", group("list", element, repetition=REPEATED), converted=LIST)
    data = with_schema(parquet_bytes(table, store_schema=False), column)
    with pytest.raises(InvalidDataError, match=r"column 'l\.element' holds a decimal of more digits"):
        formatkit.read_file(data, file_format="parquet").to_arrow()


def test_it_is_found_inside_variants() -> None:
    wide = pa.Array.from_buffers(
        pa.decimal128(4, 2), 1, [None, pa.array([Decimal("12345.67")], pa.decimal128(20, 2)).buffers()[1]]
    )
    fields: list[Any] = [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("typed_value", pa.decimal128(4, 2)),
    ]
    variant = pa.StructArray.from_arrays([pa.array([b"\x01\x00\x00"]), wide], fields=fields)
    data = as_variant_columns(pa.table({"v": variant}), "v", store_decimal_as_integer=True)
    with pytest.raises(InvalidDataError, match="'typed_value' holds a decimal of more digits"):
        formatkit.read_file(data, file_format="parquet").to_arrow()
