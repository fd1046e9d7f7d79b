"""Processes that run cases, and are replaced when a case ends them, hangs or takes too much memory."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from attack.cases import Case, Finding, Result

__all__ = ["Limits", "Worker", "run_all"]

_MAX_ADDRESS_SPACE = 24 << 30


@dataclass(frozen=True)
class Limits:
    """How long a case may take, and by how much it may make its process grow."""

    seconds: float = 30.0
    memory_bytes: int = 1 << 30


class Worker:
    """A process that runs one case at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        context = multiprocessing.get_context("spawn")
        self._here, there = context.Pipe()
        self._process = context.Process(target=_work, args=(there, folder), daemon=False)
        self._process.start()
        there.close()
        self.case: Case | None = None
        self._limits = Limits()
        self._deadline = 0.0

    @property
    def handle(self) -> Connection[Any, Any]:
        return self._here

    @property
    def seconds_left(self) -> float:
        return self._deadline - time.monotonic()

    def start(self, case: Case, limits: Limits) -> None:
        # The first case of a process loads what it needs.
        spare = 0.0 if self.case else 60.0
        self.case = replace(case, folder=self.folder)
        self._limits = limits
        self._deadline = time.monotonic() + limits.seconds + spare
        shutil.rmtree(self.case.kept, ignore_errors=True)
        self._here.send(self.case)

    def result(self) -> tuple[Result, bool]:
        """What the case gave, and whether the process is still of use."""
        try:
            result: Result = self._here.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode or 0
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return Result(findings=[Finding("signal", "", f"the process ended by {how}")]), False
        if result.peak_bytes > self._limits.memory_bytes:
            grown = f"the process grew by {result.peak_bytes >> 20} MiB"
            result.findings.append(Finding("memory", "", grown))
            return result, False
        return result, True

    def hang(self) -> Result:
        return Result(findings=[Finding("hang", "", f"no answer within {self._limits.seconds} s")])

    def stop(self) -> None:
        self._process.kill()
        self._process.join()
        self._here.close()


def run_all(cases: Iterator[tuple[Case, Limits]], folder: Path, workers: int) -> Iterator[tuple[Case, Result, float]]:
    """Run cases on some processes; returns each with its result and the seconds that it took."""
    idle = [Worker(folder / f"worker-{number}") for number in range(workers)]
    busy: dict[Any, tuple[Worker, float]] = {}
    try:
        while True:
            while idle and (following := next(cases, None)) is not None:
                worker = idle.pop()
                worker.start(*following)
                busy[worker.handle] = worker, time.monotonic()
            if not busy:
                return
            soonest = min(worker.seconds_left for worker, _ in busy.values())
            ready = wait(list(busy), max(soonest, 0))
            late = [handle for handle, (worker, _) in busy.items() if worker.seconds_left <= 0 and handle not in ready]
            for handle in [*ready, *late]:
                worker, began = busy.pop(handle)
                result, usable = worker.result() if handle in ready else (worker.hang(), False)
                assert worker.case is not None
                yield worker.case, result, time.monotonic() - began
                if not usable:
                    worker.stop()
                    worker = Worker(worker.folder)
                idle.append(worker)
    finally:
        for worker in [*idle, *(each for each, _ in busy.values())]:
            worker.stop()


def _work(cases: Connection[Any, Any], folder: Path) -> None:
    """Run cases until the other side is gone."""
    from attack.parts import PARTS

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_ADDRESS_SPACE, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            case = cases.recv()
        except EOFError:
            return
        before = _reset_peak()
        try:
            result = PARTS[case.part].run(case)
        except Exception as error:  # noqa: BLE001 - a fault of the attack itself must be seen as such
            cause = traceback.format_exc()[-1500:]
            result = Result(findings=[Finding("attack failed", case.part, f"{type(error).__name__}: {error}", cause)])
        result.peak_bytes = max(_memory("VmHWM") - before, 0)
        try:
            cases.send(result)
        except BrokenPipeError:
            return


def _reset_peak() -> int:
    """Let the kernel measure the peak anew; the memory that the process has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
