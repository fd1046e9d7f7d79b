"""Runs tasks side by side and hands out their batches in the order of the tasks.

Memory is bounded: workers stop when as many bytes or batches wait for the consumer as may, or when they are too many
tasks ahead of it. Only the task whose batches are next may always go on, so that nothing ever waits for itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from formatkit.batches.decoders import Decoder, start_decoder

__all__ = ["run_in_order"]

T = TypeVar("T")
B = TypeVar("B")

_BATCHES_PER_WORKER = 64
_TASKS_PER_WORKER = 4
_BYTES_IF_UNKNOWN = 1 << 20


def run_in_order(
    tasks: Sequence[T],
    read: Callable[[T], Iterator[B]],
    *,
    threads: int,
    buffer_bytes: int,
    start_slowly: bool = False,
    beside: bool = False,
) -> Generator[B, None, None]:
    """The batches of all tasks. Closing the generator stops and joins the workers.

    Args:
        tasks: The work.
        read: Opens a task. What it returns is closed when it is no longer needed.
        threads: How many tasks run side by side; one runs in the caller's own thread.
        buffer_bytes: How much may wait for the consumer.
        start_slowly: Begin with one task and read ahead more as tasks end, for consumers that may stop early.
        beside: Let one task run beside the consumer, too.
    """
    if (threads <= 1 or len(tasks) <= 1) and not beside:
        return _run_here(tasks, read)
    return _Run(tasks, read, min(threads, len(tasks)), buffer_bytes, start_slowly).batches()


def _run_here(tasks: Sequence[T], read: Callable[[T], Iterator[B]]) -> Generator[B, None, None]:
    for task in tasks:
        yield from read(task)


@dataclass
class _Queue(Generic[B]):
    """What one task has produced and nobody has taken yet."""

    batches: deque[tuple[B, int]] = field(default_factory=deque)
    finished: bool = False
    error: BaseException | None = None


class _Run(Generic[T, B]):
    def __init__(
        self,
        tasks: Sequence[T],
        read: Callable[[T], Iterator[B]],
        threads: int,
        buffer_bytes: int,
        start_slowly: bool,
    ) -> None:
        self._tasks = tasks
        self._read = read
        self._queues = [_Queue[B]() for _ in tasks]
        self._threads = threads
        self._buffer_bytes = buffer_bytes
        self._start_slowly = start_slowly
        self._changed = threading.Condition()
        self._next_task = 0
        self._consuming = 0
        self._waiting_bytes = 0
        self._waiting_batches = 0
        self._stopped = False

    def batches(self) -> Generator[B, None, None]:
        workers: list[Decoder] = []
        try:
            workers.extend(start_decoder(self._work) for _ in range(self._threads))
            for position in range(len(self._tasks)):
                yield from self._take_all(position)
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            for worker in workers:
                worker.join()
            self._queues.clear()

    def _take_all(self, position: int) -> Iterator[B]:
        queue = self._queues[position]
        with self._changed:
            self._consuming = position
            self._changed.notify_all()
        while True:
            with self._changed:
                while not queue.batches and not queue.finished:
                    self._changed.wait()
                if not queue.batches:
                    break
                batch, size = queue.batches.popleft()
                self._waiting_bytes -= size
                self._waiting_batches -= 1
                self._changed.notify_all()
            yield batch
        if queue.error is not None:
            raise queue.error

    def _work(self) -> None:
        while (position := self._claim()) is not None:
            queue = self._queues[position]
            error: BaseException | None = None
            try:
                self._fill(queue, position)
            except BaseException as caught:  # noqa: BLE001 - it is raised again, by the consumer
                error = caught
            with self._changed:
                queue.error, queue.finished = error, True
                self._changed.notify_all()

    def _claim(self) -> int | None:
        """The next task, once the consumer is near enough; None if there is none left."""
        with self._changed:
            while not self._stopped and self._next_task < len(self._tasks):
                if self._next_task - self._consuming < self._tasks_ahead():
                    self._next_task += 1
                    return self._next_task - 1
                self._changed.wait()
        return None

    def _tasks_ahead(self) -> int:
        most = self._threads * _TASKS_PER_WORKER
        return min(most, self._consuming + 1) if self._start_slowly else most

    def _fill(self, queue: _Queue[B], position: int) -> None:
        batches = self._read(self._tasks[position])
        try:
            for batch in batches:
                size = int(getattr(batch, "nbytes", _BYTES_IF_UNKNOWN))
                with self._changed:
                    while not self._stopped and not self._has_room(queue, position):
                        self._changed.wait()
                    if self._stopped:
                        return
                    queue.batches.append((batch, size))
                    self._waiting_bytes += size
                    self._waiting_batches += 1
                    self._changed.notify_all()
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _has_room(self, queue: _Queue[B], position: int) -> bool:
        if position == self._consuming and not queue.batches:
            return True
        return self._waiting_bytes < self._buffer_bytes and self._waiting_batches < self._threads * _BATCHES_PER_WORKER
