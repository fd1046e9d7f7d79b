"""The part that kills writers, at points of the commit and at random, and cleans up after them."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import cache
from pathlib import Path

from attack.cases import Case, Finding, Result

from support.doomed_writer import OPERATIONS, POINTS
from support.killed_writers import STORAGES, Accounts, after, check_leftovers, ids_for, new_accounts, run_and_kill

__all__ = ["run_kill"]

_MAX_ACCOUNTS = 2000


@cache
def _accounts(folder: Path) -> Accounts:
    shutil.rmtree(folder, ignore_errors=True)
    return new_accounts(folder)


def run_kill(case: Case) -> Result:
    """Kill one writer of the worker's table."""
    random = case.random
    accounts = _accounts(case.folder / "accounts")
    operation = random.choice(list(OPERATIONS))
    point = random.choice([*POINTS, *POINTS, None])
    storage = STORAGES[1] if point else random.choice(STORAGES)
    before = accounts.rows()
    ids = ids_for(operation, before, random)
    what = f"{operation} killed {point or 'at random'} on {storage.rpartition('.')[2]}"
    case.keep({"where": "kills", "what": what})
    result = Result(Counter({f"kills {point or 'at random'}": 1}))
    try:
        said = run_and_kill(accounts.properties(storage), operation, ids, random, point)
        found = accounts.rows()
        expected = after(operation, before, ids)
        happened = POINTS[point] if point else said.startswith("done") or found == expected
        if found != (expected if happened else before):
            gone, new = before.keys() - found.keys(), found.keys() - before.keys()
            told = f"{what}: {len(gone)} rows are gone, {len(new)} are new, said {said!r}"
            result.findings.append(Finding("lost rows", f"kills.{operation}", told))
        result.counts["orphans of killed writers deleted"] += check_leftovers(accounts, found, what)
    except AssertionError as error:
        result.findings.append(Finding("kill", f"kills.{operation}", f"{what}: {error}"))
        _accounts.cache_clear()
    if len(before) > _MAX_ACCOUNTS:
        _accounts.cache_clear()
    return result
