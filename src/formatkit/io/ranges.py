"""Which ranges one request fetches: near ones together, large ones in parts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from formatkit.contract.storage import ByteRange

__all__ = ["Pieces", "RangeRules", "coalesce", "inside", "span", "split"]

T = TypeVar("T")

_REQUESTS_AT_ONCE = 8
_LEAST_PART = 256 << 10


@dataclass(frozen=True)
class RangeRules:
    """What suits a storage.

    Attributes:
        gap_bytes: Reading this many bytes for nothing is cheaper than a second request.
        part_bytes: A request that is larger than this is better made as several at once.
    """

    gap_bytes: int
    part_bytes: int

    def part_bytes_for(self, total: int) -> int:
        """The size of parts for so many bytes: smaller if there would be few requests under way."""
        least = min(max(self.gap_bytes, _LEAST_PART), self.part_bytes)
        return min(max(total // _REQUESTS_AT_ONCE, least), self.part_bytes)


def inside(ranges: Iterable[ByteRange], size: int) -> list[ByteRange]:
    """Those ranges that hold something and lie within a file."""
    return [ByteRange(*one) for one in ranges if one[0] >= 0 and one[1] > 0 and one[0] + one[1] <= size]


def split(wanted: ByteRange, most: int) -> list[ByteRange]:
    """A range as parts of `most` bytes; the last one may be shorter."""
    return [ByteRange(start, min(most, wanted.end - start)) for start in range(wanted.offset, wanted.end, most)]


def span(ranges: Sequence[ByteRange]) -> ByteRange:
    """From the first byte of all ranges to the last one."""
    start = min(one.offset for one in ranges)
    return ByteRange(start, max(one.end for one in ranges) - start)


def coalesce(ranges: Iterable[ByteRange], gap_bytes: int, most: int) -> list[list[ByteRange]]:
    """Groups of ranges that are fetched together, in the order in which the first of each is needed.

    Args:
        ranges: Disjoint ranges in the order of need.
        gap_bytes: The largest gap inside a group.
        most: The largest span of a group of several ranges, and how far ahead in the order of need is looked.
    """
    groups: list[list[ByteRange]] = []
    for window in _windows(ranges, most):
        found: list[list[tuple[int, ByteRange]]] = []
        for need, one in sorted(enumerate(window), key=lambda numbered: numbered[1].offset):
            group = found[-1] if found else None
            if group and one.offset - group[-1][1].end <= gap_bytes and one.end - group[0][1].offset <= most:
                group.append((need, one))
            else:
                found.append([(need, one)])
        found.sort(key=lambda group: min(need for need, _ in group))
        groups += [[one for _, one in group] for group in found]
    return groups


def _windows(ranges: Iterable[ByteRange], most: int) -> Iterator[list[ByteRange]]:
    window: list[ByteRange] = []
    total = 0
    for one in ranges:
        if window and total + one.length > most:
            yield window
            window, total = [], 0
        window.append(one)
        total += one.length
    if window:
        yield window


class Pieces(Generic[T]):
    """Disjoint ranges, each with an owner."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._owners: list[T] = []

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, piece: ByteRange, owner: T) -> None:
        """Add a piece that overlaps none of the others."""
        at = bisect_left(self._starts, piece.offset)
        self._starts.insert(at, piece.offset)
        self._ends.insert(at, piece.end)
        self._owners.insert(at, owner)

    def missing(self, wanted: ByteRange) -> list[ByteRange]:
        """The parts of a range that no piece covers."""
        first, last = self._touched(wanted)
        edges = [wanted.offset, *(edge for at in range(first, last) for edge in (self._starts[at], self._ends[at]))]
        edges.append(wanted.end)
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return [ByteRange(start, end - start) for start, end in gaps if start < end]

    def within(self, wanted: ByteRange) -> list[tuple[ByteRange, T]]:
        """The parts of pieces that lie in a range."""
        first, last = self._touched(wanted)
        found = []
        for at in range(first, last):
            start = max(self._starts[at], wanted.offset)
            found.append((ByteRange(start, min(self._ends[at], wanted.end) - start), self._owners[at]))
        return found

    def cut(self, wanted: ByteRange) -> list[tuple[ByteRange, T]]:
        """Take the parts of pieces that lie in a range out."""
        found = self.within(wanted)
        if found:
            first, last = self._touched(wanted)
            start, end = self._starts[first], self._ends[last - 1]
            before, after = self._owners[first], self._owners[last - 1]
            for items in (self._starts, self._ends, self._owners):
                del items[first:last]
            if start < wanted.offset:
                self.add(ByteRange(start, wanted.offset - start), before)
            if end > wanted.end:
                self.add(ByteRange(wanted.end, end - wanted.end), after)
        return found

    def clear(self) -> None:
        for items in (self._starts, self._ends, self._owners):
            items.clear()

    def _touched(self, wanted: ByteRange) -> tuple[int, int]:
        return bisect_right(self._ends, wanted.offset), bisect_left(self._starts, wanted.end)
