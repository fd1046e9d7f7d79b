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

from formatkit.errors import CommitConflictError, ConfigurationError, FileMissingError
from formatkit.write.commit import Change, UncommittedFiles, commit
from formatkit.write.commit.rules import check_files
from support.commits import (
    append,
    change,
    data_file,
    live_files,
    metadata_files,
    new_sql_catalog,
    new_table,
    position_deletes,
)
from support.failing_io import FAILING_IO, FailingFileIO, failure_at
from support.iceberg_tables import local_path
from support.losing_catalog import new_losing_catalog


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
    with closing(new_losing_catalog(tmp_path)) as catalog:
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


@pytest.mark.parametrize("storage", [{}, FAILING_IO], ids=["local", "another storage"])
def test_a_file_that_is_gone_is_noticed_before_the_catalog_is_asked(tmp_path: Path, storage: dict[str, str]) -> None:
    with closing(new_sql_catalog(tmp_path, **storage)) as catalog:
        table = new_table(catalog)
        there, gone = on_disk(table, "there"), on_disk(table, "gone")
        local_path(gone.file_path).unlink()
        with pytest.raises(FileMissingError, match="of 2 files that the change adds, 1 are not there") as caught:
            append(table, there, gone)
        assert caught.value.location == gone.file_path  # type: ignore[attr-defined]
        assert live_files(table.refresh()) == []
        assert metadata_files(table) == set()


def test_a_delete_file_that_is_gone_is_noticed(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    target = on_disk(table, "a")
    append(table, target)
    deletes = position_deletes(table, "d", target)
    local_path(deletes.file_path).unlink()
    with pytest.raises(FileMissingError, match="/d:"):
        change(table, Operation.DELETE, added_deletes=(deletes,))
    assert len(table.refresh().snapshots()) == 1


def test_a_file_that_goes_between_two_attempts_is_noticed(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    late = catalog.load_table("db.t")
    append(table, on_disk(table, "first"))
    file = on_disk(late, "new")
    refresh = late.refresh

    def refresh_and_delete() -> Table:
        local_path(file.file_path).unlink()
        return refresh()

    late.refresh = refresh_and_delete  # type: ignore[method-assign]
    with pytest.raises(FileMissingError):
        append(late, file)
    assert live_files(table.refresh()) == ["first"]


@pytest.mark.parametrize(("limit", "looked_for"), [("0", 0), ("3", 3), (None, 64)])
def test_a_storage_that_is_not_local_is_asked_for_so_many_files(
    tmp_path: Path, limit: str | None, looked_for: int
) -> None:
    with closing(new_sql_catalog(tmp_path, **FAILING_IO)) as catalog:
        table = new_table(catalog)
        checked = table.metadata.model_copy(
            update={"properties": {} if limit is None else {"formatkit.commit.max-checked-files": limit}}
        )
        table.metadata = checked
        files = [on_disk(table, str(number)) for number in range(70)]
        with failure_at(0):
            check_files(Change(operation=Operation.APPEND, added=tuple(files)), table)
            assert FailingFileIO.calls - 70 == looked_for


def test_a_limit_that_is_no_number_is_refused(catalog: SqlCatalog) -> None:
    for number, name in enumerate(["formatkit.commit.max-checked-files", "commit.retry.num-retries"]):
        table = new_table(catalog, name=f"db.t{number}", properties={name: "some"})
        with pytest.raises(ConfigurationError, match=f"{name}.*'some'.*whole number"):
            append(table, data_file(table, "a"))
