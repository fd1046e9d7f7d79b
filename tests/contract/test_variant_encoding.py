"""The variant encoding, against bytes that Spark wrote and against damage."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formatkit.contract.variant import Variant
from formatkit.contract.variant_decoding import decode_variant, object_fields
from formatkit.contract.variant_encoding import Primitive
from formatkit.errors import InvalidDataError

NO_NAMES = b"\x01\x00\x00"

# What Spark 4.3 makes of parse_json, as metadata and value.
SPARK: dict[str, tuple[bytes, bytes, Any]] = {
    "int8": (NO_NAMES, b"\x0c\x01", 1),
    "int64": (NO_NAMES, b"\x185\x1c\xdc\xdf\x02\x00\x00\x00", 12345678901),
    "decimal4": (NO_NAMES, b" \x02}\x00\x00\x00", Decimal("1.25")),
    "short string": (NO_NAMES, b"\x05a", "a"),
    "null": (NO_NAMES, b"\x00", None),
    "true": (NO_NAMES, b"\x04", True),
    "array": (NO_NAMES, b"\x03\x03\x00\x02\x04\x06\x0c\x01\x0c\x02\x0c\x03", [1, 2, 3]),
    "empty object": (NO_NAMES, b"\x02\x00\x00", {}),
    "object": (
        b"\x01\x03\x00\x01\x02\x03abc",
        b"\x02\x03\x00\x01\x02\x00\x02\x04\x14\x0c\x01\x05x\x03\x03\x00\x02\x08\n\x0c\x01 \x01\x19\x00\x00\x00\x05z",
        {"a": 1, "b": "x", "c": [1, Decimal("2.5"), "z"]},
    ),
    "nested object": (
        b"\x01\x03\x00\x01\x02\x03ade",
        b"\x02\x02\x00\x01\x00\x04\n\rstr\x02\x01\x02\x00\x01\x04",
        {"a": "str", "d": {"e": True}},
    ),
}

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=80)
    | st.binary(max_size=10)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**30), max_value=10**30)
    | st.dates()
    | st.times()
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.uuids()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5)
)


@pytest.mark.parametrize(("metadata", "value", "expected"), SPARK.values(), ids=SPARK)
def test_what_spark_encodes_is_decoded(metadata: bytes, value: bytes, expected: Any) -> None:
    assert Variant(metadata, value).to_python() == expected


@pytest.mark.parametrize("name", ["int8", "int64", "decimal4", "short string", "null", "true", "array", "empty object"])
def test_values_without_names_are_encoded_as_spark_encodes_them(name: str) -> None:
    metadata, value, expected = SPARK[name]
    assert Variant.of(expected) == Variant(metadata, value)


@given(VALUES)
def test_every_value_comes_back(value: Any) -> None:
    assert Variant.of(value).to_python() == value


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (127, Primitive.INT8),
        (128, Primitive.INT16),
        (-32769, Primitive.INT32),
        (2**31, Primitive.INT64),
        (2**63, Primitive.DECIMAL16),
        (Decimal(999999999), Primitive.DECIMAL4),
        (Decimal(9999999999), Primitive.DECIMAL8),
        (Decimal("1E+5"), Primitive.DECIMAL4),
        (1.5, Primitive.DOUBLE),
        (date(1969, 12, 31), Primitive.DATE),
        (time(23, 59, 59, 999_999), Primitive.TIME),
        (datetime(1, 1, 1), Primitive.TIMESTAMP),
        (datetime(1, 1, 1, tzinfo=UTC), Primitive.TIMESTAMPTZ),
        (b"\x00", Primitive.BINARY),
        ("x" * 64, Primitive.STRING),
        (UUID(int=1), Primitive.UUID),
    ],
)
def test_python_values_take_the_smallest_type_that_holds_them(value: Any, kind: Primitive) -> None:
    encoded = Variant.of(value)
    assert encoded.value[0] >> 2 == kind
    assert encoded.to_python() == value


@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000])
def test_objects_and_arrays_of_any_size_come_back(size: int) -> None:
    fields = {f"name {number}": number for number in range(size)}
    assert Variant.of(fields).to_python() == fields
    assert Variant.of(list(range(size))).to_python() == list(range(size))


def test_names_are_ordered_by_their_bytes() -> None:
    variant = Variant.of({"\U0001f600": 1, "\uffff": 2, "a": 3})
    names = [number for number, _ in object_fields(variant.metadata, variant.value) or []]
    assert names == [0, 1, 2]
    assert variant.metadata.index("\uffff".encode()) < variant.metadata.index("\U0001f600".encode())


def test_values_that_python_has_no_type_for_stay_integers() -> None:
    nanoseconds = bytes([Primitive.TIMESTAMP_NS << 2]) + (123_456_789).to_bytes(8, "little")
    far = bytes([Primitive.DATE << 2]) + (2**31 - 1).to_bytes(4, "little")
    assert decode_variant(NO_NAMES, nanoseconds) == 123_456_789
    assert decode_variant(NO_NAMES, far) == 2**31 - 1


def test_a_single_float_keeps_its_value() -> None:
    assert decode_variant(NO_NAMES, bytes([Primitive.FLOAT << 2]) + b"\x00\x00\xc0\x3f") == 1.5


@pytest.mark.parametrize(
    "value", [object, {1: 2}, Decimal("NaN"), Decimal(10) ** 40, "\ud800", {"\ud800": 1}, {1, 2}], ids=repr
)
def test_what_the_encoding_lacks_is_refused(value: Any) -> None:
    with pytest.raises(InvalidDataError, match="cannot be"):
        Variant.of(value)


def test_values_nested_too_deeply_are_refused() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidDataError):
        Variant.of(value)


def test_encoded_values_nested_too_deeply_are_refused() -> None:
    value = b"\x03\x00\x00"
    for _ in range(2_000):
        value = b"\x0f\x01" + bytes(4) + len(value).to_bytes(4, "little") + value
    with pytest.raises(InvalidDataError, match="nested too deeply"):
        decode_variant(NO_NAMES, value)


def test_values_that_unfold_to_more_than_their_bytes_are_refused() -> None:
    value = b"\x00"
    for _ in range(8):
        # An array whose 255 elements are all the same bytes.
        value = b"\x0b\xff" + bytes(3 * 255) + len(value).to_bytes(3, "little") + value
    with pytest.raises(InvalidDataError, match="cut off"):
        decode_variant(NO_NAMES, value)


def test_damaged_variants_are_refused_or_decoded_to_something() -> None:
    values = [None, True, 1, 2**40, 1.5, Decimal("1.5"), "a" * 70, b"b", date(2020, 1, 1), {"a": {"b": [1, "c"]}}]
    whole = Variant.of({"list": values, "z": "last"})
    dice = random.Random(5)
    refused = 0
    for _ in range(3_000):
        metadata, value = bytearray(whole.metadata), bytearray(whole.value)
        damaged = dice.choice([metadata, value])
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        cut = value[: dice.randrange(len(value) + 1)] if dice.random() < 0.3 else value
        try:
            Variant(bytes(metadata), bytes(cut)).to_python()
        except InvalidDataError:
            refused += 1
    assert refused > 1_000


@pytest.mark.parametrize(
    "metadata", [b"", b"\x02\x00\x00", b"\x01", b"\x01\x05\x00", b"\x01\x01\x00\x09a", b"\x01\x01\x05\x00a"]
)
def test_damaged_metadata_is_refused(metadata: bytes) -> None:
    with pytest.raises(InvalidDataError, match="cannot be decoded"):
        decode_variant(metadata, b"\x00")


def test_variants_can_be_pickled_and_hashed() -> None:
    variant = Variant.of({"a": 1})
    assert pickle.loads(pickle.dumps(variant)) == variant
    assert {variant, Variant.of({"a": 1})} == {variant}
