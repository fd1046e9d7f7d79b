"""Damaged Vortex files give a typed error or the right rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import settings

from formatkit.errors import CorruptFileError
from formatkit.formats.vortex.plugin import VortexFormat
from formatkit.tck.rows import comparable
from support.damage import damages, read_all
from support.every_type import EDGES, EVERY_TYPE
from support.plugin_files import opened, read_rows, write_rows

PLUGIN = VortexFormat()
ROWS = [{**row, 2: number, 14: str(number) * 9} for number in range(50) for row in EDGES]


def read(data: bytes) -> Any:
    with opened(PLUGIN, data) as file:
        return comparable(read_rows(file))


def test_every_byte_is_vouched_for() -> None:
    good = write_rows(PLUGIN, EVERY_TYPE, ROWS)
    right = comparable(ROWS)
    assert read(good) == right
    cases = [case for case in damages(good, Random(7), 8 * settings().max_examples) if case.data != good]
    outcomes = read_all(read, cases)
    assert {outcome.untyped for outcome in outcomes} == {""}
    wrong = [case.what for case, outcome in zip(cases, outcomes, strict=True) if outcome.answer not in (None, right)]
    assert wrong == []


@pytest.mark.parametrize("added", [-4, 4, 4000])
def test_a_seal_that_was_moved_is_noticed(added: int) -> None:
    good = write_rows(PLUGIN, EVERY_TYPE, ROWS)
    # Behind the seal stands the postscript, whose end these bytes are.
    place = len(good) - 40
    moved = good[:place] + (bytes(added) if added > 0 else b"") + good[place - min(added, 0) :]
    with pytest.raises(CorruptFileError, match="its seal is not where it belongs"):
        read(moved)
