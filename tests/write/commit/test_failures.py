"""Commits that fail: nothing is left behind where the outcome is certain, and nothing is deleted where it is not."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from formatkit.errors import CommitConflictError
from formatkit.write.commit import Change, UncommittedFiles, commit
from support.commits import append, change, data_file, live_files, metadata_files, new_sql_catalog, new_table
from support.failing_io import FAILING_IO, FailingFileIO, failure_at
from support.iceberg_tables import local_path
from support.losing_catalog import LosingCatalog


def on_disk(table: Table, name: str) -> DataFile:
    file = data_file(table, name)
    path = local_path(file.file_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"rows")
    return file


def data_files(table: Table) -> set[str]:
    return {path.name for path in local_path(f"{table.location()}/data").iterdir()}


def attempt(table: Table, operation: Operation = Operation.APPEND, **parts: Any) -> None:
    """Write a file and commit it, as every operation does."""
    base = table.current_snapshot()
    with UncommittedFiles(table.io) as files:
        file = on_disk(table, "new")
        files.add(file.file_path)
        given = Change(operation=operation, added=(file,), base_snapshot_id=base.snapshot_id if base else None, **parts)
        commit(table, given, files=files)


def test_storage_that_fails_at_any_call_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(new_sql_catalog(tmp_path, **FAILING_IO)) as catalog:
        table = new_table(catalog)
        old = on_disk(table, "old")
        append(table, old, on_disk(table, "kept"))
        before = metadata_files(table)
        removed = frozenset({old.file_path})
        number = 0
        while live_files(catalog.load_table("db.t")) != ["kept", "new"]:
            assert metadata_files(table) == before
            assert data_files(table) == {"kept", "old"}
            number += 1
            with failure_at(number), suppress(OSError):
                attempt(table, Operation.OVERWRITE, removed=removed)
        assert FailingFileIO.calls > number > 5
        assert live_files(table) == ["kept", "new"]
        assert data_files(table) == {"kept", "new", "old"}


class Immovable(FailingFileIO):
    def delete(self, location: Any) -> None:
        raise PermissionError(location)


def fail_with(error: BaseException, path: Path, io: FailingFileIO) -> None:
    with UncommittedFiles(io) as files:
        files.add(str(path))
        raise error


def test_a_file_that_cannot_be_deleted_does_not_hide_the_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_with(ZeroDivisionError(), tmp_path / "left", Immovable())
    assert "left" in caplog.text


def test_files_are_deleted_unless_they_are_kept(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("x")
    with UncommittedFiles(FailingFileIO()) as files:
        for path in paths:
            files.add(str(path))
        files.add(str(tmp_path / "never written"))
        files.discard(needed={str(paths[0])})
        assert [path.exists() for path in paths] == [True, False, False]
        files.keep()
    assert paths[0].exists()
    with pytest.raises(KeyboardInterrupt):
        fail_with(KeyboardInterrupt(), paths[0], FailingFileIO())
    assert not paths[0].exists()


def test_an_attempt_that_fails_while_others_write_is_repeated(tmp_path: Path) -> None:
    with LosingCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "warehouse").as_uri()
    ) as catalog:
        table = new_table(catalog)
        late = catalog.load_table("db.t")
        append(table, data_file(table, "first"))
        catalog.error = ValueError("Cannot add snapshot with sequence number 1 older than last sequence number 1")
        attempt(late)
        assert live_files(late) == ["first", "new"]


def test_conflicts_leave_the_files_to_their_owner_and_no_manifest(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    old = on_disk(table, "old")
    append(table, old)
    late = catalog.load_table("db.t")
    change(table, Operation.DELETE, removed=frozenset({old.file_path}))
    before = metadata_files(table)
    with pytest.raises(CommitConflictError):
        attempt(late, Operation.OVERWRITE, removed=frozenset({old.file_path}))
    assert data_files(table) == {"old"}
    assert metadata_files(table) == before
