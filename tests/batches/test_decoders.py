"""The threads of scans outlive them."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import pytest

from formatkit.batches import decoders
from formatkit.batches.decoders import run_together, start_decoder
from formatkit.scan.runner import run_in_order


def test_a_thread_that_is_idle_works_again() -> None:
    threads: list[threading.Thread] = []
    for _ in range(5):
        start_decoder(lambda: threads.append(threading.current_thread())).join()
    assert len(set(threads)) == 1


def test_work_side_by_side_has_a_thread_each() -> None:
    meeting = threading.Barrier(3, timeout=30)
    working = [start_decoder(lambda: print(meeting.wait())) for _ in range(2)]
    meeting.wait()
    for each in working:
        each.join()


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoders, "_IDLE_SECONDS", 0.01)
    monkeypatch.setattr(decoders, "_idle", [])
    threads: list[threading.Thread] = []
    start_decoder(lambda: threads.append(threading.current_thread())).join()
    threads[0].join(30)
    assert not threads[0].is_alive()
    assert decoders._idle == []


def test_a_stream_that_a_child_inherits_can_be_closed_there() -> None:
    batches = run_in_order([1, 2, 3, 4], lambda task: iter([task]), threads=2, buffer_bytes=1 << 20)
    assert next(batches) == 1
    child = os.fork()
    if child == 0:
        try:
            batches.close()
            again = list(run_in_order([5, 6], lambda task: iter([task]), threads=2, buffer_bytes=1 << 20))
            os._exit(0 if again == [5, 6] else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert list(batches) == [2, 3, 4]


@pytest.mark.parametrize("threads", [1, 2, 20])
def test_pieces_of_work_are_done_together_and_their_results_keep_their_order(threads: int) -> None:
    seen: set[int] = set()
    begun = threading.Barrier(min(threads, 12))

    def work(number: int) -> int:
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            # Each has begun before one may do the work of another.
            begun.wait(60)
        return number * number

    assert run_together([partial(work, number) for number in range(12)], threads) == [n * n for n in range(12)]
    assert len(seen) == min(threads, 12)
    assert run_together([], threads) == []


def test_the_first_failure_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []

    def work(number: int) -> None:
        time.sleep(0.01)
        ended.append(number)
        if number in (2, 3):
            raise ValueError(number)

    with pytest.raises(ValueError, match="2"):
        run_together([partial(work, number) for number in range(6)], 3)
    assert sorted(ended) == list(range(6))
