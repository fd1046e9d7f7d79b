"""Named data sets: small, complete, and the same in every run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from formatkit.tck.naive import Row

__all__ = ["MANY_CHUNKS", "DataSet"]


@dataclass(frozen=True)
class DataSet:
    """A schema and its rows."""

    name: str
    schema: Schema
    rows: Sequence[Row]


MANY_CHUNKS = DataSet(
    "many chunks",
    Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType()),
        NestedField(3, "score", DoubleType()),
    ),
    [{1: number, 2: None if number % 7 == 0 else f"name {number % 5}", 3: number / 4} for number in range(60)],
)
