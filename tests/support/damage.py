"""Damaged copies of good files, and a process of its own in which they are read."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from formatkit.errors import FormatkitError
from support.memory import peak_bytes

__all__ = ["Damage", "Outcome", "damages", "read_all"]

# A file of a few kilobytes is read in milliseconds; a minute is a hang even on a busy machine.
_HANG_SECONDS = 60
_MOST_BYTES = 3 << 30


@dataclass(frozen=True)
class Damage:
    """What was done to a file, in words, where it began, and what is left."""

    what: str
    place: int
    data: bytes


@dataclass(frozen=True)
class Outcome:
    """What a read of a damaged file gave: an answer, a typed error, or another one."""

    answer: Any = None
    typed: str = ""
    untyped: str = ""


def damages(data: bytes, random: Random, count: int) -> Iterator[Damage]:
    """Cuts, flipped bits, and bytes overwritten, zeroed, doubled and left out, at random places."""
    for _ in range(count):
        place = random.randrange(len(data))
        run = min(random.choice([1, 2, 4, 16, 64]), len(data) - place)
        end = place + run
        match random.choice(["cut", "flip", "flip", "flip", "overwrite", "zero", "double", "leave out"]):
            case "cut":
                yield Damage(f"cut to {place} bytes", place, data[:place])
            case "flip":
                bit = random.randrange(8)
                flipped = bytes([data[place] ^ (1 << bit)])
                yield Damage(f"bit {bit} of byte {place} flipped", place, data[:place] + flipped + data[place + 1 :])
            case "overwrite":
                other = random.randbytes(run)
                yield Damage(f"{run} bytes from {place} overwritten", place, data[:place] + other + data[end:])
            case "zero":
                yield Damage(f"{run} bytes from {place} zeroed", place, data[:place] + bytes(run) + data[end:])
            case "double":
                yield Damage(f"{run} bytes from {place} doubled", place, data[:end] + data[place:])
            case "leave out":
                yield Damage(f"{run} bytes from {place} left out", place, data[:place] + data[end:])


def read_all(read: Callable[[bytes], Any], cases: Sequence[Damage]) -> list[Outcome]:
    """What `read` makes of each, in a process whose death, sleep or greed fails the test with the case's name."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read_each, args=(read, cases, there), daemon=True)
    process.start()
    there.close()
    outcomes: list[Outcome] = []
    try:
        for case in cases:
            if not here.poll(_HANG_SECONDS):
                raise AssertionError(f"reading hangs: {case.what}")
            try:
                outcomes.append(here.recv())
            except EOFError:
                process.join()
                raise AssertionError(f"reading ended the process ({_how(process.exitcode)}): {case.what}") from None
        most = here.recv()
        assert most < _MOST_BYTES, f"reading small damaged files took {most >> 20} MiB"
    finally:
        process.kill()
        process.join()
        here.close()
    return outcomes


def _how(exit_code: int | None) -> str:
    return signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"


def _read_each(read: Callable[[bytes], Any], cases: Sequence[Damage], results: Connection) -> None:
    for case in cases:
        try:
            outcome = Outcome(answer=read(case.data))
        except FormatkitError as error:
            outcome = Outcome(typed=type(error).__name__)
        except BaseException as error:  # noqa: BLE001 (panics of Rust are no Exception)
            outcome = Outcome(untyped=repr(error))
        results.send(outcome)
    results.send(peak_bytes())
