"""Which rows of a row group may match, judged by the statistics of the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from pyiceberg.expressions import And, BooleanExpression, Or
from pyiceberg.expressions.visitors import extract_field_ids

from formatkit.contract.pruning import ChunkStatistics, Match, compile_match
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.pruning.page_index import ChunkIndex
from formatkit.formats.parquet.pruning.statistics import stored_leaf
from formatkit.formats.parquet.row_ranges import RowRanges
from formatkit.formats.parquet.schema import Column

__all__ = ["rows_that_may_match"]

IndexOf = Callable[[int], ChunkIndex | None]
"""The page index of the leaf with a number."""


def rows_that_may_match(
    predicate: BooleanExpression, footer: Footer, columns: Mapping[int, Column], index_of: IndexOf, rows: int
) -> RowRanges:
    """Rows outside these ranges do not match.

    Args:
        predicate: Bound, and free of `Not`.
        footer: The footer of the file.
        columns: The columns by the ids that the predicate uses.
        index_of: Finds the page index of a leaf.
        rows: How many rows the row group has.
    """
    ids = extract_field_ids(predicate)
    if len(ids) == 1:
        return _by_pages(predicate, ids.pop(), footer, columns, index_of, rows)
    match predicate:
        case And(left=left, right=right):
            found = rows_that_may_match(left, footer, columns, index_of, rows)
            return found & rows_that_may_match(right, footer, columns, index_of, rows) if found.count else found
        case Or(left=left, right=right):
            found = rows_that_may_match(left, footer, columns, index_of, rows)
            return found | rows_that_may_match(right, footer, columns, index_of, rows) if found.count < rows else found
    return RowRanges.whole(rows)


def _by_pages(
    predicate: BooleanExpression,
    field_id: int,
    footer: Footer,
    columns: Mapping[int, Column],
    index_of: IndexOf,
    rows: int,
) -> RowRanges:
    """The rows of the pages that may match a predicate on a single column."""
    column = columns.get(field_id)
    leaf = None if column is None else stored_leaf(footer, column)
    index = None if column is None or leaf is None else index_of(column.leaves.start)
    if index is None or leaf is None or (pages := index.pages) is None or (metrics := index.metrics(leaf)) is None:
        return RowRanges.whole(rows)
    judge = compile_match(predicate)
    chosen = [
        judge(ChunkStatistics(row_count=page.value_count, columns={field_id: page})) is not Match.NONE
        for page in metrics
    ]
    return RowRanges.of_pages(pages.bounds, np.array(chosen))
