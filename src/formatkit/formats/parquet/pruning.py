"""Which row groups of a file must be read: those of the split that may hold a matching row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids

from formatkit.contract.options import Split
from formatkit.contract.pruning import Match, match
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.bloom import BloomFilters
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.schema import Column
from formatkit.formats.parquet.statistics import chunk_statistics

__all__ = ["RowGroupRead", "RowGroupSelection", "row_group_start", "select_row_groups"]


@dataclass(frozen=True, kw_only=True)
class RowGroupRead:
    """One row group that must be decoded.

    Attributes:
        index: Which row group of the file.
        first_row: The ordinal of its first row in the file.
        rows: How many rows it has.
        all_match: Whether the predicate is known to hold for every row.
    """

    index: int
    first_row: int
    rows: int
    all_match: bool

    @property
    def end_row(self) -> int:
        return self.first_row + self.rows


@dataclass(frozen=True, kw_only=True)
class RowGroupSelection:
    """The row groups to read, and why the others are left out."""

    reads: tuple[RowGroupRead, ...]
    counters: Mapping[str, int]

    @property
    def all_match(self) -> bool:
        return all(read.all_match for read in self.reads)


def select_row_groups(
    source: ByteSource,
    footer: Footer,
    columns: Mapping[int, Column],
    predicate: BooleanExpression,
    split: Split | None,
) -> RowGroupSelection:
    """Choose row groups; `columns` are known by the ids that the predicate uses."""
    counters = {
        "row_groups": footer.metadata.num_row_groups,
        "row_groups_outside_split": 0,
        "row_groups_skipped_by_statistics": 0,
        "row_groups_skipped_by_bloom_filter": 0,
        "row_groups_read": 0,
    }
    wanted = extract_field_ids(predicate)
    # The filters of an encrypted file are encrypted too.
    bloom = BloomFilters(source, columns, predicate) if footer.decryption is None else None
    reads = []
    for index, first_row, row_group in _with_rows(footer.metadata):
        if split is not None and not split.start <= _midpoint(row_group) < split.end:
            counters["row_groups_outside_split"] += 1
            continue
        found = match(predicate, chunk_statistics(row_group, columns, wanted))
        if found is Match.NONE:
            counters["row_groups_skipped_by_statistics"] += 1
        elif found is Match.SOME and bloom is not None and bloom.exclude(row_group):
            counters["row_groups_skipped_by_bloom_filter"] += 1
        else:
            counters["row_groups_read"] += 1
            all_match = found is Match.ALL
            reads.append(RowGroupRead(index=index, first_row=first_row, rows=row_group.num_rows, all_match=all_match))
    return RowGroupSelection(reads=tuple(reads), counters=counters)


def row_group_start(row_group: pq.RowGroupMetaData) -> int:
    """Where the pages of a row group begin."""
    first = row_group.column(0)
    dictionary = first.dictionary_page_offset
    return first.data_page_offset if dictionary is None else min(dictionary, first.data_page_offset)


def _midpoint(row_group: pq.RowGroupMetaData) -> int:
    size = sum(row_group.column(leaf).total_compressed_size for leaf in range(row_group.num_columns))
    return row_group_start(row_group) + size // 2


def _with_rows(metadata: pq.FileMetaData) -> Iterator[tuple[int, int, pq.RowGroupMetaData]]:
    """The row groups that hold rows, with their number and the ordinal of their first row."""
    first_row = 0
    for index in range(metadata.num_row_groups):
        row_group = metadata.row_group(index)
        if row_group.num_rows:
            yield index, first_row, row_group
        first_row += row_group.num_rows
