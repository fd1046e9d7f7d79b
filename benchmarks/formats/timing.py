"""How contestants are timed: in turns, in one process, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Times", "best_times"]


class Times(NamedTuple):
    """Seconds. Processor time is that of all threads together."""

    wall: float
    processor: float


def best_times(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """The least of each: all that disturbs a run makes it longer."""
    found: dict[str, list[Times]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            wall, processor = time.perf_counter(), time.process_time()
            run()
            found[name].append(Times(time.perf_counter() - wall, time.process_time() - processor))
    return {
        name: Times(min(times.wall for times in several), min(times.processor for times in several))
        for name, several in found.items()
    }
