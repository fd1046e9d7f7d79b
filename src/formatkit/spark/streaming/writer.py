"""What is behind ``df.writeStream.format("formatkit")``: each micro-batch becomes one snapshot, once.

Spark makes a writer in a Python process of its own for the tasks of a micro-batch, and others for its commit and its
abort. They share nothing but the options, and what tasks report.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyspark
from pyiceberg.table import Table
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from formatkit.errors import InternalError
from formatkit.spark.catalogs import Catalogs
from formatkit.spark.datasource.writer import SinkTable
from formatkit.spark.sending import sent
from formatkit.spark.streaming.commit import MicroBatchJob, check_stream_options
from formatkit.spark.streaming.upserts import RowsByKey
from formatkit.spark.writing.options import parse_write_options
from formatkit.spark.writing.schema import Assignment, check_columns, check_fit, evolve
from formatkit.spark.writing.task import TaskFiles, WriteTask

__all__ = ["StreamedFiles", "TableStreamWriter"]

_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"
# What Spark itself reads from the options of a query.
_OF_SPARK = ("checkpointlocation",)


@dataclass
class StreamedFiles(WriterCommitMessage):
    """What a task reports: its files, the micro-batch that they are of, and the id that is in their names."""

    files: TaskFiles
    query_id: str
    batch_id: int
    write_id: str


class _TaskWriter(DataSourceStreamArrowWriter):
    """What is sent to executors."""

    def __init__(self, task: WriteTask) -> None:
        self._task = task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamedFiles:  # type: ignore[override]  # as its base does
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY_PROPERTY) if context is not None else None
        batch_id = context.getLocalProperty(_BATCH_PROPERTY) if context is not None else None
        if not query_id or batch_id is None:
            message = (
                f"Spark {pyspark.__version__} does not tell tasks the query and the micro-batch ({_QUERY_PROPERTY} is "
                f"{query_id!r}, {_BATCH_PROPERTY} is {batch_id!r}), without which rows might be written twice; use "
                "foreachBatch and formatkit.spark.write with an idempotency_key"
            )
            raise InternalError(message)
        # Spark may send one writer to several micro-batches. What one of them left is told by its own id, which those
        # of an earlier start of the query do not have.
        task = replace(self._task, write_id=str(uuid.uuid5(uuid.UUID(self._task.write_id), f"{query_id}/{batch_id}")))
        return StreamedFiles(task.write(iterator), query_id, int(batch_id), task.write_id)


class TableStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches to a table.

    The snapshot of a micro-batch says which query and which micro-batch it is of. A micro-batch that the history of the
    branch has is not written again, so that each is there once, whatever was killed and whichever answer got lost.

    Args:
        options: As the user gives them.
        catalogs: As in `formatkit.spark.catalogs`.
        schema: The columns of the rows.
        overwrite: Whether each micro-batch replaces all rows (the output mode "complete").

    Raises:
        ConfigurationError: An option is wrong, or one that a stream has no use for.
    """

    def __init__(self, options: Mapping[str, str], catalogs: Catalogs, schema: StructType, overwrite: bool) -> None:
        given = {name: value for name, value in options.items() if name.lower() not in _OF_SPARK}
        self._target = SinkTable.of(given, catalogs)
        self._options = parse_write_options(given)
        self._schema = schema
        self._overwrite = overwrite
        self._task: WriteTask | None = None
        check_stream_options(self._options, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]  # as above
        raise InternalError("only what is sent to executors writes")

    def __reduce__(self) -> tuple[Any, ...]:
        # What travels is sent to tasks.
        if self._task is None:
            self._task = self._new_task()
        return sent(_TaskWriter, self._task)

    def _new_task(self) -> WriteTask:
        with self._target.opened() as table:
            if self._options.merge_schema:
                evolve(table, self._schema, case_sensitive=True)
            check_columns(self._schema, table.schema(), Assignment(case_sensitive=True))
            check_fit(self._schema, table.schema())
            if self._options.upsert:
                RowsByKey(table, self._options.branch or "main", self._options.join_columns)
            return self._job(table).job.task

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = _told_by(messages, batchId)
        if not messages and not self._overwrite:
            return  # a micro-batch without partitions
        with self._target.opened() as table:
            self._job(table, told).commit(_files(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        told = next((message for message in messages if isinstance(message, StreamedFiles)), None)
        if told is None:
            return  # nobody knows the names of files that killed attempts may have left
        with self._target.opened() as table:
            self._job(table, told).abort(_files(messages))

    def _job(self, table: Table, told: StreamedFiles | None = None) -> MicroBatchJob:
        return MicroBatchJob(
            table,
            self._options,
            overwrite=self._overwrite,
            query_id=None if told is None else told.query_id,
            batch_id=None if told is None else told.batch_id,
            write_id=None if told is None else told.write_id,
            # A source is not told. To look for files of attempts that lost would list a folder for each micro-batch.
            speculation=False,
            engine={"engine-version": pyspark.__version__},
        )


def _told_by(messages: Sequence[WriterCommitMessage | None], batch_id: int) -> StreamedFiles | None:
    """One of the messages, which say the same of their query and of their micro-batch."""
    told = [message for message in messages if isinstance(message, StreamedFiles)]
    facts = {(message.query_id, message.batch_id, message.write_id) for message in told}
    if len(facts) > 1 or any(message.batch_id != batch_id for message in told):
        said = "; ".join(f"query {query}, micro-batch {batch}" for query, batch, _ in sorted(facts))
        raise InternalError(f"micro-batch {batch_id} is to be committed, and tasks wrote {said}; nothing was committed")
    return told[0] if told else None


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[TaskFiles | None]:
    # The job refuses to commit where one is missing.
    return [message.files if isinstance(message, StreamedFiles) else None for message in messages]
