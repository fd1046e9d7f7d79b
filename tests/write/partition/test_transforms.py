"""Transforms of whole columns, compared with pyiceberg's of single values."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    UnknownType,
)

from formatkit.batches.arrow.types import storage_type
from formatkit.contract.values import internal_value
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.tck.strategies import leaf_types, values
from formatkit.write.partition import compile_transform
from formatkit.write.partition.murmur3 import hash_bytes, hash_longs
from support.arrow_forms import FORMS
from support.typed_values import ALL_TYPES, TypedValues

TRANSFORMS: list[Transform[Any, Any]] = [
    IdentityTransform(),
    VoidTransform(),
    *(BucketTransform(n) for n in (1, 16, 1000, 2**31 - 1)),
    *(TruncateTransform(width) for width in (1, 2, 10, 1000)),
    YearTransform(),
    MonthTransform(),
    DayTransform(),
    HourTransform(),
]
LEGAL = [
    (transform, kind)
    for transform, kind in itertools.product(TRANSFORMS, ALL_TYPES)
    if transform.can_transform(kind.iceberg)
]
LEAST: dict[IcebergType, int] = {IntegerType(): -(2**31), LongType(): -(2**63)}


def internal(column: Any) -> list[Any]:
    """The values of a column, moments as numbers."""
    plain = column.view(f"int{column.type.bit_width}") if pa.types.is_temporal(column.type) else column
    return plain.to_pylist()  # type: ignore[no-any-return]


def expected(transform: Transform[Any, Any], source: IcebergType, value: Any) -> Any:
    """pyiceberg's result, or plain arithmetic for moments that Python's dates do not reach."""
    if isinstance(source, DecimalType) and value is not None:
        value = internal_value(source, value)
    try:
        return transform.transform(source)(value)
    except (OverflowError, ValueError):
        if isinstance(source, DateType):
            days = value
        else:
            days = value // (86_400 * 10 ** (9 if isinstance(source, TimestampNanoType | TimestamptzNanoType) else 6))
        # The calendar repeats itself every 400 years of 146,097 days.
        eras, day = divmod(days, 146_097)
        if isinstance(transform, DayTransform):
            return days
        per_era = 400 if isinstance(transform, YearTransform) else 4_800
        return transform.transform(DateType())(day) + eras * per_era


def fits(transform: Transform[Any, Any], source: IcebergType, result: Any) -> bool:
    if isinstance(transform, HourTransform) and result is not None:
        return bool(-(2**31) <= result < 2**31)
    if isinstance(result, Decimal) and isinstance(source, DecimalType):
        return bool(abs(result.scaleb(source.scale)) < 10**source.precision)
    return source not in LEAST or result is None or result >= LEAST[source]


@pytest.mark.parametrize(("transform", "kind"), LEGAL, ids=str)
def test_a_column_is_transformed_as_its_values_are(transform: Transform[Any, Any], kind: TypedValues) -> None:
    given = [
        value for value in kind.with_specials if fits(transform, kind.iceberg, expected(transform, kind.iceberg, value))
    ]
    result = compile_transform(transform, kind.iceberg)(kind.column(given))
    assert repr(internal(result)) == repr([expected(transform, kind.iceberg, value) for value in given])
    if isinstance(transform, BucketTransform | YearTransform | MonthTransform | DayTransform | HourTransform):
        assert result.type == pa.int32()


@given(st.data())
def test_any_column_is_transformed_as_its_values_are(data: st.DataObject) -> None:
    source = data.draw(leaf_types().filter(lambda each: not isinstance(each, UnknownType)))
    transforms = [each for each in TRANSFORMS if each.can_transform(source)]
    transform = data.draw(st.sampled_from(transforms))
    drawn = data.draw(st.lists(st.none() | values(source), max_size=20))
    numbers = [internal_value(source, value) for value in drawn]
    numbers = [value for value in numbers if fits(transform, source, expected(transform, source, value))]
    result = compile_transform(transform, source)(pa.array(numbers, storage_type(source)))
    assert repr(internal(result)) == repr([expected(transform, source, value) for value in numbers])


@pytest.mark.parametrize("form", [form for form in FORMS if FORMS[form](pa.array(["a"])) is not None])
@pytest.mark.parametrize("transform", [BucketTransform(16), TruncateTransform(2)], ids=str)
def test_each_form_of_a_column_is_transformed(form: str, transform: Transform[Any, Any]) -> None:
    rows = ["", "a", None, "ab", "abc", "é€😀x", "abc"]
    column = FORMS[form](pa.array(rows))
    result = compile_transform(transform, StringType())(column)
    assert result.to_pylist() == [transform.transform(StringType())(value) for value in rows]


@pytest.mark.parametrize("kind", ALL_TYPES, ids=str)
def test_a_slice_of_a_column_is_transformed(kind: TypedValues) -> None:
    bucket: Transform[Any, Any] = BucketTransform(97)
    transform = bucket if bucket.can_transform(kind.iceberg) else IdentityTransform()
    column = kind.column([*kind.ascending, None, *kind.ascending]).slice(2)
    rows = [*kind.ascending, None, *kind.ascending][2:]
    assert internal(compile_transform(transform, kind.iceberg)(column)) == [
        expected(transform, kind.iceberg, value) for value in rows
    ]


@pytest.mark.parametrize(
    ("transform", "source", "value"),
    [
        (TruncateTransform(10), IntegerType(), -(2**31)),
        (TruncateTransform(10), LongType(), -(2**63)),
        (TruncateTransform(50), DecimalType(4, 2), Decimal("-99.99")),
        (TruncateTransform(7), DecimalType(38, 0), Decimal(1 - 10**38)),
        (HourTransform(), TimestampType(), 2**63 - 1),
    ],
    ids=str,
)
def test_a_partition_value_that_its_type_cannot_hold_is_refused(
    transform: Transform[Any, Any], source: IcebergType, value: Any
) -> None:
    with pytest.raises(InvalidDataError):
        compile_transform(transform, source)(pa.array([value], storage_type(source)))


@pytest.mark.parametrize(
    ("transform", "source"),
    [
        (UnknownTransform("zorder"), LongType()),
        (BucketTransform(4), BooleanType()),
        (HourTransform(), DateType()),
        (TruncateTransform(4), DateType()),
    ],
    ids=str,
)
def test_a_transform_that_is_not_defined_is_refused(transform: Transform[Any, Any], source: IcebergType) -> None:
    with pytest.raises(UnsupportedError, match="cannot be placed"):
        compile_transform(transform, source)


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=1000, max_size=1100), max_size=30))
def test_bytes_are_hashed_as_by_murmur3(contents: list[bytes]) -> None:
    lengths = np.array([len(each) for each in contents], np.int64)
    starts = np.cumsum(lengths) - lengths
    hashes = hash_bytes(np.frombuffer(b"".join(contents), np.uint8), starts, lengths)
    assert hashes.tolist() == [mmh3.hash(each, signed=False) for each in contents]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_longs_are_hashed_as_by_murmur3(numbers: list[int]) -> None:
    expected_hashes = [mmh3.hash(number.to_bytes(8, "little", signed=True), signed=False) for number in numbers]
    assert hash_longs(np.array(numbers, np.int64)).tolist() == expected_hashes


@pytest.mark.parametrize(
    ("source", "value", "hash_of_spec"),
    [
        (IntegerType(), 34, 2017239379),
        (LongType(), 34, 2017239379),
        (DecimalType(4, 2), Decimal("14.20"), -500754589),
        (DateType(), 17486, -653330422),
        (TimestampType(), 1_510_871_468_000_000, -2047944441),
        (TimestampNanoType(), 1_510_871_468_000_001_001, -1207196810),
        (StringType(), "iceberg", 1210000089),
        (BinaryType(), bytes([0, 1, 2, 3]), -188683207),
    ],
    ids=str,
)
def test_hashes_are_those_of_the_specification(source: IcebergType, value: Any, hash_of_spec: int) -> None:
    buckets = 2**31 - 1
    result = compile_transform(BucketTransform(buckets), source)(pa.array([value], storage_type(source)))
    assert result.to_pylist() == [(hash_of_spec & 0x7FFFFFFF) % buckets]
