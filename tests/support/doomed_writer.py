"""A process that changes a table and may not live to see the end: `python -m support.doomed_writer`.

It says ``ready`` when all that is left to do is the change, and ``done`` with the number of storage calls after it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

import formatkit
from support.counted_io import CountedFileIO

__all__ = ["OPERATIONS", "TABLE", "rows_with"]

TABLE = "db.accounts"


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
        print("ready", flush=True)
        OPERATIONS[operation](table, ids)
        print("done", CountedFileIO.calls, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
