"""Plugins and batch types with one fault each, and the check that must notice it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from formatkit.tck import Subject

__all__ = ["FAULTS", "Fault", "fault", "load_faults"]


@dataclass(frozen=True)
class Fault:
    """A subject that does one thing wrong, and the name of the check that says so."""

    name: str
    check: str
    subject: Callable[[], Subject[Any]]


FAULTS: dict[str, Fault] = {}


def fault(*checks: str) -> Callable[[Callable[[], Subject[Any]]], Callable[[], Subject[Any]]]:
    """Enter a function that makes a faulty subject; its name says what the fault is. Each of the checks must notice."""

    def enter(make: Callable[[], Subject[Any]]) -> Callable[[], Subject[Any]]:
        for check in checks:
            name = f"{make.__module__.rpartition('.')[2]}.{make.__name__}"
            name = name if len(checks) == 1 else f"{name}: {check}"
            if name in FAULTS:
                raise ValueError(f"two faults are called {name}")
            FAULTS[name] = Fault(name, check, make)
        return make

    return enter


def load_faults() -> dict[str, Fault]:
    """All faults; modules in `support.faulty` are found by themselves."""
    package = import_module("support.faulty")
    for module in iter_modules(package.__path__, package.__name__ + "."):
        import_module(module.name)
    return FAULTS
