"""Writing to tables of the catalog: executors write files by `mapInArrow`, the driver commits them in one snapshot."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import IsolationLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from formatkit.errors import InternalError, UnsupportedError
from formatkit.spark.catalog.answers import Answers
from formatkit.spark.filters import from_spark, translate
from formatkit.spark.java import java_class, java_type, scala_none, scala_object
from formatkit.spark.metrics import new_counters
from formatkit.spark.session import configuration_of, java_function, parallelism
from formatkit.spark.writing.api import target_branch
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.config import write_config
from formatkit.spark.writing.copying import CopiedFiles, CopyRows, copy_work
from formatkit.spark.writing.distribution import distribute, distribution_of
from formatkit.spark.writing.jobs import engine_properties, run_on_work, speculates
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.task import MESSAGE_COLUMN, TaskFiles, WriteRows
from formatkit.spark.writing.task_errors import error_in
from formatkit.write.commit import Change
from formatkit.write.jobs.leftovers import remove_after_failure
from formatkit.write.operations.base import Base
from formatkit.write.operations.matches import files_with_matches
from formatkit.write.operations.overwrite import remove_partitions
from formatkit.write.operations.removal import Removal

__all__ = ["NamedRows", "Overwrite", "OverwritePartitions", "StagedWrite", "Write", "exact_filter", "report"]

_SQL = "org.apache.spark.sql"
_MESSAGES = StructType([StructField(MESSAGE_COLUMN, BinaryType(), True)])


def exact_filter(jvm: Any, schema: Schema, predicates: Any) -> BooleanExpression | None:
    """The rows for which all of Spark's predicates are true; None if Iceberg cannot say it exactly.

    Spark converts its new predicates to its old filters, and one that gets lost on the way is noticed.
    """
    if not len(predicates):
        return AlwaysTrue()
    filters = java_class(jvm, f"{_SQL}.internal.connector.PredicateUtils").toV1(predicates)
    if len(filters) != len(predicates):
        return None
    where: BooleanExpression = AlwaysTrue()
    for java_filter in filters:
        translated = translate(schema, from_spark(jvm, java_filter))
        if not translated.exact:
            return None
        where = And(where, translated.keep)
    return where


@dataclass
class NamedRows(WriteRows):
    """Writes rows whose columns have the order of the table; the optimizer may have changed their names."""

    names: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return super().__call__(batch.rename_columns(list(self.names)) for batch in batches)


class Write(Answers):
    """One write that appends: what its tasks run, and what becomes of their files.

    Args:
        spark: A classic session.
        table: The table.
        name: What plans call it.
        options: What the user asks for.
        schema: What is written, if it is not the table's schema.
    """

    def __init__(
        self, spark: SparkSession, table: Table, name: str, options: WriteOptions, schema: Schema | None = None
    ) -> None:
        super().__init__(spark)
        self.table = table
        self.name = name
        self.options = options
        self.configuration = configuration_of(spark)
        self.branch, wap_id = target_branch(table, options.branch, self.configuration)
        self.staged = wap_id is not None
        self.job = WriteJob(
            table,
            branch=self.branch,
            snapshot_properties={**options.snapshot_properties, **({} if wap_id is None else {"wap.id": wap_id})},
            idempotency_key=options.idempotency_key,
            staged=self.staged,
            config=write_config(table, options, schema),
            clustered=False if options.fanout else None,
            speculation=speculates(self.configuration),
            engine=self.engine,
        )
        self._counters: Any = None
        self._inserts_by_merge = False

    @property
    def engine(self) -> dict[str, str]:
        """What summaries say about the engine."""
        return engine_properties(self.spark, self.configuration)

    # Planning

    def distributed(self, query: Any) -> Any:
        """The logical plan of the rows, given to tasks as the table's distribution mode says."""
        config = self.job.task.config
        if not config.spec.fields and config.sort_order.is_unsorted:
            return query
        datasets = scala_object(self.jvm, f"{_SQL}.classic.Dataset")
        rows = DataFrame(datasets.ofRows(self.spark._jsparkSession, query), self.spark)  # noqa: SLF001
        rows = rows.toDF(*self._names(len(rows.columns)))
        adaptive = self.configuration.get("spark.sql.adaptive.enabled", "true").lower() == "true"
        given: Any = distribute(rows, config, distribution_of(config, self.options), adaptive=adaptive)
        return given._jdf.queryExecution().optimizedPlan()  # noqa: SLF001

    def _names(self, count: int) -> tuple[str, ...]:
        names = tuple(field.name for field in self.job.task.config.schema.fields)
        if len(names) != count:
            raise InternalError(f"{self.name} has the columns {', '.join(names)}, and Spark wants to write {count}")
        return names

    def plan(self, command: Any, output: Any, query: Any) -> Any:
        """The physical plan of the tasks, on top of that of the query: `mapInArrow`, which returns messages."""
        function = self.function(command, output)
        self._counters = new_counters(self.spark, function.title)
        function.counters = None if self._counters is None else self._counters.accumulator
        java_schema = java_type(self.spark, _MESSAGES)
        made = java_function(self.spark, function, _MESSAGES, java_schema, self._counters)
        attributes = scala_object(self.jvm, f"{_SQL}.catalyst.types.DataTypeUtils").toAttributes(java_schema)
        node = java_class(self.jvm, f"{_SQL}.execution.python.MapInArrowExec")
        return node(made.builder(output), attributes, query, False, scala_none(self.jvm))

    def function(self, command: Any, output: Any) -> WriteRows:
        """What the tasks run."""
        self._inserts_by_merge = command.getClass().getSimpleName() == "InsertOnlyMerge"
        if self._inserts_by_merge:
            self.check_main_branch("MERGE")
        return NamedRows(self.job.task, title=f"formatkit write {self.name}", names=self._names(output.size()))

    # Running

    def commit(self, messages: Any) -> None:
        """Commit what the winning attempt of each task reports."""
        self.commit_files([report(each) for each in messages])

    def commit_files(self, messages: Sequence[TaskFiles]) -> None:
        """Commit data files."""
        self.job.commit(messages, self._inserted if self._inserts_by_merge else self.job.append)

    def _inserted(self, files: tuple[DataFile, ...]) -> Change | None:
        """A MERGE that inserts what the table lacks: nobody may have added rows since it looked."""
        if not files:
            return None
        about = self.conflicts(self.job.base_snapshot_id, AlwaysTrue())
        return Removal().change(files, command="merge", **about)

    def check_main_branch(self, command: str) -> None:
        """Raise `UnsupportedError` if rows that were read in the main branch are to be changed in another place."""
        if self.branch != MAIN_BRANCH or self.staged:
            message = (
                f"{command} reads and writes the main branch, and spark.wap.branch or spark.wap.id asks for another "
                "place; use formatkit.spark.write, or unset them"
            )
            raise UnsupportedError(message)

    def abort(self) -> None:
        """Remove the files of tasks after one of them failed."""
        self.job.abort()

    def failed(self, failure: Any) -> None:
        """Raise the error of a task that made Spark's job fail, if it was one of formatkit's."""
        texts = []
        while failure is not None:
            texts.append(str(failure.getMessage()))
            failure = failure.getCause()
        error = error_in("\n".join(reversed(texts)))
        if error is not None:
            raise error

    def conflicts(self, base_snapshot_id: int | None, where: BooleanExpression) -> dict[str, Any]:
        """What other writers must not have done, for a `Change` that depends on what the table was."""
        isolation = self.options.isolation
        return {
            "base_snapshot_id": self.options.validate_from or base_snapshot_id,
            "conflict_filter": where,
            "isolation": None if isolation is None else IsolationLevel(isolation),
        }


