"""Two commits of formatkit asked the same questions in turns: the ratio of their processor time, with its spread.

Run as: python -m benchmarks.turns OLD NEW [--rounds 9] [--only TEXT], where OLD and NEW are the interpreters of two
clones in which `make setup` was run. Each commit lives in a process of its own. In a round both answer each question,
the first one first in every other round; what counts is the least of a few tries, because all that disturbs a run makes
it longer.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any

_TRIES = 3
_ROWS = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", help="the interpreter of the older clone")
    parser.add_argument("new", help="the interpreter of the newer clone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="ask only the questions whose name has this text")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="formatkit-turns-") as folder:
        subprocess.run([arguments.new, __file__, "--make", folder], check=True)
        sides = [_Side(python, folder) for python in (arguments.old, arguments.new)]
        names = [name for name in sides[0].ask("names") if arguments.only in name]
        ratios: dict[str, list[float]] = {name: [] for name in names}
        for number in range(-1, arguments.rounds):
            order = sides if number % 2 else sides[::-1]
            for name in names:
                seconds = {side: side.ask(name) for side in order}
                if number >= 0:
                    ratios[name].append(seconds[sides[1]] / seconds[sides[0]])
        for side in sides:
            side.close()
    print(f"Processor time, new / old, {arguments.rounds} rounds.\n")
    print("| question | median | quartiles | least to most |\n| --- | ---: | ---: | ---: |")
    for name, found in ratios.items():
        low, _, high = quantiles(found, n=4)
        print(f"| {name} | {median(found):.3f} | {low:.3f} to {high:.3f} | {min(found):.3f} to {max(found):.3f} |")
    print(f"| median of all questions | {median(median(found) for found in ratios.values()):.3f} | | |")


class _Side:
    """One commit's process, which answers a line with a line."""

    def __init__(self, python: str, folder: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--serve", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, name: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def make(folder: Path) -> None:
    """Write the files and the tables that are asked about."""
    import numpy as np
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    import formatkit

    random = np.random.default_rng(16)

    def rows(count: int) -> pa.Table:
        cents = pa.array(random.integers(0, 10**9, count)).cast(pa.decimal128(19, 0))
        return pa.table(
            {
                "id": pa.array(np.arange(count)),
                "key": pa.array(random.integers(0, count, count)),
                "price": pa.array(random.random(count)),
                "amount": cents.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2), safe=False),
                "tax": cents.cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2), safe=False),
                "at": pa.array(random.integers(0, 10**15, count)).cast(pa.timestamp("us", "UTC")),
                "city": pa.array(random.choice(["Rome", "Oslo", "Lima", "Kyiv"], count)),
                "note": pa.array([f"note {number}" for number in random.integers(0, 10**9, count)]),
            }
        )

    many = rows(_ROWS)
    for kind in ("parquet", "orc", "avro"):
        formatkit.write_file(str(folder / f"rows.{kind}"), many)
    formatkit.write_file(
        str(folder / "wide.parquet"), pa.table({f"c{number}": pa.array(range(5_000)) for number in range(300)})
    )
    small = rows(200)
    for number in range(100):
        formatkit.write_file(str(folder / f"small-{number}.parquet"), small)
    catalog = SqlCatalog("turns", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.small", small.schema)
    spec = PartitionSpec(PartitionField(7, 1000, IdentityTransform(), "city"))
    parted = catalog.create_table("db.parted", table.schema(), partition_spec=spec)
    for _ in range(60):
        formatkit.append(table, small)
    for _ in range(15):
        formatkit.append(parted, small)
    for found in (table, parted):
        (folder / found.name()[-1]).write_text(found.refresh().metadata_location)
    catalog.close()


def questions(folder: Path) -> dict[str, Callable[[], object]]:
    """What both commits are asked."""
    from pyiceberg.table import StaticTable

    import formatkit

    def file(name: str, **asked: Any) -> Callable[[], object]:
        return lambda: formatkit.read_file(str(folder / name), **asked).to_arrow()

    def table(name: str) -> Any:
        return StaticTable.from_metadata((folder / name).read_text())

    small, parted = table("small"), table("parted")
    rare = "key < 10000 and city = 'Oslo'"
    return {
        "Parquet: all": file("rows.parquet"),
        "Parquet: two decimals": file("rows.parquet", select=("amount", "tax")),
        "Parquet: numbers": file("rows.parquet", select=("id", "key", "price")),
        "Parquet: strings": file("rows.parquet", select=("city", "note")),
        "Parquet: filter": file("rows.parquet", where=rare),
        "Parquet: decimal filter": file("rows.parquet", where="amount < 100000", select=("id",)),
        "Parquet: decimal filter, all columns": file("rows.parquet", where="amount < 100000"),
        "Parquet: one row": file("rows.parquet", where="id = 777777"),
        "Parquet: 300 columns": file("wide.parquet"),
        "Parquet: 100 small files": lambda: [file(f"small-{number}.parquet")() for number in range(100)],
        "ORC: all": file("rows.orc"),
        "ORC: decimals": file("rows.orc", select=("amount", "tax")),
        "ORC: filter": file("rows.orc", where=rare),
        "Avro: all": file("rows.avro"),
        "Avro: decimals": file("rows.avro", select=("amount", "tax")),
        "Avro: filter": file("rows.avro", where=rare),
        "table: plan 60 files": lambda: formatkit.scan(small, where="id > 5").tasks,
        "table: read 60 files": lambda: formatkit.scan(small).to_arrow(),
        "table: filter 60 partitions": lambda: formatkit.scan(parted, where="city = 'Rome' and id < 50").to_arrow(),
    }


def serve(folder: Path) -> None:
    """Answer each line with the least processor time of a few tries."""
    known = questions(folder)
    for line in sys.stdin:
        asked = line.strip()
        answer = list(known) if asked == "names" else min(_processor_seconds(known[asked]) for _ in range(_TRIES))
        print(json.dumps(answer), flush=True)


def _processor_seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--make", folder]:
            make(Path(folder))
        case ["--serve", folder]:
            serve(Path(folder))
        case _:
            main()
