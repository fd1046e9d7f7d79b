"""What the command `doctor` finds out about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "State"]

State = Literal["ok", "missing", "unsuitable", "broken"]


@dataclass(frozen=True)
class Finding:
    """A fact about the machine.

    Attributes:
        area: What it is about.
        name: The thing.
        state: Whether it can be used. Only what is broken is a fault; what is missing may not be needed.
        found: What there is, or why there is nothing.
        advice: What to do, if it is wanted.
    """

    area: str
    name: str
    state: State
    found: str
    advice: str = ""
