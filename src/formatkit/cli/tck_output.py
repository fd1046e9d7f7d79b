"""What `formatkit tck` shows: progress, each failure as it comes, and what came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from rich import progress as rich_progress
from rich.console import Console
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from formatkit.cli.terminal import cell, console, note, print_json, print_table
from formatkit.errors import printable
from formatkit.tck import Check, Outcome, Result, Run, checks
from formatkit.tck.clauses import clauses
from formatkit.tck.reports import document
from formatkit.tck.reports.matrix import verdict
from formatkit.tck.runner import Plan

__all__ = ["Progress", "print_checks", "print_runs"]

_STYLES = {Outcome.PASSED: "green", Outcome.FAILED: "bold red", Outcome.REFUSED: "blue", Outcome.KNOWN: "yellow"}


class Progress:
    """A line that counts while checks run, with failures and finished runs above it.

    If `quiet`, standard output stays free for what is printed at the end.
    """

    def __init__(self, plans: Sequence[Plan], *, quiet: bool) -> None:
        self._quiet = quiet
        self._found: dict[int, list[Result]] = {id(plan): [] for plan in plans}
        self._failed = 0
        self._console = Console(stderr=True) if quiet else console()
        self._line = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.BarColumn(bar_width=24),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TextColumn("{task.fields[failed]}", style="bold red"),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn(
                "{task.description}",
                markup=False,
                style="dim",
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            console=self._console,
            expand=True,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._line.add_task("starting", total=sum(len(plan.checks) for plan in plans), failed="")

    def __enter__(self) -> Progress:
        self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.stop()

    def add(self, plan: Plan, result: Result) -> None:
        """Take note of a result."""
        found = self._found[id(plan)]
        found.append(result)
        if result.outcome is Outcome.FAILED:
            self._failed += 1
            if not self._quiet:
                _print_failure(self._console, plan, result)
        failed = f"{self._failed} failed" if self._failed else ""
        self._line.update(self._task, advance=1, failed=failed, description=result.check)
        if len(found) == len(plan.checks) and not self._quiet:
            self._console.print(_summary(plan.run(found)))


def print_runs(runs: Sequence[Run], reports: Sequence[Path], *, as_json: bool) -> None:
    """Print what came out in the end."""
    if as_json:
        print_json(document(runs))
        return
    known = [(run, result) for run in runs for result in run.results if result.outcome is Outcome.KNOWN]
    if known:
        print_table(
            ("known failure of", "check", "reason"), ((run.name, each.check, each.reason) for run, each in known)
        )
    for path in reports:
        note(f"Wrote {path}")
    failed = any(run.failed for run in runs)
    console().print(Text(printable(verdict(runs)), style="bold red" if failed else "bold green"))


def print_checks(plans: Sequence[Plan], catalogue: Sequence[Check], *, as_json: bool) -> None:
    """Print the checks of the plans, or those of the catalogue if there are none."""
    listed = list({check.name: check for plan in plans for check in plan.checks}.values()) if plans else catalogue
    columns = ("layer", "group", "check", "clauses", "cases", "needs")
    rows = [
        (int(check.layer), check.group, check.name, " ".join(check.clauses), " ".join(check.cases), _needs(check))
        for check in listed
    ]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
        note(f"{len(rows)} checks")


def _needs(check: Check) -> str:
    if check.when is not None:
        return check.when.value
    return f"not {check.unless.value}" if check.unless is not None else ""


def _summary(run: Run) -> Text:
    line = Text.assemble(
        (("✗ ", "bold red") if run.failed else ("✓ ", "bold green")), (printable(run.name), "bold"), "  "
    )
    counted = [Text(outcome.counted(count), _STYLES[outcome]) for outcome, count in run.counts.items() if count]
    line.append(Text(", ").join(counted))
    line.append(f"  {run.seconds:.1f} s", "dim")
    return line


def _print_failure(output: Console, plan: Plan, result: Result) -> None:
    run = plan.run()
    check = checks()[result.check]
    output.print(Text.assemble(("FAILED ", "bold red"), (printable(run.name), "bold"), f": {check.sentence}"))
    for part in _explanation(run, check, result):
        output.print(Padding(part, (0, 0, 0, 2), expand=False))
    output.print()


def _explanation(run: Run, check: Check, result: Result) -> Iterator[Text]:
    for number in check.clauses:
        yield Text.assemble((f"{number}  ", "bold"), (clauses()[number], "italic"))
    yield _lines(result.message)
    if result.example:
        yield Text("Smallest example that fails:", "bold")
        yield _lines(result.example, indent="  ")
    yield Text.assemble(("Again: ", "bold"), printable(run.command(result.check)))


def _lines(text: str, indent: str = "") -> Text:
    """Text of several lines, of which none can command the terminal."""
    lines: list[Any] = [Text.assemble(indent, cell(line)) for line in text.split("\n")]
    return Text("\n").join(lines)
