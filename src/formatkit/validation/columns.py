"""What the values of columns really are, for a file and for pieces of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.metrics import ColumnMetrics, FileMetrics, MetricsKind, MetricsMode
from formatkit.forks import cached
from formatkit.validation.reading import flat_columns

__all__ = ["ColumnTruth", "Piece", "merged"]

_FULL = MetricsMode(MetricsKind.FULL)
_MAX_PIECES = 16


@dataclass(frozen=True)
class Piece:
    """Rows that follow one another.

    Attributes:
        start: The position of the first of them.
        end: The position after the last of them.
        columns: What their values are, by field id.
        row: The values of one of the rows, likewise. Bloom filters may rule out any value, not only the extremes.
    """

    start: int
    end: int
    columns: Mapping[int, ColumnMetrics]
    row: Mapping[int, ColumnMetrics]


@dataclass
class ColumnTruth:
    """Gathers metrics of batches in at most 16 pieces: the more rows, the larger the pieces."""

    schema: Schema
    _pieces: list[Piece] = field(default_factory=list)
    _step: int = 1
    _batches: int = 0

    def update(self, batch: pa.RecordBatch, start: int) -> None:
        """Take one more batch into account, whose first row has this position."""
        row = batch.slice(batch.num_rows // 2, 1)
        piece = Piece(start, start + batch.num_rows, self._metrics(batch), self._metrics(row))
        if self._batches % self._step == 0:
            if len(self._pieces) == _MAX_PIECES:
                self._pieces = list(_halved(self._pieces))
                self._step *= 2
            self._pieces.append(piece)
        else:
            self._pieces[-1] = _joined(self._pieces[-1], piece)
        self._batches += 1

    def _metrics(self, batch: pa.RecordBatch) -> Mapping[int, ColumnMetrics]:
        collector = ArrowBatch().collector(self.schema, self._modes)
        collector.update(batch)
        return collector.finish().columns

    @cached
    def _modes(self) -> Mapping[int, MetricsMode]:
        return {path[-1].field_id: _FULL for path in flat_columns(self.schema)}

    @property
    def pieces(self) -> list[Piece]:
        return self._pieces

    @property
    def whole(self) -> FileMetrics:
        """The metrics of everything."""
        rows = sum(piece.end - piece.start for piece in self._pieces)
        columns: dict[int, ColumnMetrics] = {}
        for piece in self._pieces:
            for id_, metrics in piece.columns.items():
                columns[id_] = merged(columns[id_], metrics) if id_ in columns else metrics
        return FileMetrics(row_count=rows, columns=columns)


def _halved(pieces: list[Piece]) -> Iterator[Piece]:
    for first, second in zip(pieces[::2], pieces[1::2], strict=True):
        yield _joined(first, second)


def _joined(first: Piece, second: Piece) -> Piece:
    columns = {id_: merged(metrics, second.columns[id_]) for id_, metrics in first.columns.items()}
    return Piece(first.start, second.end, columns, first.row)


def merged(first: ColumnMetrics, second: ColumnMetrics) -> ColumnMetrics:
    """The metrics of both together."""
    return ColumnMetrics(
        value_count=(first.value_count or 0) + (second.value_count or 0),
        null_count=(first.null_count or 0) + (second.null_count or 0),
        nan_count=None if first.nan_count is None else first.nan_count + (second.nan_count or 0),
        lower=_extreme(min, first.lower, second.lower),
        upper=_extreme(max, first.upper, second.upper),
    )


def _extreme(choose: Any, first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else choose(first, second)
