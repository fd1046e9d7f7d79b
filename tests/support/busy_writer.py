"""A process that changes a table many times while others do: `python -m support.busy_writer`.

It writes down what it intends before each operation, and how the operation ended after it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

import formatkit
from formatkit.errors import CatalogError, CommitConflictError, CommitStateUnknownError
from support.rest_catalog import ImpatientAdapter

__all__ = ["FIRST_IDS", "KEY", "TABLE", "Intent", "Job", "rows_of"]

TABLE = "db.t"
KEY = "writer-operation"
"""The key of a snapshot's summary that names the operation."""

_KINDS = {"append": 5, "delete": 3, "copy-on-write": 2, "overwrite": 2, "upsert": 4, "rewrite": 2}
_ROWS = 10
FIRST_IDS = range(20 * _ROWS)
"""The rows that are there before the writers start."""


@dataclass(frozen=True)
class Job:
    """What a process has to do.

    Attributes:
        catalog: Its properties.
        writer: The number of this process.
        writers: How many there are.
        timeout: The seconds after which a client of a REST catalog gives up.
    """

    catalog: dict[str, Any]
    writer: int
    writers: int
    operations: int
    seed: int
    log: str
    timeout: float


@dataclass(frozen=True)
class Intent:
    """An operation: rows with these ids are deleted, replaced, updated or inserted; new rows have the value."""

    name: str
    kind: str
    ids: tuple[int, ...]
    value: str


def rows_of(ids: tuple[int, ...], value: str) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([value] * len(ids), pa.string())})


def _intents(job: Job) -> list[Intent]:
    chance = random.Random(job.seed)
    intents = []
    for number in range(job.operations):
        [kind] = chance.choices(list(_KINDS), list(_KINDS.values()))
        name = f"{job.writer}-{number}"
        intents.append(Intent(name, kind, _ids(kind, job, number, chance), f"{kind} {name}"))
    return intents


def _ids(kind: str, job: Job, number: int, chance: random.Random) -> tuple[int, ...]:
    """Rows that all writers change; but appends have ids of their own, as they do not look what is there."""
    match kind:
        case "append":
            first = (job.writer + 1) * 1_000_000 + number * _ROWS
            return tuple(range(first, first + _ROWS))
        case "overwrite":
            first = chance.choice(FIRST_IDS[::_ROWS])
            return tuple(range(first, first + _ROWS))
        case "upsert":
            return tuple(chance.sample(FIRST_IDS, 4))
    others = (chance.randrange(1, job.writers + 1) * 1_000_000 + chance.randrange(number * _ROWS + 1) for _ in range(4))
    return tuple({*others, *chance.sample(FIRST_IDS, 4)})


def _perform(table: Table, intent: Intent) -> int | None:
    """Returns the id of the snapshot; None if there was nothing to do."""
    summary = {KEY: intent.name}
    rows = rows_of(intent.ids, intent.value)
    where = f"id in ({', '.join(map(str, intent.ids))})"
    match intent.kind:
        case "append":
            snapshot = formatkit.append(table, rows, snapshot_properties=summary)
        case "delete":
            snapshot = formatkit.delete(table, where, snapshot_properties=summary)
        case "copy-on-write":
            snapshot = formatkit.delete(table, where, "copy-on-write", snapshot_properties=summary)
        case "overwrite":
            where = f"id >= {intent.ids[0]} and id <= {intent.ids[-1]}"
            snapshot = formatkit.overwrite(table, rows, where=where, snapshot_properties=summary)
        case "upsert":
            snapshot = formatkit.upsert(table, rows, "id", snapshot_properties=summary).snapshot
        case _:
            snapshot = formatkit.rewrite(table, snapshot_properties=summary).snapshot
    return None if snapshot is None else snapshot.snapshot_id


def _outcome(table: Table, intent: Intent) -> dict[str, Any]:
    _patiently(table.refresh)
    try:
        return {"outcome": "done", "snapshot": _perform(table, intent)}
    except CommitConflictError:
        return {"outcome": "refused"}
    except CommitStateUnknownError as error:
        return {"outcome": "unknown", "snapshot": error.snapshot_id}
    except (CatalogError, OperationalError, requests.RequestException) as error:
        # The catalog was not asked, or refused for sure.
        return {"outcome": "failed", "error": repr(error)}


def main(job: Job) -> None:
    with load_catalog("test", **job.catalog) as catalog, Path(job.log).open("w") as log:
        if isinstance(catalog, RestCatalog):
            catalog._session.mount("http://", ImpatientAdapter(job.timeout))
        table = _patiently(lambda: catalog.load_table(TABLE))
        for intent in _intents(job):
            log.write(json.dumps(asdict(intent)) + "\n")
            log.flush()
            log.write(json.dumps(_outcome(table, intent)) + "\n")
            log.flush()


def _patiently(call: Callable[[], Table]) -> Table:
    """Call a catalog until it answers."""
    while True:
        try:
            return call()
        except requests.RequestException:
            continue


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
