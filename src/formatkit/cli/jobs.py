"""What commands that run jobs have in common: the choice of an engine, and a bar that shows how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from formatkit.cli.targets import assignments
from formatkit.errors import ConfigurationError

if TYPE_CHECKING:
    from formatkit.write.jobs import Engine

__all__ = ["EngineName", "Master", "SparkSettings", "chosen_engine", "progress_bar"]

_PANEL = "Where it runs"

EngineName = Annotated[
    Literal["local", "spark"],
    typer.Option("--engine", help="In this process, or on the executors of Spark.", rich_help_panel=_PANEL),
]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="spark://…, yarn, k8s://…, local[4], or sc://… for Spark Connect; what spark-submit says if left out, "
        "else local[*].",
        rich_help_panel=_PANEL,
    ),
]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf", metavar="KEY=VALUE", help="A setting of Spark. May be repeated.", rich_help_panel=_PANEL
    ),
]


@contextmanager
def chosen_engine(name: str, master: str | None, settings: Sequence[str] | None) -> Iterator[Engine | None]:
    """The engine that options ask for; None for this process."""
    if name == "local":
        if master is not None or settings:
            raise ConfigurationError("--master and --spark-conf are for --engine spark")
        yield None
        return
    from formatkit.spark.jobs.sessions import spark_engine

    with spark_engine(master, assignments("--spark-conf", settings or ())) as engine:
        yield engine


@contextmanager
def progress_bar(unit: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if somebody is looking at it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(unit, total=None)
        yield lambda done, whole: bar.update(task, completed=done, total=whole)
