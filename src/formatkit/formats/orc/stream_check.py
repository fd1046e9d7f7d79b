"""Checks what the decoder takes on trust, before it does.

pyarrow's decoder asks for as much memory as lengths add up to, uses it without looking whether it got any, and divides
by ten as often as the scale of a decimal says. A damaged length ends the process, a damaged scale keeps it busy for
minutes. So the lengths of a column must not add up to more than there is, no column may claim more values than its
streams can hold, and scales must be such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from formatkit.errors import InvalidDataError
from formatkit.formats.orc.failures import ContentError
from formatkit.formats.orc.protobuf import integers
from formatkit.formats.orc.run_limits import Limits, limits_of
from formatkit.formats.orc.stripes import StreamKind
from formatkit.formats.orc.tail import Kind

__all__ = ["Node", "check_streams"]

_DIRECT, _DICTIONARY, _DIRECT_2 = range(3)
_TEXTS = frozenset({Kind.STRING, Kind.BINARY})

# What is wrong by no more is left to the decoder, which notices: to look at headers is faster than to add up values.
_SLACK_BYTES = 256 << 20
_SLACK_TIMES = 8
_SLACK_VALUES = 1 << 20
_LARGEST_SCALE = 1 << 10

# How many values a byte stands for where it stands for most.
_BYTES_IN_RUNS = 65
_BITS_IN_RUNS = 8 * _BYTES_IN_RUNS
_INTEGERS_IN_RUNS = 128
_VALUES_PER_BYTE: dict[Kind, float] = {
    Kind.BOOLEAN: _BITS_IN_RUNS,
    Kind.BYTE: _BYTES_IN_RUNS,
    Kind.FLOAT: 1 / 4,
    Kind.DOUBLE: 1 / 8,
    Kind.DECIMAL: 1,
}


@dataclass(frozen=True)
class Node:
    """A column as the decoder sees it: number, type, precision and scale of a decimal, and what is inside."""

    number: int
    kind: Kind
    precision: int = 0
    scale: int = 0
    children: Sequence[Node] = ()


def check_streams(
    root: Node, rows: int, streams: Mapping[tuple[int, int], memoryview], encodings: Sequence[bytes]
) -> None:
    """Check the columns of a stripe.

    Args:
        root: The struct of all columns.
        rows: How many rows the stripe has.
        streams: The contents of streams by their kind and the number of the column.
        encodings: How columns are encoded, by their numbers.

    Raises:
        ContentError: The decoder must not see them.
    """
    check = _Check(streams, encodings)
    if rows > (most := check.room(root)):
        raise ContentError(f"a stripe claims {rows} rows, and the bytes of a column are enough for {most:.0f}")
    check.inside(root)


class _Encoding(NamedTuple):
    """How a column is encoded: with which version of runs, with a dictionary or not, and how large that is."""

    first_version: bool
    direct: bool
    entries: int


@lru_cache
def _parsed(encoding: bytes) -> _Encoding:
    fields = integers(encoding)
    kind = fields.get(1, 0)
    return _Encoding(kind in (_DIRECT, _DICTIONARY), kind in (_DIRECT, _DIRECT_2), fields.get(2, 0))


class _Check:
    def __init__(self, streams: Mapping[tuple[int, int], memoryview], encodings: Sequence[bytes]) -> None:
        self._streams = streams
        self._encodings = [_parsed(encoding) for encoding in encodings]

    def room(self, node: Node) -> float:
        """How many values a column has at most, judged by its bytes."""
        if (marks := self._streams.get((StreamKind.PRESENT, node.number))) is not None:
            return len(marks) * _BITS_IN_RUNS
        if node.kind is Kind.STRUCT:
            return min(map(self.room, node.children), default=math.inf)
        if node.kind is Kind.LIST or (node.kind in _TEXTS and self._encodings[node.number].direct):
            return self._size(node, StreamKind.LENGTH) * _INTEGERS_IN_RUNS
        return self._size(node, StreamKind.DATA) * _VALUES_PER_BYTE.get(node.kind, _INTEGERS_IN_RUNS)

    def inside(self, node: Node) -> None:
        """Check the lengths and scales of a column and of what is inside."""
        if node.kind is Kind.LIST:
            self._check_list(node)
        elif node.kind in _TEXTS:
            self._check_text(node)
        elif node.kind is Kind.DECIMAL:
            self._check_scales(node)
        for child in node.children:
            self.inside(child)

    def _check_list(self, node: Node) -> None:
        # Of the elements nothing may be stored, if they are structs of which nothing is wanted.
        most = min(self.room(node.children[0]), 1 << 31) + _SLACK_VALUES
        lengths = self._limits(node, StreamKind.LENGTH, lambda found: found.lowest >= 0 and found.total <= most)
        if lengths.lowest < 0 or lengths.total > most:
            raise ContentError(f"lists ask for {lengths.total} elements, the shortest for {lengths.lowest}")

    def _check_text(self, node: Node) -> None:
        encoding = self._encodings[node.number]
        size = self._size(node, StreamKind.DATA if encoding.direct else StreamKind.DICTIONARY_DATA)
        most = _SLACK_TIMES * size + _SLACK_BYTES
        lengths = self._limits(node, StreamKind.LENGTH, lambda found: found.lowest >= 0 and found.total <= most)
        if lengths.lowest < 0 or lengths.total > most:
            found = f"{lengths.total} bytes, the shortest for {lengths.lowest}"
            raise ContentError(f"texts ask for {found}, and {size} are there")
        if not encoding.direct and encoding.entries > lengths.values:
            raise ContentError(f"a dictionary claims {encoding.entries} entries and has {lengths.values}")

    def _check_scales(self, node: Node) -> None:
        def is_scale(found: Limits) -> bool:
            return found.lowest >= 0 and found.highest <= node.scale

        scales = self._limits(node, StreamKind.SECONDARY, is_scale, signed=True)
        if scales.lowest < 0 or scales.highest > _LARGEST_SCALE:
            raise ContentError(f"decimals have scales from {scales.lowest} to {scales.highest}")
        if scales.highest > node.scale:
            message = (
                f"a column of decimal({node.precision}, {node.scale}) holds decimals of {scales.highest} decimal "
                "places; leave the column out, or let its writer declare the type that its values need"
            )
            raise InvalidDataError(message)

    def _limits(
        self, node: Node, kind: StreamKind, is_enough: Callable[[Limits], bool], *, signed: bool = False
    ) -> Limits:
        data = self._streams.get((kind, node.number), memoryview(b""))
        first_version = self._encodings[node.number].first_version
        found = limits_of(data, first_version=first_version, signed=signed, exact=False)
        if is_enough(found):
            return found
        return limits_of(data, first_version=first_version, signed=signed, exact=True)

    def _size(self, node: Node, kind: StreamKind) -> int:
        return len(self._streams.get((kind, node.number), b""))
