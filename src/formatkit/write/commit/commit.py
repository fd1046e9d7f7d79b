"""Turns a change into a snapshot: tries, and tries again when others were faster."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import StaticTable, Table, TableProperties
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Properties
from pyiceberg.utils.properties import property_as_int

from formatkit.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    ConfigurationError,
    FormatkitError,
    InternalError,
    UnsupportedError,
)
from formatkit.write.commit.change import Change
from formatkit.write.commit.cleanup import UncommittedFiles
from formatkit.write.commit.outcome import Sight, catalog_failures, look_for, staged_metadata, was_refused
from formatkit.write.commit.rules import check_change, check_files
from formatkit.write.commit.snapshot import Proposal, propose
from formatkit.write.commit.version3 import enable_version3

__all__ = ["commit"]


def commit(
    table: Table, change: Change, *, branch: str = "main", files: UncommittedFiles | None = None, staged: bool = False
) -> Snapshot:
    """Commit a change to a branch in one snapshot; the table object then shows it.

    When another writer was faster, the change is checked against what that writer did and tried again, as often as
    the table's `commit.retry.*` properties allow. Metadata that was written for an attempt which failed is deleted.

    Args:
        table: The table, at or after the snapshot on which the change is based.
        change: What to do.
        branch: Where to do it. A branch that does not exist starts at the head of main.
        files: The data and delete files of the change. From the moment when the catalog is asked they are kept, until
            it is certain that it refused.
        staged: Add the snapshot to the table without moving the branch, for somebody to look at and to publish.

    Raises:
        AlreadyCommittedError: The branch has a snapshot that says what `change.once` names.
        CommitConflictError: Another writer did what the change cannot be combined with, or others were faster in every
            attempt.
        CommitStateUnknownError: The catalog did not say what happened. Nothing was deleted.
        FileMissingError: A file that the change adds is not there. The catalog was not asked.
        StorageError: The metadata could not be written. The catalog was not asked.
        UnsupportedError: The table's format version does not know such files, or the table has no catalog.
    """
    if isinstance(table, StaticTable):
        message = (
            f"the table of {table.metadata_location} was loaded without a catalog; load it from one to write to it"
        )
        raise UnsupportedError(message)
    check_change(table.metadata, change)
    if table.metadata.format_version >= 3:
        enable_version3()
    return _Committer(table, change, branch, files or UncommittedFiles(table.io), staged).run()


_NOTHING_DONE = "nothing was committed"


class _Committer:
    def __init__(self, table: Table, change: Change, branch: str, files: UncommittedFiles, staged: bool) -> None:
        self._staged = staged
        self._table = table
        self._change = change
        self._branch = branch
        self._files = files
        # The same in all attempts, so that an attempt whose answer got lost is recognised, and so that a catalog
        # which carries it out late and has carried out a later attempt refuses it.
        self._snapshot_id = table.metadata.new_snapshot_id()
        self._in_doubt = False

    def run(self) -> Snapshot:
        waits = _waits(self._table.metadata.properties)
        while True:
            with UncommittedFiles(self._table.io) as metadata_files:
                proposal = propose(
                    self._table, self._change, self._branch, self._snapshot_id, metadata_files, staged=self._staged
                )
                check_files(self._change, self._table)
                failure = self._ask(proposal, metadata_files)
            if failure is None:
                return self._snapshot()
            wait = next(waits, None)
            if wait is None:
                raise self._too_slow(failure) from failure
            time.sleep(wait)
            self._refresh()

    def _refresh(self) -> None:
        try:
            with catalog_failures(self._table, _NOTHING_DONE):
                self._table.refresh()
        except FormatkitError as error:
            if self._in_doubt:
                raise self._unknown(error) from error
            raise

    def _ask(self, proposal: Proposal, metadata_files: UncommittedFiles) -> Exception | None:
        """Ask the catalog; returns its refusal if another attempt makes sense, and raises what cannot be mended."""
        metadata_files.keep()
        self._files.keep()
        try:
            self._table._do_commit(updates=proposal.updates, requirements=proposal.requirements)  # noqa: SLF001
        except Exception as error:
            now, sight = look_for(proposal.snapshot, self._branch, self._table, error, staged=self._staged)
            if now is not None and sight is Sight.COMMITTED:
                self._show(now)
                return None
            if was_refused(error, sight):
                self._release(metadata_files, error)
            elif now is None or not self._may_ask_again(error, sight, now):
                raise self._unknown(error) from error
            else:
                self._in_doubt = True
                return error
            if isinstance(error, CommitFailedException) or _is_outdated(self._table, now, error):
                return error
            with catalog_failures(self._table, _NOTHING_DONE):
                raise
        return None

    def _may_ask_again(self, error: Exception, sight: Sight, now: Table) -> bool:
        """Whether an attempt of which the catalog does not say what became of it may be followed by another.

        It can no longer be carried out if the branch has moved on, because it asks for the head that the branch had.
        Its files stay, as somebody may move the branch back.
        """
        if isinstance(error, CommitFailedException):
            return True
        return sight is Sight.ABSENT and self._head(now) != self._head(self._table)

    def _head(self, table: Table) -> int | None:
        reference = table.metadata.refs.get(self._branch)
        return None if reference is None else reference.snapshot_id

    def _release(self, metadata_files: UncommittedFiles, error: Exception) -> None:
        metadata_files.unkeep()
        staged = staged_metadata(error)
        if staged is not None:
            metadata_files.add(staged)
        if not self._in_doubt:
            self._files.unkeep()

    def _show(self, now: Table) -> None:
        """Let the caller's table object show the newest state, as `refresh` does, without asking once more."""
        self._table.metadata, self._table.metadata_location = now.metadata, now.metadata_location
        self._table.io, self._table.config = now.io, now.config

    def _snapshot(self) -> Snapshot:
        snapshot = self._table.snapshot_by_id(self._snapshot_id)
        if snapshot is None:
            raise InternalError(f"the catalog accepted snapshot {self._snapshot_id} but does not show it")
        return snapshot

    @staticmethod
    def _too_slow(failure: Exception) -> CommitConflictError:
        message = (
            f"other writers were faster in every attempt that the table allows ({failure}); nothing was "
            "committed. Run the operation again, or allow more attempts by commit.retry.num-retries"
        )
        return CommitConflictError(message)

    def _unknown(self, error: Exception) -> CommitStateUnknownError:
        message = (
            f"the catalog did not say whether snapshot {self._snapshot_id} was committed ({type(error).__name__}: "
            f"{error}); no file was deleted. Wait until the catalog can no longer be at work on it, and refresh the "
            "table: if it has the snapshot, all is well; if not, run the operation again and let clean-orphans remove "
            "the files of this attempt"
        )
        return CommitStateUnknownError(message, snapshot_id=self._snapshot_id)


