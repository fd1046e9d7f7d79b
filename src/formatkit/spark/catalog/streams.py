"""`df.writeStream.toTable`: executors write the files of a micro-batch, and the driver commits them once."""

# ruff: noqa: N802 - the names are those of interfaces of Java

from __future__ import annotations

import json
from typing import Any

from pyiceberg.table import Table
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from formatkit.errors import UnsupportedError
from formatkit.spark.catalog.writes import NamedRows, Write, report
from formatkit.spark.streaming.commit import MicroBatchJob, check_stream_options
from formatkit.spark.streaming.upserts import RowsByKey
from formatkit.spark.writing.jobs import speculates
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.schema import Assignment, check_columns, check_fit, evolve
from formatkit.spark.writing.task import WriteRows

__all__ = ["StreamWrite"]


class StreamWrite(Write):
    """The write of one micro-batch.

    Args:
        spark: A classic session.
        table: The table as it is now.
        name: What plans call it.
        options: What the user asks for.
        info: Spark's: the columns of the rows, and the id of the query, which survives its restarts.
        overwrite: Whether the rows replace all others.
    """

    def __init__(
        self, spark: SparkSession, table: Table, name: str, options: WriteOptions, info: Any, *, overwrite: bool
    ) -> None:
        check_stream_options(options, overwrite=overwrite)
        schema = StructType.fromJson(json.loads(info.schema().json()))
        if options.merge_schema:
            evolve(table, schema, case_sensitive=True)
        # Spark checks the columns of a stream against no table.
        check_columns(schema, table.schema(), Assignment(case_sensitive=True))
        check_fit(schema, table.schema())
        super().__init__(spark, table, name, options)
        if self.staged:
            raise UnsupportedError("spark.wap.id stages one snapshot, and a stream makes many; set spark.wap.branch")
        if options.upsert:
            RowsByKey(table, self.branch, options.join_columns)
        self._columns = tuple(schema.names)
        self._query_id = str(info.queryId())
        self._overwrite = overwrite

    def function(self, _command: Any, _output: Any) -> WriteRows:
        return NamedRows(self.job.task, title=f"formatkit stream to {self.name}", names=self._columns)

    def commitEpoch(self, epoch: int, messages: Any) -> None:
        """Commit a micro-batch, unless the branch has it already."""
        job = MicroBatchJob(
            self.table,
            self.options,
            overwrite=self._overwrite,
            query_id=self._query_id,
            batch_id=int(epoch),
            write_id=self.job.write_id,
            branch=self.branch,
            speculation=speculates(self.configuration),
            engine=self.engine,
        )
        job.commit([report(each) for each in messages])
