"""Says in words what a run of a scan did, and where its time went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from formatkit.errors import without_secrets
from formatkit.scan.run_sources import FileWait
from formatkit.scan.running import Run
from formatkit.scan.wording import number, size

__all__ = ["Analysis", "analyse"]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The last run of a scan.

    Attributes:
        rows: How many rows were handed out.
        batches: In how many batches.
        seconds: How long their consumer waited for them.
        io_requests: How often storage was asked.
        io_bytes_asked: How many bytes readers wanted.
        io_bytes_fetched: How many bytes storage was asked for: more where gaps are cheaper than requests, fewer where
            the operating system had them in memory.
        io_waited_seconds: How long decoding stood still for storage, all threads together.
        io_uring: Whether it is used, and why.
        longest_waits: The files for which decoding waited longest.
    """

    rows: int
    batches: int
    seconds: float
    io_requests: int
    io_bytes_asked: int
    io_bytes_fetched: int
    io_waited_seconds: float
    io_uring: str
    longest_waits: tuple[FileWait, ...]

    def lines(self) -> Iterator[tuple[str, str]]:
        """Titles and texts for people."""
        yield "result", f"{number(self.rows, 'row')} in {number(self.batches, 'batch')} after {_time(self.seconds)}"
        fetched = f"{size(self.io_bytes_asked)} asked for, {size(self.io_bytes_fetched)} fetched"
        yield "storage", f"{number(self.io_requests, 'request')}, {fetched}"
        yield "waiting", f"{_time(self.io_waited_seconds)} for storage, all threads together"
        yield "io_uring", self.io_uring
        for wait in self.longest_waits:
            fetched = f"{number(wait.requests, 'request')}, {size(wait.bytes_fetched)}"
            yield "waited", f"{_time(wait.waited_seconds)} for {without_secrets(wait.location)}: {fetched}"


def analyse(run: Run) -> Analysis:
    """Describe a run that is over."""
    return Analysis(
        rows=run.rows,
        batches=run.batches,
        seconds=round(run.seconds, 6),
        io_requests=run.counters["io_requests"],
        io_bytes_asked=run.counters["io_bytes_asked"],
        io_bytes_fetched=run.counters["io_bytes_fetched"],
        io_waited_seconds=run.counters["io_waited_us"] / 1_000_000,
        io_uring=run.runtime.io_uring if run.runtime is not None else "off: no storage was asked",
        longest_waits=run.longest_waits,
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"
