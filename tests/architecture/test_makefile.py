"""`make` explains itself, and CI runs what a developer runs."""

from __future__ import annotations

import re
import subprocess

from support.repository import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
PROMISED = {
    "setup",
    "demo",
    "test",
    "lint",
    "types",
    "arch",
    "installs",
    "versions",
    "tck",
    "report",
    "fuzz",
    "bench",
    "compare",
    "requirements",
    "format",
}


def test_make_alone_explains_every_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    explained = set(re.findall(r"^  make (\w+) +\S", shown, re.MULTILINE))
    assert explained >= PROMISED


def test_every_target_that_runs_python_sets_itself_up() -> None:
    rules = re.findall(r"^(\w+):(.*)\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    unready = [name for name, needs, recipe in rules if "$(BIN)" in recipe and "$(READY)" not in needs]
    assert unready == []


def test_ci_runs_make_test_and_nothing_else() -> None:
    commands = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert commands == ["set -euo pipefail", 'cd "$(dirname "$0")/.."', "exec make test </dev/null"]
