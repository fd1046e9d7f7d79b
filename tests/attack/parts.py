"""The parts of the attack, each with its share of the time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from attack.cases import Case, Result
from attack.commands import run_command
from attack.kills import run_kill
from attack.mutants import run_file, run_table
from attack.orphans import run_cleaning
from attack.storage import run_storage
from attack.workers import Limits

__all__ = ["PARTS", "Part"]


@dataclass(frozen=True)
class Part:
    """A part: what runs one case, how much of the time it gets, and what a case may take."""

    run: Callable[[Case], Result]
    share: float
    limits: Limits = field(default_factory=Limits)


_LONG = Limits(seconds=120)
PARTS: dict[str, Part] = {
    "files": Part(run_file, 0.4),
    "tables": Part(run_table, 0.2),
    "storage": Part(run_storage, 0.1),
    "kills": Part(run_kill, 0.1, _LONG),
    "orphans": Part(run_cleaning, 0.1, _LONG),
    "commands": Part(run_command, 0.1, Limits(seconds=600)),
}
