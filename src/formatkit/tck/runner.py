"""Runs checks: all of a plugin, one by name, or one by one under pytest."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from multiprocessing import get_context
from typing import Any, Generic, TypeVar

from formatkit.contract import Capability, DataBatch, FormatPlugin
from formatkit.errors import ConfigurationError
from formatkit.registry import default_registry
from formatkit.tck.check import Check, Layer, checks
from formatkit.tck.expect import CheckFailedError
from formatkit.tck.kits import SMALL_CHUNKS, BatchKit, Bridge, FormatKit, Profile, ScanKit, bridge_for
from formatkit.tck.results import Outcome, Result, Run

__all__ = ["Subject", "run", "run_check", "selected"]

B = TypeVar("B")
Progress = Callable[[Result], None]


@dataclass(frozen=True, kw_only=True)
class Subject(Generic[B]):
    """What is under test: a plugin with its batch type, or a batch type alone.

    Attributes:
        operations: The operations of the batch type.
        plugin: The format's plugin; None to check the batch type alone.
        bridge: How batches are made of Arrow's; needed only for types that do not speak Arrow's stream interface.
        small_chunks: Write properties that make the format write many chunks for few rows.
        profile: How hard to try.
    """

    operations: DataBatch[B]
    plugin: FormatPlugin[B] | None = None
    bridge: Bridge[B] | None = None
    small_chunks: Mapping[str, str] = field(default_factory=lambda: SMALL_CHUNKS)
    profile: Profile = field(default_factory=Profile)

    @classmethod
    def of(cls, plugin: FormatPlugin[B], **facts: Any) -> Subject[B]:
        """The plugin with the batch type that is installed for it."""
        operations = facts.pop("operations", None) or default_registry().batches(plugin.batch_type)
        return cls(operations=operations, plugin=plugin, **facts)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.plugin.capabilities if self.plugin is not None else frozenset()

    def kit(self, layer: Layer) -> Any:
        """What a check of the layer is given."""
        batch_type = self.operations.batch_type
        batches = BatchKit(
            operations=self.operations, bridge=self.bridge or bridge_for(batch_type), profile=self.profile
        )
        if layer is Layer.BATCH:
            return batches
        if self.plugin is None:
            raise ConfigurationError(f"checks of layer {layer:d} need a format, and only a batch type was given")
        formats = FormatKit(plugin=self.plugin, batches=batches, small_chunks=self.small_chunks)
        return formats if layer is Layer.FORMAT else ScanKit(format=formats)


def selected(subject: Subject[Any], layers: Iterable[int] = (), names: Iterable[str] = ()) -> list[Check]:
    """The checks that concern a subject, twins left out where what they refuse is declared.

    By default a plugin is asked layers 2 and 3: its batch type is asked layer 1 once, not for each format.
    """
    catalogue = checks()
    unknown = sorted(set(names) - set(catalogue))
    if unknown:
        raise ConfigurationError(f"there is no check called {', '.join(unknown)}; `formatkit tck --list` has them all")
    wanted = set(layers) or ({Layer.BATCH} if subject.plugin is None else {Layer.FORMAT, Layer.SCAN})
    chosen = set(names)
    return [
        check
        for check in catalogue.values()
        if (check.name in chosen if chosen else check.layer in wanted)
        and (check.unless is None or check.unless not in subject.capabilities)
    ]


def run_check(subject: Subject[Any], check: Check) -> Outcome:
    """Run one check, or the twin that proves the refusal where its capability is not declared. Raises if it fails."""
    if check.applies_to(subject.capabilities):
        check.function(subject.kit(check.layer))
        return Outcome.PASSED
    twin = checks()[check.twin or ""]
    twin.function(subject.kit(twin.layer))
    return Outcome.REFUSED


def run(
    subject: Subject[Any],
    *,
    layers: Iterable[int] = (),
    names: Iterable[str] = (),
    known_failures: Mapping[str, str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run checks and say what became of each; no failure stops the others.

    Args:
        subject: What is under test.
        layers: Which layers; by default those that concern the subject.
        names: Only these checks.
        known_failures: Reasons by the name of the check. A check that passes although it is here fails.
        workers: How many processes to share the checks between; 1 runs them here.
        progress: Called with each result as it comes in.
    """
    chosen = selected(subject, layers, names)
    known = dict(known_failures or {})
    stray = sorted(set(known) - set(checks()))
    if stray:
        raise ConfigurationError(f"known failures name checks that do not exist: {', '.join(stray)}")
    found: dict[str, Result] = {}
    for result in _results(subject, chosen, known, workers or min(len(chosen), os.cpu_count() or 1)):
        found[result.check] = result
        if progress is not None:
            progress(result)
    return Run(
        file_format=subject.plugin.file_format if subject.plugin is not None else None,
        batch_type=_full_name(subject.operations.batch_type),
        plugin=_origin(subject.plugin if subject.plugin is not None else subject.operations),
        formatkit=version("formatkit"),
        capabilities=tuple(sorted(capability.value for capability in subject.capabilities)),
        results=[found[check.name] for check in chosen],
    )


def _results(
    subject: Subject[Any], chosen: Sequence[Check], known: Mapping[str, str], workers: int
) -> Iterator[Result]:
    if workers <= 1:
        for check in chosen:
            yield _result(subject, check.name, known.get(check.name))
        return
    # Fresh processes, because libraries with threads of their own do not survive a fork.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_result, subject, check.name, known.get(check.name)) for check in chosen]
        for future in as_completed(futures):
            yield future.result()


def _result(subject: Subject[Any], name: str, reason: str | None) -> Result:
    check = checks()[name]
    start = time.perf_counter()
    try:
        outcome, message = run_check(subject, check), ""
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome, message = Outcome.FAILED, explain_failure(error)
    seconds = time.perf_counter() - start
    if reason is not None:
        if outcome is Outcome.FAILED:
            outcome = Outcome.KNOWN
        else:
            outcome, message = Outcome.FAILED, f"it passed, but it is listed as a known failure: {reason}"
    return Result(check=name, outcome=outcome, seconds=seconds, message=message, reason=reason or "")


def explain_failure(error: BaseException) -> str:
    """The message, the smallest example that Hypothesis found, and the place where anything unforeseen came from."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    if isinstance(error, CheckFailedError):
        return "\n".join(filter(None, [str(error), notes]))
    return "".join(traceback.format_exception(error)).rstrip()


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _origin(thing: Any) -> str:
    """The distribution and its version, if the class belongs to one."""
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    # Packages that are installed to be edited list no files, but most are called like what they install.
    for owner in (*packages_distributions().get(package, ()), package):
        with suppress(PackageNotFoundError):
            return f"{owner} {version(owner)}"
    return _full_name(kind)
