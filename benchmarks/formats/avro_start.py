"""Avro: the first small file of a fresh process, whose compiled code, if it needs any, is in the cache on disk.

    python -m benchmarks.formats.avro_start --rows 100 1000

Most of the time is that of imports. formatkit speaks of schemas in pyiceberg's classes, so fastavro is also measured
in processes that have loaded them, or all that a table of pyiceberg needs, for another reason.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastavro

from benchmarks.formats.avro_read import SCHEMA, row
from benchmarks.formats.goals import at_most
from benchmarks.formats.timing import Times

_FASTAVRO = """
import sys, fastavro, pyarrow as pa
with open(sys.argv[1], "rb") as file: pa.RecordBatch.from_pylist(list(fastavro.reader(file)))
"""
PROGRAMS = {
    "pyarrow, imported": "import pyarrow",
    "pyarrow and pyiceberg's schemas, imported": "import pyarrow, pyiceberg.schema",
    "fastavro": _FASTAVRO,
    "fastavro with pyiceberg's schemas": "import pyiceberg.schema, pyiceberg.expressions" + _FASTAVRO,
    "formatkit's Avro plugin": """
import sys
from contextlib import closing
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.formats.avro.plugin import AvroFormat
from formatkit.io import open_source
with closing(open_source(sys.argv[1])) as source:
    file = AvroFormat().reader().open(source, OpenOptions())
    list(file.read(ReadOptions(projection=file.schema)).batches)
""",
    "fastavro with pyiceberg's tables": "import pyiceberg.table" + _FASTAVRO,
    "formatkit.read_file": "import sys, formatkit; formatkit.read_file(sys.argv[1]).to_arrow()",
}
COMPARED = (
    ("formatkit's Avro plugin", "fastavro"),
    ("formatkit's Avro plugin", "fastavro with pyiceberg's schemas"),
    ("formatkit.read_file", "fastavro"),
    ("formatkit.read_file", "fastavro with pyiceberg's tables"),
)


def first_file(path: Path, rounds: int) -> dict[str, Times]:
    # Modules are compiled once, as those of installed packages are, whatever is usual on this machine.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(path.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    times: dict[str, list[Times]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds + 1):
        for name, program in PROGRAMS.items():
            wall, processor = time.perf_counter(), children_time()
            subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment)
            times[name].append(Times(time.perf_counter() - wall, children_time() - processor))
    # The first round filled caches.
    return {name: Times(*map(min, zip(*several, strict=True))) for name, (_, *several) in times.items()}


def children_time() -> float:
    used = os.times()
    return used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            path = Path(folder, f"{rows}.avro")
            with path.open("wb") as file:
                fastavro.writer(file, SCHEMA, map(row, range(rows)), codec="deflate")
            print(f"{rows} rows in {path.stat().st_size} bytes:")
            times = first_file(path, options.rounds)
            for name, (wall, processor) in times.items():
                print(f"  {name:42} wall {wall:6.3f} s, processor {processor:6.3f} s")
            for ours, theirs in COMPARED:
                ratio = times[ours].processor / times[theirs].processor
                at_most(f"first Avro file, {rows} rows, processor time of {ours} × {theirs}", ratio, 1)


if __name__ == "__main__":
    main()
