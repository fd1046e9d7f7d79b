"""Which ranges one request fetches: near ones together, large ones in parts."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from formatkit.contract.storage import ByteRange

__all__ = ["Pieces", "RangeRules", "are_disjoint", "coalesce", "inside", "span", "split"]

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
    return [
        one if type(one) is ByteRange else ByteRange(*one)
        for one in ranges
        if one[0] >= 0 and one[1] > 0 and one[0] + one[1] <= size
    ]


def are_disjoint(ranges: Sequence[ByteRange]) -> bool:
    """Whether no two ranges have a byte in common."""
    return all(one[0] + one[1] <= following[0] for one, following in pairwise(sorted(ranges)))


def split(wanted: ByteRange, most: int) -> list[ByteRange]:
    """A range as parts of `most` bytes; the last one may be shorter."""
    if wanted.length <= most:
        return [wanted]
    return [ByteRange(start, min(most, wanted.end - start)) for start in range(wanted.offset, wanted.end, most)]


def span(ranges: Sequence[ByteRange]) -> ByteRange:
    """From the first byte of all ranges to the last one."""
    if len(ranges) == 1:
        return ranges[0]
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
        found: list[tuple[int, list[ByteRange]]] = []
        start = end = first_need = 0
        group: list[ByteRange] = []
        for need in sorted(range(len(window)), key=window.__getitem__):
            one = window[need]
            offset, length = one
            if group and offset - end <= gap_bytes and offset + length - start <= most:
                group.append(one)
                first_need = min(first_need, need)
            else:
                if group:
                    found.append((first_need, group))
                start, first_need, group = offset, need, [one]
            end = offset + length
        found.append((first_need, group))
        found.sort(key=_first_need)
        groups += [group for _, group in found]
    return groups


def _first_need(found: tuple[int, list[ByteRange]]) -> int:
    return found[0]


def _windows(ranges: Iterable[ByteRange], most: int) -> Iterator[list[ByteRange]]:
    window: list[ByteRange] = []
    total = 0
    for one in ranges:
        length = one[1]
        if window and total + length > most:
            yield window
            window, total = [], 0
        window.append(one)
        total += length
    if window:
        yield window


class Pieces(Generic[T]):
    """Disjoint ranges, each with an owner."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._found: dict[int, tuple[int, T]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, piece: ByteRange, owner: T) -> None:
        """Add a piece that overlaps none of the others."""
        insort(self._starts, piece.offset)
        self._found[piece.offset] = piece.end, owner

    def add_all(self, pieces: Sequence[tuple[ByteRange, T]]) -> None:
        """Add many of them."""
        self._starts += [piece[0] for piece, _ in pieces]
        self._starts.sort()
        self._found.update((piece[0], (piece[0] + piece[1], owner)) for piece, owner in pieces)

    def owner_of(self, piece: ByteRange) -> T | None:
        """The owner of just this piece; None if there is no such one."""
        offset, length = piece
        end, owner = self._found.get(offset, (0, None))
        return owner if end == offset + length else None

    def remove(self, piece: ByteRange) -> None:
        """Take a piece out that is there."""
        del self._found[piece[0]]
        del self._starts[bisect_left(self._starts, piece[0])]

    def missing(self, wanted: ByteRange) -> list[ByteRange]:
        """The parts of a range that no piece covers."""
        first, last = self._touched(wanted)
        if first == last:
            return [wanted] if wanted.length else []
        edges = [wanted.offset]
        for start in self._starts[first:last]:
            edges += (start, self._found[start][0])
        edges.append(wanted.end)
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return [ByteRange(start, end - start) for start, end in gaps if start < end]

    def within(self, wanted: ByteRange) -> list[tuple[ByteRange, T]]:
        """The parts of pieces that lie in a range."""
        first, last = self._touched(wanted)
        found = []
        for piece_start in self._starts[first:last]:
            end, owner = self._found[piece_start]
            start = max(piece_start, wanted.offset)
            found.append((ByteRange(start, min(end, wanted.end) - start), owner))
        return found

    def cut(self, wanted: ByteRange) -> list[tuple[ByteRange, T]]:
        """Take the parts of pieces that lie in a range out."""
        found = self.within(wanted)
        if found:
            first, last = self._touched(wanted)
            gone = self._starts[first:last]
            del self._starts[first:last]
            before, (_, owner_before) = gone[0], self._found[gone[0]]
            after, owner_after = self._found[gone[-1]]
            for start in gone:
                del self._found[start]
            if before < wanted.offset:
                self.add(ByteRange(before, wanted.offset - before), owner_before)
            if after > wanted.end:
                self.add(ByteRange(wanted.end, after - wanted.end), owner_after)
        return found

    def clear(self) -> None:
        self._starts.clear()
        self._found.clear()

    def _touched(self, wanted: ByteRange) -> tuple[int, int]:
        first = bisect_left(self._starts, wanted.offset)
        if first and self._found[self._starts[first - 1]][0] > wanted.offset:
            first -= 1
        return first, max(first, bisect_left(self._starts, wanted.end))
