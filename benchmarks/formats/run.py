"""Runs the benchmark of each format, one after the other, and keeps what they print in benchmarks/FORMATS.md."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "FORMATS.md"
PEERS = ("formatkit", "pyarrow", "fastavro", "datafusion", "polars", "vortex-data", "pylance")
# As modules, because two of them are called like the library that they measure.
BENCHMARKS = {
    "Avro, reading": ["avro", "--rows", "200000"],
    "Avro, writing": ["avro_write", "--rows", "200000"],
    "ORC": ["orc", "--rows", "600000", "--stripe-bytes", str(64 << 20)],
    "Arrow IPC": ["arrow"],
    "Vortex": ["vortex", "1000000"],
    "Lance": ["lance", "1000000"],
    "Parquet into Polars frames": ["polars_parquet"],
}


def main() -> None:
    parts = [
        f"""\
# Benchmarks of formats

Made by `make formats`; do not edit by hand. Each part is what the command above it printed.

- Machine: 2 cores, {platform.system()}, Python {platform.python_version()}.
- Versions: {", ".join(f"{peer} {version(peer)}" for peer in PEERS)}.
"""
    ]
    for title, (module, *arguments) in BENCHMARKS.items():
        command = ["-m", f"benchmarks.formats.{module}", *arguments]
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        printed = done.stdout.strip() if done.returncode == 0 else f"failed:\n{done.stderr.strip()[-2000:]}"
        part = f"## {title}\n\n    python {' '.join(command)}\n\n```\n{printed}\n```\n"
        print(part, flush=True)
        parts.append(part)
    RESULTS.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
