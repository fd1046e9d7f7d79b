"""Begins tasks before their turn, so that storage is at work on the next file while this one is decoded.

When a task starts on a thread, the file that this thread will probably read next is opened and says which ranges it
needs, and of the file after that the bytes are announced with which it is opened. All of that is asked for in the order
of need, so what is needed first arrives first, and the byte budget of the IO runtime bounds what is held.
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


@dataclass(slots=True)
class _Turn(Generic[B]):
    """What was done for a task before its turn."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    has_come: bool = False
    stream: FileStream[B] | None = None
    error: Exception | None = None


class LookAhead(Generic[B]):
    """Reads the tasks of a session by their positions, each once, in about that order.

    Args:
        session: What reads tasks.
        tasks: All of them.
        threads: How many run side by side, and so how far it is from a task to the next of the same thread.
        start_slowly: Begin without looking ahead, for consumers that may be satisfied with the first task.
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
        following = position + self._step
        looks_ahead = not (self._start_slowly and position == 0)
        for each in (position, following, following + self._step) if looks_ahead else (position,):
            self._announce(each)
        stream = self._take(position)
        try:
            if looks_ahead:
                self._begin(following)
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

    def _announce(self, position: int) -> None:
        if position < len(self._tasks):
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
            if turn.has_come:
                return
            try:
                turn.stream = self._session.start(self._tasks[position])
            except Exception as error:  # noqa: BLE001 - raised by the task itself
                turn.error = error
