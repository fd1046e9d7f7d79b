"""Each clause has a check, each check a clause, and each case of the other suites a check or a reason."""

from __future__ import annotations

import re
from dataclasses import replace

from formatkit.tck import checks
from formatkit.tck.cases import FURTHER_CASES, JAVA_CASES
from formatkit.tck.coverage import REASONS, gaps, page
from support.repository import ROOT


def test_nothing_is_left_without_a_check_or_a_reason() -> None:
    found = gaps()
    assert not found, "\n".join(["the kit has gaps:", *found])


def test_all_cases_are_counted() -> None:
    assert list(JAVA_CASES) == [f"J{number:02}" for number in range(1, 63)]
    assert list(FURTHER_CASES) == [f"X{number:02}" for number in range(1, 87)]


def test_reasons_name_tests_that_exist() -> None:
    named = {path for reason in REASONS.values() for path in re.findall(r"tests/[\w/.]+\.py", reason)}
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_a_gap_of_any_kind_is_told() -> None:
    catalogue = checks()
    split = catalogue["splits_of_any_size_hold_every_row_once_in_order"]
    without = {name: check for name, check in catalogue.items() if "R5" not in check.clauses}
    assert any("clause R5" in gap for gap in gaps(without))
    assert any("case J16" in gap for gap in gaps(without))
    changed = {
        "no clause": replace(split, clauses=()),
        "which is no clause": replace(split, clauses=("R99",)),
        "is no case": replace(split, cases=("X99",)),
        "a reason not to be": replace(split, cases=(next(iter(REASONS)),)),
        "which is no check": replace(split, twin="nothing"),
        "the refusal of": replace(split, twin="ids_that_are_not_stored_are_negative"),
    }
    for words, wrong in changed.items():
        assert any(words in gap for gap in gaps({**catalogue, split.name: wrong})), words


def test_the_page_is_up_to_date() -> None:
    stored = (ROOT / "docs" / "tck-coverage.md").read_text(encoding="utf-8")
    assert stored == page(), "docs/tck-coverage.md is stale: run `make coverage`"