def _is_outdated(table: Table, now: Table | None, error: Exception) -> bool:
    """Whether an attempt may have failed because others were faster, which catalogs say in many ways."""
    return now is not None and now.metadata_location != table.metadata_location and not isinstance(error, OSError)


def _waits(properties: Properties) -> Iterator[float]:
    """Seconds to wait before each further attempt, growing and a little random, until the table's limits."""
    retries = _number(properties, TableProperties.COMMIT_NUM_RETRIES, TableProperties.COMMIT_NUM_RETRIES_DEFAULT)
    shortest = _number(
        properties, TableProperties.COMMIT_MIN_RETRY_WAIT_MS, TableProperties.COMMIT_MIN_RETRY_WAIT_MS_DEFAULT
    )
    longest = _number(
        properties, TableProperties.COMMIT_MAX_RETRY_WAIT_MS, TableProperties.COMMIT_MAX_RETRY_WAIT_MS_DEFAULT
    )
    total = _number(
        properties, TableProperties.COMMIT_TOTAL_RETRY_TIME_MS, TableProperties.COMMIT_TOTAL_RETRY_TIME_MS_DEFAULT
    )
    end = time.monotonic() + total / 1000
    return _until(end, (min(shortest * 2**attempt, longest) / 1000 for attempt in range(retries)))


def _until(end: float, waits: Iterator[float]) -> Iterator[float]:
    for wait in waits:
        if time.monotonic() >= end:
            return
        yield wait * random.uniform(1, 1.1)  # noqa: S311 - spreads writers, keeps no secret


def _number(properties: Properties, name: str, default: int) -> int:
    try:
        return max(0, property_as_int(properties, name, default) or 0)
    except ValueError as error:
        message = f"the table's property {name} is {properties[name]!r}; it must be a whole number"
        raise ConfigurationError(message) from error
