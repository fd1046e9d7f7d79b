"""Spark's hash, compared with what Spark's own `hash` function returned for these values."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.scan.spark_hash import can_hash, hash_partitions, hash_rows

HASHES: dict[str, list[tuple[Any, int]]] = json.loads(Path(__file__).with_name("spark_hashes.json").read_text())
PLAIN: list[IcebergType] = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimestampType(),
    TimestamptzType(),
    StringType(),
    BinaryType(),
]
DECIMALS = [DecimalType(9, 2), DecimalType(18, 4), DecimalType(19, 0), DecimalType(38, 10)]


def value_of(type_: IcebergType, stored: Any) -> Any:
    """Numbers that JSON has no exact form of are stored as text."""
    match type_:
        case _ if stored is None:
            return None
        case FloatType() | DoubleType():
            return float(stored)
        case DecimalType():
            return Decimal(stored)
        case BinaryType():
            return bytes.fromhex(stored)
    return stored


@pytest.mark.parametrize("type_", [*PLAIN, *DECIMALS], ids=str)
def test_every_value_has_the_hash_that_spark_gives_it(type_: IcebergType) -> None:
    known = HASHES[str(type_)]
    rows = [(value_of(type_, stored),) for stored, _ in known]
    assert None in [row[0] for row in rows]
    assert hash_rows(rows, [type_]).tolist() == [expected for _, expected in known]


def test_the_hash_of_a_row_goes_on_from_column_to_column() -> None:
    types = [StringType(), LongType(), DateType()]
    known = HASHES["string, long, date"]
    assert hash_rows([tuple(row) for row, _ in known], types).tolist() == [expected for _, expected in known]


def test_partitions_are_never_negative() -> None:
    rows = [(number,) for number in range(-500, 500)]
    hashes = hash_rows(rows, [LongType()]).tolist()
    assert min(hashes) < 0
    assert hash_partitions(rows, [LongType()], 7) == [each % 7 for each in hashes]


def test_no_rows_have_no_hashes() -> None:
    assert hash_rows([], [StringType(), LongType()]).tolist() == []


@pytest.mark.parametrize("type_", [TimeType(), UUIDType(), TimestampNanoType(), ListType(1, LongType())], ids=str)
def test_types_that_spark_lacks_or_hashes_otherwise_are_left_out(type_: IcebergType) -> None:
    assert not can_hash(type_)
