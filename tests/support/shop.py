"""A small table for tests of the command line, and what a command leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyiceberg.table import Table

__all__ = ["Command", "Outcome", "Shop"]


@dataclass(frozen=True)
class Outcome:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Outcome]


@dataclass(frozen=True)
class Shop:
    """A table, and the options that find its catalog."""

    table: Table
    options: tuple[str, ...]

    @property
    def data_file(self) -> str:
        location: str = self.table.inspect.files()["file_path"][0].as_py()
        return location.removeprefix("file://")
