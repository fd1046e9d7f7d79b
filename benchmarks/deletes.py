"""Tables with deletes: formatkit against every peer that reads them, interleaved in one process.

Run as: python -m benchmarks.deletes [rows]. Prints a table in Markdown: processor time of the best of several runs. A
peer that cannot read a table, or that returns other rows, is listed with the reason instead.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

import formatkit
from formatkit.write.commit import Change, commit
from formatkit.write.deletes import write_equality_deletes, write_position_deletes

_RUNS = 5
_KEYS = 100_000
_SECONDS_PER_PEER = 20.0

Reader = Callable[[Table, str | None], int]


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        tables = _tables(Path(folder), rows)
        selective = f"id = {rows // 2}"
        print(f"| {rows:,} rows, milliseconds of processor time | {' | '.join(_READERS)} |")
        print("| --- " * (len(_READERS) + 1) + "|")
        for title, name, where in (
            ("one row by id, no deletes", "plain", selective),
            ("one row by id, one position delete", "one", selective),
            ("all rows, no deletes", "plain", None),
            ("all rows, one position delete", "one", None),
            ("all rows, 1 % position deletes", "1%", None),
            ("all rows, 10 % position deletes", "10%", None),
            (f"all rows, {_KEYS:,} equality deletes", "keys", None),
        ):
            table, left = tables[name]
            print(f"| {title} | {' | '.join(_measure(table, where, 1 if where else left))} |", flush=True)


def _tables(folder: Path, rows: int) -> dict[str, tuple[Table, int]]:
    """The same rows with several kinds of deletes, each table with the number of rows that are left."""
    catalog = InMemoryCatalog("benchmark", warehouse=folder.as_uri())
    catalog.create_namespace("db")
    random = np.random.default_rng(7)
    data = pa.table(
        {
            "id": np.arange(rows),
            "amount": random.random(rows),
            "name": pa.array([f"name-{number % 1000}" for number in range(rows)]),
        }
    )

    def made(name: str) -> Table:
        table = catalog.create_table(f"db.{name}", schema=data.schema)
        table.append(data)
        return table

    def positions(name: str, count: int) -> tuple[Table, int]:
        table = made(name)
        (location,) = {task.location for task in formatkit.scan(table).tasks}
        deleted = random.choice(np.setdiff1d(np.arange(rows), [rows // 2]), count, replace=False)
        return _with(table, write_position_deletes(_deletes(table), {location: deleted})), rows - count

    def keys(name: str, count: int) -> tuple[Table, int]:
        table = made(name)
        deleted = pa.table({"id": random.choice(rows, count, replace=False)})
        return _with(table, write_equality_deletes(_deletes(table), deleted, table.schema(), [1])), rows - count

    return {
        "plain": (made("plain"), rows),
        "one": positions("one", 1),
        "1%": positions("percent", rows // 100),
        "10%": positions("tenth", rows // 10),
        "keys": keys("keys", min(_KEYS, rows)),
    }


def _deletes(table: Table) -> str:
    return f"{table.location()}/data/deletes.parquet"


def _with(table: Table, deletes: DataFile | None) -> Table:
    assert deletes is not None
    snapshot = table.current_snapshot()
    base = snapshot.snapshot_id if snapshot else None
    commit(table, Change(operation=Operation.DELETE, added_deletes=(deletes,), base_snapshot_id=base))
    return table


def _formatkit(table: Table, where: str | None) -> int:
    return formatkit.scan(table, where).to_arrow().num_rows


def _pyiceberg(table: Table, where: str | None) -> int:
    return (table.scan(where) if where else table.scan()).to_arrow().num_rows


def _polars(table: Table, where: str | None) -> int:
    frame = pl.scan_iceberg(table)
    found = (frame.filter(pl.sql_expr(where)) if where else frame).collect()
    # As in `contestants`: this hands out Polars' own buffers, where others would be copied.
    return found.to_arrow(compat_level=pl.CompatLevel.newest()).num_rows


def _duckdb(table: Table, where: str | None) -> int:
    session = duckdb.connect()
    session.execute("load iceberg")
    query = f"from iceberg_scan('{table.metadata_location}') {f'where {where}' if where else ''}"
    found = session.execute(query).to_arrow_table()
    return found.num_rows if found is not None else 0


_READERS: dict[str, Reader] = {
    "formatkit": _formatkit,
    "pyiceberg": _pyiceberg,
    "Polars": _polars,
    "DuckDB": _duckdb,
}


def _measure(table: Table, where: str | None, wanted: int) -> list[str]:
    """One cell for each reader. Runs are interleaved, so that all meet the same disturbances."""
    best = dict.fromkeys(_READERS, float("inf"))
    spent = dict.fromkeys(_READERS, 0.0)
    failures: dict[str, str] = {}
    for _ in range(_RUNS):
        for name, reader in _READERS.items():
            if name in failures or spent[name] > _SECONDS_PER_PEER:
                continue
            start = time.process_time()
            try:
                found = reader(table, where)
            except Exception as error:  # noqa: BLE001 - whatever a peer cannot do is an answer, too
                failures[name] = f"cannot: {type(error).__name__}"
                continue
            taken = time.process_time() - start
            best[name], spent[name] = min(best[name], taken), spent[name] + taken
            if found != wanted:
                failures[name] = f"wrong: {found - wanted:+,} rows"
    return [failures.get(name) or f"{best[name] * 1000:,.1f}" for name in _READERS]


if __name__ == "__main__":
    main()
