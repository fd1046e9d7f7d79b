"""Micro-batches become snapshots, each of them once, whoever planned them: the data source or the SQL catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from formatkit.errors import ConfigurationError
from formatkit.spark.streaming.upserts import RowsByKey
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.config import write_config
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.task import TaskFiles
from formatkit.write.commit import Change, UncommittedFiles
from formatkit.write.commit.branches import branch_head
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.removal import Removal

__all__ = ["EPOCH_ID", "QUERY_ID", "MicroBatchJob", "check_stream_options"]

QUERY_ID = "spark.sql.streaming.queryId"
EPOCH_ID = "spark.sql.streaming.epochId"
"""In the summaries of snapshots, as Iceberg's own sink names them: the query, and its micro-batch."""

_MAIN = "main"
_ATTEMPTS = 5


class MicroBatchJob:
    """The write of one micro-batch to a table, on the driver.

    The snapshot says which query and which micro-batch it is of. A micro-batch that the history of the branch has is
    not committed again.

    Args:
        table: The table as it is now.
        options: As `check_stream_options` lets them pass.
        overwrite: Whether the rows replace all others (the output mode "complete").
        query_id: The id that the query keeps when it is started again; None if no task ran that would know it.
        batch_id: The number of the micro-batch.
        write_id: The UUID in the names of the files; a new one if left out.
        branch: Where to commit; as the options say if left out.
        speculation: As in `WriteJob`.
        engine: What the summary says of the engine.
    """

    def __init__(
        self,
        table: Table,
        options: WriteOptions,
        *,
        overwrite: bool,
        query_id: str | None = None,
        batch_id: int | None = None,
        write_id: str | None = None,
        branch: str | None = None,
        speculation: bool = False,
        engine: Mapping[str, str] | None = None,
    ) -> None:
        self._table = table
        self._options = options
        self._overwrite = overwrite
        self._query_id = query_id
        self._batch_id = batch_id
        self._branch = branch or options.branch or _MAIN
        known = {} if query_id is None else {QUERY_ID: query_id, EPOCH_ID: str(batch_id)}
        self.job = WriteJob(
            table,
            write_id=write_id,
            branch=self._branch,
            snapshot_properties={**options.snapshot_properties, **known},
            idempotency_key=None if query_id is None else f"{query_id}/{batch_id}",
            config=write_config(table, options),
            clustered=False if options.fanout else None,
            speculation=speculation,
            engine=engine,
        )

    def commit(self, messages: Sequence[TaskFiles | None]) -> None:
        """Commit what tasks report, unless the branch has the micro-batch already."""
        # Files that say which rows are gone; the job takes care of what tasks wrote.
        with UncommittedFiles(self._table.io) as deletes:
            try:
                snapshot = self.job.commit(messages, lambda files: self._change(files, deletes), attempts=_ATTEMPTS)
            except Exception:
                raise
            except BaseException:
                # Nobody knows how far it came.
                deletes.keep()
                raise
            if snapshot is not None and self.job.is_own(snapshot):
                deletes.keep()

    def abort(self, messages: Sequence[TaskFiles | None] = ()) -> None:
        """Remove what tasks wrote, unless the table has it."""
        self.job.abort(messages)

    def _change(self, files: tuple[DataFile, ...], deletes: UncommittedFiles) -> Change | None:
        deletes.discard()  # those of an attempt that others made impossible
        if self._query_id is not None and self._batch_id is not None and self._newest_epoch() >= self._batch_id:
            return None
        if self._overwrite:
            return self._replace_all(files)
        if self._options.upsert:
            return RowsByKey(self._table, self._branch, self._options.join_columns).replace(files, deletes)
        return self.job.append(files)

    def _replace_all(self, files: tuple[DataFile, ...]) -> Change | None:
        base = Base.of(self._table, self._branch, None)
        removal = Removal()
        removal.remove_files(whole_files(base.scan(()).tasks))
        return self.job.replace(files, removal, AlwaysTrue(), self._options, base.snapshot_id)

    def _newest_epoch(self) -> int:
        """The last micro-batch of the query that the history of the branch has; -1 if it has none."""
        metadata = self._table.metadata
        if not metadata.snapshots:
            return -1
        for snapshot in ancestors_of(branch_head(metadata, self._branch), metadata):
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if said.get(QUERY_ID) == self._query_id and said.get(EPOCH_ID, "").isdigit():
                return int(said[EPOCH_ID])
        return -1


def check_stream_options(options: WriteOptions, *, overwrite: bool) -> None:
    """Raise `ConfigurationError` for options that a stream has no use for."""
    misplaced = {
        "distribution-mode": options.distribution not in (None, "none"),
        "advisory-partition-size": options.advisory_bytes is not None,
        "overwrite-mode": options.dynamic,
        "filter": options.where is not None,
        "idempotency-key": options.idempotency_key is not None,
        "validate-from-snapshot-id": options.validate_from is not None,
        "check-nullability": options.check_nullability,
        "check-ordering": options.check_ordering,
    }
    for name, is_given in misplaced.items():
        if is_given:
            message = f"the option {name} is for a write that is done once; a stream has no use for it"
            if name in ("distribution-mode", "advisory-partition-size"):
                message += ", because Spark lets no sink of Python distribute rows: repartition the DataFrame instead"
            raise ConfigurationError(message)
    if options.upsert and overwrite:
        message = "the option upsert-enabled replaces rows by their keys, and the output mode complete replaces all"
        raise ConfigurationError(f"{message}; choose one of them")
    if options.join_columns and not options.upsert:
        raise ConfigurationError("the option join-columns names the keys of an upsert; say upsert-enabled=true, too")
