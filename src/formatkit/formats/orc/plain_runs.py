"""The runs of streams of small numbers, most of which are of few kinds, and often of few values.

The first two bytes of such a run tell how long it is, so that a table does. Where many are short, the end of a run is
looked up for every byte, as if a run began there; runs are then found by going from end to end, some at a step.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from formatkit.formats.orc.runs import Run, run_2

__all__ = ["PlainRuns"]

Array: TypeAlias = Any

_AT_ONCE = 16 * 1024
_TRIED = 64
_SHORT_BYTES = 24
_WIDEST = 24
_WIDEST_SIGNED = 8
_HIGHEST_SIGNED = 127
_LITERAL, _STEPPED = 0x40, 0xC0
_HEAD_BYTES = 4
_HOPS = 4
_MOST_BYTES = 2 + _WIDEST * 512 // 8


class _Tables(NamedTuple):
    """By the first two bytes of a run, the first being the lower one.

    Attributes:
        sizes: How many bytes it has; 0 if it is of another kind.
        lengths: How many values.
        totals: What they add up to at most, unless they have steps.
        steps: How often the step is taken that is told.
        spreads: What other steps add up to at most.
        signs: Where the signs of its values are, if these have 64 bits together at most and are no steps.
    """

    sizes: Array
    lengths: Array
    totals: Array
    steps: Array
    spreads: Array
    signs: Array


@lru_cache(2)
def _tables(signed: bool) -> _Tables:
    pairs = np.arange(1 << 16)
    head, second = pairs & 0xFF, pairs >> 8
    kind, width = head >> 6, (head >> 1 & 0x1F) + 1
    value_bytes = (head >> 3 & 7) + 1
    lengths = np.where(kind == 0, (head & 7) + 3, ((head & 1) << 8 | second) + 1)
    even, widest = width == 1, _WIDEST_SIGNED if signed else _WIDEST
    others = np.where((kind == 3) & ~even, lengths - 2, 0)
    sizes = np.select(
        [(kind == 0) & (value_bytes <= 2 - signed), width > widest, kind == 1, (kind == 3) & (others >= 0)],
        [1 + value_bytes, 0, 2 + (lengths * width + 7) // 8, _HEAD_BYTES + (others * width + 7) // 8],
        0,
    )
    highest = (1 << np.minimum(width, widest)) - 1
    repeated = np.where(value_bytes == 1, second, second << 8 | 0xFF)
    totals = lengths * np.select([kind == 0, kind == 1], [repeated, highest], 0)
    signs = np.zeros(len(pairs), np.uint64)
    for pair in np.flatnonzero((kind == 1) & (lengths * width <= 64)).tolist() if signed else ():
        bits = int(width[pair])
        signs[pair] = ((1 << int(lengths[pair]) * bits) - 1) // ((1 << bits) - 1)
    return _Tables(sizes, lengths, totals, np.where(even, lengths - 1, 1), others * highest, signs)


class PlainRuns:
    """Goes over runs of a stream, of the second version.

    Args:
        data: The stream.
        signed: Whether values have their sign in their last bit.
    """

    def __init__(self, data: memoryview, *, signed: bool) -> None:
        self._data = data
        self._signed = signed
        self._tables = _tables(signed)
        self._views = [memoryview(table) for table in self._tables[:-1]]
        self._end = self._values = self._lowest = self._highest = self._total = 0

    def go_on(self, at: int) -> int:
        """Go from a place on, to the end or up to a run of another kind; returns where that is."""
        self._end = at
        while self._step() and self._leap():
            pass
        return self._end

    def limits(self) -> Run:
        """The limits of all runs so far, as if they were one."""
        highest = max(self._highest, _HIGHEST_SIGNED) if self._signed else self._total
        return Run(self._end, self._values, self._lowest, highest, self._total)

    def _step(self) -> bool:
        """Go on run by run. True if there are many short ones; False at the end, or before a run of another kind."""
        data, size, at = self._data, len(self._data), self._end
        sizes, lengths, totals, steps, spreads = self._views
        runs, near = 0, at + _TRIED * _SHORT_BYTES
        while at + 1 < size:
            head = data[at]
            pair = head | data[at + 1] << 8
            end = at + sizes[pair]
            if end == at or end > size:
                break
            if head < _STEPPED:
                self._total += totals[pair]
                if self._signed:
                    self._look_for_signs(at)
            else:
                value, step = data[at + 2], data[at + 3]
                if (value | step) & 0x80:
                    break
                value = value >> 1 ^ -(value & 1) if self._signed else value
                spread = -spreads[pair] if step & 1 else spreads[pair]
                last = value + steps[pair] * (step >> 1 ^ -(step & 1)) + spread
                self._total += lengths[pair] * max(value, last)
                self._highest = max(self._highest, last)
                if last < 0 or value < 0:
                    self._lower(at, min(last, value), bool(spread))
            self._values += lengths[pair]
            at = end
            runs += 1
            if runs == _TRIED:
                if at < near and size - at > _MOST_BYTES:
                    self._end = at
                    return True
                runs, near = 0, at + _TRIED * _SHORT_BYTES
        self._end = at
        return False

    def _leap(self) -> bool:
        """Go on some runs at a step, for some thousand bytes; False before a run of another kind."""
        start = self._end
        content = np.frombuffer(self._data, np.uint8)[start : start + _AT_ONCE + _MOST_BYTES]
        count = min(_AT_ONCE, len(content) - _HEAD_BYTES + 1)
        first, *rest = (content[place : place + count] for place in range(_HEAD_BYTES))
        pairs = first | rest[0].astype(np.uint16) << 8
        ends = self._ends(pairs, (first >= _STEPPED) & ((rest[1] | rest[2]) >= 0x80), len(content))
        hops = ends
        for _ in range(_HOPS):
            hops = hops.take(hops)
        following = memoryview(hops)
        at, starts = 0, []
        while at < count and (end := following[at]) != at:
            starts.append(at)
            at = end
        runs = [np.array(starts, np.int64)]
        for _ in range((1 << _HOPS) - 1):
            runs.append(ends.take(runs[-1]))
        every = np.concatenate(runs)
        self._add(content, pairs, every[ends.take(every) != every])
        self._end = start + at
        return at >= count

    def _ends(self, pairs: Array, others: Array, limit: int) -> Array:
        """Where a run would end that began at a byte: there, if it is of another kind or would end beyond the limit."""
        sizes = self._tables.sizes.take(pairs)
        sizes *= ~others
        ends = np.arange(len(pairs) + _MOST_BYTES)
        if limit < len(ends):
            sizes *= ends[: len(pairs)] + sizes <= limit
        ends[: len(pairs)] += sizes
        return ends

    def _add(self, content: Array, pairs: Array, starts: Array) -> None:
        pairs = pairs.take(starts)
        lengths = self._tables.lengths.take(pairs)
        self._values += int(lengths.sum())
        self._total += int(self._tables.totals.take(pairs).sum())
        stepped = np.flatnonzero(pairs & 0xFF >= _STEPPED)
        if len(stepped):
            places, lengths = starts.take(stepped), lengths.take(stepped)
            value, step = (content.take(places + place).astype(np.int64) for place in (2, 3))
            value = value >> 1 ^ -(value & 1) if self._signed else value
            spread = self._tables.spreads.take(pairs.take(stepped)) * (1 - 2 * (step & 1))
            last = value + self._tables.steps.take(pairs.take(stepped)) * (step >> 1 ^ -(step & 1)) + spread
            self._total += int((lengths * np.maximum(value, last)).sum())
            self._highest = max(self._highest, int(last.max()))
            lowest = np.minimum(value, last)
            for number in np.flatnonzero(lowest < 0).tolist():
                self._lower(self._end + int(places[number]), int(lowest[number]), bool(spread[number]))
        if self._signed:
            self._look_for_signs_at(content, pairs, starts)

    def _lower(self, at: int, lowest: int, is_rough: bool) -> None:
        """Take a value into account that is below 0, if the steps of its run are really as large as they may be."""
        run = run_2(self._data, at, signed=self._signed, exact=True) if is_rough else None
        self._lowest = min(self._lowest, lowest if run is None else run.lowest)

    def _look_for_signs_at(self, content: Array, pairs: Array, starts: Array) -> None:
        """The same as `_look_for_signs` for many runs; where values have 64 bits together at most, for all at once."""
        signs = self._tables.signs.take(pairs)
        short = np.flatnonzero(signs)
        places, packed = starts.take(short) + 2, np.zeros(len(short), np.uint64)
        for place in range(8):
            packed = packed << np.uint64(8) | content.take(places + place, mode="clip").astype(np.uint64)
        heads, lengths = pairs.take(short) & 0xFF, self._tables.lengths.take(pairs.take(short))
        unused = 64 - lengths * ((heads >> 1 & 0x1F) + 1)
        found = short[(packed >> unused.astype(np.uint64) & signs.take(short)) != 0]
        repeated = pairs & 0xFF < _LITERAL
        other = np.flatnonzero((signs == 0) & np.where(repeated, pairs & 0x100, pairs & 0xFF < _STEPPED).astype(bool))
        for start in starts.take(np.concatenate([found, other])).tolist():
            self._look_for_signs(self._end + start)

    def _look_for_signs(self, at: int) -> None:
        """Take values below 0 into account of a run without steps."""
        run = run_2(self._data, at, signed=True, exact=False)
        self._lowest = min(self._lowest, run.lowest if run is not None else 0)
