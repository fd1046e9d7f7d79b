"""Runs × checks: the table that all reports show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from formatkit.tck.check import Check, Layer, checks
from formatkit.tck.results import Outcome, Result, Run

__all__ = ["LAYER_TITLES", "Group", "LayerTable", "Row", "labels", "layer_tables", "total", "verdict"]

LAYER_TITLES: Mapping[Layer, str] = {
    Layer.BATCH: "Batch types",
    Layer.FORMAT: "Formats on their own",
    Layer.SCAN: "Formats inside tables",
}


@dataclass(frozen=True)
class Row:
    """A check, and what became of it in each run of the table; None where it has nothing to ask."""

    check: Check
    cells: Sequence[Result | None]


@dataclass(frozen=True)
class Group:
    """The checks of one subject."""

    name: str
    rows: Sequence[Row]


@dataclass(frozen=True)
class LayerTable:
    """One layer, and the runs that were asked about it."""

    layer: Layer
    runs: Sequence[Run]
    groups: Sequence[Group]


def layer_tables(runs: Sequence[Run]) -> list[LayerTable]:
    """The results by layer, subject and check, in the order of the catalogue."""
    found = {id(run): {result.check: result for result in run.results} for run in runs}
    seen = [check for name, check in checks().items() if any(name in results for results in found.values())]
    tables = []
    for layer, members in groupby(seen, key=lambda check: check.layer):
        of_layer = list(members)
        asked = [run for run in runs if any(check.name in found[id(run)] for check in of_layer)]
        groups = [
            Group(name, [Row(check, [found[id(run)].get(check.name) for run in asked]) for check in rows])
            for name, rows in groupby(of_layer, key=lambda check: check.group)
        ]
        tables.append(LayerTable(layer, asked, groups))
    return tables


def labels(runs: Sequence[Run]) -> list[str]:
    """A short name for each run, with the batch type only where it is needed to tell runs apart."""
    times = Counter(run.file_format for run in runs)
    return [
        run.batch_type if run.file_format is None else run.file_format if times[run.file_format] == 1 else run.name
        for run in runs
    ]


def total(runs: Sequence[Run]) -> dict[Outcome, int]:
    """How many checks had each outcome, in all runs together."""
    return {outcome: sum(run.counts[outcome] for run in runs) for outcome in Outcome}


def verdict(runs: Sequence[Run]) -> str:
    """What came out, in one sentence."""
    counts = total(runs)
    every, failed, known = sum(counts.values()), counts[Outcome.FAILED], counts[Outcome.KNOWN]
    if failed:
        return f"{failed:,} of {_checks(every)} {'fails' if failed == 1 else 'fail'}."
    if known:
        return f"{_checks(every - known)} hold, {known:,} known to fail."
    return f"All {_checks(every)} hold." if every != 1 else "The check holds."


def _checks(count: int) -> str:
    return f"{count:,} check{'' if count == 1 else 's'}"