def report(pickled: Any) -> Any:
    """What a task reported, taken out of its message."""
    if pickled is None:
        raise InternalError("a task reported nothing; nothing was committed, because its rows would be lost")
    return pickle.loads(bytes(pickled))  # noqa: S301 - a task of ours made it


class OverwritePartitions(Write):
    """Replaces the partitions that the rows are in."""

    def __init__(self, spark: SparkSession, table: Table, name: str, options: WriteOptions) -> None:
        super().__init__(spark, table, name, options)
        # Before anybody else changes the table.
        self._base = Base.of(table, self.branch, None)

    def commit_files(self, messages: Sequence[TaskFiles]) -> None:
        self.job.commit(messages, self._change)

    def _change(self, files: tuple[DataFile, ...]) -> Change | None:
        removal = remove_partitions(self._base, files)
        if removal.is_empty and not files:
            return None
        return removal.change(files, command="update", **self.conflicts(self._base.snapshot_id, AlwaysTrue()))


class Overwrite(Write):
    """Replaces the rows that match a filter; of files that have others, too, executors copy those."""

    def __init__(
        self, spark: SparkSession, table: Table, name: str, options: WriteOptions, where: BooleanExpression
    ) -> None:
        super().__init__(spark, table, name, options)
        self._base = Base.of(table, self.branch, None)
        self._where = self._base.bind(where, case_sensitive=True)

    def commit_files(self, messages: Sequence[TaskFiles]) -> None:
        whole, parts = files_with_matches(self._base, self._where)
        removal = Removal()
        removal.remove_files(whole)
        copied: list[CopiedFiles] = []
        if parts.tasks:
            try:
                copied = self._copy(parts)
            except BaseException:
                self.job.abort()
                raise
        for each in copied:
            removal.removed.update(each.replaced)
        self.job.commit([*messages, *copied], lambda files: self._change(files, removal))

    def _copy(self, parts: Any) -> list[CopiedFiles]:
        work, matching, everything = copy_work(self._base, parts, parallelism(self.spark))
        config = write_config(self.table, self.options, self._base.stored_schema)
        function = CopyRows(replace(self.job.task, config=config, clustered=None), matching, everything)
        messages = run_on_work(self.spark, work, function, f"formatkit copy {self.name}")
        found = [message for message in messages if isinstance(message, CopiedFiles)]
        if len(found) != len(messages):
            raise InternalError("a task that copies rows did not say from which files; nothing was committed")
        return found

    def _change(self, files: tuple[DataFile, ...], removal: Removal) -> Change | None:
        if removal.is_empty and not files:
            return None
        return removal.change(files, command="update", **self.conflicts(self._base.snapshot_id, self._where))


class StagedWrite(Write):
    """Writes the rows of a table that is not there yet, and keeps the files until it is created with them."""

    def __init__(self, spark: SparkSession, table: Table, name: str, options: WriteOptions) -> None:
        super().__init__(spark, table, name, options)
        self._waiting: list[TaskFiles] = []
        self._taken = False

    def commit_files(self, messages: Sequence[TaskFiles]) -> None:
        self._waiting += messages

    def waiting(self) -> tuple[tuple[DataFile, ...], Mapping[str, str]]:
        """The files, and what the summary of their snapshot is to say."""
        self._taken = True
        files = tuple(file for message in self._waiting for file in message.files)
        return files, {**self.options.snapshot_properties, "engine-name": "spark", **self.engine}

    def abort(self) -> None:
        """Remove all files, unless they were handed over: Spark asks for this after a commit that failed, too."""
        if not self._taken:
            remove_after_failure(self.job.task.config, self.table.io, self.job.write_id)
