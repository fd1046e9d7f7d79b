"""The threads of scans outlive them."""

from __future__ import annotations

import os
import threading

import pytest

from formatkit.scan import decoders
from formatkit.scan.decoders import start_decoder
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
