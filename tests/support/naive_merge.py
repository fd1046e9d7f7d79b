"""SQL's MERGE, one row at a time: the truth that merges are compared with."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["NaiveClause", "NaiveMerge", "SeveralMatchesError", "compare"]

Row = dict[int, Any]
Source = dict[str, Any]
Condition = Callable[[Source | None, Row | None], bool]
NewRow = Callable[[Source | None, Row | None], Row]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class SeveralMatchesError(Exception):
    """Several source rows change one row of the table."""


def compare(sign: str, left: Any, right: Any) -> bool:
    """What a comparison means: null and NaN equal nothing, and are neither more nor less than anything."""
    if sign == "!=":
        return not compare("=", left, right)
    if left is None or right is None or any(isinstance(each, float) and math.isnan(each) for each in (left, right)):
        return False
    return _OPERATORS[sign](left, right)


def _always(_: Source | None, __: Row | None) -> bool:
    return True


@dataclass(frozen=True)
class NaiveClause:
    """A clause: where it applies, and what the row becomes; None if it is deleted."""

    row: NewRow | None = None
    applies: Condition = _always


@dataclass(frozen=True, kw_only=True)
class NaiveMerge:
    """A source and what is done with it.

    Attributes:
        key: Of a row of the table.
        source_key: Of a source row.
        lone_delete: Whether the only thing that is done with matches is to delete them.
    """

    source: Sequence[Source]
    key: Callable[[Row], Any]
    source_key: Callable[[Source], Any]
    matched: Sequence[NaiveClause] = ()
    not_matched: Sequence[NaiveClause] = ()
    not_matched_by_source: Sequence[NaiveClause] = ()
    lone_delete: bool = field(default=False)

    def fate_of(self, row: Row) -> Row | None:
        """What a row of the table becomes; None if it is deleted."""
        partners = [each for each in self.source if self._same(each, row)]
        if not partners:
            return self._outcome(self.not_matched_by_source, None, row)[1]
        outcomes = [self._outcome(self.matched, partner, row) for partner in partners]
        acting = [fate for acts, fate in outcomes if acts]
        if len(acting) > 1 and not self.lone_delete:
            raise SeveralMatchesError
        return acting[0] if acting else row

    def inserted(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that come, given those of the table."""
        new = [each for each in self.source if not any(self._same(each, row) for row in rows)]
        found = []
        for each in new:
            for clause in self.not_matched:
                if clause.applies(each, None):
                    assert clause.row is not None
                    found.append(clause.row(each, None))
                    break
        return found

    def _same(self, source: Source, row: Row) -> bool:
        keys = zip(self.source_key(source), self.key(row), strict=True)
        return all(compare("=", own, other) for own, other in keys)

    def _outcome(self, clauses: Sequence[NaiveClause], source: Source | None, row: Row) -> tuple[bool, Row | None]:
        for clause in clauses:
            if clause.applies(source, row):
                return True, None if clause.row is None else clause.row(source, row)
        return False, row
