"""What became of a commit that ended with an error.

Deleting files that a snapshot refers to destroys data, and keeping files to which none refers only costs space. So a
commit counts as refused only if its error is on the lists of this module. An error that is on none of them may be that
of a request which the catalog still carries out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from itertools import pairwise
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

import requests
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    UnauthorizedError,
)
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

from formatkit.errors import CatalogError, FormatkitError, TableMissingError
from formatkit.io.failures import storage_failures

__all__ = ["Sight", "catalog_failures", "failed_before_asking", "look_for", "staged_metadata", "was_refused"]

# Answers which mean that the request was not carried out. Those are missing that a proxy may give after it has passed
# the request on, or that end a request which a proxy has sent twice: 408, 425, 429, 499 and everything from 500 on.
_NOT_APPLIED = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 419, 422, 428, 431})
# The same, from catalogs that raise them without an answer of HTTP.
_REFUSALS = (
    AuthorizationExpiredError,
    BadRequestError,
    ForbiddenError,
    NoSuchTableError,
    NotImplementedError,
    UnauthorizedError,
)
_CONFLICTS = frozenset({409, 412})
# What pyiceberg's catalogs call in `commit_table` before they ask the server or the database to move the table.
_PREPARATIONS = frozenset(
    {
        "_check_endpoint",
        "_convert_glue_to_iceberg",
        "_convert_hive_into_iceberg",
        "_get_glue_table",
        "_get_hive_table",
        "_update_and_stage_table",
        "_wait_for_lock",
        "_write_metadata",
        "_write_metadata_no_exist_check",
        "load_table",
        "model_dump_json",
        "url",
    }
)


_MISSING = (NoSuchTableError, NoSuchNamespaceError, NoSuchIdentifierError)


@contextmanager
def catalog_failures(table: Table, outcome: str) -> Iterator[None]:
    """Raise what a catalog raises as `CatalogError`, and failures of its storage as `StorageError`.

    Args:
        table: The table that the catalog is asked about.
        outcome: What became of the operation, for messages.
    """
    try:
        yield
    except (FormatkitError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
            staged = staged_metadata(error)
            with storage_failures(staged or table.metadata_location, "read" if staged is None else "write"):
                raise
        raise _catalog_error(error, table, outcome) from error


def _catalog_error(error: Exception, table: Table, outcome: str) -> CatalogError:
    name, catalog = ".".join(table.name()), table.catalog.name
    said = f"({type(error).__name__}: {error})"
    if isinstance(error, _MISSING):
        message = f"catalog {catalog!r} has no table {name} any more {said}; {outcome}. Was it dropped or renamed?"
        return TableMissingError(f"{message} Load it from the catalog again", table=name)
    message = f"catalog {catalog!r} refused what was asked of table {name}, or could not be asked {said}; {outcome}"
    return CatalogError(f"{message}. Mend what the catalog says, such as credentials, and run it again", table=name)


class Sight(Enum):
    """What a table shows of a snapshot."""

    COMMITTED = "the snapshot is there"
    ABSENT = "the snapshot is not there"
    UNCLEAR = "the catalog does not answer, or the history of the branch has gaps in which the snapshot may be"


def look_for(
    snapshot: Snapshot, branch: str, table: Table, error: Exception, *, staged: bool = False
) -> tuple[Table | None, Sight]:
    """Ask the catalog for the newest state of a table, and whether it has a snapshot.

    Args:
        snapshot: What the catalog was asked to make the head of a branch.
        branch: Where.
        table: The table as it was then.
        error: What the attempt ended with.
        staged: Whether the branch was to stay where it is.

    Returns:
        The newest state, or None if the catalog does not answer, and what it shows.
    """
    try:
        _end_transaction(table.catalog, error)
        now = table.catalog.load_table(table.name())
    except Exception:  # noqa: BLE001 - each catalog fails in its own way
        return None, Sight.UNCLEAR
    sight = _sight_of(snapshot, branch, now.metadata)
    if sight is Sight.UNCLEAR or (staged and sight is Sight.ABSENT):
        # REST catalogs may leave out snapshots to which no branch or tag points; the metadata file has all of them.
        try:
            now.metadata = FromInputFile.table_metadata(now.io.new_input(now.metadata_location))
        except Exception:  # noqa: BLE001 - storage fails in any way it likes
            return now, Sight.UNCLEAR
        sight = _sight_of(snapshot, branch, now.metadata)
    return now, sight


def _sight_of(snapshot: Snapshot, branch: str, metadata: TableMetadata) -> Sight:
    if metadata.snapshot_by_id(snapshot.snapshot_id) is not None:
        return Sight.COMMITTED
    reference = metadata.refs.get(branch)
    current = None if reference is None else reference.snapshot_id
    seen: set[int] = set()
    while current is not None and current != snapshot.parent_snapshot_id:
        ancestor = metadata.snapshot_by_id(current)
        if ancestor is None or current in seen:
            return Sight.UNCLEAR
        seen.add(current)
        current = ancestor.parent_snapshot_id
    return Sight.ABSENT


def was_refused(error: Exception, sight: Sight) -> bool:
    """Whether a commit certainly did not take place, and will not.

    Args:
        error: What the attempt ended with.
        sight: What the table has shown since.
    """
    if failed_before_asking(error):
        return True
    if _was_redirected(error):
        return False
    if isinstance(error, CommitFailedException) or _status(error) in _CONFLICTS:
        # A client or a proxy that sends a request again after a lost answer gets a conflict with itself.
        return sight is Sight.ABSENT
    status = _status(error)
    if status is not None:
        return status in _NOT_APPLIED
    if isinstance(error, _REFUSALS) or _never_connected(error):
        return True
    return sight is Sight.ABSENT and _rolled_back(error)


def failed_before_asking(error: Exception) -> bool:
    """Whether one of pyiceberg's catalogs was still preparing its request, for example writing the metadata file."""
    return any(
        _is_commit(outer) and inner.f_code.co_name in _PREPARATIONS
        for outer, inner in pairwise(_frames(error.__traceback__))
    )


