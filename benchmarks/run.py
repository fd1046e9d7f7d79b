"""Measure formatkit and its peers in one run and write benchmarks/RESULTS.md.

Run it with `make bench`. Every engine lives in a process of its own, answers each question once to warm up, and is then
timed in rounds: all engines answer a question before any of them answers it again, so that a busy moment of the machine
hits all alike. What counts is the median.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from contestants import CONTESTANTS, questions
from data import FILES, ROW_GROUP_ROWS, link_copies, make_benchmark_table

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
OTHERS = "<!-- The rest is made by other commands and kept. -->"
US = "formatkit"
PACKAGES = ("formatkit", "pyiceberg", "pyiceberg-core", "pyarrow", "polars", "daft", "datafusion", "duckdb")
# The streamed table is this many megabytes of Arrow data, several times what it may take.
STREAMED_MEGABYTES = 2_000
MEMORY_LIMIT_MEGABYTES = 300


@dataclass
class Timings:
    """Seconds by question and engine, in the order of the rounds."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def median(self, question: str, engine: str) -> float | None:
        times = self.seconds.get((question, engine))
        return median(times) if times else None

    def fastest_peer(self, question: str) -> float | None:
        peers = [self.median(question, engine) for engine in CONTESTANTS if engine != US]
        return min((seconds for seconds in peers if seconds is not None), default=None)


class Contestant:
    """A running worker."""

    def __init__(self, name: str, process: subprocess.Popen[str]) -> None:
        self.name = name
        self._process = process

    def ask(self, question: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} gave up on {question!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    arguments = parse()
    directory = Path(arguments.data or tempfile.mkdtemp(prefix="formatkit-bench-"))
    metadata_location = make_benchmark_table(directory, arguments.rows)
    sections = [heading(arguments)]
    if not arguments.only or "peers" in arguments.only:
        sections.append(report_timings(measure(metadata_location, arguments.rows, arguments.runs), arguments.rows))
    files = sorted(str(path) for path in directory.glob(f"rows-{arguments.rows}-?.parquet"))
    if not arguments.only or "overhead" in arguments.only:
        sections.append(report_overhead(call("overhead", files[0], str(4 * arguments.runs))))
    if not arguments.only or "memory" in arguments.only:
        with tempfile.TemporaryDirectory(dir=directory) as links:
            bytes_a_row = 90
            copies = max(1, STREAMED_MEGABYTES * 2**20 // (arguments.rows * bytes_a_row))
            large = link_copies(Path(links), metadata_location, files, copies)
            sections.append(report_memory(call("stream", large)))
    text = "\n".join(sections)
    print(text)
    if not arguments.only:
        _, found, others = RESULTS.read_text().partition(OTHERS)
        RESULTS.write_text(f"{text}\n{found}{others}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the table; 10000000 takes some minutes")
    parser.add_argument("--runs", type=int, default=5, help="timed rounds")
    parser.add_argument("--only", action="append", choices=("peers", "overhead", "memory"), help="a part; not recorded")
    parser.add_argument("--data", help="where the table is kept for the next run; a temporary folder if not given")
    return parser.parse_args()


def measure(metadata_location: str, rows: int, runs: int) -> Timings:
    timings = Timings()
    with ExitStack() as stack:
        contestants = [stack.enter_context(running(name, metadata_location, rows)) for name in CONTESTANTS]
        for question in questions(rows):
            counts: dict[str, int] = {}
            for contestant in contestants:
                answer = contestant.ask(question.name)
                if "error" in answer:
                    sys.stderr.write(f"{contestant.name}, {question.name}: {answer['error']}\n")
                else:
                    counts[contestant.name] = answer["rows"]
            racing = [contestant for contestant in contestants if contestant.name in counts]
            if len(set(counts.values())) > 1:
                raise SystemExit(f"{question.name}: the engines do not agree on the rows: {counts}")
            for _ in range(runs):
                for contestant in racing:
                    seconds = contestant.ask(question.name)["seconds"]
                    timings.seconds.setdefault((question.name, contestant.name), []).append(seconds)
    return timings


@contextmanager
def running(name: str, metadata_location: str, rows: int) -> Iterator[Contestant]:
    command = [sys.executable, str(HERE / "worker.py"), "serve", name, metadata_location, str(rows)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Contestant(name, process)
        assert process.stdin is not None
        process.stdin.close()


def call(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "worker.py"), *arguments]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return answer


def heading(arguments: argparse.Namespace) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return f"""\
# Benchmarks

Made by `make bench` (`python benchmarks/run.py --rows {arguments.rows} --runs {arguments.runs}`); do not edit by hand.

- Machine: {os.cpu_count()} cores, {memory:.0f} GB of memory, {platform.system()}, Python {platform.python_version()}.
- Versions: {versions}.
- Table: {arguments.rows:,} rows, 10 columns (long, int, double, decimal, timestamptz, date, strings, boolean), {FILES}
  Parquet files, zstd, row groups of up to {ROW_GROUP_ROWS:,} rows, with page index. Local disk, warm page cache.
- Each engine runs in its own process with its own default number of threads, and returns an Arrow table. pyarrow,
  DataFusion and DuckDB read the files; the others read the Iceberg table. iceberg-rust is pyiceberg-core's DataFusion
  table provider.
"""


def report_timings(timings: Timings, rows: int) -> str:
    lines = [
        "## Time\n",
        "Median seconds. The last column is below 1.00 where formatkit is faster than its fastest peer.\n",
        "| | " + " | ".join(CONTESTANTS) + " | formatkit / fastest peer |",
        "| --- |" + " ---: |" * (len(CONTESTANTS) + 1),
    ]
    for question in questions(rows):
        cells = [timings.median(question.name, engine) for engine in CONTESTANTS]
        fastest = timings.fastest_peer(question.name)
        ours = timings.median(question.name, US)
        ratio = f"**{ours / fastest:.2f}**" if ours is not None and fastest is not None else "–"
        spelled = " | ".join("failed" if cell is None else f"{cell:.3f}" for cell in cells)
        lines.append(f"| {question.name} | {spelled} | {ratio} |")
    return "\n".join(lines) + "\n"


def report_overhead(answer: dict[str, list[float]]) -> str:
    bare, reader, scan = (median(answer[name]) for name in ("bare", "reader", "scan"))
    return f"""\
## Kernel overhead

All columns of one file in one thread, in turns (medians of processor time): bare `pyarrow.parquet` {bare:.3f} s;
formatkit's reader without its kernel {reader:.3f} s, {(reader / bare - 1) * 100:+.1f} %;
a whole scan through the kernel {scan:.3f} s, **{(scan / bare - 1) * 100:+.1f} %** (the limit is +3 %).
"""


def report_memory(answer: dict[str, int]) -> str:
    return f"""\
## Memory of a streamed scan

`scan(table).to_batches()` over {answer["rows"]:,} rows, {answer["arrow_megabytes"]:,} MB of Arrow data, by a consumer
that keeps nothing: peak resident memory of the process **{answer["peak"]} MB** ({answer["before"]} MB of it after
imports; the limit is {MEMORY_LIMIT_MEGABYTES} MB).
"""


if __name__ == "__main__":
    main()
