"""Threads that decode. They outlive scans: what memory a thread had goes back to the system when it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar
from weakref import WeakSet

from formatkit.forks import fork_safe

__all__ = ["Decoder", "run_together", "start_decoder"]

T = TypeVar("T")

_IDLE_SECONDS = 10.0
_BUSY, _IDLE = "formatkit-scan", "formatkit-idle"


class Decoder:
    """Work that a thread does, or did."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._ended = threading.Event()
        _working.add(self)

    def perform(self) -> None:
        try:
            self._work()
        finally:
            del self._work

    def end(self) -> None:
        self._ended.set()

    def join(self) -> None:
        """Wait until the work is done."""
        self._ended.wait()

    def abandon(self) -> None:
        """In the child of a fork: the work goes on in the parent only."""
        self._ended = threading.Event()
        self._ended.set()


class _Thread(threading.Thread):
    """Does one piece of work after the other, and ends when there was none for some time."""

    def __init__(self) -> None:
        super().__init__(name=_BUSY, daemon=True)
        self.given: SimpleQueue[Decoder] = SimpleQueue()

    def run(self) -> None:
        while (decoder := self._next()) is not None:
            self.name = _BUSY
            try:
                decoder.perform()
            finally:
                # In this order, so that whoever waited finds this thread idle.
                self.name = _IDLE
                with _lock:
                    _idle.append(self)
                decoder.end()
            del decoder

    def _next(self) -> Decoder | None:
        while True:
            try:
                return self.given.get(timeout=_IDLE_SECONDS)
            except Empty:
                with _lock:
                    # One that is not in the list any more is about to be given something.
                    if self in _idle:
                        _idle.remove(self)
                        return None


_lock = fork_safe(threading.Lock())
_idle: list[_Thread] = []
_working: WeakSet[Decoder] = WeakSet()


def start_decoder(work: Callable[[], None]) -> Decoder:
    """Do work in a thread that is idle, or in a new one. What it raises is its own concern."""
    decoder = Decoder(work)
    with _lock:
        thread = _idle.pop() if _idle else None
    if thread is None:
        thread = _Thread()
        thread.start()
    thread.given.put(decoder)
    return decoder


def run_together(works: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """What pieces of work return, in their order. They are done on up to so many threads, this one included.

    Raises what the first of them raises that raises something, when all have ended.
    """
    left, found, raised = iter(enumerate(works)), dict[int, T](), dict[int, BaseException]()

    def work() -> None:
        for number, one in left:
            try:
                found[number] = one()
            except BaseException as error:  # noqa: BLE001 - it is raised again, by the caller
                raised[number] = error

    others = [start_decoder(work) for _ in range(min(threads, len(works)) - 1)]
    work()
    for other in others:
        other.join()
    if raised:
        raise raised[min(raised)]
    return [found[number] for number in range(len(works))]


def _forget_parent() -> None:
    """Threads do not survive a fork, so nobody need wait for them in the child."""
    _idle.clear()
    for decoder in list(_working):
        decoder.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
