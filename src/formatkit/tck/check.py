"""What a check is: a plain function with a sentence for a name that proves a clause of the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from formatkit.contract.capability import Capability

__all__ = ["Check", "Layer", "check", "checks"]


class Layer(IntEnum):
    """What is under test, and so what a check is given."""

    BATCH = 1
    """A batch type, without files: checks are given a `BatchKit`."""

    FORMAT = 2
    """One format, on the contract alone: checks are given a `FormatKit`."""

    SCAN = 3
    """A format with a batch type, through kernel and scan: checks are given a `ScanKit`."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that a plugin must do.

    Attributes:
        function: Raises if the plugin does not do it.
        clauses: Numbers of the clauses that it proves.
        cases: Numbers of the cases of other suites that it covers.
        when: The capability without which the check has no meaning.
        twin: The name of the check that proves the refusal where `when` is not declared.
        unless: The capability that turns the check off: set for twins.
    """

    function: Callable[[Any], None]
    layer: Layer
    clauses: tuple[str, ...]
    cases: tuple[str, ...] = ()
    when: Capability | None = None
    twin: str | None = None
    unless: Capability | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def sentence(self) -> str:
        """The name as people read it; the first line of the docstring where the name cannot say it."""
        words = self.function.__doc__ or self.name.replace("_", " ")
        sentence = words.strip().splitlines()[0]
        return sentence[0].upper() + sentence[1:].rstrip(".")

    @property
    def group(self) -> str:
        """The module that the check stands in: splits, metrics, evolution."""
        return self.function.__module__.rpartition(".")[2]

    def applies_to(self, capabilities: Iterable[Capability]) -> bool:
        declared = frozenset(capabilities)
        return (self.when is None or self.when in declared) and (self.unless is None or self.unless not in declared)


_CATALOGUE: dict[str, Check] = {}


def check(
    *proves: str,
    layer: Layer,
    when: Capability | None = None,
    twin: str | None = None,
    unless: Capability | None = None,
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Enter a function in the catalogue.

    Args:
        proves: Numbers of clauses (``"R4"``) and of cases of other suites (``"J16"``, ``"X01"``).
        layer: What the function is given.
        when: The capability that the check needs; `twin` then names the check of the refusal.
        twin: See `when`.
        unless: Set on twins: the capability in whose absence the refusal is due.
    """

    def enter(function: Callable[[Any], None]) -> Callable[[Any], None]:
        if (when is None) != (twin is None):
            raise ValueError(
                f"{function.__name__}: a check that needs a capability names its twin, and only such a one"
            )
        if function.__name__ in _CATALOGUE:
            raise ValueError(f"two checks are called {function.__name__}")
        _CATALOGUE[function.__name__] = Check(
            function=function,
            layer=layer,
            clauses=tuple(number for number in proves if number[0] not in "JX"),
            cases=tuple(number for number in proves if number[0] in "JX"),
            when=when,
            twin=twin,
            unless=unless,
        )
        return function

    return enter


def checks() -> dict[str, Check]:
    """All checks by name, those of one module together, in the order in which they are written."""
    package = import_module("formatkit.tck.checks")
    for module in iter_modules(package.__path__, package.__name__ + "."):
        import_module(module.name)
    return dict(sorted(_CATALOGUE.items(), key=lambda item: (item[1].layer, item[1].group)))
