"""What runs on the driver: the files that tasks report become one snapshot, and those that none reports are removed."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import IsolationLevel, Operation, Snapshot

from formatkit.errors import (
    AlreadyCommittedError,
    CommitConflictError,
    CommitStateUnknownError,
    ConfigurationError,
    InternalError,
    without_secrets,
)
from formatkit.scan.sources import TableFiles
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.task import TaskFiles, WriteTask
from formatkit.write import TableWriteConfig
from formatkit.write.commit import Change, UncommittedFiles, commit
from formatkit.write.commit.branches import snapshot_that_says
from formatkit.write.commit.outcome import catalog_failures
from formatkit.write.jobs.leftovers import FILES_ID, remove_after_failure, try_to_remove_unreported
from formatkit.write.operations.removal import Removal

__all__ = ["FILES_ID", "WRITE_ID", "ChangeOf", "WriteJob"]

WRITE_ID = "formatkit.write-id"
"""In the summary of a snapshot: the idempotency key of the write that made it."""

ChangeOf = Callable[[tuple[DataFile, ...]], Change | None]
"""From the files that were written to what is committed; None if there is nothing to commit."""

_log = logging.getLogger(__name__)


class WriteJob:
    """One write to a table, on the driver or in any process that can load the table.

        job = WriteJob(table)
        messages = ...                                  # of tasks that ran job.task.write
        job.commit(messages, job.append)

    Args:
        table: The table of a catalog. It shows the snapshot afterwards.
        write_id: A UUID that no other write has; a new one if left out.
        branch: Where to commit.
        snapshot_properties: What the snapshot's summary is to say as well.
        idempotency_key: A write with a key that a snapshot of the branch has already commits nothing. The write id if
            left out.
        staged: Add the snapshot without moving the branch.
        config: How files are written; what the table says if left out.
        clustered: As in `WriteTask`.
        speculation: Whether Spark may run a task twice at the same time (`spark.speculation`); None if nobody knows.
        engine: What the summary says of the engine.

    Attributes:
        task: What executors run.
        base_snapshot_id: The head of the branch when the job was made; None if there was none.
    """

    def __init__(
        self,
        table: Table,
        *,
        write_id: str | None = None,
        branch: str = "main",
        snapshot_properties: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        staged: bool = False,
        config: TableWriteConfig | None = None,
        clustered: bool | None = None,
        speculation: bool | None = None,
        engine: Mapping[str, str] | None = None,
    ) -> None:
        self.table = table
        self.branch = branch
        self.write_id = _checked(write_id) if write_id is not None else str(uuid.uuid4())
        self.key = idempotency_key or self.write_id
        self._staged = staged
        self._speculation = speculation
        self._properties = {
            **(snapshot_properties or {}),
            "engine-name": "spark",
            **(engine or {}),
            WRITE_ID: self.key,
            FILES_ID: self.write_id,
        }
        config = config or TableWriteConfig.of(table.metadata, catalog_properties=table.catalog.properties)
        self.task = WriteTask(config=config, storage=TableFiles(table.io), write_id=self.write_id, clustered=clustered)
        base = table.metadata.snapshot_by_name(branch) or table.metadata.current_snapshot()
        self.base_snapshot_id = None if base is None else base.snapshot_id
        self._in_doubt = False

    def committed(self) -> Snapshot | None:
        """The snapshot that a write with the same idempotency key made on the branch, at whatever time; None if none.

        The table object shows the newest state afterwards.
        """
        return self._snapshot_that_says(WRITE_ID, self.key)

    def is_own(self, snapshot: Snapshot) -> bool:
        """Whether this very write made a snapshot, so that its files are in it."""
        return snapshot.summary is not None and snapshot.summary.additional_properties.get(FILES_ID) == self.write_id

    def append(self, files: tuple[DataFile, ...]) -> Change | None:
        """The change that adds the files and nothing else."""
        return (
            Change(operation=Operation.APPEND, added=files, base_snapshot_id=self.base_snapshot_id) if files else None
        )

    def replace(
        self,
        files: tuple[DataFile, ...],
        removal: Removal,
        predicate: BooleanExpression,
        options: WriteOptions,
        base_snapshot_id: int | None,
    ) -> Change | None:
        """The change that adds the files in place of others.

        Args:
            files: What was written, rows that were copied included.
            removal: What leaves the table.
            predicate: The rows that no other writer may have added since the base.
            options: Has the isolation level, and the snapshot since which others are looked at.
            base_snapshot_id: That snapshot, if options have none.
        """
        if removal.is_empty and not files:
            return None
        return removal.change(
            files,
            base_snapshot_id=base_snapshot_id if options.validate_from is None else options.validate_from,
            conflict_filter=predicate,
            command="update",
            isolation=None if options.isolation is None else IsolationLevel(options.isolation),
        )

    def commit(self, messages: Sequence[TaskFiles | None], change: ChangeOf, *, attempts: int = 1) -> Snapshot | None:
        """Commit what tasks report, in one snapshot, and remove the files of this write that none of them reports.

        A commit that fails for certain removes the reported files, too. If it is not known whether it took place,
        nothing is removed.

        Args:
            messages: What the winning attempt of each task reports.
            change: What to commit, given the reported files.
            attempts: How often `change` may be asked: again when others have made the change impossible, if it is
                derived from what the table is at that moment.

        Returns:
            The snapshot; that of an earlier write with the same idempotency key, if there is one, and then the files
            of this write are removed; None if there is nothing to commit.

        Raises:
            InternalError: A message is missing, or a file is reported twice.
            CommitConflictError, CommitStateUnknownError: As in `formatkit.write.commit.commit`.
        """
        files = self._reported(messages)
        locations = [file.file_path for file in files]
        try:
            with UncommittedFiles(self.table.io) as uncommitted:
                for location in locations:
                    uncommitted.add(location)
                snapshot = self._commit(files, change, uncommitted, attempts)
        except Exception as error:
            self._in_doubt = isinstance(error, CommitStateUnknownError)
            if not self._in_doubt:
                self._clean(messages, locations)
            raise
        except BaseException:
            self._in_doubt = True
            raise
        self._clean(messages, locations)
        return snapshot

    def abort(self, messages: Sequence[TaskFiles | None] = ()) -> None:
        """Remove all files of this write after its tasks failed, unless they may have been committed.

        Nothing is removed if the table has the snapshot of this write, if it cannot be asked, and if no message is
        missing: Spark asks for an abort after a commit that failed as well, and that has cleaned up by itself if it
        was certain of its failure.

        Args:
            messages: What attempts reported before the job failed, None for those that did not; empty if nobody knows.
        """
        if self._in_doubt or (messages and None not in messages):
            return
        try:
            if self._snapshot_that_says(FILES_ID, self.write_id) is not None:
                return
        except Exception as error:  # noqa: BLE001 - each catalog fails in its own way
            text = without_secrets(f"{error}")
            _log.warning("the files of write %s stay: the table cannot be asked (%s)", self.write_id, text)
            return
        remove_after_failure(self.task.config, self.table.io, self.write_id)
        reported = (file.file_path for message in messages if message is not None for file in message.files)
        with UncommittedFiles(self.table.io) as uncommitted:
            for location in reported:
                uncommitted.add(location)

    def _reported(self, messages: Sequence[TaskFiles | None]) -> tuple[DataFile, ...]:
        found: dict[str, DataFile] = {}
        for position, message in enumerate(messages):
            if not isinstance(message, TaskFiles):
                text = (
                    f"task {position} of {len(messages)} of write {self.write_id} reported {message!r} instead of its "
                    "files; nothing was committed, because its rows would be lost"
                )
                raise InternalError(text)
            for file in message.files:
                if file.file_path in found:
                    raise InternalError(f"{file.file_path} was reported twice; nothing was committed")
                found[file.file_path] = file
        return tuple(found.values())

    def _commit(
        self, files: tuple[DataFile, ...], change: ChangeOf, uncommitted: UncommittedFiles, attempts: int
    ) -> Snapshot | None:
        while True:
            earlier = self.committed()
            if earlier is not None:
                return self._give_way(earlier, uncommitted)
            made = change(files)
            if made is None:
                return None
            made = replace(made, properties={**made.properties, **self._properties}, once=WRITE_ID)
            attempts -= 1
            try:
                return commit(self.table, made, branch=self.branch, files=uncommitted, staged=self._staged)
            except AlreadyCommittedError as error:
                earlier = self.table.snapshot_by_id(error.snapshot_id) if error.snapshot_id is not None else None
                if earlier is None:
                    raise
                return self._give_way(earlier, uncommitted)
            except CommitConflictError:
                if not attempts:
                    raise

    def _give_way(self, earlier: Snapshot, uncommitted: UncommittedFiles) -> Snapshot:
        """Leave it at the snapshot that is there; the files of this write are removed, unless they are in it."""
        if self.is_own(earlier):
            uncommitted.keep()
        return earlier

    def _snapshot_that_says(self, name: str, value: str) -> Snapshot | None:
        with catalog_failures(self.table, "nothing was committed"):
            self.table.refresh()
        found = snapshot_that_says(self.table.metadata, self.branch, name, value)
        if found is None and _has_gaps(self.table):
            # REST catalogs may leave out snapshots to which no branch or tag points; the metadata file has all of them.
            whole = FromInputFile.table_metadata(self.table.io.new_input(self.table.metadata_location))
            found = snapshot_that_says(whole, self.branch, name, value)
        return found

    def _clean(self, messages: Sequence[TaskFiles | None], reported: Collection[str]) -> None:
        """Remove what attempts left that lost; only where there may have been some, as it costs a listing."""
        if self._speculation is not False or any(message is None or message.retried for message in messages):
            try_to_remove_unreported(self.task.config, self.table.io, self.write_id, reported, reported)


def _has_gaps(table: Table) -> bool:
    if not isinstance(table.catalog, RestCatalog):
        return False
    known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    return any(each.parent_snapshot_id not in known for each in table.metadata.snapshots if each.parent_snapshot_id)


def _checked(write_id: Any) -> str:
    """Files are removed by this id, so that nothing else may have it in its name by accident."""
    try:
        if str(uuid.UUID(write_id)) == write_id:
            return str(write_id)
    except (ValueError, AttributeError, TypeError):
        pass
    raise ConfigurationError(f"the write id is {write_id!r}; it must be a UUID in small letters with hyphens")
