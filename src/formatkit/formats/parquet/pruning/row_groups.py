"""Which row groups of a file must be read: those of the split that may hold a matching row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids

from formatkit.contract.options import Split
from formatkit.contract.pruning import Match, compile_match
from formatkit.contract.storage import ByteSource
from formatkit.formats.parquet.footer import Footer
from formatkit.formats.parquet.pruning.bloom import BloomFilters
from formatkit.formats.parquet.pruning.statistics import RowGroupStatistics
from formatkit.formats.parquet.schema import Column

__all__ = ["RowGroupRead", "RowGroupSelection", "select_row_groups"]


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
    bloom = BloomFilters(source, footer, columns, predicate, counters) if footer.decryption is None else None
    statistics = RowGroupStatistics(footer, columns, wanted, counters)
    judge = compile_match(predicate)
    reads = []
    if wanted or split is not None:
        footer.require_sound_chunks()
    for row_group in footer.row_groups:
        if split is not None and not split.start <= row_group.midpoint < split.end:
            counters["row_groups_outside_split"] += 1
            continue
        found = judge(statistics.of(row_group))
        if found is Match.NONE:
            counters["row_groups_skipped_by_statistics"] += 1
        elif found is Match.SOME and bloom is not None and bloom.exclude(row_group):
            counters["row_groups_skipped_by_bloom_filter"] += 1
        else:
            counters["row_groups_read"] += 1
            reads.append(
                RowGroupRead(
                    index=row_group.index,
                    first_row=row_group.first_row,
                    rows=row_group.rows,
                    all_match=found is Match.ALL,
                )
            )
    return RowGroupSelection(reads=tuple(reads), counters=counters)
