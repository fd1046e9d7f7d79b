"""The files that come and go so that rows are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pyiceberg.manifest import DataFile
from pyiceberg.table.snapshots import Operation

from formatkit.errors import ConfigurationError
from formatkit.scan import FileTask
from formatkit.write.commit import Change, DeleteKey

__all__ = ["Mode", "Removal", "check_mode"]

Mode = Literal["merge-on-read", "copy-on-write"]


def check_mode(mode: str) -> None:
    """Raise `ConfigurationError` unless the mode is one of the two."""
    if mode not in get_args(Mode):
        message = f"mode must be {' or '.join(map(repr, get_args(Mode)))}, not {mode!r}"
        raise ConfigurationError(message)


@dataclass(kw_only=True)
class Removal:
    """Collects what a change consists of. The fields are those of `Change`.

    Attributes:
        rows: How many rows are removed; an upper bound where whole files go of which rows were deleted before.
    """

    added: list[DataFile] = field(default_factory=list)
    added_deletes: list[DataFile] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    removed_deletes: set[DeleteKey] = field(default_factory=set)
    referenced: set[str] = field(default_factory=set)
    rows: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row is removed."""
        return not (self.removed or self.added_deletes)

    def remove_files(self, files: Iterable[FileTask], *, rows: int | None = None) -> None:
        """Take data files out of the table, and count their rows unless told how many they stand for."""
        for file in files:
            self.removed.add(file.location)
            self.rows += (file.row_count or 0) if rows is None else rows

    def change(self, added: Sequence[DataFile] = (), **others: Any) -> Change:
        """The change that removes the rows and adds data files with new ones.

        Args:
            added: Data files with rows that come in place of the removed ones, or just come.
            others: More fields of `Change`.
        """
        data = (*self.added, *added)
        operation = Operation.APPEND if self.is_empty else Operation.OVERWRITE if data else Operation.DELETE
        return Change(
            operation=operation,
            added=data,
            added_deletes=tuple(self.added_deletes),
            removed=frozenset(self.removed),
            removed_deletes=frozenset(self.removed_deletes),
            referenced=frozenset(self.referenced),
            **others,
        )
