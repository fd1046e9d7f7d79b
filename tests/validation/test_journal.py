"""A validation that was stopped goes on from its journal; a dry run says what there is to check."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.validation.live_files import LiveFileCheck
from formatkit.write.jobs import LocalEngine
from support.filters import In
from support.iceberg_tables import local_path
from support.modelled_table import ModelledTable
from support.operated_tables import BY_PART, filled_table, some_rows
from support.written_tables import data_files


class Interrupted(LocalEngine):
    """Stops after the first piece of files."""

    def run(self, work: Sequence[Any], task: Any, tell: Any = None) -> Generator[tuple[int, Any], None, None]:
        for number, result in enumerate(super().run(work, task, tell)):
            if number and isinstance(task, LiveFileCheck):
                raise KeyboardInterrupt
            yield result


@pytest.fixture
def model(tmp_path: Path) -> ModelledTable:
    made = filled_table(tmp_path / "table", 3, partitions=BY_PART)
    made.delete(In("id", [1, 2, 15]), "merge-on-read")
    damaged = local_path(data_files(made.table)[0].file_path)
    damaged.write_bytes(damaged.read_bytes()[:-8] + b"damaged!")
    return made


def test_files_that_were_checked_are_not_checked_again(model: ModelledTable, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    with pytest.raises(KeyboardInterrupt):
        formatkit.validate(model.table, journal=journal, engine=Interrupted())
    noted = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert len(noted) == 1
    for name in noted[0]["files"]:  # if one were read again, it would be found missing
        path = local_path(name.partition("#")[0])
        path.rename(path.with_suffix(".kept"))
    report = formatkit.validate(model.table, journal=journal)
    for name in noted[0]["files"]:
        path = local_path(name.partition("#")[0])
        path.with_suffix(".kept").rename(path)
    whole = formatkit.validate(model.table)
    assert report.checked == whole.checked
    assert {each.code for each in whole.findings} == {"file-corrupt"}
    missing = [each for each in report.findings if each.code == "file-missing"]
    assert set(report.findings) - set(missing) == set(whole.findings)
    assert len(missing) == len(noted[0]["files"])  # references are always looked for

    lines = journal.read_text()
    journal.write_text(lines + lines.splitlines()[1][:-20])  # killed in the middle of a line
    assert formatkit.validate(model.table, journal=journal) == whole
    assert journal.read_text() == lines


def test_a_journal_of_something_else_is_refused(model: ModelledTable, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    formatkit.validate(model.table, journal=journal)
    model.append(some_rows(20, 22))
    with pytest.raises(ConfigurationError, match="of something else"):
        formatkit.validate(model.table, journal=journal)
    journal.write_text("hello\n")
    with pytest.raises(ConfigurationError, match="no journal"):
        formatkit.validate(model.table, journal=journal)
    assert journal.read_text() == "hello\n"
    with pytest.raises(ConfigurationError, match="local disk"):
        formatkit.validate(model.table, journal="s3://bucket/journal.jsonl")


def test_a_dry_run_reads_no_rows_and_says_how_many_there_are(model: ModelledTable) -> None:
    report = formatkit.validate(model.table, dry_run=True)
    assert report.findings == ()  # the damaged file was not read
    assert report.checked.keys() == {"snapshots", "manifests"}
    assert (report.planned["files"], report.planned["rows"]) == (9, 23)
    assert "still to check: " in str(report)
    assert report.to_dict()["planned"] == report.planned


def test_what_is_for_tables_is_refused_for_files(model: ModelledTable) -> None:
    file = data_files(model.table)[1].file_path
    with pytest.raises(ConfigurationError, match="one data file"):
        formatkit.validate(file, dry_run=True)
    with pytest.raises(ConfigurationError, match="one data file"):
        formatkit.validate(file, engine=LocalEngine())
