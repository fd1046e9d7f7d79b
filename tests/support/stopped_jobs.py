"""Rewrites of a table of accounts that are killed at a point of one of their commits, and started again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import formatkit
from formatkit.write.jobs import Engine
from formatkit.write.jobs.leftovers import FILES_ID
from formatkit.write.operations.rewrite import JOB_ID
from support.doomed_writer import JOB, POINTS
from support.killed_writers import STORAGES, Accounts, check_leftovers, new_accounts, run_and_kill

__all__ = ["check_that_a_stopped_job_goes_on"]


def check_that_a_stopped_job_goes_on(folder: Path, name: str, point: str, commits: int, engine: Engine | None) -> None:
    """Kill a rewrite of three files, one commit each, after so many commits, and let another run finish it."""
    accounts = new_accounts(folder)
    before = accounts.rows()
    run_and_kill(accounts.properties(STORAGES[1]), name, [], Random(), point, commits)
    done = commits + POINTS[point]
    assert (accounts.rows(), _commits(accounts)) == (before, done)

    planned = formatkit.rewrite(accounts.table(), **JOB, dry_run=True)
    assert len(planned.plan.rewritten) == 3 - done
    result = formatkit.rewrite(accounts.table(), **JOB, engine=engine)
    assert (len(result.plan.rewritten), len(result.snapshots)) == (3 - done, 3 - done)
    assert (accounts.rows(), _commits(accounts)) == (before, 3)

    assert formatkit.rewrite(accounts.table(), **JOB, engine=engine).snapshots == ()
    another = formatkit.rewrite(accounts.table(), **{**JOB, "job_id": "another"}, dry_run=True)
    assert len(another.plan.rewritten) == another.plan.files >= 3
    check_leftovers(accounts, before, f"{name}, killed {point}, after {commits} commits")


def _commits(accounts: Accounts) -> int:
    """How many snapshots the job has made, each of which is to have files of its own."""
    said = [each.summary.additional_properties for each in accounts.table().snapshots() if each.summary is not None]
    own = [each[FILES_ID] for each in said if each.get(JOB_ID) == JOB["job_id"]]
    assert len(set(own)) == len(own)
    return len(own)
