"""Decides from statistics whether a chunk of rows can match a predicate: one evaluator for files, chunks and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyiceberg.expressions import BooleanExpression

from formatkit.contract.metrics import ColumnMetrics

__all__ = ["ChunkStatistics", "Match", "match"]


class Match(Enum):
    """How many rows of a chunk match."""

    NONE = "none"
    SOME = "some"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class ChunkStatistics:
    """What is known about a run of rows, by field id. A column that is absent here is unknown."""

    row_count: int | None = None
    columns: Mapping[int, ColumnMetrics] = field(default_factory=dict)


def match(predicate: BooleanExpression, statistics: ChunkStatistics) -> Match:
    """Which rows match: none for certain, all for certain, or some (not known)."""
    raise NotImplementedError
