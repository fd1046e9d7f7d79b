"""Counts what storage was asked for and how long it was waited for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple

from formatkit.forks import fork_safe

__all__ = ["IoUsage", "UsageFigures"]


class UsageFigures(NamedTuple):
    """The state of an `IoUsage` at one moment.

    Attributes:
        requests: Calls that read from the storage.
        bytes_asked: Bytes that somebody wanted.
        bytes_fetched: Bytes that requests moved: more than asked where gaps are cheaper than requests, less where the
            operating system had them in memory.
        waited_seconds: How long callers stood still for storage; the sum over all threads.
        retries: Calls that were repeated.
        writes: Calls that handed bytes to the storage.
        bytes_written: The bytes that they handed over.
    """

    requests: int
    bytes_asked: int
    bytes_fetched: int
    waited_seconds: float
    retries: int
    writes: int
    bytes_written: int


class IoUsage:
    """Counters that threads share. What is added here is added to `total` too."""

    def __init__(self, total: IoUsage | None = None) -> None:
        self._total = total
        self._lock = fork_safe(threading.Lock())
        self._unsettled = 0
        self.requests = 0
        self.bytes_asked = 0
        self.bytes_fetched = 0
        self.waited_seconds = 0.0
        self.retries = 0
        self.writes = 0
        self.bytes_written = 0

    def add(
        self, *, requests: int = 0, asked: int = 0, fetched: int = 0, waited: float = 0.0, retries: int = 0
    ) -> None:
        with self._lock:
            self.requests += requests
            self.bytes_asked += asked
            self.bytes_fetched += fetched
            self.waited_seconds += waited
            self.retries += retries
        if self._total is not None:
            self._total.add(requests=requests, asked=asked, fetched=fetched, waited=waited, retries=retries)

    def add_asked(self, length: int) -> None:
        """Count bytes here, and in the total when `settle` is called: this is done for every small read."""
        with self._lock:
            self.bytes_asked += length
            self._unsettled += length

    def add_write(self, length: int) -> None:
        """Count a call that wrote so many bytes."""
        with self._lock:
            self.writes += 1
            self.bytes_written += length
        if self._total is not None:
            self._total.add_write(length)

    def settle(self) -> None:
        """Bring the total up to date."""
        with self._lock:
            asked, self._unsettled = self._unsettled, 0
        if self._total is not None:
            self._total.add(asked=asked)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time that the block takes as waiting."""
        started = perf_counter()
        try:
            yield
        finally:
            self.add(waited=perf_counter() - started)

    def figures(self) -> UsageFigures:
        with self._lock:
            return UsageFigures(
                self.requests,
                self.bytes_asked,
                self.bytes_fetched,
                self.waited_seconds,
                self.retries,
                self.writes,
                self.bytes_written,
            )

    def __repr__(self) -> str:
        return f"IoUsage({', '.join(f'{name}={value}' for name, value in self.figures()._asdict().items())})"
