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
# Those that need neither metadata columns nor equality deletes.
ABOUT_DELETES = {
    "a_deletion_vector_of_another_partition_is_refused",
    "a_deletion_vector_that_is_not_the_one_of_the_manifest_is_refused",
    "a_deletion_vector_that_is_older_than_its_data_file_is_refused",
    "damage_to_a_deletion_vector_is_noticed_before_a_row_is_returned",
    "deletes_by_position_concern_files_of_their_own_age_too",
    "deletes_by_position_without_a_partition_concern_no_other",
    "deletion_vectors_concern_files_of_their_own_age_too",
    "odd_characters_in_paths_are_no_matter",
    "partitions_of_several_fields_are_equal_in_all_of_them",
    "paths_of_one_place_may_be_spelled_in_several_ways",
    "positions_count_from_the_start_of_the_file_whatever_is_skipped",
    "rows_that_are_stored_beside_positions_say_nothing",
}


def is_asked(subject: tck.Subject[Any], check: Check) -> bool:
    about = check.function.__module__.rpartition(".")[2]
    by_chance = "kit.random(" in inspect.getsource(check.function)
    about_scans = about in ABOUT_TABLES or check.name in ABOUT_DELETES
    return not by_chance and (about_scans or not isinstance(subject, PyicebergScans))


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
