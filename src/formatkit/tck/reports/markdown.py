"""Runs as Markdown for a README: a line that says it all, a table by subject, and everything behind a fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from formatkit.tck.check import checks
from formatkit.tck.reports.matrix import LAYER_TITLES, Group, LayerTable, labels, layer_tables, total
from formatkit.tck.results import Outcome, Result, Run

__all__ = ["markdown"]

_NOTHING = "–"


def markdown(runs: Sequence[Run]) -> str:
    """The report as Markdown that needs no pictures."""
    blocks = [_badge(runs), *_failures(runs), *map(_summary, layer_tables(runs)), _all_checks(runs)]
    return "\n\n".join(blocks) + "\n"


def _badge(runs: Sequence[Run]) -> str:
    counts = total(runs)
    shown = [outcome for outcome in Outcome if counts[outcome] or outcome is Outcome.FAILED]
    pills = " ".join(f"`{outcome.counted(counts[outcome])}`" for outcome in shown)
    versions = ", ".join(
        dict.fromkeys([*(run.plugin for run in runs), *(f"formatkit {run.formatkit}" for run in runs)])
    )
    return f"**formatkit TCK** {pills} ({versions})"


def _failures(runs: Sequence[Run]) -> Iterator[str]:
    for outcome, title in ((Outcome.FAILED, "Failures"), (Outcome.KNOWN, "Known failures")):
        found = [(run, result) for run in runs for result in run.results if result.outcome is outcome]
        if found:
            rows = [(_code(run.name), _sentence(result), _why(result)) for run, result in found]
            yield f"### {title}\n\n" + _table(("run", "check", "why"), rows)


def _summary(table: LayerTable) -> str:
    rows = [
        (group.name.replace("_", " "), *map(_counted, zip(*_outcomes(group), strict=True))) for group in table.groups
    ]
    heading = f"### Layer {table.layer:d}: {LAYER_TITLES[table.layer].lower()}"
    return f"{heading}\n\n" + _table(("checks of", *labels(table.runs)), rows)


def _all_checks(runs: Sequence[Run]) -> str:
    blocks = ["<details>", "<summary>Every check</summary>"]
    for table in layer_tables(runs):
        rows = [
            (" ".join(row.check.clauses), row.check.sentence, *map(_cell, row.cells))
            for group in table.groups
            for row in group.rows
        ]
        blocks.append(_table(("clause", "check", *labels(table.runs)), rows))
    return "\n\n".join([*blocks, "</details>"])


def _title(group: Group) -> str:
    return group.name.replace("_", " ")


def _outcomes(group: Group) -> Iterator[list[Outcome | None]]:
    for row in group.rows:
        yield [cell.outcome if cell is not None else None for cell in row.cells]


def _counted(outcomes: Iterable[Outcome | None]) -> str:
    counts = Counter(outcomes)
    return ", ".join(outcome.counted(counts[outcome]) for outcome in Outcome if counts[outcome]) or _NOTHING


def _cell(result: Result | None) -> str:
    if result is None:
        return _NOTHING
    return f"**{result.outcome.value}**" if result.outcome is Outcome.FAILED else result.outcome.value


def _sentence(result: Result) -> str:
    return checks()[result.check].sentence


def _why(result: Result) -> str:
    return result.reason if result.outcome is Outcome.KNOWN else result.headline


def _code(text: str) -> str:
    return f"`{text}`"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_escaped, line)) + " |" for line in lines)


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
