"""The sources of one run of a scan: announced before they are needed, and accounted for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from heapq import nlargest

from formatkit.contract.storage import ByteRange, ByteSource
from formatkit.errors import FormatkitError
from formatkit.io import IoRuntime, IoUsage
from formatkit.io.routed import RoutedSource
from formatkit.scan.tasks import DeleteFile, FileTask

__all__ = ["FileWait", "RunSources"]

_MICROSECONDS = 1_000_000
_LONGEST_PAUSE = 64


@dataclass(frozen=True, kw_only=True)
class FileWait:
    """How long decoding waited for a file, and what was fetched of it."""

    location: str
    waited_seconds: float
    requests: int
    bytes_fetched: int


class RunSources:
    """Opens the files of a run.

    Args:
        open_source: From a task or a delete file to its bytes.
        owned: Whether sources are this run's to close.
    """

    def __init__(self, open_source: Callable[[FileTask | DeleteFile], ByteSource], *, owned: bool = True) -> None:
        self._open_source = open_source
        self._owned = owned
        self._lock = threading.Lock()
        self._asked_for: set[str] = set()
        self._announced: dict[str, ByteSource] = {}
        self._is_useful: dict[str, bool] = {}
        self._probes: list[Future[None]] = []
        self._pause = 0
        self._paused_for = 0
        self._usages: list[tuple[str, IoUsage]] = []
        self.runtime: IoRuntime | None = None

    def __call__(self, file: FileTask | DeleteFile) -> ByteSource:
        """The bytes of a file; they are the caller's to close."""
        with self._lock:
            self._asked_for.add(file.location)
            announced = self._announced.pop(file.location, None)
        return announced if announced is not None else self._open(file)

    def announce(
        self, file: FileTask | DeleteFile, ranges: Callable[[int], Sequence[ByteRange]], *, now: bool = False
    ) -> None:
        """Begin to fetch what a file is opened with, once, and only if that saves waiting. Never waits itself.

        What is wrong with the file is not said here, but when it is asked for.

        Args:
            file: It will be asked for later.
            ranges: From the length of the file to what will be read first.
            now: Whether it is asked for at once; what a local file has is not worth looking at then.
        """
        if not self._owned or file.size_bytes is None:
            return
        with self._lock:
            if file.location in self._is_useful or file.location in self._asked_for:
                return
            self._is_useful[file.location] = False
        if not now and self._pauses():
            return
        with suppress(FormatkitError):
            source = self._open(file)
            if not isinstance(source, RoutedSource):
                source.close()
                return
            first = ranges(file.size_bytes)
            if source.local_path() is None:
                self._keep(file.location, source, first)
            elif now:
                with self._lock:
                    self._announced[file.location] = source
            else:
                samples = (*first, ByteRange(0, 1), ByteRange(file.size_bytes // 2, 1))
                probe = source.runtime.submit(lambda: self._probe(file.location, source, first, samples))
                self._probes = [*(one for one in self._probes if not one.done()), probe]

    def is_useful_ahead(self, location: str) -> bool:
        """Whether decoding would wait for a file that was announced, so that it should be begun before its turn."""
        return self._is_useful.get(location, False)

    def close(self) -> None:
        """Let go of what was announced and never asked for."""
        for probe in self._probes:
            if not probe.cancel():
                probe.exception()
        with self._lock:
            left, self._announced = list(self._announced.values()), {}
        for source in left:
            source.close()

    def counters(self) -> Counter[str]:
        """What all sources together did up to now."""
        counts: Counter[str] = Counter()
        for _, usage in self._usages:
            figures = usage.figures()
            counts["io_requests"] += figures.requests
            counts["io_bytes_asked"] += figures.bytes_asked
            counts["io_bytes_fetched"] += figures.bytes_fetched
            counts["io_waited_us"] += round(figures.waited_seconds * _MICROSECONDS)
        return counts

    def longest_waits(self, most: int) -> tuple[FileWait, ...]:
        """The files that decoding waited for longest."""
        figures = ((location, usage.figures()) for location, usage in self._usages)
        waited = (each for each in figures if each[1].waited_seconds > 0)
        return tuple(
            FileWait(
                location=location,
                waited_seconds=round(found.waited_seconds, 6),
                requests=found.requests,
                bytes_fetched=found.bytes_fetched,
            )
            for location, found in nlargest(most, waited, key=lambda each: each[1].waited_seconds)
        )

    def _open(self, file: FileTask | DeleteFile) -> ByteSource:
        source = self._open_source(file)
        if isinstance(source, RoutedSource):
            with self._lock:
                self._usages.append((file.location, source.usage))
            self.runtime = source.runtime
        return source

    def _pauses(self) -> bool:
        """Where files are in memory already, only some of them are asked whether they are."""
        with self._lock:
            self._paused_for -= 1
            return self._paused_for >= 0

    def _probe(
        self, location: str, source: RoutedSource, first: Sequence[ByteRange], samples: Sequence[ByteRange]
    ) -> None:
        """Find out about a local file, on a thread of the runtime."""
        try:
            waits = source.would_wait(samples)
        except FormatkitError:
            source.close()
            return
        with self._lock:
            self._pause = 0 if waits else min(2 * self._pause + 1, _LONGEST_PAUSE)
            self._paused_for = self._pause
        if waits:
            self._keep(location, source, first)
        else:
            source.close()

    def _keep(self, location: str, source: RoutedSource, first: Sequence[ByteRange]) -> None:
        source.prefetch(first)
        with self._lock:
            self._is_useful[location] = True
            is_late = location in self._asked_for
            if not is_late:
                self._announced[location] = source
        if is_late:
            source.close()
