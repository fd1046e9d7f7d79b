"""Settings of a writer, and a fixed set of them that meets every choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from random import Random
from typing import Any

__all__ = ["Choices", "Settings", "covering"]

Settings = Mapping[str, Any]
Choices = Mapping[str, Sequence[Any]]
"""What each setting may be."""


def covering(choices: Choices, rounds: int = 1) -> list[Settings]:
    """Few settings in which each choice occurs at least `rounds` times, each time beside others."""
    random = Random(16)
    count = rounds * max(len(values) for values in choices.values())
    columns = [_shuffled(values, count, random) for values in choices.values()]
    return [dict(zip(choices, row, strict=True)) for row in zip(*columns, strict=True)]


def _shuffled(values: Sequence[Any], count: int, random: Random) -> list[Any]:
    """So many values, each about as often as the others."""
    found = list(islice(cycle(values), count))
    random.shuffle(found)
    return found
