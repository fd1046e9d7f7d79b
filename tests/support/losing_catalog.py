"""A SQL catalog that loses its answers: an error is raised, and the commit takes place never, at once, or later."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import requests
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table

__all__ = ["Applied", "LosingCatalog", "new_losing_catalog"]

Applied = Literal["never", "now", "later"]


class LosingCatalog(SqlCatalog):
    """Loses the answer to the next commit if `error` is set, and may be unreachable from then on."""

    error: BaseException | None = None
    applied: Applied = "never"
    unreachable = False
    silent_afterwards = False
    _waiting: tuple[Any, ...] | None = None

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        error, self.error = self.error, None
        if error is None:
            return super().commit_table(table, requirements, updates)
        if self.applied == "now":
            super().commit_table(table, requirements, updates)
        elif self.applied == "later":
            self._waiting = (table, requirements, updates)
        self.unreachable = self.silent_afterwards
        print("\nCOUNT 1 lost answers")
        raise error

    def load_table(self, identifier: Any) -> Table:
        if self.unreachable:
            raise requests.ConnectionError("nobody answers")
        return super().load_table(identifier)

    def deliver(self) -> bool:
        """Carry out the request that is still under way; returns whether the catalog accepted it."""
        assert self._waiting is not None
        print("\nCOUNT 1 late commits")
        try:
            super().commit_table(*self._waiting)
        except (CommitFailedException, ValueError):
            return False
        return True


def new_losing_catalog(directory: Path, options: str = "") -> LosingCatalog:
    """A catalog in a file of SQLite, with options for its connections."""
    uri = f"sqlite:///{directory}/catalog.db{options}"
    return LosingCatalog("test", uri=uri, warehouse=(directory / "warehouse").as_uri())
