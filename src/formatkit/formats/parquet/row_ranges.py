"""Sets of rows of one row group, as numbers, or as ascending runs that do not touch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from formatkit.batches.arrow.types import Mask

__all__ = ["RowNumbers", "RowRanges", "marked_rows"]

RowNumbers = npt.NDArray[np.int64]
"""Ascending numbers of rows within their row group."""


_SPARSE = 1 / 64
"""Up to this share of marked rows it is faster to look for the bytes of a mask that are not 0."""


def marked_rows(mask: Mask) -> RowNumbers:
    """The rows for which a mask is true."""
    if mask.offset or mask.true_count > len(mask) * _SPARSE:
        return pc.indices_nonzero(mask).to_numpy().astype(np.int64)
    size = (len(mask) + 7) // 8
    valid, values = (None if part is None else np.frombuffer(memoryview(part), np.uint8) for part in mask.buffers())
    if values is None:
        return np.empty(0, np.int64)
    bits = values[:size] if valid is None else values[:size] & valid[:size]
    places = np.flatnonzero(bits)
    byte, bit = np.nonzero(np.unpackbits(bits[places], bitorder="little").reshape(-1, 8))
    rows = places[byte] * 8 + bit
    # Nobody promises what the bits behind the last one are.
    return rows[: np.searchsorted(rows, len(mask))]


@dataclass(frozen=True)
class RowRanges:
    """The rows from each of `starts` up to the matching one of `ends`."""

    starts: RowNumbers
    ends: RowNumbers

    @classmethod
    def of_pages(cls, bounds: RowNumbers, chosen: npt.NDArray[np.bool_]) -> RowRanges:
        """The rows of the chosen pages; page i holds the rows from `bounds[i]` to `bounds[i + 1]`."""
        edges = np.diff(np.concatenate(([False], chosen, [False])).view(np.int8))
        return cls(bounds[np.flatnonzero(edges == 1)], bounds[np.flatnonzero(edges == -1)])

    @classmethod
    def whole(cls, rows: int) -> RowRanges:
        return cls.of_pages(np.array([0, rows]), np.array([rows > 0]))

    @property
    def count(self) -> int:
        return int((self.ends - self.starts).sum())

    def touched(self, bounds: RowNumbers) -> npt.NDArray[np.bool_]:
        """Which pages hold some of the rows."""
        if not len(self.starts):
            return np.zeros(len(bounds) - 1, np.bool_)
        first_behind = np.searchsorted(self.ends, bounds[:-1], side="right")
        within = np.minimum(first_behind, len(self.starts) - 1)
        return (first_behind < len(self.starts)) & (self.starts[within] < bounds[1:])

    def numbers(self) -> RowNumbers:
        """Every row by its number."""
        lengths = self.ends - self.starts
        offsets = self.starts - np.concatenate(([0], np.cumsum(lengths)[:-1]))
        return np.arange(lengths.sum()) + np.repeat(offsets, lengths)

    def __and__(self, other: RowRanges) -> RowRanges:
        return _combine(self, other, 2)

    def __or__(self, other: RowRanges) -> RowRanges:
        return _combine(self, other, 1)


def _combine(left: RowRanges, right: RowRanges, needed: int) -> RowRanges:
    """The rows that at least `needed` of both sets hold."""
    points = np.concatenate((left.starts, right.starts, left.ends, right.ends))
    steps = np.repeat([1, -1], [len(left.starts) + len(right.starts), len(left.ends) + len(right.ends)])
    bounds, place = np.unique(points, return_inverse=True)
    depth = np.cumsum(np.bincount(place, weights=steps, minlength=len(bounds)))
    return RowRanges.of_pages(bounds, depth[:-1] >= needed) if len(bounds) else left
