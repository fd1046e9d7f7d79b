"""The parts of the attack, each with its share of the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attack.cases import Case, Result
from attack.mutants import run_file, run_table
from attack.workers import Limits

__all__ = ["PARTS", "Part"]


@dataclass(frozen=True)
class Part:
    """A part: what runs one case, how much of the time it gets, and what a case may take."""

    run: Callable[[Case], Result]
    share: float
    limits: Limits = Limits()


PARTS: dict[str, Part] = {
    "files": Part(run_file, 0.45),
    "tables": Part(run_table, 0.2),
}
