"""Where the pieces of a job run: in this process, or wherever another engine takes them."""

from __future__ import annotations

import heapq
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from formatkit.forks import fork_safe
from formatkit.scan.runner import run_in_order

__all__ = ["Attempt", "Engine", "LocalEngine", "Progress", "Steps", "Task", "even_parts"]

T = TypeVar("T")
W = TypeVar("W")
R = TypeVar("R")
W_contra = TypeVar("W_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Progress = Callable[[int, int], None]
"""Is told how much of a job was done, and how much there is to do: rows of a rewrite, files of other jobs."""

Tell = Callable[[int, int], None]
"""Is told how much of a piece was done, by the piece's number, while it runs."""


def _ignore(_: int) -> None:
    pass


@dataclass(frozen=True)
class Attempt:
    """One try to do a piece of work.

    Attributes:
        piece: The number of the piece.
        number: With `piece`, tells this attempt from all others of the job.
        retried: Whether there was another attempt before, which may have left files.
        tell: Is told how much of the piece was done. Attempts in other processes tell nobody.
    """

    piece: int
    number: int = 0
    retried: bool = False
    tell: Callable[[int], None] = field(default=_ignore, repr=False, compare=False)


class Task(Protocol[W_contra, R_co]):
    """What is done with each piece of work. It, the work and what it returns can be pickled.

    It may be run several times for one piece, also at the same time, and must not mind.
    """

    def __call__(self, work: W_contra, attempt: Attempt, /) -> R_co: ...


class Engine(Protocol):
    """Runs pieces of work."""

    @property
    def parallelism(self) -> int:
        """How many pieces run side by side."""
        ...

    @property
    def threads(self) -> int | None:
        """How many files a piece may read side by side; None if it decides by itself."""
        ...

    def may_leave_files(self, *, failed: bool) -> bool:
        """Whether there may be files that nobody reports, though no reported attempt was a second one.

        Args:
            failed: Whether a piece failed, or pieces were stopped.
        """
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """What the summary of a snapshot says of the engine."""
        ...

    def run(
        self, work: Sequence[W], task: Task[W, R], tell: Tell | None = None
    ) -> Generator[tuple[int, R], None, None]:
        """Run all pieces, and return what the task returns with the number of the piece, as pieces are finished.

        Each piece is returned once. Closing the generator, and an error, stop the pieces that run, and wait for them.

        Args:
            work: The pieces.
            task: What to do with each.
            tell: Is told how much of each piece was done, by engines that know.

        Raises:
            FormatkitError: What the task raises, in the last attempt that the engine allows.
        """
        ...


@dataclass(frozen=True)
class LocalEngine:
    """Runs pieces in this process.

    Attributes:
        parallelism: How many at a time. One runs in the caller's own thread.
        threads: As in `Engine`.
    """

    parallelism: int = 1
    threads: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def may_leave_files(self, *, failed: bool) -> bool:
        return False

    def run(
        self, work: Sequence[W], task: Task[W, R], tell: Tell | None = None
    ) -> Generator[tuple[int, R], None, None]:
        def each(piece: int) -> Iterator[tuple[int, R]]:
            told = _ignore if tell is None else partial(tell, piece)
            yield piece, task(work[piece], Attempt(piece, tell=told))

        return run_in_order(range(len(work)), each, threads=self.parallelism, buffer_bytes=sys.maxsize)


class Steps:
    """Adds up how far pieces are, and tells it to who wants to know. May be used from several threads.

    Args:
        progress: Who wants to know; None if nobody does.
        total: How much there is to do in all pieces.
    """

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._before = 0
        self._running: dict[int, int] = {}
        self._lock = fork_safe(threading.Lock())

    def tell(self, piece: int, done: int) -> None:
        """Say how much of a piece was done."""
        with self._lock:
            self._running[piece] = done
            self._report()

    def finish(self, piece: int, size: int) -> None:
        """Say that a piece was finished, and how much it was."""
        with self._lock:
            self._running.pop(piece, None)
            self._before += size
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(min(self._total, self._before + sum(self._running.values())), self._total)


def even_parts(things: Sequence[T], weight: Callable[[T], int], count: int) -> list[list[T]]:
    """Cut things into at most so many parts of about the same weight; within a part they keep their order."""
    parts: list[list[int]] = [[] for _ in range(max(1, min(count, len(things))))]
    lightest = [(0, index) for index in range(len(parts))]
    weights = [max(1, weight(thing)) for thing in things]
    for position in sorted(range(len(things)), key=weights.__getitem__, reverse=True):
        before, index = lightest[0]
        parts[index].append(position)
        heapq.heapreplace(lightest, (before + weights[position], index))
    return [[things[position] for position in sorted(part)] for part in parts if part]
