"""Runs the benchmark of each format, one after the other, and keeps what they print in benchmarks/FORMATS.md.

    python -m benchmarks.formats.run
    python -m benchmarks.formats.run --only avro lance

A part that is not run again keeps what was printed before. Every part takes less than two and a half minutes.
DataFusion is that of the environment, which pyiceberg pins; a newer one is taken if PYTHONPATH has it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.formats.goals import goals_in

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "FORMATS.md"
PEERS = ("formatkit", "pyarrow", "fastavro", "datafusion", "polars", "vortex-data", "pylance")
PARTS = {
    "avro-read": "Avro, reading",
    "avro-write": "Avro, writing",
    "avro-start": "Avro, the first small file of a process",
    "orc": "ORC",
    "arrow": "Arrow IPC",
    "vortex": "Vortex",
    "lance": "Lance",
    "polars-parquet": "Parquet into Polars frames",
}
_SECTION = re.compile(r"^## (?P<title>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help=f"some of {', '.join(PARTS)}")
    only = parser.parse_args().only
    for word in only:
        if not any(name.startswith(word) for name in PARTS):
            parser.error(f"there is no part {word!r}; there are {', '.join(PARTS)}")
    sections = kept_sections()
    for name, title in PARTS.items():
        if any(name.startswith(word) for word in only):
            sections[title] = run_part(name)
            print(f"## {title}\n{sections[title]}", flush=True)
            RESULTS.write_text(document(sections))


def kept_sections() -> dict[str, str]:
    text = RESULTS.read_text() if RESULTS.exists() else ""
    return {match["title"]: match["body"] for match in _SECTION.finditer(text)}


def run_part(name: str) -> str:
    # As a module, because two of them are called like the library that they measure.
    command = ["-m", f"benchmarks.formats.{name.replace('-', '_')}"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    printed = done.stdout.strip() if done.returncode == 0 else f"failed:\n{done.stderr.strip()[-2000:]}"
    seconds = time.perf_counter() - start
    return f"\n`python {' '.join(command)}`, {seconds:.0f} s, {versions()}\n\n```\n{printed}\n```\n"


def versions() -> str:
    return ", ".join(f"{peer} {version(peer)}" for peer in PEERS)


def document(sections: dict[str, str]) -> str:
    ordered = {title: sections[title] for title in PARTS.values() if title in sections}
    rows = [f"| {' | '.join(goal)} |" for body in ordered.values() for goal in goals_in(body)]
    top = f"""\
# Benchmarks of formats

Made by `make formats`; do not edit by hand. Each part is what the command above it printed.
Times are the least of interleaved runs. The machine has {os.cpu_count()} cores, {platform.system()} and Python
{platform.python_version()}.

| figure | found | wanted | |
| --- | --- | --- | --- |
"""
    parts = "".join(f"\n## {title}\n{body.rstrip()}\n" for title, body in ordered.items())
    return top + "\n".join(rows) + "\n" + parts


if __name__ == "__main__":
    main()
