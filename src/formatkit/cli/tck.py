"""The command `tck`: does a plugin keep the contract?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from formatkit.cli.options import AsJson
from formatkit.errors import ConfigurationError

if TYPE_CHECKING:
    from formatkit.tck.runner import Plan

__all__ = ["tck"]

FAILURES = 1


def tck(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="FORMAT",
            help="The name of an installed format, batches for the types of batches alone, or all.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option("--batch", "-b", metavar="TYPE", help="Only this type of batch: pyarrow, polars.DataFrame."),
    ] = None,
    layers: Annotated[
        list[int] | None,
        typer.Option(
            "--layer",
            "-l",
            min=1,
            max=3,
            metavar="N",
            help="1 batch types, 2 formats on their own, 3 formats inside tables. May be repeated.",
        ),
    ] = None,
    checks: Annotated[
        list[str] | None,
        typer.Option("--check", "-c", metavar="NAME", help="Only this check; * is a wildcard. May be repeated."),
    ] = None,
    reports: Annotated[
        list[Path] | None,
        typer.Option("--report", "-r", metavar="FILE", help="Write a report: .html .md .json .svg. May be repeated."),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option(
            "--known", metavar="CHECK=REASON", help="A check that must fail, or a .toml file of them. May be repeated."
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option("--examples", min=1, metavar="N", help="How many examples random checks try.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", min=1, metavar="N", help="How many processes; 1 runs everything in this one."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="A check that takes longer fails.")
    ] = 120.0,
    only_list: Annotated[bool, typer.Option("--list", help="List the checks instead of running them.")] = False,
    as_json: AsJson = False,
) -> int:
    """Prove that a format or a type of batch keeps the contract; exit code 1 if it does not."""
    _require_hypothesis()
    from formatkit.cli import tck_output
    from formatkit.cli.tck_selection import Selection, chosen_checks
    from formatkit.tck.reports import check_report_path, write_report
    from formatkit.tck.runner import run_plans

    for path in reports or ():
        check_report_path(path)
    if target is None and not only_list:
        raise ConfigurationError("name a format, or batches, or all: formatkit tck parquet")
    plans: list[Plan] = []
    if target is not None:
        selection = Selection(target=target, batch=batch, layers=layers or (), patterns=checks or (), known=known or ())
        plans = selection.plans(examples)
    if only_list:
        tck_output.print_checks(plans, chosen_checks(layers or (), checks or ()), as_json=as_json)
        return 0
    with tck_output.Progress(plans, quiet=as_json) as progress:
        runs = run_plans(plans, workers=workers, timeout_seconds=timeout, progress=progress.add)
    for path in reports or ():
        write_report(path, runs)
    tck_output.print_runs(runs, reports or (), as_json=as_json)
    return FAILURES if any(run.failed for run in runs) else 0


def _require_hypothesis() -> None:
    try:
        import hypothesis  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            """the conformance kit needs hypothesis; run: pip install "formatkit[tck]\""""
        ) from error
