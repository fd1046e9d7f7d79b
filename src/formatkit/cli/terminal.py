"""Output for people (tables on a terminal or in a file) and for programs (JSON)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TextIO, cast

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from formatkit.errors import printable

__all__ = ["OutputError", "cell", "checked_output", "console", "note", "print_json", "print_lines", "print_table"]

# Wide enough that nothing is cut or wrapped when the output goes to a file or to another program.
_UNBOUNDED_WIDTH = 10_000


class OutputError(Exception):
    """What is printed does not arrive. Not an OSError: typer and rich end the process for those of their own accord."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(cause.strerror or str(cause))
        self.is_closed = isinstance(cause, BrokenPipeError)


class _Output:
    """Standard output, whose failures cannot be taken for those of a table's storage."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return int(self._stream.write(text))
        except OSError as error:
            raise OutputError(error) from error

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputError(error) from error


@contextmanager
def checked_output() -> Iterator[None]:
    """Raise `OutputError` for all that cannot be printed, and nothing more of it when the process ends."""
    stream = sys.stdout
    sys.stdout = cast("TextIO", _Output(stream))
    try:
        yield
        sys.stdout.flush()
    except OutputError:
        # Python would try again, and complain once more, when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise
    finally:
        sys.stdout = stream


@cache
def console() -> Console:
    """The console of standard output; made late, so that redirection is respected."""
    found = Console(highlight=False, soft_wrap=False)
    if not found.is_terminal:
        found.width = _UNBOUNDED_WIDTH
    return found


def print_json(value: Any) -> None:
    """Print a JSON value on one line."""
    encoding = (sys.stdout.encoding or "").replace("-", "").lower()
    text = json.dumps(value, ensure_ascii=encoding != "utf8", allow_nan=False)
    if not text.isprintable():  # JSON itself escapes nothing above U+001F
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(text + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
    """Print rows of JSON values. Numbers stand on the right."""
    cells = [list(row) for row in rows]
    shown = None if title is None else Text(printable(title))
    table = Table(box=SIMPLE_HEAD, title=shown, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = all(_is_number(row[index]) for row in cells if row[index] is not None)
        table.add_column(cell(column), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*map(cell, row))
    console().print(table)


def note(text: str) -> None:
    """Print a remark that is not part of the result."""
    console().print(Text(printable(text), style="dim"))


def print_lines(text: str) -> None:
    """Print text of several lines as it is: nothing in it is markup, an emoji's name or a command to the terminal."""
    console().print(Text("\n".join(map(printable, text.split("\n")))))


def cell(value: Any) -> Text:
    """A JSON value as the text of one cell; what a terminal could take for a command is shown, not obeyed."""
    if value is None:
        return Text("null", style="dim")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Text(printable(text))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
