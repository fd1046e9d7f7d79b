"""Running tasks side by side: order, back-pressure, and nothing left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from formatkit.scan.runner import run_in_order

UNLIMITED = 1 << 40


@dataclass(frozen=True)
class Batch:
    task: int
    number: int
    nbytes: int = 10


@dataclass
class Work:
    """Tasks that count what is asked of them."""

    batches_per_task: int = 3
    fail_in: int | None = None
    started: list[int] = field(default_factory=list)
    produced: int = 0
    closed: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, task: int) -> Iterator[Batch]:
        with self.lock:
            self.started.append(task)
        try:
            for number in range(self.batches_per_task):
                if task == self.fail_in and number == 1:
                    raise ZeroDivisionError(task)
                with self.lock:
                    self.produced += 1
                yield Batch(task, number)
        finally:
            with self.lock:
                self.closed.append(task)

    def run(self, tasks: int, **options: Any) -> Any:
        options = {"threads": 3, "buffer_bytes": UNLIMITED} | options
        return run_in_order(range(tasks), self.read, **options)


def settle(condition: Callable[[], bool]) -> None:
    """Wait until something is true, and then a little more, in case it does not stay true."""
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(0.05)
    assert condition()


def scan_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("formatkit-scan")}


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
@pytest.mark.parametrize("buffer_bytes", [0, 15, UNLIMITED])
def test_batches_come_in_the_order_of_the_tasks(threads: int, buffer_bytes: int) -> None:
    found = list(Work().run(9, threads=threads, buffer_bytes=buffer_bytes))
    assert found == [Batch(task, number) for task in range(9) for number in range(3)]


@pytest.mark.parametrize("threads", [1, 4])
def test_no_tasks_give_no_batches(threads: int) -> None:
    assert list(Work().run(0, threads=threads)) == []


def test_tasks_without_batches_are_no_obstacle() -> None:
    assert list(Work(batches_per_task=0).run(50)) == []


@pytest.mark.parametrize(("tasks", "threads"), [(1, 8), (5, 1)])
def test_one_task_or_one_thread_needs_no_thread(tasks: int, threads: int) -> None:
    run = Work().run(tasks, threads=threads)
    next(run)
    assert scan_threads() == set()
    run.close()


def test_nothing_starts_before_the_first_batch_is_asked_for() -> None:
    work = Work()
    run = work.run(4)
    assert scan_threads() == set()
    run.close()
    assert work.started == []


def test_a_consumer_that_rests_is_not_read_ahead_of_without_bound() -> None:
    work = Work(batches_per_task=1000)
    run = work.run(50, buffer_bytes=100)
    next(run)
    # Ten batches fill the buffer; each worker holds one more that does not fit.
    settle(lambda: work.produced >= 10 + 3)
    assert work.produced <= 10 + 3 + 1
    run.close()


def test_tiny_batches_are_bounded_in_number() -> None:
    work = Work(batches_per_task=1000)
    run = work.run(50)
    next(run)
    settle(lambda: work.produced >= 3 * 64)
    assert work.produced <= 3 * 64 + 4
    run.close()


def test_tasks_without_batches_are_not_run_far_ahead() -> None:
    work = Work(batches_per_task=1)
    run = work.run(500)
    next(run)
    settle(lambda: len(work.started) >= 3 * 4)
    assert len(work.started) <= 3 * 4 + 1
    run.close()


def test_a_slow_start_reads_one_task_until_it_ends() -> None:
    work = Work(batches_per_task=5)
    run = work.run(10, start_slowly=True)
    next(run)
    settle(lambda: work.started == [0])
    for _ in range(5):
        next(run)
    settle(lambda: len(work.started) > 1)
    run.close()


@pytest.mark.parametrize("taken", [1, 4, 8])
def test_closing_early_stops_and_closes_every_task_and_joins_every_thread(taken: int) -> None:
    work = Work(batches_per_task=5)
    run = work.run(20, buffer_bytes=50)
    for _ in range(taken):
        next(run)
    run.close()
    assert scan_threads() == set()
    assert sorted(work.closed) == sorted(work.started)
    assert len(work.started) < 20


def test_an_abandoned_run_stops_by_itself() -> None:
    work = Work()
    run = work.run(20)
    next(run)
    del run
    assert scan_threads() == set()
    assert sorted(work.closed) == sorted(work.started)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_keeps_its_type_and_its_place(threads: int) -> None:
    work = Work(fail_in=4)
    run = work.run(20, threads=threads)
    found = []
    with pytest.raises(ZeroDivisionError):
        found.extend(run)  # extends as far as it gets
    assert found == [Batch(task, number) for task in range(4) for number in range(3)] + [Batch(4, 0)]
    assert scan_threads() == set()
    assert sorted(work.closed) == sorted(work.started)


def test_tasks_really_run_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def read(task: int) -> Iterator[Batch]:
        meeting.wait()
        yield Batch(task, 0)

    assert len(list(run_in_order(range(3), read, threads=3, buffer_bytes=UNLIMITED))) == 3
