"""Spark's own hash of rows: Murmur3 with the seed 42, over Iceberg's internal values.

Spark puts a row into the shuffle partition `hash mod count`. Rows that are put there beforehand need no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

__all__ = ["can_hash", "hash_partitions", "hash_rows"]

Words = npt.NDArray[np.uint32]
Hasher = Callable[[Sequence[Any], Words], Words]

_SEED = 42
_MOST_DIGITS_OF_A_LONG = 18


def can_hash(type_: IcebergType) -> bool:
    """Whether Spark has the type, and its hash is known."""
    return isinstance(type_, DecimalType) or type(type_) in _HASHERS


def hash_partitions(rows: Sequence[tuple[Any, ...]], types: Sequence[IcebergType], count: int) -> list[int]:
    """The shuffle partition of each row, if there are `count` of them."""
    hashes: npt.NDArray[np.int64] = hash_rows(rows, types).astype(np.int64)
    return np.mod(hashes, count).tolist()  # type: ignore[no-any-return]


def hash_rows(rows: Sequence[tuple[Any, ...]], types: Sequence[IcebergType]) -> npt.NDArray[np.int32]:
    """The hash of each row, as Spark's `hash` function gives it. A null leaves the hash of the columns before it."""
    hashes = np.full(len(rows), _SEED, np.uint32)
    with np.errstate(over="ignore"):
        for position, type_ in enumerate(types):
            values = [row[position] for row in rows]
            present = np.flatnonzero([value is not None for value in values])
            hash_values = _hash_decimals(type_) if isinstance(type_, DecimalType) else _HASHERS[type(type_)]
            hashes[present] = hash_values([values[index] for index in present], hashes[present])
    return hashes.view(np.int32)


def _hash_ints(values: Sequence[Any], seeds: Words) -> Words:
    return _hash_words(np.array(values, np.int32).view(np.uint32), seeds)


def _hash_longs(values: Sequence[Any], seeds: Words) -> Words:
    return _hash_double_words(np.array(values, np.int64).view(np.uint64), seeds)


def _hash_floats(values: Sequence[Any], seeds: Words) -> Words:
    return _hash_words(_one_zero_one_nan(np.array(values, np.float32)).view(np.uint32), seeds)


def _hash_doubles(values: Sequence[Any], seeds: Words) -> Words:
    return _hash_double_words(_one_zero_one_nan(np.array(values, np.float64)).view(np.uint64), seeds)


def _hash_decimals(type_: DecimalType) -> Hasher:
    if type_.precision <= _MOST_DIGITS_OF_A_LONG:
        return lambda values, seeds: _hash_longs([_unscaled(each, type_.scale) for each in values], seeds)
    return lambda values, seeds: _hash_bytes([_as_bytes(_unscaled(each, type_.scale)) for each in values], seeds)


def _hash_strings(values: Sequence[Any], seeds: Words) -> Words:
    return _hash_bytes([value.encode() for value in values], seeds)


def _hash_bytes(values: Sequence[bytes], seeds: Words) -> Words:
    """Four bytes at a time, little-endian; then the rest one by one, each as a signed byte."""
    hashes = seeds.copy()
    for index, value in enumerate(values):
        whole = len(value) & ~3
        words = np.frombuffer(value, "<u4", whole // 4)
        rest = np.frombuffer(value, np.int8, offset=whole).astype(np.int32).view(np.uint32)
        mixed = hashes[index : index + 1]
        for word in _scramble(np.concatenate([words, rest]).astype(np.uint32)):
            mixed = _mix(mixed, word)
        hashes[index] = _finish(mixed, len(value))[0]
    return hashes


def _hash_words(words: Words, seeds: Words) -> Words:
    return _finish(_mix(seeds, _scramble(words)), 4)


def _hash_double_words(words: npt.NDArray[np.uint64], seeds: Words) -> Words:
    low = (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (words >> np.uint64(32)).astype(np.uint32)
    return _finish(_mix(_mix(seeds, _scramble(low)), _scramble(high)), 8)


def _one_zero_one_nan(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers with the one zero and the one NaN that Spark hashes."""
    values[values == 0] = 0.0
    values[np.isnan(values)] = np.nan
    return values


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    magnitude = int("".join(map(str, digits)) + "0" * (scale + int(exponent)))
    return -magnitude if sign else magnitude


def _as_bytes(value: int) -> bytes:
    """The shortest big-endian two's complement, as Java's BigInteger has it."""
    return value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)


def _scramble(words: Words) -> Words:
    return _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _mix(hashes: Words, words: Words) -> Words:
    return _rotate(hashes ^ words, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(hashes: Words, length: int) -> Words:
    hashes = hashes ^ np.uint32(length)
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _rotate(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


_HASHERS: Mapping[type[IcebergType], Hasher] = {
    BooleanType: _hash_ints,
    IntegerType: _hash_ints,
    DateType: _hash_ints,
    LongType: _hash_longs,
    TimestampType: _hash_longs,
    TimestamptzType: _hash_longs,
    FloatType: _hash_floats,
    DoubleType: _hash_doubles,
    StringType: _hash_strings,
    BinaryType: _hash_bytes,
    FixedType: _hash_bytes,
}
