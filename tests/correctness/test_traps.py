"""Questions that released readers answer wrongly; docs/comparison.md shows who and how."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import formatkit
from formatkit.tck.rows import comparable, from_arrow
from formatkit.tck.scenarios import Scenario
from formatkit.tck.traps import TRAPS
from support.thresholds import picking_pages

LAYOUTS: dict[str, dict[str, Any]] = {
    "tiny row groups": {},
    "one row group with pages": {"row_group_size": 1000},
    "no statistics": {"write_statistics": False, "write_page_index": False},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("trap", TRAPS, ids=[f"{number} {trap.name}" for number, trap in enumerate(TRAPS)])
def test_the_answer_is_that_of_the_naive_evaluator(trap: Scenario, layout: str, tmp_path: Path) -> None:
    table = trap.build(tmp_path, **LAYOUTS[layout])
    for way in (nullcontext(), picking_pages()):
        with way:
            scan = formatkit.scan(table, where=trap.where)
            assert comparable(from_arrow(trap.schema, scan.to_arrow())) == comparable(trap.answer())
            assert scan.count() == len(trap.answer())


def test_traps_tell_rows_apart() -> None:
    """A question that keeps all rows or none catches less; most must do neither."""
    split = [trap for trap in TRAPS if 0 < len(trap.answer()) < sum(len(file.rows) for file in trap.files)]
    assert len(split) > len(TRAPS) // 2, f"only {len(split)} of {len(TRAPS)}"