def staged_metadata(error: Exception) -> str | None:
    """The metadata file that the catalog wrote, or began to write, for a commit that failed."""
    for frame in _frames(error.__traceback__):
        staged = frame.f_locals.get("updated_staged_table") if _is_commit(frame) else None
        if isinstance(staged, StagedTable):
            return staged.metadata_location
    return None


def _is_commit(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return frame.f_code.co_name == "commit_table" and module.startswith("pyiceberg.catalog.")


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    return (frame for frame, _ in walk_tb(trace))


def _status(error: Exception) -> int | None:
    """The status of the answer from which pyiceberg made the error."""
    answer = error.__cause__
    if isinstance(answer, requests.HTTPError) and answer.response is not None:
        return int(answer.response.status_code)
    return None


def _was_redirected(error: Exception) -> bool:
    """Whether it is another request that failed, which asks elsewhere for the outcome of one that was taken.

    Clients follow redirects that mean this with a GET, and send the commit itself again if it was not taken.
    """
    failure = error.__cause__ if isinstance(error.__cause__, requests.HTTPError) else error
    request = failure.request if isinstance(failure, requests.RequestException) else None
    return request is not None and request.method != "POST"


def _never_connected(error: Exception) -> bool:
    """Whether a request was not sent, because there was no connection to send it through."""
    failure = error.args[0] if isinstance(error, requests.ConnectionError) and error.args else None
    if not isinstance(failure, MaxRetryError):
        return False
    # urllib3 calls itself to try again, and an earlier try may have sent the request.
    tries = sum(frame.f_code is HTTPConnectionPool.urlopen.__code__ for frame in _frames(failure.__traceback__))
    return tries == 1 and isinstance(failure.reason, (ConnectTimeoutError, NewConnectionError))


def _rolled_back(error: Exception) -> bool:
    """Whether the database of a SQL catalog failed before the COMMIT, or refused the COMMIT because of a lock.

    What a database does after it has got the COMMIT is not known without an answer, nor is what happens to a
    connection that broke.
    """
    sqlalchemy: Any = sys.modules.get("sqlalchemy.exc")
    if sqlalchemy is None:
        return False
    if isinstance(error, sqlalchemy.TimeoutError):  # the pool has no connection to give
        return True
    if not isinstance(error, sqlalchemy.DBAPIError) or error.connection_invalidated:
        return False
    locked = getattr(error.orig, "sqlite_errorname", "").startswith("SQLITE_BUSY")
    return locked or error.statement is not None


def _end_transaction(catalog: Catalog, error: Exception) -> None:
    """End the transaction of a COMMIT that failed.

    SQLAlchemy gives the connection back to its pool with the transaction open. Whoever gets it next would see the
    snapshot as if it were committed, and commit it with what they do.
    """
    sqlalchemy: Any = sys.modules.get("sqlalchemy")
    engine: Any = getattr(catalog, "engine", None)
    if sqlalchemy is None or engine is None or not isinstance(error, sqlalchemy.exc.DBAPIError) or error.statement:
        return
    if isinstance(engine.pool, sqlalchemy.pool.QueuePool):
        engine.dispose()
    else:
        # Each thread has one connection, which is all there is of a database in memory.
        with closing(engine.raw_connection()) as connection:
            connection.rollback()
