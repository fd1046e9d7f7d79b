"""Runs checks: all of a plugin, one by name, or one by one under pytest."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import takewhile
from pathlib import Path
from typing import Any, Generic, TypeVar

import hypothesis

from formatkit.contract import Capability, DataBatch, FormatPlugin
from formatkit.errors import ConfigurationError
from formatkit.registry import default_registry
from formatkit.tck.check import Check, Layer, checks
from formatkit.tck.expect import CheckFailedError
from formatkit.tck.kits import SMALL_CHUNKS, BatchKit, Bridge, FormatKit, Profile, bridge_for
from formatkit.tck.results import Outcome, Result, Run
from formatkit.tck.scan_kit import ScanKit
from formatkit.tck.storages import SHIPPED_STORAGES, MakeStorage
from formatkit.tck.workers import Lost, share

__all__ = ["Plan", "Subject", "run", "run_check", "run_plans", "selected"]

B = TypeVar("B")

TIMEOUT_SECONDS = 120.0
_HYPOTHESIS = Path(hypothesis.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Subject(Generic[B]):
    """What is under test: a plugin with its batch type, or a batch type alone.

    Attributes:
        operations: The operations of the batch type.
        plugin: The format's plugin; None to check the batch type alone.
        bridge: How batches are made of Arrow's; needed only for types that do not speak Arrow's stream interface.
        small_chunks: Write properties that make the format write many chunks for few rows.
        storages: The kinds of storage that files are written to and read from.
        profile: How hard to try.
    """

    operations: DataBatch[B]
    plugin: FormatPlugin[B] | None = None
    bridge: Bridge[B] | None = None
    small_chunks: Mapping[str, str] = field(default_factory=lambda: SMALL_CHUNKS)
    storages: Sequence[MakeStorage] = SHIPPED_STORAGES
    profile: Profile = field(default_factory=Profile)

    @classmethod
    def of(cls, plugin: FormatPlugin[B], **facts: Any) -> Subject[B]:
        """The plugin with the batch type that is installed for it."""
        operations = facts.pop("operations", None) or default_registry().batches(plugin.batch_type)
        return cls(operations=operations, plugin=plugin, **facts)

    @property
    def file_format(self) -> str | None:
        return self.plugin.file_format if self.plugin is not None else None

    @property
    def batch_type_name(self) -> str:
        """The package and the class of the batch type, as people write it: ``pyarrow.RecordBatch``."""
        kind = self.operations.batch_type
        return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"

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
        formats = FormatKit(plugin=self.plugin, batches=batches, small_chunks=self.small_chunks, storages=self.storages)
        return formats if layer is Layer.FORMAT else ScanKit(format=formats)


def selected(subject: Subject[Any], layers: Iterable[int] = (), names: Iterable[str] = ()) -> list[Check]:
    """The checks that concern a subject, twins left out where what they refuse is declared.

    By default a plugin is asked layers 2 and 3: its batch type is asked layer 1 once, not for each format.
    """
    catalogue = checks()
    chosen = set(names)
    unknown = sorted(chosen - set(catalogue))
    if unknown:
        raise ConfigurationError(f"there is no check called {', '.join(unknown)}; `formatkit tck --list` has them all")
    wanted = set(layers) or ({Layer.BATCH} if subject.plugin is None else {Layer.FORMAT, Layer.SCAN})
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
    timeout_seconds: float = TIMEOUT_SECONDS,
    progress: Callable[[Result], None] | None = None,
) -> Run:
    """Run checks and say what became of each; no failure stops the others.

    Args:
        subject: What is under test.
        layers: Which layers; by default those that concern the subject.
        names: Only these checks.
        known_failures: Reasons by the name of the check. A check that passes although it is here fails.
        workers: How many processes share the checks; by default one for each processor. 1 runs them in this process,
            where a debugger sees them, but a crash ends everything and there is no timeout.
        timeout_seconds: A check that takes longer is stopped, and fails.
        progress: Called with each result as it comes in.
    """
    plan = Plan.of(subject, layers=layers, names=names, known_failures=known_failures)

    def report(_: Plan, result: Result) -> None:
        if progress is not None:
            progress(result)

    (found,) = run_plans([plan], workers=workers, timeout_seconds=timeout_seconds, progress=report)
    return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Which checks to run of a subject, and the reasons of those that are known to fail, by name."""

    subject: Subject[Any]
    checks: Sequence[Check]
    known: Mapping[str, str]

    @classmethod
    def of(
        cls,
        subject: Subject[Any],
        *,
        layers: Iterable[int] = (),
        names: Iterable[str] = (),
        known_failures: Mapping[str, str] | None = None,
    ) -> Plan:
        known = dict(known_failures or {})
        selected(subject, names=known)  # a name that is no check's is an error
        return cls(subject=subject, checks=selected(subject, layers, names), known=known)

    def run(self, results: Iterable[Result] = (), started: datetime | None = None) -> Run:
        """The run that these results make up, in the order of the catalogue."""
        found = {result.check: result for result in results}
        subject = self.subject
        return Run(
            file_format=subject.file_format,
            batch_type=subject.batch_type_name,
            plugin=_origin(subject.plugin if subject.plugin is not None else subject.operations),
            formatkit=version("formatkit"),
            capabilities=tuple(sorted(capability.value for capability in subject.capabilities)),
            examples=subject.profile.examples,
            started=started or datetime.now(UTC),
            results=[found[check.name] for check in self.checks if check.name in found],
        )


