"""The kit is tested too: each fault is noticed by its own check, and each check notices a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from formatkit.tck import Outcome, checks, run
from support.faults import Fault, load_faults

FAULTS = load_faults()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_the_fault_is_noticed_by_its_own_check(fault: Fault) -> None:
    subject = fault.subject()
    hasty = replace(subject, profile=replace(subject.profile, shrink=False))
    (result,) = run(hasty, names=[fault.check], workers=1).results
    assert result.outcome is Outcome.FAILED, f"{fault.check} does not notice: {fault.name}"


def test_every_check_notices_a_fault() -> None:
    assert sorted(set(checks()) - {fault.check for fault in FAULTS.values()}) == []
