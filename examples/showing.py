"""How the tour looks in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table as RichTable

import formatkit

__all__ = ["code", "console", "output", "say", "show", "show_rows", "step", "verdict"]

console = Console(highlight=False, width=None if Console().is_terminal else 110)


def step(title: str) -> None:
    """Begin a chapter."""
    console.print()
    console.rule(f"[bold cyan]{title}", align="left", style="cyan")


def say(text: str) -> None:
    """A paragraph."""
    console.print(Padding(text, (0, 4, 1, 4)))


def code(text: str, language: str = "python") -> None:
    """Code that was run."""
    console.print(Padding(Syntax(text, language, background_color="default"), (0, 0, 0, 4)))


def output(text: str) -> None:
    """What code printed."""
    console.print(Padding(text, (0, 0, 1, 4)), markup=False)


def show(scan: formatkit.Scan, shorten: dict[str, Callable[[str], str]] | None = None) -> None:
    """The rows of a scan."""
    shorten = shorten or {}
    rows = scan.to_arrow()
    names = rows.column_names
    values = ([shorten.get(name, str)(str(row[name])) for name in names] for row in rows.to_pylist())
    show_rows(names, values)


def show_rows(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Rows as a table."""
    table = RichTable(*names, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*("[dim]null[/]" if value in (None, "None") else str(value) for value in row))
    console.print(Padding(table, (0, 0, 0, 4)))


def verdict(answer: int, truth: int) -> str:
    """A number, and whether it is right."""
    return f"[green]{answer}[/]" if answer == truth else f"[red]{answer}  wrong[/]"