def run_plans(
    plans: Sequence[Plan],
    *,
    workers: int | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
    progress: Callable[[Plan, Result], None],
) -> list[Run]:
    """Run several plans with the same processes; see `run`."""
    started = datetime.now(UTC)
    found: list[list[Result]] = [[] for _ in plans]
    with closing(_results(plans, workers, timeout_seconds)) as results:
        for index, result in results:
            judged = _judged(result, plans[index].known.get(result.check))
            found[index].append(judged)
            progress(plans[index], judged)
    return [plan.run(results, started) for plan, results in zip(plans, found, strict=True)]


@dataclass(frozen=True)
class _Task:
    """One check of the plan with this index."""

    plan: int
    subject: Subject[Any]
    name: str


def _results(
    plans: Sequence[Plan], workers: int | None, timeout_seconds: float
) -> Generator[tuple[int, Result], None, None]:
    tasks = [_Task(index, plan.subject, check.name) for index, plan in enumerate(plans) for check in plan.checks]
    if workers == 1:
        for task in tasks:
            yield task.plan, _result(task)
        return
    processes = min(len(tasks), workers or os.cpu_count() or 1)
    with closing(share(_result, tasks, workers=processes, timeout_seconds=timeout_seconds)) as answers:
        for task, answer in answers:
            yield task.plan, _failed(task.name, answer) if isinstance(answer, Lost) else answer


def _result(task: _Task) -> Result:
    start = time.perf_counter()
    message, example = "", ""
    try:
        outcome = run_check(task.subject, checks()[task.name])
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of native code is no Exception, but a failure
        outcome, message, example = Outcome.FAILED, explain_failure(error), smallest_example(error)
    seconds = time.perf_counter() - start
    return Result(check=task.name, outcome=outcome, seconds=seconds, message=message, example=example)


def _failed(name: str, lost: Lost) -> Result:
    return Result(check=name, outcome=Outcome.FAILED, seconds=lost.seconds, message=f"the check {lost.why}")


def _judged(result: Result, reason: str | None) -> Result:
    """The result of a check that is known to fail for a reason: it must fail, or the reason is out of date."""
    if reason is None:
        return result
    if result.outcome is Outcome.FAILED:
        return replace(result, outcome=Outcome.KNOWN, reason=reason)
    message = f"it passed, but it is listed as a known failure: {reason}. Take it off the list"
    return replace(result, outcome=Outcome.FAILED, message=message, reason=reason)


def explain_failure(error: BaseException) -> str:
    """What was expected and found; for anything unforeseen also the way there, without that through Hypothesis."""
    if isinstance(error, CheckFailedError):
        return str(error)
    told = traceback.TracebackException.from_exception(error)
    for each in _chain(told):
        each.stack[:] = [frame for frame in each.stack if not _is_machinery(frame.filename)]
        each.__notes__ = None
    return "".join(told.format()).rstrip()


def smallest_example(error: BaseException) -> str:
    """What Hypothesis noted of the smallest example that fails."""
    notes = takewhile(lambda note: note != "Explanation:", getattr(error, "__notes__", ()))
    return "\n".join(note.removeprefix("Failing test case: ") for note in notes)


def _chain(told: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while told is not None:
        yield told
        told = told.__cause__ or told.__context__


def _is_machinery(filename: str) -> bool:
    return Path(filename).is_relative_to(_HYPOTHESIS) or filename == __file__


def _origin(thing: Any) -> str:
    """The distribution and its version, if the class belongs to one."""
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    # Packages that are installed to be edited list no files, but most are called like what they install.
    for owner in (*packages_distributions().get(package, ()), package):
        with suppress(PackageNotFoundError):
            return f"{owner} {version(owner)}"
    return f"{kind.__module__}.{kind.__qualname__}"
