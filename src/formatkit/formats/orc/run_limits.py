"""Within which limits the values of a stream of integers are."""

from __future__ import annotations

from typing import NamedTuple

from formatkit.formats.orc.plain_runs import PlainRuns
from formatkit.formats.orc.runs import Run, run_1, run_2

__all__ = ["Limits", "limits_of"]

_FEWEST_REPEATS = 8


class Limits(NamedTuple):
    """How many values there are; the lowest, the highest, and what they add up to."""

    values: int = 0
    lowest: int = 0
    highest: int = 0
    total: int = 0

    def plus(self, run: Run, times: int = 1) -> Limits:
        return Limits(
            self.values + times * run.length,
            min(self.lowest, run.lowest),
            max(self.highest, run.highest),
            self.total + times * run.total,
        )


def limits_of(data: memoryview, *, first_version: bool, signed: bool, exact: bool) -> Limits:
    """The limits of the values of a stream, 0 included; without `exact`, those that the headers of its runs give.

    A run that is not complete ends the stream, as it fails the decoder.
    """
    at, found = 0, Limits()
    plain = PlainRuns(data, signed=signed) if not (first_version or exact) else None
    while at < len(data):
        run = run_1(data, at, signed=signed) if first_version else run_2(data, at, signed=signed, exact=exact)
        if plain is not None and run is not None and run.lowest < 0:
            run = run_2(data, at, signed=signed, exact=True)
        if run is None:
            break
        repeats = _repeats(data, at, run.end - at)
        found = found.plus(run, repeats)
        at += repeats * (run.end - at)
        if plain is not None:
            at = plain.go_on(at)
    return found if plain is None else found.plus(plain.limits())


def _repeats(data: memoryview, at: int, size: int) -> int:
    """How often a run of so many bytes stands there, one behind the other, if it is more often than a few times."""
    repeats, more = 1, _FEWEST_REPEATS
    while more >= _FEWEST_REPEATS:
        end = at + repeats * size
        if end + more * size <= len(data) and _same(data, end - size, end, more * size):
            repeats, more = repeats + more, 2 * more
        else:
            more //= 2
    return repeats


def _same(data: memoryview, place: int, other: int, length: int) -> bool:
    # Views are compared byte by byte, bytes at once.
    return bytes(data[place : place + length]) == bytes(data[other : other + length])
