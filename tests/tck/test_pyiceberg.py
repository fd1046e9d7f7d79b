"""The kit, asked of pyiceberg's own code, fails exactly on the checks that meet its known bugs, and because of them.

Files are read and written through plugins around pyiceberg; what it makes of whole tables, through its own scan.
Checks on random data are left out, since it is chance whether theirs meet a bug.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from formatkit import tck
from formatkit.formats.orc.plugin import OrcFormat
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck.check import Check
from formatkit.tck.runner import selected
from formatkit.tck.under_pytest import BoundCheck
from support.pyiceberg_bugs import BUGS, LACKS, Bug, failing_checks
from support.pyiceberg_plugin import PyicebergOrc, PyicebergParquet
from support.pyiceberg_scan import PyicebergScans
from support.repository import ROOT

SUBJECTS: dict[str, tck.Subject[Any]] = {
    "parquet": tck.Subject.of(PyicebergParquet()),
    "orc": tck.Subject.of(PyicebergOrc()),
    "scans of parquet": PyicebergScans.of(ParquetFormat()),
    "scans of orc": PyicebergScans.of(OrcFormat()),
}

# The others are about metadata columns, which pyiceberg has none of, or look at files through plugins.
ABOUT_TABLES = {"defaults", "evolution", "filtered_scans", "name_mapping", "partition_constants"}


def is_asked(subject: tck.Subject[Any], check: Check) -> bool:
    about = check.function.__module__.rpartition(".")[2]
    by_chance = "kit.random(" in inspect.getsource(check.function)
    return not by_chance and (about in ABOUT_TABLES or not isinstance(subject, PyicebergScans))


def parameters() -> Iterator[Any]:
    for name, subject in SUBJECTS.items():
        bugs = failing_checks(name)
        for check in selected(subject):
            if is_asked(subject, check):
                bug = bugs.pop(check.name, None)
                yield pytest.param(BoundCheck(subject, check), bug, id=f"{name}-{check.name}")
        assert not bugs, f"of {name} these are not asked: {', '.join(bugs)}"


@pytest.mark.parametrize(("check", "bug"), list(parameters()))
def test_pyiceberg_fails_where_it_has_a_bug_and_nowhere_else(check: BoundCheck, bug: Bug | None) -> None:
    if bug is None:
        check()
        return
    with pytest.raises(Exception, match=bug.shows):
        check()


def test_the_documentation_lists_the_bugs() -> None:
    section = (ROOT / "docs/tck.md").read_text(encoding="utf-8").partition("## What it finds in pyiceberg\n")[2]
    documented = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith(("| ", "- "))]
    bugs = [f"| {bug.title} | `{bug.checks[0]}` | {len(bug.checks)} |" for bug in BUGS]
    assert documented[2:] == [*bugs, *(f"- {lack.title}" for lack in LACKS)]
