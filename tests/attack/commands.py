"""The part that runs suites of the repository with fresh seeds: forks, lost answers, writers side by side.

A suite is a command with the environment that makes it long. It counts what it did in lines such as ``COUNT 25 forks``
and fails by its exit code.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field

from attack.cases import Case, Finding, Result

from support.repository import ROOT

__all__ = ["COMMANDS", "Command", "run_command"]

_COUNT = re.compile(r"^COUNT (\d+) (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A suite: paths for pytest, and variables of the environment; ``{seed}`` stands for the seed of the case."""

    paths: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


COMMANDS: dict[str, Command] = {
    "faults": Command(("tests/faults/test_killed_writers.py",), {"FAULT_RUNS": "6", "FAULT_SEED": "{seed}"}),
    "forks": Command(("tests/forks",), {"FORK_ROUNDS": "4", "FORK_SEED": "{seed}"}),
    "busy writers": Command(
        ("tests/faults/test_busy_writers.py",),
        {"CONCURRENCY_PROCESSES": "4", "CONCURRENCY_OPERATIONS": "12", "CONCURRENCY_SEED": "{seed}"},
    ),
    "lost answers": Command(("tests/write/commit/test_lost_answers.py",)),
}


def run_command(case: Case) -> Result:
    """Run one of the suites."""
    name = list(COMMANDS)[case.number % len(COMMANDS)]
    command = COMMANDS[name]
    seed = str(case.random.randrange(10**6))
    environment = {key: value.format(seed=seed) for key, value in command.environment.items()}
    arguments = [sys.executable, "-m", "pytest", *command.paths, "-q", "-s", "-p", "no:cacheprovider"]
    shown = " ".join([*(f"{key}={value}" for key, value in environment.items()), *arguments[1:]])
    case.keep({"where": name, "what": shown})
    run = subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    result = Result(Counter({f"runs of {name}": 1}))
    for count, what in _COUNT.findall(run.stdout):
        result.counts[what] += int(count)
    if run.returncode:
        output = f"{run.stdout}\n{run.stderr}"[-3000:]
        result.findings.append(Finding("suite failed", name, f"{shown}: exit code {run.returncode}", output))
    return result
