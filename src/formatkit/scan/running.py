"""What is known of a run of a scan when it is over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from formatkit.contract.batch import DataBatch
from formatkit.io import IoRuntime
from formatkit.scan.run_sources import FileWait

__all__ = ["Run", "measured"]

B = TypeVar("B")


@dataclass(kw_only=True)
class Run:
    """The account of one run; complete once its stream has ended.

    Attributes:
        counters: What readers and sources counted.
        rows: How many rows were handed out.
        batches: In how many batches.
        seconds: How long the consumer waited for them, all in all.
        longest_waits: The files that decoding waited for longest.
        runtime: Where storage calls ran, if there were any.
    """

    counters: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    batches: int = 0
    seconds: float = 0.0
    longest_waits: tuple[FileWait, ...] = ()
    runtime: IoRuntime | None = None


def measured(batches: Iterable[B], run: Run, operations: DataBatch[B]) -> Iterator[B]:
    """The same batches, of which an account is kept."""
    iterator = iter(batches)
    while True:
        asked = perf_counter()
        try:
            batch = next(iterator, None)
        finally:
            run.seconds += perf_counter() - asked
        if batch is None:
            return
        run.rows += operations.num_rows(batch)
        run.batches += 1
        yield batch
