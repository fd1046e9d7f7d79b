"""Which rows of a file are deleted: by their position in it, or by the values of some of their columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from pyiceberg.schema import Schema

from formatkit.contract.batch import Booleans, DataBatch, Longs
from formatkit.contract.metadata_columns import POS

__all__ = ["EqualityDeletes", "RowDeletes", "compile_marks"]

B = TypeVar("B")


@dataclass(frozen=True, kw_only=True)
class EqualityDeletes(Generic[B]):
    """Rows are deleted that equal one of some key rows.

    Attributes:
        schema: The columns that are compared, as the table sees them: all leaves count, and all may be null.
        locate: What `DataBatch.locate` makes of the key rows. One serves all files, since none of it is a file's own.
        first: How many of the key rows apply, from the first on; all if None. Where key rows come in falling order of
            sequence numbers, this is the rule that a delete applies to older rows only.
    """

    schema: Schema
    locate: Callable[[B], Longs]
    first: int | None = None

    def marks(self, keys: B) -> Booleans:
        """Which rows of a batch of `schema` are deleted."""
        found = self.locate(keys)
        deleted = found >= 0
        return deleted if self.first is None else deleted & (found < self.first)


@dataclass(frozen=True, kw_only=True)
class RowDeletes(Generic[B]):
    """Everything that deletes rows of one file.

    Attributes:
        positions: Ordinals of deleted rows in the file, ascending, each once. Some may lie beyond its end.
        equality: Key rows, by the columns that they have.
    """

    positions: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    equality: tuple[EqualityDeletes[B], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.positions.size or self.equality)


def compile_marks(
    deletes: RowDeletes[B], operations: DataBatch[B], schema: Schema, constants: Mapping[int, Any]
) -> Callable[[B], Booleans | None]:
    """A function that marks the deleted rows of a batch; None where it has none.

    Args:
        deletes: What deletes rows of the file.
        operations: On the batches.
        schema: The columns of the batches, in terms of the file; `_pos` among them if positions are deleted.
        constants: Values of columns that the file lacks, by id.
    """
    tests: list[Callable[[B], Booleans | None]] = []
    if deletes.positions.size:
        positions_of = operations.longs(schema, POS.field_id)
        tests.append(lambda batch: _at(positions_of(batch), deletes.positions))
    tests += [_equality_test(each, operations, schema, constants) for each in deletes.equality]

    def marks(batch: B) -> Booleans | None:
        marked: Booleans | None = None
        for test in tests:
            found = test(batch)
            if found is not None:
                marked = found if marked is None else marked | found
        return marked

    return marks


def _equality_test(
    deletes: EqualityDeletes[B], operations: DataBatch[B], schema: Schema, constants: Mapping[int, Any]
) -> Callable[[B], Booleans | None]:
    keys_of = operations.evolve(schema, deletes.schema, constants)

    def test(batch: B) -> Booleans | None:
        marked = deletes.marks(keys_of(batch))
        return marked if marked.any() else None

    return test


def _at(positions: Longs, deleted: Longs) -> Booleans | None:
    """Which of the ascending positions are deleted. Costs next to nothing where no deleted one lies between them."""
    if not positions.size:
        return None
    first, last = positions[0], positions[-1]
    start, end = np.searchsorted(deleted, (first, last + 1))
    if start == end:
        return None
    within = deleted[start:end]
    marked = np.zeros(positions.size, np.bool_)
    if last - first == positions.size - 1:
        marked[within - first] = True
    elif within.size < positions.size:
        places = np.searchsorted(positions, within)
        marked[places[positions[places] == within]] = True
    else:
        marked = within[np.minimum(np.searchsorted(within, positions), within.size - 1)] == positions
    return marked if marked.any() else None
