"""What is known about the values of a column, and how much of it a table wants recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

from formatkit.errors import ConfigurationError

__all__ = ["ColumnMetrics", "FileMetrics", "MetricsCollector", "MetricsKind", "MetricsMode"]

B_contra = TypeVar("B_contra", contravariant=True)


class MetricsKind(Enum):
    """How much is recorded for a column. Each kind includes the ones before it, bounds excepted."""

    NONE = "none"
    COUNTS = "counts"
    TRUNCATE = "truncate"
    FULL = "full"


@dataclass(frozen=True)
class MetricsMode:
    """One value of `write.metadata.metrics.*`: none, counts, truncate(n) or full."""

    kind: MetricsKind
    length: int = 0

    @classmethod
    def parse(cls, text: str) -> MetricsMode:
        """Read the property value, ignoring case. Raises `ConfigurationError` for anything else."""
        word = text.strip().lower()
        if match := re.fullmatch(r"truncate\(\s*(\d+)\s*\)", word):
            if (length := int(match.group(1))) >= 1:
                return cls(MetricsKind.TRUNCATE, length)
        elif word in ("none", "counts", "full"):
            return cls(MetricsKind(word))
        raise ConfigurationError(f"metrics mode {text!r} is none of: none, counts, truncate(n) with n >= 1, full")

    @property
    def counts(self) -> bool:
        return self.kind is not MetricsKind.NONE

    @property
    def bounds(self) -> bool:
        return self.kind in (MetricsKind.TRUNCATE, MetricsKind.FULL)

    def __str__(self) -> str:
        return f"truncate({self.length})" if self.kind is MetricsKind.TRUNCATE else self.kind.value


@dataclass(frozen=True, kw_only=True)
class ColumnMetrics:
    """What is known about one leaf column. None means unknown, never "zero".

    Bounds are Iceberg's internal values (days and microseconds as int, uuid as bytes, …), possibly not tight, never
    NaN. `nan_count` exists for float and double only.
    """

    value_count: int | None = None
    null_count: int | None = None
    nan_count: int | None = None
    lower: Any = None
    upper: Any = None


@dataclass(frozen=True, kw_only=True)
class FileMetrics:
    """The metrics of one file, by leaf field id."""

    row_count: int
    columns: Mapping[int, ColumnMetrics] = field(default_factory=dict)


class MetricsCollector(Protocol, Generic[B_contra]):
    """Sees every batch of one file while it is written."""

    def update(self, batch: B_contra) -> None: ...

    def finish(self) -> FileMetrics: ...
