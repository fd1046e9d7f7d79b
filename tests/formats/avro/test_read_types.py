"""Each stored type as the Iceberg type that it stands for, by both decoders."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.errors import CorruptFileError, InvalidDataError
from formatkit.formats.avro.codecs import CODECS
from support.avro_reading import (
    DECODERS,
    SYNC,
    avro_file,
    container,
    field,
    open_bytes,
    read_batches,
    read_rows,
    record,
    sized,
    varint,
)

pytestmark = pytest.mark.parametrize("decoder", DECODERS)


def long(logical: str, **more: Any) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, **more}


def decimal(kind: str, precision: int, scale: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": "decimal", "precision": precision, "scale": scale, **more}


OPTIONAL_KEYS = {
    "type": "array",
    "logicalType": "map",
    "items": record(field("key", ["null", "int"]), field("value", "int"), name="entry"),
}
INTS = ListType(element_id=-2, element=IntegerType(), element_required=True)
MOMENT = datetime(1969, 12, 31, 23, 59, 59, 123_000)
UTC_MOMENT = MOMENT.replace(tzinfo=UTC)
HIGH = UUID(int=2**127 + 5)
ALIKE: list[tuple[Any, IcebergType, bytes, Any]] = [
    ({"type": "int", "logicalType": "date"}, DateType(), varint(-1), date(1969, 12, 31)),
    ({"type": "int", "logicalType": "time-millis"}, TimeType(), varint(1), time(0, 0, 0, 1000)),
    (long("time-micros"), TimeType(), varint(1), time(0, 0, 0, 1)),
    (long("timestamp-millis"), TimestamptzType(), varint(-877), UTC_MOMENT),
    (long("timestamp-micros"), TimestamptzType(), varint(-877_000), UTC_MOMENT),
    (long("timestamp-micros", **{"adjust-to-utc": False}), TimestampType(), varint(-877_000), MOMENT),
    (long("timestamp-micros", **{"adjust-to-utc": True}), TimestamptzType(), varint(-877_000), UTC_MOMENT),
    (long("local-timestamp-millis"), TimestampType(), varint(-877), MOMENT),
    (long("local-timestamp-micros"), TimestampType(), varint(-877_000), MOMENT),
    (long("unheard-of"), LongType(), varint(5), 5),
    (long("somebody.duration-millis"), LongType(), varint(5), 5),
    (long("time-millis"), LongType(), varint(5), 5),
    ({"type": "int", "logicalType": "timestamp-millis"}, IntegerType(), varint(5), 5),
    ({"type": "int", "logicalType": "time-micros"}, IntegerType(), varint(5), 5),
    ({"type": "string", "logicalType": "timestamp-millis"}, StringType(), sized(b"5"), "5"),
    ({"type": "bytes", "logicalType": "uuid"}, BinaryType(), sized(b"5"), b"5"),
    ({"type": "int", "logicalType": 7}, IntegerType(), varint(5), 5),
    ({"type": "fixed", "name": "t", "size": 12, "logicalType": "duration"}, FixedType(12), b"a" * 12, b"a" * 12),
    (decimal("bytes", 4, 2), DecimalType(4, 2), sized(b""), Decimal("0.00")),
    ({"type": "array", "items": "int", "logicalType": "map"}, INTS, varint(1) + varint(7) + b"\x00", [7]),
    (decimal("bytes", 4, 2), DecimalType(4, 2), sized(b"\xff\x00"), Decimal("-2.56")),
    (decimal("bytes", 4, 2), DecimalType(4, 2), sized(b"\x00" * 30 + b"\x01"), Decimal("0.01")),
    (decimal("bytes", 38), DecimalType(38, 0), sized(b"\xff" * 20), Decimal(-1)),
    (decimal("fixed", 38, size=16, name="d"), DecimalType(38, 0), b"\x00" * 15 + b"\x80", Decimal(128)),
    (decimal("fixed", 9, 9, size=20, name="d"), DecimalType(9, 9), b"\xff" * 20, Decimal("-1e-9")),
    (decimal("fixed", 5, 9, size=4, name="d"), FixedType(4), b"abcd", b"abcd"),
    (decimal("bytes", 0), BinaryType(), sized(b"abc"), b"abc"),
    ({"type": "fixed", "size": 16, "name": "u", "logicalType": "uuid"}, UUIDType(), bytes(15) + b"\x07", UUID(int=7)),
    ({"type": "fixed", "size": 8, "name": "u", "logicalType": "uuid"}, FixedType(8), b"12345678", b"12345678"),
    ({"type": "string", "logicalType": "uuid"}, UUIDType(), sized(str(HIGH).upper().encode()), HIGH),
    ({"type": "enum", "name": "e", "symbols": ["no", "yes"]}, StringType(), varint(1), "yes"),
    ("null", UnknownType(), b"", None),
    (["null"], UnknownType(), varint(0), None),
    (["string"], StringType(), varint(0) + sized(b"only"), "only"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "kind", "encoded", "value"), ALIKE)
def test_stored_types_stand_for_iceberg_types(
    decoder: str, stored: Any, kind: IcebergType, encoded: bytes, value: Any
) -> None:
    data = container(
        record(field("a", "int"), field("x", stored), field("z", "int")), [b"\x02" + encoded + b"\x04"] * 9
    )
    assert open_bytes(data).schema.find_field("x").field_type == kind
    assert read_rows(data, decoder=decoder) == [{"a": 1, "x": value, "z": 2}] * 9


@pytest.mark.parametrize(("zone", "kind"), [(False, TimestampNanoType()), (True, TimestamptzNanoType())])
def test_nanoseconds_are_kept(decoder: str, zone: bool, kind: IcebergType) -> None:
    data = container(record(field("x", long("timestamp-nanos", **{"adjust-to-utc": zone}))), [varint(-1), varint(1)])
    file = open_bytes(data)
    assert file.schema.find_field("x").field_type == kind
    (batch,) = read_batches(file, decoder=decoder)
    assert batch.column(0).cast(pa.int64()).to_pylist() == [-1, 1]


@pytest.mark.parametrize("null_branch", [0, 1])
@pytest.mark.parametrize(
    "stored", [stored for stored, *_ in ALIKE if stored != "null" and not isinstance(stored, list)]
)
def test_null_may_be_either_branch(decoder: str, null_branch: int, stored: Any) -> None:
    encoded = next(case[2] for case in ALIKE if case[0] is stored)
    value = next(case[3] for case in ALIKE if case[0] is stored)
    union = [stored, "null"] if null_branch else ["null", stored]
    rows = [varint(null_branch), varint(1 - null_branch) + encoded] * 4
    assert read_rows(container(record(field("x", union)), rows), decoder=decoder) == [{"x": None}, {"x": value}] * 4


@pytest.mark.parametrize(
    ("stored", "encoded", "what"),
    [
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("int", varint(2**31), "does not fit its type"),
        ("int", varint(-(2**31) - 1), "does not fit its type"),
        ("long", b"\xff" * 9 + b"\x02", "more than 64 bits"),
        ("long", b"\xff" * 10, "more than 64 bits"),
        (long("timestamp-millis"), varint(2**62), "does not fit its type"),
        (long("time-micros"), varint(86_400_000_000), "outside of the day"),
        (long("time-micros"), varint(-1), "outside of the day"),
        ("string", sized(b"\xff"), "not a string"),
        ("string", sized(b"\xc3") + sized(b"\xa4"), "not a string|follow its last row"),
        ("bytes", varint(-1), "length is negative"),
        ("bytes", varint(3) + b"ab", "past the end"),
        ("double", b"1234567", "past the end|too few"),
        (["null", "int"], varint(2), "no branch"),
        (["null", "int"], varint(-1), "no branch"),
        (["null", "int", "string"], varint(3), "no branch"),
        (["null", "int", "string"], varint(-1), "no branch"),
        (["int", "long"], varint(1), "past the end"),
        ({"type": "enum", "name": "e", "symbols": ["a"]}, varint(1), "no symbol"),
        ({"type": "string", "logicalType": "uuid"}, sized(b"x" * 36), "not a uuid"),
        ({"type": "string", "logicalType": "uuid"}, sized(b"00000000"), "not a uuid"),
        ({"type": "array", "items": "int"}, varint(2**62) + b"\x00", "past the end"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01" + varint(1) + b"\x00\x00", "length is negative"),
        ({"type": "array", "items": "null"}, varint(2**40) + b"\x00", "more than 2147483647"),
        ("long", b"\x02\x02", "follow its last row"),
    ],
)
def test_values_that_are_not_of_their_type_are_refused(decoder: str, stored: Any, encoded: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        read_rows(container(record(field("x", stored)), [encoded]), decoder=decoder)
    assert "test.avro" in str(caught.value)


@pytest.mark.parametrize(
    ("stored", "encoded", "what"),
    [
        (decimal("bytes", 4, 2), sized(b"\x7f\xff"), r"'x' holds a decimal of more digits than decimal\(4, 2\) has"),
        (decimal("fixed", 3, size=2, name="d"), b"\x83\x00", r"decimal\(3, 0\) has: -32000"),
        (["null", decimal("bytes", 4)], varint(1) + sized(b"\x7f\xff"), "has: 32767"),
        (["int", decimal("bytes", 4)], varint(1) + sized(b"\x7f\xff"), "has: 32767"),
        (decimal("bytes", 38), sized(b"\x01" + bytes(16)), "more than 128 bits"),
        (decimal("bytes", 38), sized(b"\x00\x80" + bytes(15)), "more than 128 bits"),
        (decimal("fixed", 38, size=17, name="d"), b"\x01" + bytes(16), "more than 128 bits"),
        (OPTIONAL_KEYS, varint(1) + varint(0) + varint(5) + varint(0), "'x' holds a map with a null key"),
    ],
)  # fmt: skip
def test_values_that_no_iceberg_type_holds_are_refused(decoder: str, stored: Any, encoded: bytes, what: str) -> None:
    data = container(record(field("x", stored), field("y", "int")), [encoded + b"\x02"])
    with pytest.raises(InvalidDataError, match=what) as caught:
        read_rows(data, decoder=decoder)
    assert "test.avro" in str(caught.value)
    assert read_rows(data, open_bytes(data).schema.select("y"), decoder=decoder) == [{"y": 1}]


def test_maps_with_optional_keys_are_read_where_no_key_is_null(decoder: str) -> None:
    pair = varint(1) + varint(1) + varint(4) + varint(5) + varint(0)
    assert read_rows(container(record(field("x", OPTIONAL_KEYS)), [pair, varint(0)]), decoder=decoder) == [
        {"x": [(4, 5)]},
        {"x": []},
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_without_rows_are_passed_over(decoder: str, codec: str) -> None:
    data = avro_file(record(field("x", "int")), [{"x": 1}, {"x": 2}], codec, rows_per_block=1)
    nothing = varint(0) + varint(0) + SYNC
    header = data[: data.index(SYNC) + len(SYNC)]
    rows = [{"x": 1}, {"x": 2}]
    assert read_rows(header + nothing + data[len(header) :] + nothing, decoder=decoder) == rows
    assert read_rows(header + nothing, decoder=decoder) == []
    with pytest.raises(CorruptFileError):
        read_rows(header + varint(0) + sized(b"?") + SYNC, decoder=decoder)


@pytest.mark.parametrize(
    "items", ["int", "string", "double", "null", ["null", "long"], {"type": "array", "items": "long"}]
)
def test_blocks_that_tell_their_length_are_read_and_passed_over(decoder: str, items: Any) -> None:
    schema = fastavro.parse_schema({"type": "array", "items": items})
    value = {"int": 3, "string": "abc", "double": 0.5, "null": None}.get(
        str(items), [1, 2] if isinstance(items, dict) else 9
    )
    fastavro.schemaless_writer(out := io.BytesIO(), schema, [value, value])
    body = out.getvalue()[1:-1]
    # Two elements in a block without its length, two in one with it, and the end.
    rows = [varint(2) + body + varint(-2) + varint(len(body)) + body + varint(0) + sized(b"end")] * 3
    data = container(record(field("x", {"type": "array", "items": items}), field("end", "string")), rows)
    assert read_rows(data, decoder=decoder) == [{"x": [value] * 4, "end": "end"}] * 3
    assert read_rows(data, open_bytes(data).schema.select("end"), decoder=decoder) == [{"end": "end"}] * 3


@pytest.mark.parametrize("codec", CODECS)
def test_large_files_stream_in_bounded_batches(decoder: str, codec: str) -> None:
    rows = [{"n": number, "s": f"text {number}" * (number % 9), "l": [number] * (number % 5)} for number in range(3000)]
    schema = record(field("n", "long"), field("s", "string"), field("l", {"type": "array", "items": "long"}))
    data = avro_file(schema, rows, codec, rows_per_block=97)
    batches = read_batches(open_bytes(data), decoder=decoder, batch_rows=256)
    assert [batch.num_rows for batch in batches] == [256] * 11 + [184]
    assert [row for batch in batches for row in batch.to_pylist()] == rows


def test_rows_larger_than_a_batch_should_be_are_cut_earlier(decoder: str) -> None:
    large = "x" * 9_000_000
    data = avro_file(record(field("s", "string")), [{"s": large}] * 20, "snappy")
    batches = read_batches(open_bytes(data), decoder=decoder)
    assert len(batches) > 1
    assert max(batch.nbytes for batch in batches) < 600_000_000
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == [large] * 20
