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


def fault(check: str) -> Callable[[Callable[[], Subject[Any]]], Callable[[], Subject[Any]]]:
    """Enter a function that makes a faulty subject; its name says what the fault is."""

    def enter(make: Callable[[], Subject[Any]]) -> Callable[[], Subject[Any]]:
        if make.__name__ in FAULTS:
            raise ValueError(f"two faults are called {make.__name__}")
        FAULTS[make.__name__] = Fault(make.__name__, check, make)
        return make

    return enter


def load_faults() -> dict[str, Fault]:
    """All faults; modules in `support.faulty` are found by themselves."""
    package = import_module("support.faulty")
    for module in iter_modules(package.__path__, package.__name__ + "."):
        import_module(module.name)
    return FAULTS
