"""The containers of a Roaring bitmap, all of them in a few arrays.

A container holds the low 16 bits of the positions that share all other bits, in whichever of three forms is shortest.
Work is done for all arrays and runs at once, because a large file has thousands of containers, many of them tiny.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from formatkit.contract.batch import Longs

__all__ = ["ARRAY", "BITMAP", "BITMAP_WORDS", "LARGEST_ARRAY", "RUN", "Containers", "Words", "ragged"]

Words = NDArray[np.uint16]

ARRAY, BITMAP, RUN = 0, 1, 2
LARGEST_ARRAY = 4096
BITMAP_WORDS = 4096

_VALUES = 65536


@dataclass(frozen=True)
class Containers:
    """Positions in compressed form.

    Attributes:
        keys: The upper 48 bits of each container's positions, ascending.
        kinds: `ARRAY`, `BITMAP` or `RUN`.
        cardinalities: How many positions each holds.
        bounds: Where each begins in `words`, and the end of the last.
        words: The contents, as they are stored: the values of an array, the bits of a bitmap, or the number of runs
            and then the first value and the length less one of each.
    """

    keys: Longs
    kinds: NDArray[np.uint8]
    cardinalities: Longs
    bounds: Longs
    words: Words

    @staticmethod
    def of(positions: Longs) -> Containers:
        """Encode positions that ascend strictly, each container in the form that takes the least room.

        Where an array and runs are equally long it is an array, as Java has it.
        """
        keys = positions >> 16
        firsts = _starts(keys[1:] != keys[:-1], len(keys))
        cardinalities = np.diff(firsts, append=len(positions))
        begins_run = (positions[1:] != positions[:-1] + 1) | (keys[1:] != keys[:-1])
        run_starts = _starts(begins_run, len(positions))
        first_runs = np.searchsorted(run_starts, firsts)
        runs = np.diff(first_runs, append=len(run_starts))
        plain_words = np.minimum(cardinalities, BITMAP_WORDS)
        kinds = np.where(cardinalities > LARGEST_ARRAY, BITMAP, ARRAY).astype(np.uint8)
        kinds[1 + 2 * runs < plain_words] = RUN
        bounds = np.zeros(len(firsts) + 1, np.int64)
        np.cumsum(np.where(kinds == RUN, 1 + 2 * runs, plain_words), out=bounds[1:])

        lows = positions.astype(np.uint16)
        arrays = np.flatnonzero(kinds == ARRAY)
        if len(arrays) == len(kinds):
            return Containers(keys[firsts], kinds, cardinalities, bounds, lows)
        words = np.zeros(bounds[-1], np.uint16)
        sizes = cardinalities[arrays]
        words[ragged(bounds[arrays], sizes)] = lows[ragged(firsts[arrays], sizes)]
        for which in np.flatnonzero(kinds == BITMAP).tolist():
            bits = np.zeros(_VALUES, np.bool_)
            bits[lows[firsts[which] : firsts[which] + cardinalities[which]]] = True
            words[bounds[which] : bounds[which + 1]] = np.packbits(bits, bitorder="little").view("<u2")
        encoded = np.flatnonzero(kinds == RUN)
        words[bounds[encoded]] = runs[encoded]
        lengths = np.diff(run_starts, append=len(positions))
        stored = ragged(first_runs[encoded], runs[encoded])
        at = ragged(bounds[encoded] + 1, 2 * runs[encoded])
        words[at[::2]] = lows[run_starts[stored]]
        words[at[1::2]] = lengths[stored] - 1
        return Containers(keys[firsts], kinds, cardinalities, bounds, words)

    @staticmethod
    def concatenated(parts: list[Containers]) -> Containers:
        """The containers of several bitmaps one after the other."""
        if len(parts) == 1:
            return parts[0]
        lengths = [np.diff(part.bounds) for part in parts]
        return Containers(
            keys=np.concatenate([np.zeros(0, np.int64), *(part.keys for part in parts)]),
            kinds=np.concatenate([np.zeros(0, np.uint8), *(part.kinds for part in parts)]),
            cardinalities=np.concatenate([np.zeros(0, np.int64), *(part.cardinalities for part in parts)]),
            bounds=np.concatenate([[0], *lengths]).cumsum(),
            words=np.concatenate([np.zeros(0, np.uint16), *(part.words for part in parts)]),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> Containers:
        """The containers from one to before another."""
        bounds = self.bounds[start : stop + 1]
        words = self.words[bounds[0] : bounds[-1]]
        inside = slice(start, stop)
        return Containers(self.keys[inside], self.kinds[inside], self.cardinalities[inside], bounds - bounds[0], words)

    def positions(self) -> Longs:
        """All positions, ascending."""
        bases = self.keys << 16
        arrays, encoded = np.flatnonzero(self.kinds == ARRAY), np.flatnonzero(self.kinds == RUN)
        if len(encoded) == len(self):
            firsts, lengths = self._runs(encoded)
            return ragged(firsts + np.repeat(bases, self._run_numbers(encoded)), lengths)
        positions = np.repeat(bases, self.cardinalities)
        if len(arrays) == len(self):
            positions |= self.words
            return positions
        ends = np.cumsum(self.cardinalities)
        starts = ends - self.cardinalities
        sizes = self.cardinalities[arrays]
        positions[ragged(starts[arrays], sizes)] |= self.words[ragged(self.bounds[arrays], sizes)]
        for which in np.flatnonzero(self.kinds == BITMAP).tolist():
            positions[starts[which] : ends[which]] |= self._set_bits(which)
        positions[ragged(starts[encoded], self.cardinalities[encoded])] |= ragged(*self._runs(encoded))
        return positions

    def _set_bits(self, which: int) -> Longs:
        """The values in a bitmap container."""
        words = self.words[self.bounds[which] : self.bounds[which + 1]].astype("<u2", copy=False)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return np.flatnonzero(bits.view(np.bool_)).astype(np.int64, copy=False)

    def _runs(self, which: Longs) -> tuple[Longs, Longs]:
        """The first value and the length of each run of some run containers."""
        pairs = self.words[ragged(self.bounds[which] + 1, 2 * self._run_numbers(which))].astype(np.int64)
        return pairs[::2], pairs[1::2] + 1

    def _run_numbers(self, which: Longs) -> Longs:
        return (self.bounds[which + 1] - self.bounds[which]) // 2

    def defect(self) -> str | None:
        """What is wrong with the contents of a container, if anything is. Nothing is decoded for it."""
        arrays = np.flatnonzero(self.kinds == ARRAY)
        sizes = self.cardinalities[arrays]
        values = self.words if len(arrays) == len(self) else self.words[ragged(self.bounds[arrays], sizes)]
        if not _ascend(values, values, sizes):
            return "the values of an array container do not ascend"
        bitmaps = np.flatnonzero(self.kinds == BITMAP)
        stored = self.words[ragged(self.bounds[bitmaps], np.full(len(bitmaps), BITMAP_WORDS))]
        bits = _bit_counts()[stored] if len(stored) else stored
        if (bits.reshape(-1, BITMAP_WORDS).sum(axis=1, dtype=np.int64) != self.cardinalities[bitmaps]).any():
            return "a bitmap container has another number of bits than it says"
        encoded = np.flatnonzero(self.kinds == RUN)
        firsts, lengths = self._runs(encoded)
        numbers = self._run_numbers(encoded)
        if (numbers == 0).any() or not _ascend(firsts, firsts + lengths - 1, numbers):
            return "the runs of a container are missing or overlap"
        if (firsts + lengths > _VALUES).any():
            return "a run reaches beyond its container"
        totals = np.concatenate([[0], np.cumsum(lengths)])[np.concatenate([[0], np.cumsum(numbers)])]
        if (np.diff(totals) != self.cardinalities[encoded]).any():
            return "the runs of a container have another number of positions than it says"
        return None


def ragged(starts: Longs, lengths: Longs) -> Longs:
    """The numbers from each start on, as many as its length says, one after the other."""
    if len(starts) == 1:
        return np.arange(starts[0], starts[0] + lengths[0])
    ends = np.cumsum(lengths)
    numbers = np.repeat(starts - ends + lengths, lengths)
    numbers += np.arange(len(numbers))
    return numbers


def _starts(changes: NDArray[np.bool_], length: int) -> Longs:
    """Where a new group begins, the first included, given whether each element but the first differs from the last."""
    return np.concatenate([np.zeros(min(length, 1), np.int64), np.flatnonzero(changes) + 1])


def _ascend(firsts: NDArray[np.integer], lasts: NDArray[np.integer], lengths: Longs) -> bool:
    """Whether, within each group, every element begins after the last one ended."""
    after = firsts[1:] > lasts[:-1]
    after[np.cumsum(lengths)[:-1] - 1] = True
    return bool(after.all())


@cache
def _bit_counts() -> NDArray[np.uint8]:
    every = np.arange(_VALUES, dtype=np.uint16)
    counts: NDArray[np.uint8] = np.unpackbits(every.view(np.uint8).reshape(-1, 2), axis=1).sum(axis=1, dtype=np.uint8)
    return counts
