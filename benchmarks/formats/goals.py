"""Figures that formatkit is to reach. They are printed in a form that `run` finds again, for the table at the top."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Goal", "at_least", "at_most", "goals_in"]

_MARK = "goal"


class Goal(NamedTuple):
    """One figure: what it is, what was found, what is wanted, and whether the one is the other."""

    what: str
    found: str
    wanted: str
    verdict: str


def at_least(what: str, found: float, wanted: float) -> None:
    """Print a figure that should not be lower."""
    _print(what, f"{found:.1f}", f"≥ {wanted:g}", found >= wanted)


def at_most(what: str, found: float, wanted: float) -> None:
    """Print a figure that should not be higher."""
    _print(what, f"{found:.3f}", f"≤ {wanted:g}", found <= wanted)


def _print(what: str, found: str, wanted: str, is_met: bool) -> None:
    print(" | ".join((_MARK, what, found, wanted, "met" if is_met else "missed")))


def goals_in(printed: str) -> list[Goal]:
    """The figures in what a benchmark printed."""
    lines = [line.split(" | ") for line in printed.splitlines() if line.startswith(f"{_MARK} | ")]
    return [Goal(*parts) for _, *parts in lines]
