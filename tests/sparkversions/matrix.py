"""`make sparkversions`: runs the features on each pinned version of Spark, and writes the table of docs/spark.md.

Arguments are minor versions, which are run again and no others.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparkversions.features import FEATURES

from support.repository import ROOT

__all__ = ["PAGE", "Outcome", "run_features", "spark_versions", "table_in"]

PAGE = ROOT / "docs" / "spark.md"
_BEGIN, _END = "<!-- made by make sparkversions -->\n", "<!-- end -->\n"
_PIN = re.compile(r"^pyspark==((\d+\.\d+)\.\S+)", re.MULTILINE)
_CELLS = {"works": "yes", "without": "same rows", "refused": "no"}


@dataclass(frozen=True)
class Outcome:
    """What came of a feature: ``works``, ``without`` (only the rows are right), ``refused`` or ``failed``."""

    feature: str
    outcome: str
    message: str
    seconds: float


def spark_versions() -> dict[str, str]:
    """The pinned versions of Spark by their minor versions, the oldest first. The last one is that of .venv."""
    pins = [*sorted((ROOT / "requirements" / "spark").glob("*.txt")), ROOT / "requirements" / "dev.txt"]
    found = [_PIN.search(path.read_text("utf-8")) for path in pins]
    return {pin.group(2): pin.group(1) for pin in found if pin is not None}


def run_features(version: str, names: Sequence[str] = ()) -> Iterator[Outcome]:
    """Run features on a minor version of Spark, in a process of its own."""
    over = ROOT / ".versions" / f"spark-{version}"
    if version != list(spark_versions())[-1] and not over.is_dir():
        raise SystemExit(f"{over} is missing; make sparkversions makes it")
    # Laid over the packages of .venv; what is not there is that of .venv.
    path = [str(ROOT / "tests"), str(over), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    command = [sys.executable, "-m", "sparkversions", *names]
    told: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}}
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
        subprocess.Popen(command, **told, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        for line in process.stdout or ():
            if line.startswith('{"feature"'):
                yield Outcome(**json.loads(line))
        if process.wait():
            errors.seek(0)
            last = errors.read()[-4000:]
            raise SystemExit(f"Spark {version}: {' '.join(command)} ended with {process.returncode}\n{last}")


def table_in(page: str) -> str:
    """The part of the page that this program writes."""
    return page.partition(_BEGIN)[2].partition(_END)[0]


def main() -> int:
    pinned = spark_versions()
    for minor in sys.argv[1:] or pinned:
        print(f"Spark {pinned[minor]}", flush=True)
        with _record(pinned[minor]).open("w", encoding="utf-8") as record:
            for each in run_features(minor):
                print(f"  {each.feature:<28} {each.outcome:<8} {each.seconds:5.1f} s  {each.message}", flush=True)
                record.write(json.dumps(asdict(each)) + "\n")
    found = {version: _recorded(version) for version in pinned.values()}
    wrong = [
        f"{name} of Spark {version}"
        for version, outcomes in found.items()
        for name in FEATURES
        if name not in outcomes or outcomes[name].outcome == "failed"
    ]
    if wrong:
        print(f"failed, or not run: {', '.join(wrong)}; docs/spark.md is left as it was", file=sys.stderr)
        return 1
    begin, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    PAGE.write_text(f"{begin}{_BEGIN}{_table(found)}{_END}{rest.partition(_END)[2]}", "utf-8")
    return 0


def _record(version: str) -> Path:
    """What came of the features on a version, so that one can be run again without the others."""
    folder = ROOT / "build" / "sparkversions"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{version}.jsonl"


def _recorded(version: str) -> dict[str, Outcome]:
    record = _record(version)
    lines = record.read_text("utf-8").splitlines() if record.exists() else ()
    return {each.feature: each for each in (Outcome(**json.loads(line)) for line in lines)}


def _table(found: dict[str, dict[str, Outcome]]) -> str:
    reasons: list[str] = []
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for name, feature in FEATURES.items():
        cells = []
        for outcomes in found.values():
            outcome = outcomes[name]
            if outcome.message and outcome.message not in reasons:
                reasons.append(outcome.message)
            why = f" ({reasons.index(outcome.message) + 1})" if outcome.message else ""
            cells.append(_CELLS[outcome.outcome] + why)
        lines.append(f"| {feature.title} | {' | '.join(cells)} |")
    numbered = [f"{i}. `{reason.replace('`', '')}`" for i, reason in enumerate(reasons, start=1)]
    return "\n".join([*lines, "", *numbered, ""])


if __name__ == "__main__":
    sys.exit(main())
