"""Clauses bound to a source and a table: they decide about batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.contract.batch import Booleans, Longs
from formatkit.errors import AmbiguousColumnError, ConfigurationError
from formatkit.kernel import bind
from formatkit.kernel.bind import columns_of
from formatkit.kernel.names import ColumnNames, Path
from formatkit.write.merge.assignments import RowsOf, SideColumn, compile_rows
from formatkit.write.merge.clauses import Clause, Clauses, Delete, Insert, Update
from formatkit.write.merge.conditions import MarksOf, compile_condition
from formatkit.write.merge.sides import SOURCE, TARGET, Sides, side_by_side
from formatkit.write.operations.same_rows import same_rows

__all__ = ["KeyPair", "Outcome", "Rules", "columns_seen"]

KeyPair = tuple[Path, Path]
"""A key column of the table, and the column of the source that is compared with it."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What becomes of the rows of a batch.

    Attributes:
        acts: For which rows a clause applies.
        removed: For which the row of the table goes: it is deleted, or a new one takes its place.
        written: For each new row the row of the batch that it comes from.
        rows: The new rows, in the order of `written`.
    """

    acts: Booleans
    removed: Booleans
    written: Longs
    rows: tuple[pa.RecordBatch, ...]


class Rules:
    """Decides what becomes of pairs of rows, of source rows without a match and of rows of the table without one.

    Args:
        clauses: What the caller says.
        sides: What rows of the source and of the table look like. The table's are whole if rows are updated.
        table: The table's schema, which new rows have.
        keys: The columns that are compared.
        case_sensitive: Whether case matters in names.

    Raises:
        ConfigurationError, InvalidPredicateError, ColumnNotFoundError, AmbiguousColumnError: A clause is wrong.
        SchemaResolutionError, MissingRequiredFieldError: A column of the source does not fit the table.
    """

    def __init__(
        self, clauses: Clauses, sides: Sides, table: Schema, keys: Sequence[KeyPair], *, case_sensitive: bool
    ) -> None:
        compiler = _Compiler(sides, table, keys, case_sensitive)
        self._matched = compiler.rules("matched", clauses.matched, sides.both)
        self._not_matched = compiler.rules("not_matched", clauses.not_matched, sides.source_only)
        self._by_source = compiler.rules("not_matched_by_source", clauses.not_matched_by_source, sides.target_only)

    def matched(self, source: pa.RecordBatch, target: pa.RecordBatch) -> Outcome:
        """For pairs of rows that have the same key."""
        return _decide(self._matched, source=source, target=target)

    def not_matched(self, source: pa.RecordBatch) -> Outcome:
        """For source rows whose key the table lacks."""
        return _decide(self._not_matched, source=source)

    def not_matched_by_source(self, target: pa.RecordBatch) -> Outcome:
        """For rows of the table whose key the source lacks."""
        return _decide(self._by_source, target=target)


def columns_seen(clauses: Clauses, sides: Sides, *, case_sensitive: bool) -> set[int]:
    """The ids of those columns, of both sides, that conditions about rows of the table name."""
    return {
        field_id
        for clause in (*clauses.matched, *clauses.not_matched_by_source)
        if clause.where is not None
        for field_id in columns_of(sides.both, clause.where, case_sensitive=case_sensitive, compare_columns=True)
    }


@dataclass(frozen=True)
class _Rule:
    """One clause: where it applies, everywhere if None, and the rows that it writes, none if it deletes."""

    applies: MarksOf | None
    rows: RowsOf | None


@dataclass(frozen=True)
class _Compiler:
    sides: Sides
    table: Schema
    keys: Sequence[KeyPair]
    case_sensitive: bool

    def rules(self, name: str, clauses: Sequence[Clause], seen: Schema) -> tuple[_Rule, ...]:
        return tuple(self._rule(f"{name}, clause {number}", each, seen) for number, each in enumerate(clauses, 1))

    def _rule(self, name: str, clause: Clause, seen: Schema) -> _Rule:
        applies = None
        if clause.where is not None:
            bound = bind(seen, clause.where, case_sensitive=self.case_sensitive, compare_columns=True)
            applies = compile_condition(seen, bound)
        if isinstance(clause, Delete):
            return _Rule(applies, None)
        assigned = self._assigned(name, clause, seen)
        if isinstance(clause, Update):
            kept = {field.name: SideColumn(TARGET, (field.name,)) for field in self.table.fields}
            names = ColumnNames(self.table, case_sensitive=self.case_sensitive)
            for column in assigned:
                kept.pop(names.find(column)[0].name, None)
            assigned |= kept
        rows = compile_rows(seen, self.table, assigned, case_sensitive=self.case_sensitive, what=name)
        return _Rule(applies, rows)

    def _assigned(self, name: str, clause: Clause, seen: Schema) -> dict[str, Any]:
        given = clause.set if isinstance(clause, Update) else clause.values if isinstance(clause, Insert) else None
        if given is None and seen is self.sides.target_only:
            raise ConfigurationError(f"{name}: there is no source row to update from; say what to set: Update({{…}})")
        assigned = self._by_name() if given is None else dict(given)
        if not assigned:
            problem = "the source has no column of the table's" if given is None else "it is empty"
            raise ConfigurationError(f"{name} gives no column a value: {problem}")
        return assigned

    def _by_name(self) -> dict[str, Any]:
        """For each column of the table the source's column of its name; key columns are what they are compared with."""
        spelling: Callable[[str], str] = str if self.case_sensitive else str.lower
        own: dict[str, list[str]] = {}
        for field in self.sides.source.fields:
            own.setdefault(spelling(field.name), []).append(field.name)
        found: dict[str, Any] = {
            target[0].name: SideColumn(SOURCE, tuple(field.name for field in source))
            for target, source in self.keys
            if len(target) == 1
        }
        for field in self.table.fields:
            names = own.get(spelling(field.name), [])
            if field.name not in found and names:
                if len(names) > 1:
                    raise AmbiguousColumnError(field.name, names)
                found[field.name] = SideColumn(SOURCE, (names[0],))
        return found


def _decide(rules: Sequence[_Rule], **sides: pa.RecordBatch) -> Outcome:
    """Let the first rule that applies have its way with each row."""
    seen = side_by_side(**sides)
    undecided = np.ones(seen.num_rows, np.bool_)
    removed = np.zeros(seen.num_rows, np.bool_)
    written: list[Longs] = []
    rows: list[pa.RecordBatch] = []
    for rule in rules:
        applies = undecided if rule.applies is None else undecided & rule.applies(seen)
        undecided = undecided & ~applies
        if rule.rows is None:
            removed |= applies
            continue
        chosen = np.flatnonzero(applies)
        if not len(chosen):
            continue
        parts = {name: batch.take(chosen) for name, batch in sides.items()}
        new = rule.rows(side_by_side(**parts))
        if TARGET in parts:
            # A row that would become what it is stays where it is.
            different = np.flatnonzero(~same_rows(parts[TARGET], new))
            chosen, new = chosen[different], new.take(different)
            removed[chosen] = True
        written.append(chosen)
        rows.append(new)
    origins = np.concatenate(written) if written else np.empty(0, np.int64)
    return Outcome(acts=~undecided, removed=removed, written=origins, rows=tuple(rows))
