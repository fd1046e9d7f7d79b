"""Finds the source rows for a row of the table: those with the same key, of which there may be several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression

from formatkit.contract.batch import DataBatch, Longs
from formatkit.write.operations.keys import KeyColumns

__all__ = ["KeyGroups"]


class KeyGroups:
    """Source rows by their keys. A row with null in its key is found by nothing.

    Args:
        columns: The key columns of the table.
        keys: The keys of the source rows, in the form of `columns`.
        ops: The operations on batches.
    """

    def __init__(self, columns: KeyColumns, keys: Sequence[pa.RecordBatch], ops: DataBatch[pa.RecordBatch]) -> None:
        self._columns = columns
        complete = [_complete(batch) for batch in keys]
        self._keys = [batch.take(rows) for batch, rows in zip(keys, complete, strict=True)]
        starts = np.cumsum([0, *(batch.num_rows for batch in keys)])
        numbers = [start + rows for start, rows in zip(starts, complete, strict=False)]
        rows = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        self._locate = ops.locate(columns.schema, self._keys)
        firsts = np.concatenate([self._locate(batch) for batch in self._keys] or [np.empty(0, np.int64)])
        # Rows of one key stand together, and each key is known by the first of them.
        order = np.argsort(firsts, kind="stable")
        self._rows = rows[order]
        self._sizes = np.bincount(firsts, minlength=len(firsts))
        self._starts = np.concatenate(([0], np.cumsum(self._sizes)[:-1])) if len(firsts) else self._sizes

    def filter(self) -> BooleanExpression:
        """A bound filter that all rows of the table with one of the keys pass, and not many others."""
        return self._columns.filter(self._keys)

    def groups_for(self, batch: pa.RecordBatch) -> Longs:
        """For each row of the table its group of source rows, -1 if there is none."""
        return self._locate(self._columns.of(batch))

    def sizes(self, groups: Longs) -> Longs:
        """How many source rows groups have."""
        return self._sizes[groups]

    def source_rows(self, groups: Longs) -> Longs:
        """The source rows of groups, one group after the other."""
        sizes = self._sizes[groups]
        before = np.cumsum(sizes) - sizes
        inner = np.arange(sizes.sum()) - np.repeat(before, sizes)
        found: Longs = self._rows[np.repeat(self._starts[groups], sizes) + inner]
        return found

    def key_in_words(self, batch: pa.RecordBatch, row: int) -> str:
        """The key of a row of the table."""
        return self._columns.in_words(self._columns.of(batch.slice(row, 1)))


def _complete(keys: pa.RecordBatch) -> Longs:
    """The rows without null."""
    valid = np.ones(keys.num_rows, np.bool_)
    for column in keys.columns:
        valid &= np.asarray(pc.is_valid(column))
    return np.flatnonzero(valid)
