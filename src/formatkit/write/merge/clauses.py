"""The clauses of a merge, as callers write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.expressions import BooleanExpression

from formatkit.errors import ConfigurationError

__all__ = ["Clause", "Clauses", "ClausesGiven", "Delete", "Insert", "Update"]

Condition = str | BooleanExpression | None


class Clause:
    """What is done with a row, and where."""

    where: Condition


@dataclass(frozen=True)
class Update(Clause):
    """The row of the table is changed.

    Attributes:
        set: For columns of the table what they become. Text is read like a condition: ``"source.x"`` and
            ``"target.y"`` are columns, ``"1"``, ``"true"`` and ``"'text'"``, in quotes, are literals. Any other Python
            value is itself. By default every column becomes the source's column of its name; those that the source
            lacks stay.
        where: The clause applies where this is true; everywhere by default.
    """

    set: Mapping[str, Any] | None = None
    where: Condition = None


@dataclass(frozen=True)
class Delete(Clause):
    """The row of the table is deleted.

    Attributes:
        where: The clause applies where this is true; everywhere by default.
    """

    where: Condition = None


@dataclass(frozen=True)
class Insert(Clause):
    """The row of the source is inserted.

    Attributes:
        values: For columns of the table what they are, as in `Update.set`; the others take their write default, else
            null. By default every column is the source's column of its name.
        where: The clause applies where this is true; everywhere by default.
    """

    values: Mapping[str, Any] | None = None
    where: Condition = None


ClausesGiven = Clause | str | Sequence[Clause | str] | None
"""Clauses in their order, or one of them; ``"update"``, ``"delete"`` and ``"insert"`` stand for those without
conditions, and None for no clause."""

_SHORT: dict[str, Clause] = {"update": Update(), "delete": Delete(), "insert": Insert()}


@dataclass(frozen=True, kw_only=True)
class Clauses:
    """What is done with rows; of each list the first clause applies whose condition is true."""

    matched: tuple[Clause, ...]
    not_matched: tuple[Clause, ...]
    not_matched_by_source: tuple[Clause, ...]

    @classmethod
    def of(cls, matched: ClausesGiven, not_matched: ClausesGiven, not_matched_by_source: ClausesGiven) -> Clauses:
        """Raises `ConfigurationError` where a clause is unknown, out of place, or can never apply."""
        clauses = cls(
            matched=_clauses("matched", matched, Update, Delete),
            not_matched=_clauses("not_matched", not_matched, Insert),
            not_matched_by_source=_clauses("not_matched_by_source", not_matched_by_source, Update, Delete),
        )
        if not (clauses.matched or clauses.not_matched or clauses.not_matched_by_source):
            raise ConfigurationError("a merge without any clause changes nothing; give at least one, such as 'update'")
        return clauses

    @property
    def updates(self) -> bool:
        """Whether rows of the table may be changed."""
        return any(isinstance(clause, Update) for clause in (*self.matched, *self.not_matched_by_source))

    @property
    def allows_several_matches(self) -> bool:
        """Whether several source rows for one row of the table do no harm: it is deleted, whichever is taken."""
        return self.matched in ((), (Delete(),))


def _clauses(name: str, given: ClausesGiven, *kinds: type[Clause]) -> tuple[Clause, ...]:
    if given is None:
        return ()
    found: list[Clause] = []
    for part in [given] if isinstance(given, str | Clause) else given:
        clause = _SHORT.get(part) if isinstance(part, str) else part
        if not isinstance(clause, kinds):
            allowed = " or ".join(f"{kind.__name__}(…), {kind.__name__.lower()!r}" for kind in kinds)
            raise ConfigurationError(f"{name} takes {allowed}, or a list of these; not {part!r}")
        if found and found[-1].where is None:
            message = f"{name} has a clause after {found[-1]!r}, which has no condition, so that later ones never apply"
            raise ConfigurationError(message)
        found.append(clause)
    return tuple(found)
