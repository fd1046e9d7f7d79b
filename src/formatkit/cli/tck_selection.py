"""What the arguments of `formatkit tck` stand for: which checks of which subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from formatkit.cli.terminal import note
from formatkit.errors import ConfigurationError
from formatkit.registry import default_registry
from formatkit.tck import Check, Layer, Subject, checks
from formatkit.tck.kits import Profile
from formatkit.tck.known import read_known_failures
from formatkit.tck.runner import Plan

if TYPE_CHECKING:
    from formatkit.contract import FormatPlugin

__all__ = ["Selection", "chosen_checks"]

ALL = "all"
BATCHES = "batches"


def chosen_checks(layers: Iterable[int], patterns: Sequence[str]) -> list[Check]:
    """The checks of the catalogue that fit, all of them if nothing is said."""
    catalogue = checks()
    names: set[str] = set()
    for pattern in patterns:
        found = [name for name in catalogue if fnmatchcase(name, pattern)]
        if not found:
            near = get_close_matches(pattern, catalogue, n=1)
            hint = f"did you mean {near[0]}?" if near else "formatkit tck --list has them all"
            raise ConfigurationError(f"there is no check called {pattern}; {hint}")
        names.update(found)
    wanted = set(layers) or set(Layer)
    return [check for check in catalogue.values() if check.layer in wanted and (not patterns or check.name in names)]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The arguments, as they were typed."""

    target: str
    batch: str | None
    layers: Sequence[int]
    patterns: Sequence[str]
    known: Sequence[str]

    def plans(self, examples: int | None) -> list[Plan]:
        """What to run. Layer 1 is asked of batch types, the others of plugins."""
        profile = Profile() if examples is None else Profile(examples=examples)
        names = [check.name for check in chosen_checks(self._wanted_layers(), self.patterns)]
        plans = [self._plan(subject, names) for subject in self._subjects(profile)]
        plans = [plan for plan in plans if plan.checks]
        if not plans:
            raise ConfigurationError(f"nothing to run: no check that was chosen concerns {self.target}")
        return plans

    def _wanted_layers(self) -> Sequence[int]:
        if self.target == BATCHES and set(self.layers) - {Layer.BATCH}:
            raise ConfigurationError("layers 2 and 3 need a format: formatkit tck parquet --layer 2")
        if self.layers or self.patterns or self.target == ALL:
            return self.layers
        return (Layer.BATCH,) if self.target == BATCHES else (Layer.FORMAT, Layer.SCAN)

    def _subjects(self, profile: Profile) -> list[Subject[Any]]:
        registry = default_registry()
        plugins = [] if self.target == BATCHES else self._plugins()
        if self.target in (ALL, BATCHES):
            operations = list(registry.batch_operations())
        else:
            operations = [registry.batches(kind) for kind in dict.fromkeys(plugin.batch_type for plugin in plugins)]
        batches: list[Subject[Any]] = [Subject(operations=each, profile=profile) for each in operations]
        formats: list[Subject[Any]] = [Subject.of(plugin, profile=profile) for plugin in plugins]
        return self._of_batch_type([*batches, *formats])

    def _plugins(self) -> Sequence[FormatPlugin[Any]]:
        registry = default_registry()
        if self.target == ALL:
            for name, errors in registry.failures().items():
                note(f"{name} is left out: {errors[0]}")
            return registry.plugins()
        name = self.target.lower()
        return registry.plugins(name) or [registry.plugin(name, pa.RecordBatch)]

    def _of_batch_type(self, subjects: list[Subject[Any]]) -> list[Subject[Any]]:
        if self.batch is None:
            return subjects
        word = self.batch.lower()
        exact = [subject for subject in subjects if subject.batch_type_name.lower() == word]
        found = exact or [subject for subject in subjects if word in subject.batch_type_name.lower()]
        if not found:
            installed = ", ".join(dict.fromkeys(subject.batch_type_name for subject in subjects))
            raise ConfigurationError(f"{self.target} has no batch type {self.batch!r}; it has {installed}")
        return found

    def _plan(self, subject: Subject[Any], names: Iterable[str]) -> Plan:
        catalogue = checks()
        batch_alone = subject.plugin is None
        own = [name for name in names if (catalogue[name].layer is Layer.BATCH) == batch_alone]
        known: dict[str, str] = {}
        for word in self.known:
            known.update(_known_failures(word, subject))
        plan = Plan.of(subject, names=own, known_failures=known)
        return plan if own else Plan(subject=subject, checks=[], known={})


def _known_failures(word: str, subject: Subject[Any]) -> dict[str, str]:
    name, equals, reason = word.partition("=")
    if equals and name.isidentifier():
        return {name: reason}
    if word.endswith(".toml") or Path(word).is_file():
        return read_known_failures(Path(word), subject)
    raise ConfigurationError(f"--known takes CHECK=REASON or a .toml file, not {word!r}")
