"""What is written into a file: rows, and how a writer stores each of their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from formatkit.tck.naive import Row
from support.corpus.values import PATTERNS, Domain, spread

__all__ = ["Content", "Stored", "fill", "same"]


def same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Stored:
    """A kind of column that a writer knows.

    Attributes:
        name: The name of the column.
        domain: Its values.
        native: Its type, as the writer spells it.
        encode: A value that is not null, as the writer takes it.
        required: Whether the column has no nulls.
    """

    name: str
    domain: Domain
    native: Any
    encode: Callable[[Any], Any] = same
    required: bool = False


@dataclass(frozen=True)
class Content:
    """Rows by field id, as the naive evaluator takes them, and the columns that they have."""

    columns: Sequence[Stored]
    schema: Schema
    rows: Sequence[Row]

    def encoded(self) -> list[list[Any]]:
        """The values of each column as the writer takes them."""
        return [
            [None if row[number] is None else column.encode(row[number]) for row in self.rows]
            for number, column in enumerate(self.columns, start=1)
        ]


def fill(columns: Sequence[Stored], rows: int, seed: int) -> Content:
    """Rows of these columns; each column follows another pattern, and each seed shifts them."""
    random = Random(seed)
    names = list(PATTERNS)
    values = [
        spread(column.domain, rows, names[(seed + number) % len(names)], random, required=column.required)
        for number, column in enumerate(columns)
    ]
    fields = [
        NestedField(number, column.name, column.domain.type, required=column.required)
        for number, column in enumerate(columns, start=1)
    ]
    return Content(columns, Schema(*fields), [dict(enumerate(row, start=1)) for row in zip(*values, strict=True)])
