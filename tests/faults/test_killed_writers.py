"""Kills processes while they change a table. `make faults` does it often; FAULT_RUNS says how often."""

from __future__ import annotations

import os
import random

import pytest

from support.doomed_writer import OPERATIONS, POINTS
from support.killed_writers import STORAGES, Accounts, after, check_leftovers, ids_for, new_accounts, run_and_kill

RUNS = int(os.environ.get("FAULT_RUNS", "6"))
SEED = int(os.environ.get("FAULT_SEED", random.randrange(10**9)))


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    return new_accounts(tmp_path_factory.mktemp("accounts"))


@pytest.mark.parametrize("run", range(RUNS))
def test_a_killed_writer_leaves_the_table_as_before_or_after(accounts: Accounts, run: int) -> None:
    chance = random.Random(SEED + run)
    turn, number = divmod(run, len(OPERATIONS))
    operation, storage = list(OPERATIONS)[number], STORAGES[(turn + number) % 2]
    before = accounts.rows()
    ids = ids_for(operation, before, chance)
    said = run_and_kill(accounts.properties(storage), operation, ids, chance)
    found = accounts.rows()
    where = f"FAULT_SEED={SEED}, run {run}: {operation} on {storage}, which said {said!r}"
    assert found in (before, after(operation, before, ids)), where
    if said.startswith("done"):
        assert found == after(operation, before, ids), where
    check_leftovers(accounts, found, where)


@pytest.mark.parametrize(("point", "happened"), POINTS.items())
def test_a_writer_killed_at_a_point_of_the_commit_has_changed_all_or_nothing(
    accounts: Accounts, point: str, happened: bool
) -> None:
    chance = random.Random(SEED)
    # Each point meets one operation here and all of them in `make attack`; the seed says which.
    operation = chance.choice(list(OPERATIONS))
    before = accounts.rows()
    ids = ids_for(operation, before, chance)
    run_and_kill(accounts.properties(STORAGES[1]), operation, ids, chance, point)
    found = accounts.rows()
    where = f"FAULT_SEED={SEED}: {operation}, killed {point}"
    assert found == (after(operation, before, ids) if happened else before), where
    check_leftovers(accounts, found, where)
