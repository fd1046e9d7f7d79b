"""Runs as JSON. The schema is written down in ``docs/tck.md``; a change of it raises the version."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from formatkit.tck.check import Check
from formatkit.tck.clauses import clauses
from formatkit.tck.reports.matrix import layer_tables, total
from formatkit.tck.results import Outcome, Result, Run

__all__ = ["SCHEMA_VERSION", "document", "document_text"]

SCHEMA_VERSION = 1


def document(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything that is known of the runs, as JSON values."""
    asked = [row.check for table in layer_tables(runs) for group in table.groups for row in group.rows]
    cited = {number for check in asked for number in check.clauses}
    return {
        "schema_version": SCHEMA_VERSION,
        "formatkit": version("formatkit"),
        "counts": _counts(total(runs)),
        "clauses": [{"number": number, "text": text} for number, text in clauses().items() if number in cited],
        "checks": [_check(check) for check in asked],
        "runs": [_run(run) for run in runs],
    }


def document_text(runs: Sequence[Run]) -> str:
    """The document, for a file."""
    return json.dumps(document(runs), ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _counts(counts: dict[Outcome, int]) -> dict[str, int]:
    return {outcome.name.lower(): count for outcome, count in counts.items()}


def _check(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "sentence": check.sentence,
        "layer": int(check.layer),
        "group": check.group,
        "clauses": list(check.clauses),
        "cases": list(check.cases),
        "when": check.when.value if check.when is not None else None,
        "twin": check.twin,
        "unless": check.unless.value if check.unless is not None else None,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "name": run.name,
        "file_format": run.file_format,
        "batch_type": run.batch_type,
        "plugin": run.plugin,
        "capabilities": list(run.capabilities),
        "examples": run.examples,
        "started": run.started.isoformat(timespec="seconds"),
        "seconds": round(run.seconds, 3),
        "counts": _counts(run.counts),
        "results": [_result(run, result) for result in run.results],
    }


def _result(run: Run, result: Result) -> dict[str, Any]:
    return {
        "check": result.check,
        "outcome": result.outcome.name.lower(),
        "seconds": round(result.seconds, 3),
        "message": result.message,
        "example": result.example,
        "reason": result.reason,
        "again": run.command(result.check),
    }
