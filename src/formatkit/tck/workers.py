"""Processes that share tasks, in which a crash or an endless loop costs one task and no more.

Processes are fresh, because libraries with threads of their own do not survive a fork. Each has one task at a time, so
that the task of one that dies is known.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from formatkit.errors import ConfigurationError

__all__ = ["Lost", "share"]

T = TypeVar("T")
R = TypeVar("R")

_READY = "ready"


@dataclass(frozen=True)
class Lost:
    """A task that has no result, and why: the process that had it died, or ran out of time."""

    why: str
    seconds: float = 0.0


def share(
    function: Callable[[T], R], tasks: Sequence[T], *, workers: int, timeout_seconds: float
) -> Generator[tuple[T, R | Lost], None, None]:
    """Call a function with each task, in several processes; gives each task with its result as they come in.

    Function, tasks and results are pickled. When the iterator is closed, the processes end, whatever they do.
    """
    todo = [(task, _pickled(function, task)) for task in reversed(tasks)]
    crew: list[_Worker] = []
    # What a killed process leaves behind goes with this folder.
    with tempfile.TemporaryDirectory(prefix="formatkit-tck-") as folder:
        try:
            while todo or any(worker.busy for worker in crew):
                while len(crew) < workers and len(todo) > sum(not worker.busy for worker in crew):
                    with _interrupts_held():
                        crew.append(_Worker(folder))
                _wait_for_news(crew, timeout_seconds)
                for worker in list(crew):
                    answer = worker.answer(timeout_seconds)
                    if answer is not None:
                        yield answer
                    if worker.ended:
                        crew.remove(worker)
                    elif todo and worker.idle:
                        worker.give(*todo.pop())
        finally:
            for worker in crew:
                worker.end()


def _pickled(function: Callable[[T], R], task: T) -> Any:
    try:
        return ForkingPickler.dumps((function, task))
    except Exception as error:
        raise ConfigurationError(
            f"what is under test cannot be sent to other processes ({type(error).__name__}: {error}); define it "
            "in a module that can be imported, or say workers=1, which keeps everything in this process"
        ) from error


class _Worker:
    """One process, and the task that it has."""

    def __init__(self, folder: str) -> None:
        context = get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, folder), name="formatkit tck")
        self.process.start()
        theirs.close()
        self.started = False
        self.ended = False
        self.busy = False
        self.since = 0.0
        self.task: Any = None

    @property
    def idle(self) -> bool:
        return self.started and not self.busy

    def give(self, task: Any, pickled: Any) -> None:
        self.task, self.since, self.busy = task, time.monotonic(), True
        with suppress(OSError):  # it died meanwhile, which is noticed when its answer is asked for
            self.connection.send_bytes(pickled)

    def answer(self, timeout_seconds: float) -> tuple[Any, Any] | None:
        """The task with its result, if there is news of it."""
        seconds = time.monotonic() - self.since
        try:
            if self.connection.poll():
                return self._take(self.connection.recv())
        except (EOFError, OSError):
            self.process.join()
        if not self.process.is_alive():
            return self._lost(_cause_of_death(self.process.exitcode), seconds)
        if self.busy and seconds > timeout_seconds:
            return self._lost(f"was not done after {timeout_seconds:g} s, and was stopped", seconds)
        return None

    def end(self) -> None:
        if self.ended:
            return
        self.ended = True
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()

    def _take(self, message: Any) -> tuple[Any, Any] | None:
        if not self.started:
            self.started = True
            return None
        self.busy = False
        return self.task, message

    def _lost(self, why: str, seconds: float) -> tuple[Any, Lost] | None:
        started, busy = self.started, self.busy
        self.end()
        if not started:
            raise ConfigurationError(
                f"a process to run checks in cannot start: it {why}. A script that runs checks must do so under "
                """if __name__ == "__main__"; workers=1 keeps everything in one process"""
            )
        return (self.task, Lost(why, seconds)) if busy else None


def _wait_for_news(crew: Sequence[_Worker], timeout_seconds: float) -> None:
    due = [worker.since + timeout_seconds for worker in crew if worker.busy]
    patience = max(0.0, min(due) - time.monotonic()) if due else None
    wait([thing for worker in crew for thing in (worker.connection, worker.process.sentinel)], patience)


def _cause_of_death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-exit_code).name}: native code crashed, or memory ran out"
    return f"exited with code {exit_code}"


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that start in this block never hear Ctrl-C: only the one that the user knows answers it, afterwards.

    A new process inherits what its starter blocks. That does not spare the starter: another thread may take the signal,
    and Python would raise it here all the same, before the new process has read what it waits for.
    """
    came: list[int] = []
    in_charge = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
    usual = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if in_charge else None
    blocks = hasattr(signal, "pthread_sigmask")
    if blocks:
        # It would start with the first process, and starting it unblocks the signal.
        resource_tracker.ensure_running()
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else set()
    try:
        yield
    finally:
        if in_charge:
            signal.signal(signal.SIGINT, usual)
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        if came:
            signal.raise_signal(signal.SIGINT)


def _work(connection: Connection[Any, Any], folder: str) -> None:
    tempfile.tempdir = folder
    # What a plugin prints must not get into the output of the command.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    connection.send(_READY)
    with suppress(EOFError):
        while True:
            connection.send(_answer(connection))


def _answer(connection: Connection[Any, Any]) -> Any:
    try:
        function, task = connection.recv()
    except EOFError:
        raise
    except Exception as error:  # noqa: BLE001 - a stranger's module may fail to load in any way
        return Lost(f"cannot be loaded in a fresh process: {type(error).__name__}: {error}")
    return function(task)
