"""Begins tasks before their turn, so that storage is at work on the next files while this one is decoded.

When a task starts on a thread, the file that this thread will probably read next is opened and says which ranges it
needs, and of the file after that the bytes are announced with which it is opened. Of small files it is not one each but
up to four, because decoding one of them takes less time than storage takes to answer; so it is of files of which few
columns are read. All of that is asked for in the order of need, so what is needed first arrives first, and the byte
budget of the IO runtime bounds what is held.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from formatkit.kernel import FileStream
from formatkit.scan.session import Session
from formatkit.scan.tasks import FileTask

__all__ = ["LookAhead"]

B = TypeVar("B")

_MOST_BEGUN = 4
_ENOUGH_BYTES = 8 << 20


@dataclass(slots=True)
class _Turn(Generic[B]):
    """What was done for a task before its turn."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_announced: bool = False
    has_come: bool = False
    stream: FileStream[B] | None = None
    error: Exception | None = None


class LookAhead(Generic[B]):
    """Reads the tasks of a session by their positions, each once, in about that order.

    Args:
        session: What reads tasks.
        tasks: All of them.
        threads: How many run side by side, and so how far it is from a task to the next of the same thread.
        start_slowly: Begin without looking ahead, and look further with each task, for consumers that may stop early.
    """

    def __init__(
        self, session: Session[B], tasks: Sequence[FileTask], *, threads: int, start_slowly: bool = False
    ) -> None:
        self._session = session
        self._tasks = tasks
        self._step = max(1, threads)
        self._start_slowly = start_slowly
        self._turns = [_Turn[B]() for _ in tasks]

    def batches(self, position: int) -> Iterator[B]:
        """The batches of a task."""
        reach = self._reach(position)
        self._announce(position, first=True)
        for number in range(1, 2 * reach + 1):
            self._announce(position + number * self._step)
        stream = self._take(position)
        try:
            for number in range(1, reach + 1):
                self._begin(position + number * self._step)
        except BaseException:
            self._session.end(self._tasks[position], stream)
            raise
        yield from self._session.batches(self._tasks[position], stream)

    def close(self) -> None:
        """Let go of what was begun and had no turn. No task may be running."""
        for task, turn in zip(self._tasks, self._turns, strict=True):
            stream, turn.stream, turn.has_come = turn.stream, None, True
            if stream is not None:
                self._session.end(task, stream)

    def _reach(self, position: int) -> int:
        """How many tasks of this thread to begin before their turn: as many as make enough bytes."""
        most = min(_MOST_BEGUN, position) if self._start_slowly else _MOST_BEGUN
        reach = length = 0
        while reach < most and length < _ENOUGH_BYTES and position + (reach + 1) * self._step < len(self._tasks):
            reach += 1
            length += self._session.bytes_to_read(self._tasks[position + reach * self._step])
        return reach

    def _announce(self, position: int, *, first: bool = False) -> None:
        if position < len(self._tasks) and not self._turns[position].is_announced:
            self._turns[position].is_announced = True
            if first:
                self._session.announce_first(self._tasks[position], whole=not self._start_slowly)
            else:
                self._session.announce(self._tasks[position])

    def _take(self, position: int) -> FileStream[B]:
        turn = self._turns[position]
        with turn.lock:
            turn.has_come = True
            stream, turn.stream = turn.stream, None
            if turn.error is not None:
                raise turn.error
        return stream if stream is not None else self._session.start(self._tasks[position])

    def _begin(self, position: int) -> None:
        """Start a task before its turn. If that fails, it fails when its turn has come."""
        if position >= len(self._tasks) or not self._session.is_useful_ahead(self._tasks[position]):
            return
        turn = self._turns[position]
        with turn.lock:
            if turn.has_come or turn.stream is not None or turn.error is not None:
                return
            try:
                turn.stream = self._session.start(self._tasks[position])
            except Exception as error:  # noqa: BLE001 - raised by the task itself
                turn.error = error
