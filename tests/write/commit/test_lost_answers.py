"""Answers of a catalog that get lost: no file of a snapshot that is committed, now or later, is deleted."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from pydantic import ValidationError
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableResponse, Table
from sqlalchemy.exc import IntegrityError, OperationalError, PendingRollbackError

import formatkit
from formatkit.errors import CatalogError, CommitConflictError, CommitStateUnknownError, TableMissingError
from formatkit.write.commit.outcome import Sight, was_refused
from support.commits import new_sql_catalog, new_table
from support.iceberg_tables import local_path
from support.losing_catalog import LosingCatalog, new_losing_catalog


def unreadable_answer() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        CommitTableResponse.model_validate_json("<html>502 Bad Gateway</html>")
    return caught.value


LOST: dict[str, BaseException] = {
    "OperationalError, invalid connection": OperationalError(
        "UPDATE iceberg_tables", {}, Exception("server closed the connection"), connection_invalidated=True
    ),
    "OperationalError at COMMIT": OperationalError(None, None, Exception("terminating connection")),
    "PendingRollbackError": PendingRollbackError("the transaction was lost"),
    "SSLError": requests.exceptions.SSLError("bad record mac"),
    "EHOSTUNREACH": OSError(errno.EHOSTUNREACH, "No route to host"),
    "EIO": OSError(errno.EIO, "Input/output error"),
    "ENOSPC": OSError(errno.ENOSPC, "No space left on device"),
    "unreadable answer": unreadable_answer(),
    "no JSON": json.JSONDecodeError("Expecting value", "<html>", 0),
    "ValueError": ValueError("Did not receive a response"),
    "TypeError": TypeError("an answer of another kind"),
    "ConnectionError": requests.ConnectionError("reset"),
    "ConnectionResetError": ConnectionResetError(errno.ECONNRESET, "reset"),
    "BrokenPipeError": BrokenPipeError(errno.EPIPE, "pipe"),
    "ReadTimeout": requests.ReadTimeout("slow"),
    "TimeoutError": TimeoutError("slow"),
    "ChunkedEncodingError": requests.exceptions.ChunkedEncodingError("half an answer"),
    "429": TooManyRequestsError("429"),
    "500": ServerError("500"),
    "502": CommitStateUnknownException("502"),
    "503": ServiceUnavailableError("503"),
    "RuntimeError": RuntimeError("whatever a catalog raises"),
    "MemoryError": MemoryError(),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "SystemExit": SystemExit(1),
}
lost = pytest.mark.parametrize("error", LOST.values(), ids=LOST)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[LosingCatalog]:
    catalog = LosingCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "warehouse").as_uri())
    yield catalog
    catalog.close()


def filled(catalog: SqlCatalog, version: int = 2) -> Table:
    table = new_table(catalog, version)
    formatkit.append(table, pa.table({"id": [1, 2, 3]}))
    return table


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in formatkit.scan(table.refresh()).to_arrow().to_pylist())


def files(table: Table) -> set[str]:
    return {str(path) for path in local_path(table.location()).rglob("*") if path.is_file()}


def append_more(table: Table) -> None:
    formatkit.append(table, pa.table({"id": [4, 5]}))


def raised(error: BaseException) -> type[BaseException]:
    return CommitStateUnknownError if isinstance(error, Exception) else type(error)


@lost
def test_a_commit_that_is_carried_out_late_has_all_its_files(catalog: LosingCatalog, error: BaseException) -> None:
    table = filled(catalog)
    catalog.error, catalog.applied = error, "later"
    with pytest.raises(raised(error)) as caught:
        append_more(table)
    assert ids(table) == [1, 2, 3]
    assert catalog.deliver()
    assert ids(table) == [1, 2, 3, 4, 5]
    if isinstance(caught.value, CommitStateUnknownError):
        assert caught.value.__cause__ is error
        head = table.current_snapshot()
        assert head is not None
        assert caught.value.snapshot_id == head.snapshot_id
        assert all(word in str(caught.value) for word in ("no file was deleted", "refresh", "run", "clean-orphans"))


@lost
def test_a_commit_that_was_carried_out_is_a_success(catalog: LosingCatalog, error: BaseException) -> None:
    table = filled(catalog)
    catalog.error, catalog.applied = error, "now"
    if isinstance(error, Exception):
        append_more(table)
        head = table.current_snapshot()
        assert head is not None
        assert head.summary is not None
        assert head.summary["added-records"] == "2"
    else:
        with pytest.raises(type(error)):
            append_more(table)
    assert ids(table) == [1, 2, 3, 4, 5]
    assert len(table.snapshots()) == 2


@lost
def test_a_commit_that_got_lost_leaves_the_table_as_it_was(catalog: LosingCatalog, error: BaseException) -> None:
    table = filled(catalog)
    before = files(table)
    catalog.error, catalog.applied = error, "never"
    with pytest.raises(raised(error)):
        append_more(table)
    assert ids(table) == [1, 2, 3]
    assert files(table) > before


CHANGES: dict[str, tuple[Callable[[Table], object], list[int]]] = {
    "delete": (lambda table: formatkit.delete(table, "id = 2"), [1, 3]),
    "copy-on-write": (lambda table: formatkit.delete(table, "id = 2", "copy-on-write"), [1, 3]),
    "overwrite": (lambda table: formatkit.overwrite(table, pa.table({"id": [7]}), where="id < 3"), [3, 7]),
    "upsert": (lambda table: formatkit.upsert(table, pa.table({"id": [3, 4], "name": ["c", "d"]}), "id"), [1, 2, 3, 4]),
    "rewrite": (lambda table: formatkit.rewrite(table, all_files=True), [1, 2, 3]),
}


@pytest.mark.parametrize(("operation", "expected"), CHANGES.values(), ids=CHANGES)
def test_every_operation_keeps_its_files_until_it_knows(
    catalog: LosingCatalog, operation: Callable[[Table], object], expected: list[int]
) -> None:
    table = filled(catalog)
    catalog.error, catalog.applied = OSError(errno.EIO, "Input/output error"), "later"
    with pytest.raises(CommitStateUnknownError):
        operation(table)
    assert catalog.deliver()
    assert ids(table) == expected


def test_an_attempt_in_doubt_is_followed_by_another_once_the_branch_has_moved_on(catalog: LosingCatalog) -> None:
    table = filled(catalog)
    other = catalog.load_table("db.t")
    formatkit.append(other, pa.table({"id": [9]}))
    catalog.error, catalog.applied = requests.ReadTimeout("slow"), "later"
    append_more(table)
    assert ids(table) == [1, 2, 3, 4, 5, 9]
    assert not catalog.deliver()
    assert ids(table) == [1, 2, 3, 4, 5, 9]
    assert len(table.snapshots()) == 3


def test_an_attempt_in_doubt_is_carried_out_once_though_the_branch_is_moved_back(catalog: LosingCatalog) -> None:
    table = filled(catalog)
    first = table.current_snapshot()
    other = catalog.load_table("db.t")
    formatkit.append(other, pa.table({"id": [9]}))
    catalog.error, catalog.applied = requests.ReadTimeout("slow"), "later"
    append_more(table)
    assert first is not None
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert not catalog.deliver()
    assert ids(table) == [1, 2, 3]


def test_files_of_an_attempt_in_doubt_outlive_a_conflict(catalog: LosingCatalog) -> None:
    table = filled(catalog, version=1)  # without sequence numbers, by which catalogs refuse what is late
    first = table.current_snapshot()
    other = catalog.load_table("db.t")
    formatkit.delete(other, "id = 3", "copy-on-write")
    catalog.error, catalog.applied = requests.ReadTimeout("slow"), "later"
    with pytest.raises(CommitConflictError):
        formatkit.delete(table, "id = 2", "copy-on-write")
    assert first is not None
    other.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert catalog.deliver()
    assert ids(table) == [1, 3]


def test_a_conflict_counts_only_if_the_catalog_shows_that_nothing_was_committed(catalog: LosingCatalog) -> None:
    # A client that sends its request again after a lost answer is told of a conflict with itself.
    table = filled(catalog)
    catalog.error, catalog.applied = CommitFailedException("the branch has changed"), "now"
    catalog.silent_afterwards = True
    with pytest.raises(CommitStateUnknownError):
        append_more(table)
    catalog.unreachable = False
    assert ids(table) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", ["all", "refs"])
def test_a_snapshot_under_later_ones_is_found_also_if_the_catalog_shows_only_heads(
    catalog: LosingCatalog, mode: str
) -> None:
    table = filled(catalog)
    load = LosingCatalog.load_table

    def with_referenced_snapshots_only(self: LosingCatalog, identifier: str) -> Table:
        found = load(self, identifier)
        referenced = {each.snapshot_id for each in found.metadata.refs.values()}
        kept = [each for each in found.metadata.snapshots if mode == "all" or each.snapshot_id in referenced]
        found.metadata = found.metadata.model_copy(update={"snapshots": kept})
        return found

    class Refs(LosingCatalog):
        load_table = with_referenced_snapshots_only

        def commit_table(self, table: Table, requirements: object, updates: object) -> CommitTableResponse:
            super().commit_table(table, requirements, updates)
            for number in (8, 9):
                formatkit.append(catalog.load_table("db.t"), pa.table({"id": [number]}))
            raise CommitFailedException("the branch has changed")

    with Refs("test", **catalog.properties) as refs:
        append_more(refs.load_table("db.t"))
    assert ids(table) == [1, 2, 3, 4, 5, 8, 9]


REFUSED: list[Exception] = [
    BadRequestError("400"),
    UnauthorizedError("401"),
    ForbiddenError("403"),
    AuthorizationExpiredError("419"),
    NoSuchTableError("gone"),
    NotImplementedError("this catalog commits nothing"),
    IntegrityError("UPDATE iceberg_tables", {}, Exception("violates a constraint")),
]


@pytest.mark.parametrize("error", REFUSED, ids=repr)
def test_what_the_catalog_refuses_is_cleaned_up(catalog: LosingCatalog, error: Exception) -> None:
    table = filled(catalog)
    before = files(table)
    catalog.error = error
    with pytest.raises(CatalogError, match="nothing was committed") as caught:
        append_more(table)
    assert caught.value.__cause__ is error
    assert isinstance(caught.value, TableMissingError) == isinstance(error, NoSuchTableError)
    assert files(table) == before


def status_error(status: int) -> Exception:
    answer = requests.Response()
    answer.status_code = status
    error = ServerError(str(status))
    error.__cause__ = requests.HTTPError(response=answer)
    return error


def test_answers_that_mean_not_applied_are_a_list() -> None:
    refused = {status for status in range(300, 600) if was_refused(status_error(status), Sight.ABSENT)}
    assert refused == {400, 401, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 419, 422, 428, 431}
    assert not {status for status in (409, 412) if was_refused(status_error(status), Sight.UNCLEAR)}


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN; SELECT * FROM iceberg_tables"])
def test_a_database_that_is_locked_refuses_at_the_statement_and_at_the_commit(tmp_path: Path, lock: str) -> None:
    with closing(new_sql_catalog(tmp_path)) as creator:
        table = filled(creator)
    before = files(table)
    with closing(new_losing_catalog(tmp_path, "?timeout=0.1")) as catalog:
        table = catalog.load_table("db.t")
        other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
        reading = [other.execute(statement) for statement in lock.split(";")]
        with pytest.raises(CatalogError, match="locked") as caught:
            append_more(table)
        cause = caught.value.__cause__
        assert isinstance(cause, OperationalError)
        assert (cause.statement is None) == ("SELECT" in lock)
        reading.clear()
        other.rollback()
        other.close()
        assert files(table) == before
        append_more(table)
        assert ids(table) == [1, 2, 3, 4, 5]


def test_a_catalog_whose_tables_cannot_be_read_before_it_is_asked_is_cleaned_up(catalog: LosingCatalog) -> None:
    table = filled(catalog)
    before = files(table)
    local_path(table.metadata_location).rename(local_path(table.metadata_location).with_suffix(".away"))
    with pytest.raises(FileNotFoundError):
        append_more(table)
    local_path(table.metadata_location).with_suffix(".away").rename(local_path(table.metadata_location))
    assert files(table) == before
