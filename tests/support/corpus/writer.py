"""A program that writes files, with the settings that it offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from support.corpus.content import Content, Stored
from support.corpus.settings import Choices, Settings, covering

__all__ = ["Writer"]


@dataclass(frozen=True)
class Writer:
    """One writer of one format.

    Attributes:
        name: Its name, and the format where it writes several.
        ending: What its files end with.
        choices: The settings that it offers.
        columns: The columns that it can store with these settings.
        write: Write the content to a path.
        rows: How many rows its files may have.
    """

    name: str
    ending: str
    choices: Choices
    columns: Callable[[Settings], Sequence[Stored]]
    write: Callable[[Path, Content, Settings], None]
    rows: Sequence[int] = (200, 0, 200, 130, 1)

    def covering(self) -> list[Settings]:
        """Few settings in which each choice occurs twice, and each number of rows."""
        return covering(self._all_choices(), 2)

    def random_settings(self) -> st.SearchStrategy[Settings]:
        return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in self._all_choices().items()})

    def _all_choices(self) -> Choices:
        return {**self.choices, "rows": self.rows}
