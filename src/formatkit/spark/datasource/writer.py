"""Writes for ``df.write.format("formatkit")``.

Spark makes the writer in a Python process of the driver and sends it to the executors and, in two further processes, to
whoever commits or aborts. What these know of each other is in the writer and in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyspark
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark.catalogs import Catalogs
from formatkit.spark.options import CATALOG_PREFIX
from formatkit.spark.sending import sent
from formatkit.spark.writing.commit import ChangeOf, WriteJob
from formatkit.spark.writing.config import write_config
from formatkit.spark.writing.options import WriteOptions, parse_write_options, refuse_stream_options
from formatkit.spark.writing.schema import Assignment, check_columns, check_fit, evolve
from formatkit.spark.writing.tables import opened_table
from formatkit.spark.writing.task import TaskFiles
from formatkit.write.commit import Change
from formatkit.write.operations.base import Base, whole_files
from formatkit.write.operations.overwrite import remove_partitions
from formatkit.write.operations.removal import Removal

__all__ = ["SinkTable", "TableSink", "Written", "sink_for"]

_MAIN = "main"


@dataclass(frozen=True)
class SinkTable:
    """The table that rows go to, as options name it. Can be pickled; has what the catalog needs, secrets included."""

    path: str
    catalog: str | None
    properties: Mapping[str, str] = field(repr=False)
    catalogs: Catalogs = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str], catalogs: Catalogs) -> SinkTable:
        """What the options of a data source say.

        Raises:
            ConfigurationError: They name no table.
        """
        if not options.get("path"):
            raise ConfigurationError('no table is named; say it in save("db.table")')
        properties = {
            key[len(CATALOG_PREFIX) :]: value
            for key, value in options.items()
            if key.lower().startswith(CATALOG_PREFIX)
        }
        return cls(options["path"], options.get("catalog"), properties, catalogs)

    def opened(self) -> AbstractContextManager[Table]:
        """The table as it is now; its catalog is closed afterwards."""
        return opened_table(self.path, self.catalogs, catalog=self.catalog, catalog_properties=self.properties)


@dataclass
class Written(WriterCommitMessage):
    """What an attempt of a task reports to Spark."""

    files: TaskFiles


def sink_for(options: Mapping[str, str], catalogs: Catalogs, schema: StructType, overwrite: bool) -> TableSink:
    """The writer of one ``save()``, after everything was checked that Spark does not check.

    Args:
        options: The user's.
        catalogs: Settings of catalogs by name.
        schema: The columns of the rows.
        overwrite: Whether the mode is ``overwrite``.
    """
    return TableSink(SinkTable.of(options, catalogs), parse_write_options(options), schema, overwrite)


class TableSink(DataSourceArrowWriter):
    """Writes files on executors, and commits them in a process of the driver."""

    def __init__(self, target: SinkTable, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._overwrite = overwrite
        _refuse(options)
        self._target = target
        self._options = options
        self._branch = options.branch or _MAIN
        assignment = Assignment(
            case_sensitive=True, check_nullability=options.check_nullability, check_ordering=options.check_ordering
        )
        with target.opened() as table:
            if options.merge_schema:
                evolve(table, schema, case_sensitive=True)
            check_columns(schema, table.schema(), assignment)
            check_fit(schema, table.schema())
            job = WriteJob(table, config=write_config(table, options), branch=self._branch, clustered=self._clustered)
            self._task = job.task
            self._base_snapshot_id = job.base_snapshot_id

    def __reduce__(self) -> tuple[Any, ...]:
        return sent(_restored, self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        return Written(self._task.write(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        with self._target.opened() as table:
            job = self._job(table)
            job.commit(_reports(messages), self._replace(table, job) if self._overwrite else job.append)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        with self._target.opened() as table:
            self._job(table).abort(_reports(messages))

    @property
    def _clustered(self) -> bool | None:
        return False if self._options.fanout else None

    def _job(self, table: Table) -> WriteJob:
        return WriteJob(
            table,
            write_id=self._task.write_id,
            branch=self._branch,
            snapshot_properties=self._options.snapshot_properties,
            idempotency_key=self._options.idempotency_key,
            config=self._task.config,
            engine={"engine-version": pyspark.__version__},
        )

    def _replace(self, table: Table, job: WriteJob) -> ChangeOf:
        def change(files: tuple[DataFile, ...]) -> Change | None:
            base = Base.of(table, self._branch, None)
            if self._options.dynamic:
                removal = remove_partitions(base, files)
            else:
                removal = Removal()
                removal.remove_files(whole_files(base.scan(()).tasks))
            # What others committed since the rows were asked for is a conflict, and not silently removed.
            return job.replace(files, removal, AlwaysTrue(), self._options, self._base_snapshot_id)

        return change


def _restored(state: dict[str, Any]) -> TableSink:
    made = TableSink.__new__(TableSink)
    made.__dict__.update(state)
    return made


def _refuse(options: WriteOptions) -> None:
    refuse_stream_options(options)
    if options.distribution not in (None, "none"):
        message = (
            f"the option distribution-mode is {options.distribution}, and Spark lets no data source of Python shuffle "
            "rows; use formatkit.spark.write(df, table), or repartition the DataFrame yourself"
        )
        raise UnsupportedError(message)
    if options.advisory_bytes is not None:
        message = "the option advisory-partition-size is of rows that are shuffled, which Spark lets no data source do"
        raise UnsupportedError(f"{message}; use formatkit.spark.write(df, table)")
    if options.where is not None:
        message = (
            'the option filter is not to be had here; use formatkit.spark.write(df, table, "overwrite", where=...), '
            "whose executors copy the rows that stay"
        )
        raise UnsupportedError(message)


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskFiles | None]:
    return [message.files if isinstance(message, Written) else None for message in messages]
