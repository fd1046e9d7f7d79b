"""A process that changes a table and may not live to see the end: `python -m support.doomed_writer`.

It says ``ready`` when all that is left to do is the change, and ``done`` with the number of storage calls after it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from sqlalchemy import event
from sqlalchemy.orm import Session

import formatkit
from support.counted_io import CountedFileIO

__all__ = ["JOB", "KILL_AFTER", "KILL_POINT", "OPERATIONS", "POINTS", "TABLE", "rows_with"]

TABLE = "db.accounts"
KILL_POINT = "KILL_POINT"
"""The variable of the environment that says at which point of the commit the process ends."""
KILL_AFTER = "KILL_AFTER"
"""How many commits it survives before."""
POINTS = {
    "before the catalog is asked": False,
    "before the catalog writes": False,
    "before the catalog commits": False,
    "after the catalog committed": True,
    "before the answer arrives": True,
}
"""The points, and whether the change has taken place by then."""


def rows_with(ids: list[int], balance: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "balance": pa.array([balance] * len(ids), pa.int64())})


def _append(table: Table, ids: list[int]) -> None:
    formatkit.append(table, rows_with(ids, 0))


def _delete(table: Table, ids: list[int]) -> None:
    formatkit.delete(table, f"id in ({', '.join(map(str, ids))})")


def _rewrite_rows(table: Table, ids: list[int]) -> None:
    formatkit.delete(table, f"id in ({', '.join(map(str, ids))})", "copy-on-write")


def _upsert(table: Table, ids: list[int]) -> None:
    formatkit.upsert(table, rows_with(ids, 1), "id")


def _overwrite(table: Table, ids: list[int]) -> None:
    formatkit.overwrite(table, rows_with(ids, 2), where=f"id >= {min(ids)}")


def _rewrite(table: Table, ids: list[int]) -> None:
    formatkit.rewrite(table, all_files=True)


def _rewrite_on_spark(table: Table, ids: list[int]) -> None:
    from formatkit.spark.jobs.sessions import spark_engine

    with spark_engine("local[2]", {"spark.ui.enabled": "false"}) as engine:
        formatkit.rewrite(table, **JOB, engine=engine)


JOB: dict[str, Any] = {"all_files": True, "target_file_size": 1, "max_commits": 100, "job_id": "all anew"}
"""A rewrite of all files with a commit for each of them, that can be told from others."""

JOBS: dict[str, Callable[[Table, list[int]], None]] = {
    "local": lambda table, _: _ignore(formatkit.rewrite(table, **JOB)),
    "spark": _rewrite_on_spark,
}
OPERATIONS: dict[str, Callable[[Table, list[int]], None]] = {
    "append": _append,
    "delete": _delete,
    "rewrite": _rewrite,
    "copy-on-write": _rewrite_rows,
    "upsert": _upsert,
    "overwrite": _overwrite,
}


def main(properties: dict[str, Any], operation: str, ids: list[int]) -> None:
    with load_catalog("accounts", **properties) as catalog:
        table = catalog.load_table(TABLE)
        formatkit.scan(table).count()  # loads what the change needs, so that the time goes to the change
        _die_at(os.environ.get(KILL_POINT), catalog, int(os.environ.get(KILL_AFTER, "0")))
        print("ready", flush=True)
        {**OPERATIONS, **JOBS}[operation](table, ids)
        print("done", CountedFileIO.calls, flush=True)


def _ignore(_: object) -> None:
    pass


def _die_at(point: str | None, catalog: Catalog, after: int) -> None:
    """Let this process end at a point of a commit, after so many others."""
    commit_table: Any = catalog.commit_table
    spared = iter(range(after))
    moments = {
        "before the catalog writes": "do_orm_execute",
        "before the catalog commits": "before_commit",
        "after the catalog committed": "after_commit",
    }

    def commit(*arguments: Any, **named: Any) -> Any:
        if next(spared, None) is not None:
            return commit_table(*arguments, **named)
        if point == "before the catalog is asked":
            _die()
        if point in moments:
            event.listen(Session, moments[point], _die_if_it_writes if point == "before the catalog writes" else _die)
        answer = commit_table(*arguments, **named)
        if point == "before the answer arrives":
            _die()
        return answer

    catalog.commit_table = commit  # type: ignore[method-assign]


def _die_if_it_writes(execution: Any) -> None:
    if execution.is_update:
        _die()


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
