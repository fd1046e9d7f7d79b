"""What the kit covers: each clause and each case with its checks, or with the reason why it has none.

``python -m formatkit.tck.coverage`` prints it as a page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from formatkit.tck.cases import FURTHER_CASES, JAVA_CASES, SCENARIOS
from formatkit.tck.check import Check, Layer, checks
from formatkit.tck.clauses import clauses

__all__ = ["REASONS", "gaps", "page"]

_FOREIGN = "it takes files that the format's own writer does not make, and those of one format only; they are in "

REASONS: dict[str, str] = {
    "J17": "formatkit has no row readers: every read has a batch size",
    "J18": "batches are values that nobody writes to again, so that there is nothing to reuse",
    "X32": f"{_FOREIGN}tests/formats/parquet/test_reader_schema.py and tests/formats/avro/test_read_types.py",
    "X40": f"{_FOREIGN}tests/formats/parquet/test_reader_schema.py",
    "X41": f"{_FOREIGN}tests/formats/avro/test_read_schema.py",
    "X69": "metrics are gathered while a file is written, by its schema; no metrics are taken from foreign files",
    "X83": "it is about the registry and not about a plugin; tests/registry/test_registry.py has it",
}
"""Why a case has no check."""


def gaps(catalogue: Mapping[str, Check] | None = None) -> list[str]:
    """Whatever is missing or wrong, a sentence each; empty if the kit covers what it should."""
    found = checks() if catalogue is None else dict(catalogue)
    return [*_clause_gaps(found), *_case_gaps(found), *_twin_gaps(found), *_scenario_gaps(found)]


def _clause_gaps(catalogue: Mapping[str, Check]) -> Iterator[str]:
    proved = {clause for check in catalogue.values() for clause in check.clauses}
    for clause in clauses():
        if clause not in proved:
            yield f"no check proves clause {clause}: {clauses()[clause]}"
    for check in catalogue.values():
        if not check.clauses:
            yield f"{check.name} proves no clause"
        for clause in check.clauses:
            if clause not in clauses():
                yield f"{check.name} proves {clause}, which is no clause of the contract"


def _case_gaps(catalogue: Mapping[str, Check]) -> Iterator[str]:
    cases = {**JAVA_CASES, **FURTHER_CASES}
    covered = _by_case(catalogue.values())
    for case, words in cases.items():
        if case not in covered and case not in REASONS:
            yield f"case {case} has neither a check nor a reason: {words}"
        if case in covered and case in REASONS:
            yield f"case {case} has a reason not to be covered, but {covered[case][0].name} covers it"
    for case in sorted({*covered, *REASONS} - cases.keys()):
        yield f"{case} is no case, but a check or a reason names it"


def _twin_gaps(catalogue: Mapping[str, Check]) -> Iterator[str]:
    for check in catalogue.values():
        if check.twin is None:
            continue
        twin = catalogue.get(check.twin)
        if twin is None:
            yield f"{check.name} names the twin {check.twin}, which is no check"
        elif twin.unless is not check.when:
            yield f"{check.name} needs {check.when}, but its twin {twin.name} proves the refusal of {twin.unless}"


def _scenario_gaps(catalogue: Mapping[str, Check]) -> Iterator[str]:
    groups = {check.group for check in catalogue.values()}
    for scenario, wanted in SCENARIOS.items():
        for group in wanted:
            if group not in groups:
                yield f"the scenario '{scenario}' is said to be covered by the group {group}, which has no checks"


def _by_case(catalogue: Iterable[Check]) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in catalogue:
        for case in check.cases:
            found.setdefault(case, []).append(check)
    return found


def page() -> str:
    """All of it in Markdown."""
    return "\n".join(_page(checks())) + "\n"


def _page(catalogue: Mapping[str, Check]) -> Iterator[str]:
    covered = _by_case(catalogue.values())
    yield "# What the TCK covers"
    yield ""
    yield "Made by `make coverage`; do not edit. Each clause of the contract has a check. Each case of Java's TCK, and"
    yield "each of 86 further cases, has one too, or a reason why not."
    yield ""
    layers = [f"{sum(check.layer is layer for check in catalogue.values())} in layer {layer:d}" for layer in Layer]
    yield f"There are {len(catalogue)} checks: {', '.join(layers)}. They cover {_share(JAVA_CASES, covered)} cases of"
    yield f"Java's TCK and {_share(FURTHER_CASES, covered)} further cases."
    yield from _section("Clauses of the contract", "clause", _clause_rows(catalogue))
    yield from _section("The 62 cases of Java's TCK", "case", _case_rows(JAVA_CASES, covered))
    yield from _section("86 further cases", "case", _case_rows(FURTHER_CASES, covered))
    yield from _section("The 15 scenarios of the RFC for iceberg-rust", "scenario", _scenario_rows(catalogue))


def _share(cases: Mapping[str, str], covered: Mapping[str, list[Check]]) -> str:
    return f"{sum(case in covered for case in cases)} of {len(cases)}"


def _section(title: str, kind: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield f"| {kind} | what it says | checks |"
    yield "|---|---|---|"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def _clause_rows(catalogue: Mapping[str, Check]) -> Iterator[tuple[str, str, str]]:
    for clause, text in clauses().items():
        yield clause, text, _names(check for check in catalogue.values() if clause in check.clauses)


def _case_rows(cases: Mapping[str, str], covered: Mapping[str, list[Check]]) -> Iterator[tuple[str, str, str]]:
    for case, words in cases.items():
        yield case, words, _names(covered[case]) if case in covered else f"none: {REASONS.get(case, '**a gap**')}"


def _scenario_rows(catalogue: Mapping[str, Check]) -> Iterator[tuple[str, str, str]]:
    for number, (scenario, groups) in enumerate(SCENARIOS.items(), 1):
        count = sum(check.group in groups for check in catalogue.values())
        yield str(number), scenario, f"{count} in {', '.join(f'`{group}`' for group in groups)}"


def _names(found: Iterable[Check]) -> str:
    return ", ".join(f"`{check.name}`" for check in found) or "**a gap**"


if __name__ == "__main__":
    sys.stdout.write(page())
