"""Which stripes of a file must be read: those of the split that may hold a matching row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids

from formatkit.contract.options import Split
from formatkit.contract.pruning import Match, compile_match
from formatkit.formats.orc.pruning.statistics import StatisticsSection, StripeStatistics
from formatkit.formats.orc.schema import Column
from formatkit.formats.orc.tail import Stripe

__all__ = ["StripeRead", "StripeSelection", "select_stripes"]


@dataclass(frozen=True)
class StripeRead:
    """A stripe that must be decoded, and whether the predicate is known to hold for every row."""

    stripe: Stripe
    all_match: bool


@dataclass(frozen=True, kw_only=True)
class StripeSelection:
    """The stripes to read, and why the others are left out."""

    reads: tuple[StripeRead, ...]
    counters: Mapping[str, int]


def select_stripes(
    section: StatisticsSection,
    columns: Mapping[int, Column],
    predicate: BooleanExpression,
    split: Split | None,
) -> StripeSelection:
    """Choose stripes; `columns` are known by the ids that the predicate uses.

    A stripe belongs to the split in which it begins.
    """
    tail = section.tail
    counters = {
        "stripes": len(tail.stripes),
        "stripes_outside_split": 0,
        "stripes_skipped_by_statistics": 0,
        "stripes_read": 0,
    }
    statistics = StripeStatistics(section, columns, extract_field_ids(predicate), counters)
    judge = compile_match(predicate)
    reads = []
    for stripe in tail.stripes:
        if split is not None and not split.start <= stripe.offset < split.end:
            counters["stripes_outside_split"] += 1
            continue
        found = judge(statistics.of(stripe))
        if found is Match.NONE:
            counters["stripes_skipped_by_statistics"] += 1
        else:
            counters["stripes_read"] += 1
            reads.append(StripeRead(stripe, found is Match.ALL))
    return StripeSelection(reads=tuple(reads), counters=counters)
