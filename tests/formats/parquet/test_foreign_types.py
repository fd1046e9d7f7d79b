"""Types that other writers use and Iceberg lacks: what each is read as, in every way of reading, filters included."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

import formatkit
from formatkit.tck import naive
from support.decode_paths import WAYS, Read, duckdb_rows, filters_on
from support.filters import EqualTo
from support.foreign_parquet import (
    BYTE_ARRAY,
    DECIMAL,
    ENUM,
    FIXED,
    INT32,
    INT64,
    INT_8,
    INTERVAL,
    TIMESTAMP_MICROS,
    UINT_8,
    UINT_32,
    UINT_64,
    UTF8,
    Byte,
    Node,
    leaf,
    parquet_bytes,
    with_schema,
)

MANY = 5000
NANOS: Node = {3: {}}
MICROS: Node = {2: {}}
LARGEST = 2**64 - 1


def big_endian(value: int, length: int) -> bytes:
    return value.to_bytes(length, "big", signed=True)


@dataclass(frozen=True)
class Case:
    """A column that pyarrow writes as `arrow` and that is then annotated as `column`.

    Attributes:
        arrow: The Arrow type of what is stored.
        stored: What is stored.
        column: The element that describes it.
        iceberg: The type that it is read as.
        expected: The internal values.
        doc: What the schema says of it.
        peers: Who reads the same values.
    """

    arrow: Any
    stored: list[Any]
    column: list[Node]
    iceberg: IcebergType
    expected: list[Any]
    doc: str | None = None
    peers: tuple[str, ...] = ()

    def file(self, copies: int = 1, **options: Any) -> bytes:
        table = pa.table({"c": pa.array(self.stored * copies, self.arrow)})
        return with_schema(parquet_bytes(table, store_schema=False, **options), self.column)


def numbers(*values: int | None) -> list[Any]:
    return [None if value is None else Decimal(value) for value in values]


def cents(*values: int | None) -> list[Any]:
    return [None if value is None else unscaled_to_decimal(value, 2) for value in values]


PLAIN = [7, None, -3, 300]
CASES = {
    "unsigned 64": Case(
        pa.int64(),
        [0, None, 5, -1, -(2**63)],
        leaf("c", INT64, converted=UINT_64),
        DecimalType(20, 0),
        numbers(0, None, 5, LARGEST, 2**63),
        peers=("pyarrow", "duckdb"),
    ),
    "unsigned 64, logical": Case(
        pa.int64(),
        [0, None, -1],
        leaf("c", INT64, logical={10: {1: Byte(64), 2: False}}),
        DecimalType(20, 0),
        numbers(0, None, LARGEST),
        peers=("pyarrow",),
    ),
    "unsigned 32 in 64": Case(pa.int64(), PLAIN, leaf("c", INT64, converted=UINT_32), LongType(), PLAIN),
    "signed 8 beyond its range": Case(pa.int32(), PLAIN, leaf("c", INT32, converted=INT_8), IntegerType(), PLAIN),
    "unsigned 8 beyond its range": Case(pa.int32(), PLAIN, leaf("c", INT32, converted=UINT_8), IntegerType(), PLAIN),
    "time in nanoseconds": Case(
        pa.int64(),
        [1, None, 86_399_999_999_999],
        leaf("c", INT64, logical={7: {1: False, 2: NANOS}}),
        LongType(),
        [1, None, 86_399_999_999_999],
        doc="stored as INT64 annotated TIME in nanos",
    ),
    "interval": Case(
        pa.binary(12),
        [struct.pack("<3I", 1, 2, 3), None, struct.pack("<3I", 2, 0, 0)],
        leaf("c", FIXED, length=12, converted=INTERVAL),
        FixedType(12),
        [struct.pack("<3I", 1, 2, 3), None, struct.pack("<3I", 2, 0, 0)],
        doc="stored as FIXED(12) annotated INTERVAL",
    ),
    "interval that is also annotated UNKNOWN, as parquet-mr writes it": Case(
        pa.binary(12),
        [struct.pack("<3I", 1, 2, 3), None, struct.pack("<3I", 2, 0, 0)],
        leaf("c", FIXED, length=12, converted=INTERVAL, logical={11: {}}),
        FixedType(12),
        [struct.pack("<3I", 1, 2, 3), None, struct.pack("<3I", 2, 0, 0)],
        doc="stored as FIXED(12) annotated INTERVAL",
    ),
    "unknown logical type": Case(
        pa.binary(),
        [b"b", None, b"\xff"],
        leaf("c", BYTE_ARRAY, logical={99: {}}),
        BinaryType(),
        [b"b", None, b"\xff"],
        doc="stored as BYTE_ARRAY annotated an annotation that is not known here",
        peers=("pyarrow", "duckdb"),
    ),
    "unknown logical type with a converted type": Case(
        pa.binary(), [b"b", None], leaf("c", BYTE_ARRAY, converted=UTF8, logical={99: {}}), StringType(), ["b", None]
    ),
    "unknown converted type": Case(
        pa.int32(),
        [None, None],
        leaf("c", INT32, converted=24),
        IntegerType(),
        [None, None],
        doc="stored as INT32 annotated an annotation that is not known here",
        peers=("duckdb",),
    ),
    "logical and converted type disagree": Case(
        pa.int64(),
        [1, None],
        leaf("c", INT64, converted=TIMESTAMP_MICROS, logical={8: {1: False, 2: MICROS}}),
        TimestampType(),
        [1, None],
    ),
    "timestamp that does not say whether it is in UTC": Case(
        pa.int64(),
        [1, None],
        leaf("c", INT64, converted=TIMESTAMP_MICROS, logical={8: {2: MICROS}}),
        TimestamptzType(),
        [1, None],
    ),
    "timestamp of 32 bits": Case(
        pa.int32(),
        PLAIN,
        leaf("c", INT32, converted=TIMESTAMP_MICROS),
        IntegerType(),
        PLAIN,
        doc="stored as INT32 annotated TIMESTAMP in micros",
    ),
    "text that is a number": Case(
        pa.int32(),
        PLAIN,
        leaf("c", INT32, converted=UTF8),
        IntegerType(),
        PLAIN,
        doc="stored as INT32 annotated STRING",
    ),
    "enum of fixed length": Case(
        pa.binary(2),
        [b"ab", None],
        leaf("c", FIXED, length=2, converted=ENUM),
        FixedType(2),
        [b"ab", None],
        doc="stored as FIXED(2) annotated ENUM",
    ),
    "uuid of another length": Case(
        pa.binary(15),
        [b"u" * 15, None],
        leaf("c", FIXED, length=15, logical={14: {}}),
        FixedType(15),
        [b"u" * 15, None],
        doc="stored as FIXED(15) annotated UUID",
    ),
    "decimal in a type that is too long": Case(
        pa.binary(20),
        [big_endian(258, 20), None, big_endian(-1, 20), big_endian(-(10**9), 20)],
        leaf("c", FIXED, length=20, converted=DECIMAL, precision=10, scale=2),
        DecimalType(10, 2),
        cents(258, None, -1, -(10**9)),
    ),
    "decimal in bytes of any length": Case(
        pa.binary(),
        [big_endian(258, 30), None, big_endian(-1, 1), big_endian(-(10**9), 16), big_endian(10**9, 5)],
        leaf("c", BYTE_ARRAY, converted=DECIMAL, precision=10, scale=2),
        DecimalType(10, 2),
        cents(258, None, -1, -(10**9), 10**9),
    ),
    "decimal of 38 digits in bytes": Case(
        pa.binary(),
        [big_endian(10**38 - 1, 16), None, big_endian(-(10**38) + 1, 17)],
        leaf("c", BYTE_ARRAY, converted=DECIMAL, precision=38, scale=2),
        DecimalType(38, 2),
        cents(10**38 - 1, None, 1 - 10**38),
    ),
    "decimal of few digits in 64 bits": Case(
        pa.int64(),
        [1, None, -99],
        leaf("c", INT64, converted=DECIMAL, precision=4, scale=2),
        DecimalType(4, 2),
        cents(1, None, -99),
        peers=("pyarrow", "duckdb"),
    ),
    "decimal of more digits than 64 bits have": Case(
        pa.int64(),
        [2**63 - 1, None, -(2**63)],
        leaf("c", INT64, logical={5: {1: 2, 2: 30}}),
        DecimalType(30, 2),
        cents(2**63 - 1, None, -(2**63)),
    ),
    "decimal of more digits than its bytes have": Case(
        pa.binary(4),
        [big_endian(2**31 - 1, 4), None, big_endian(-5, 4)],
        leaf("c", FIXED, length=4, logical={5: {1: 2, 2: 15}}),
        DecimalType(15, 2),
        cents(2**31 - 1, None, -5),
    ),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
each_way = pytest.mark.parametrize("read", WAYS.values(), ids=WAYS.keys())


@each_way
@each_case
@pytest.mark.parametrize("copies", [1, MANY], ids=["few", "many"])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_values_are_read_as_the_type_that_holds_them(case: Case, read: Read, copies: int, dictionary: bool) -> None:
    data = case.file(copies, use_dictionary=dictionary)
    assert formatkit.read_file(data, file_format="parquet").schema.fields == (
        NestedField(1, "c", case.iceberg, required=False, doc=case.doc),
    )
    assert read(data) == case.expected * copies


@each_way
@each_case
def test_filters_keep_the_rows_that_the_naive_evaluator_keeps(case: Case, read: Read) -> None:
    data = case.file(3, write_page_index=True, data_page_size=1, write_batch_size=1, row_group_size=4)
    schema = Schema(NestedField(1, "c", case.iceberg, required=False))
    values = case.expected * 3
    for predicate in filters_on("c", [value for value in case.expected if value is not None] or [0]):
        kept = [value for value in values if naive.matches({1: value}, schema, predicate)]
        assert read(data, where=predicate) == kept, predicate


@each_way
@pytest.mark.parametrize("column", [{"logical": {99: {}}}, {"converted": ENUM}], ids=["unknown", "unfit"])
def test_bounds_in_an_order_that_is_not_known_rule_nothing_out(read: Read, column: dict[str, Any]) -> None:
    halves = pa.array(np.array([1.0, 1.001, 2.0], np.float16))
    data = parquet_bytes(pa.table({"c": halves}), store_schema=False, write_page_index=True)
    data = with_schema(data, leaf("c", FIXED, length=2, **column))
    assert read(data, where=EqualTo("c", b"\x01\x3c")) == [b"\x01\x3c"]


@each_case
def test_peers_read_the_same_values(case: Case, tmp_path: Any) -> None:
    path = tmp_path / "file.parquet"
    path.write_bytes(case.file())
    if "pyarrow" in case.peers:
        assert pq.ParquetFile(path).read()["c"].to_pylist() == case.expected
    if "duckdb" in case.peers:
        assert [row[0] for row in duckdb_rows(path)] == case.expected
