"""A planned scan, and the many ways to take its rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow import arrow_schema
from formatkit.batches.arrow.pools import MEMORY_POOL
from formatkit.contract.capability import Capability
from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.contract.results import BatchStream
from formatkit.errors import UnsupportedError
from formatkit.forks import cached
from formatkit.scan.aggregates import Aggregates, answerable
from formatkit.scan.bucket_reader import BucketReader, fingerprint_of
from formatkit.scan.buckets import DEFAULT_OPEN_COST, Buckets, make_buckets
from formatkit.scan.counting import count_unopened
from formatkit.scan.explain import Explanation, explain
from formatkit.scan.options import Tuning
from formatkit.scan.plan import Plan
from formatkit.scan.reading import TaskReader
from formatkit.scan.running import Run
from formatkit.scan.streams import stream_tasks
from formatkit.scan.tasks import FileTask
from formatkit.scan.verify import verifies_skipping
from formatkit.scan.verify.answers import check_known, counted

__all__ = ["Scan"]

if TYPE_CHECKING:
    import typing_extensions
    from pyspark.sql import DataFrame, SparkSession

    B = typing_extensions.TypeVar("B", default=pa.RecordBatch)
else:
    B = TypeVar("B")

_WHOLE_BATCH_ROWS = 262_144


class Scan(Generic[B]):
    """Rows of a table or a file: planned once, readable any number of times.

    Whatever takes Arrow streams takes a scan as it is: ``pl.DataFrame(scan)``, ``pa.table(scan)``, ``duckdb.sql("select
    count(*) from scan")``.
    """

    def __init__(self, plan: Plan, reader: TaskReader[B], tuning: Tuning, limit: int | None = None) -> None:
        self._plan = plan
        self._reader = reader
        self._tuning = tuning
        self._limit = limit
        self._last_run: Run | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the output."""
        return self._reader.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns of the output as Arrow has them; never depends on the data."""
        return arrow_schema(self.schema, self._reader.request.dictionary_columns)

    @property
    def tasks(self) -> tuple[FileTask, ...]:
        """The work, in the order of the output."""
        return self._plan.tasks

    @property
    def files_pruned(self) -> int:
        """How many data files are not read because the table's metadata says that they have no matching row."""
        return sum(self._plan.skipped.values())

    @property
    def limit(self) -> int | None:
        """The most rows returned; None for all."""
        return self._limit

    def of_tasks(self, tasks: Iterable[FileTask]) -> Scan[B]:
        """The same scan over some of its tasks, or over parts of them.

        The residual of a task must stay what it is: a plan with a filter brings only those equality deletes that can
        delete a row which matches.
        """
        return Scan(replace(self._plan, tasks=tuple(tasks)), self._reader, self._tuning, self._limit)

    def buckets(
        self,
        target: int,
        *,
        by: str | Sequence[str] | None = None,
        open_cost: int = DEFAULT_OPEN_COST,
        split_bytes: int | None = None,
    ) -> Buckets:
        """The work in buckets, which can be read anywhere by `bucket_reader`; every row is in exactly one.

        One bucket is the whole scan, in its order. The limit is that of each bucket.

        Args:
            target: The most buckets. There are fewer if there are fewer pieces of work, unless they are made by hash.
            by: Columns by which the table is partitioned (identity): each row goes to the bucket that Spark's hash of
                them says. ``"hash"`` takes all such columns. If that cannot be true of every row, the buckets are made
                by size, and `Buckets.partitioning` says why.
            open_cost: As how many bytes a small file counts.
            split_bytes: How large parts of files are at least; by default what suits the number of buckets.

        Raises:
            ColumnNotFoundError: The table has no such column.
        """
        names = by if by is None or by == "hash" else (by,) if isinstance(by, str) else tuple(by)
        return make_buckets(
            self.tasks,
            target,
            schema=self.schema,
            table_schema=self._reader.request.table_schema or self.schema,
            splittable={
                name for name, plugin in self._reader.plugins.items() if Capability.SPLIT in plugin.capabilities
            },
            fingerprint=self._fingerprint,
            sort_orders=self._plan.sort_orders,
            by=names,
            open_cost=open_cost,
            split_bytes=split_bytes,
        )

    def bucket_reader(self, *, batch_rows: int | None = None, threads: int | None = None) -> BucketReader[B]:
        """What reads the buckets of this scan, in this process or in another one.

        Args:
            batch_rows: The most rows of a batch, if not as many as in the scan.
            threads: How many tasks of a bucket to read side by side, if not as many as in the scan.
        """
        reader, tuning = self._reader, self._tuning
        if batch_rows is not None:
            reader = replace(reader, request=replace(reader.request, batch_rows=batch_rows))
        if threads is not None:
            tuning = replace(tuning, threads=threads)
        return BucketReader(reader, tuning, self._limit, self._fingerprint)

    @cached
    def _fingerprint(self) -> str:
        return fingerprint_of(self._reader.request, self._plan, self._limit)

    def to_spark(self, spark: SparkSession, **options: Any) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark's executors; the options are those of `formatkit.spark.read`."""
        # Spark is an extra, and what is about Spark stands above scans.
        frame: DataFrame = import_module("formatkit.spark").dataframe(spark, self, **options)
        return frame

    def explain(self, *, analyze: bool = False) -> Explanation:
        """What is read, what is left out and why; after a run also what the readers counted.

        Args:
            analyze: Tell of the last run how many rows it gave, how long it took, what was asked of the storage and
                for which files decoding waited. The scan is run for that, and its rows thrown away, if it has not run.
        """
        if analyze and self._last_run is None:
            with self.to_batches() as batches:
                for _ in batches:
                    pass
        return explain(
            self._plan,
            self.schema,
            threads=self._tuning.threads,
            limit=self._limit,
            run=self._last_run,
            analyze=analyze,
        )

    def to_batches(self) -> BatchStream[B]:
        """The rows in batches, in a stable order.

        Memory is bounded whatever the size of the table. Leaving the ``with`` block, or closing the stream, stops all
        reading and releases everything.
        """
        return self._stream(self._reader, self.tasks, self._limit)

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        # Everything ends up in memory here, so no thread has to wait until its rows are next. Arrow's default pool soon
        # returns what is freed to the operating system, which has to clear every page of the next table anew.
        request = self._reader.request
        properties = {MEMORY_POOL: "system", **request.properties}
        # Larger batches are decoded at less cost, and only a stream has a reason to keep them small.
        rows = _WHOLE_BATCH_ROWS if request.batch_rows == DEFAULT_BATCH_ROWS else request.batch_rows
        reader = replace(self._reader, request=replace(request, properties=properties, batch_rows=rows))
        with self._arrow_stream(reader, sys.maxsize) as batches:
            return pa.Table.from_batches(batches, schema=self.arrow_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's own stream."""
        return pa.RecordBatchReader.from_batches(self.arrow_schema, self._arrow_stream(self._reader))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface; each call reads anew."""
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def count(self) -> int:
        """The number of rows. Files of which every row is known to match or to be deleted are not opened."""
        if self._verifies:
            return counted(self.tasks, self._count_of_metadata, self._count_of_rows, self._limit)
        known, uncounted = count_unopened(self._reader, self.tasks, self._tuning.threads)
        if self._limit is not None and known >= self._limit:
            return self._limit
        if not uncounted:
            return known
        return known + self._count_of_rows(uncounted, None if self._limit is None else self._limit - known)

    def _count_of_rows(self, tasks: Sequence[FileTask], limit: int | None = None) -> int:
        reader = replace(self._reader, request=replace(self._reader.request, schema=Schema()))
        num_rows = reader.operations.num_rows
        with self._stream(reader, tasks, limit) as batches:
            return sum(num_rows(batch) for batch in batches)

    def _count_of_metadata(self, tasks: Sequence[FileTask]) -> int | None:
        known, uncounted = count_unopened(self._reader, tasks, self._tuning.threads)
        return None if uncounted else known

    @property
    def _verifies(self) -> bool:
        return verifies_skipping(self._reader.request.properties)

    def aggregate(self, *aggregates: str, from_metadata: bool = True) -> pa.RecordBatch:
        """One row with a column for each of ``count``, ``count(x)``, ``min(x)`` and ``max(x)``.

        Files of which the table's metadata tells it exactly are not opened: those without deleted rows, of which every
        row is asked for. Nulls count for nothing, and NaN is greater than any number.

        Args:
            aggregates: What to compute, of columns that are selected.
            from_metadata: Whether to believe the bounds that writers recorded. All of them record the extremes of
                numbers and times as they are; bounds of strings are used only where they are the same.

        Raises:
            ConfigurationError, ColumnNotFoundError, UnsupportedError: The arguments are wrong.
        """
        asked = Aggregates(aggregates, self.schema)
        if not asked.columns:
            return asked.of_count(self.count())
        if self._verifies and from_metadata:
            self._verify_metadata(asked)
        known, rest = self.partly_aggregated(asked, from_metadata=from_metadata)
        with rest._arrow_stream(rest._reader) as batches:  # noqa: SLF001 - another of the same class
            return asked.together([known, asked.of_batches(batches)])

    def partly_aggregated(self, asked: Aggregates, *, from_metadata: bool = True) -> tuple[pa.RecordBatch, Scan[B]]:
        """What metadata tells of aggregates, and a scan of the rows about which it does not.

        Where skipping is verified, metadata tells nothing.
        """
        metrics = self._plan.file_metrics
        files: dict[str, list[FileTask]] = {}
        if from_metadata and metrics is not None and self._limit is None and not self._verifies:
            files = answerable(self.tasks, keeps_deleted=self._reader.request.keep_deleted)
        known, answered = asked.of_files(files, metrics(asked.columns) if metrics is not None and files else ())
        return known, self._of_columns(asked, (task for task in self.tasks if task.location not in answered))

    def _of_columns(self, asked: Aggregates, tasks: Iterable[FileTask]) -> Scan[B]:
        reader = replace(self._reader, request=replace(self._reader.request, schema=Schema(*asked.columns)))
        return Scan(replace(self._plan, tasks=tuple(tasks)), reader, self._tuning, self._limit)

    def _verify_metadata(self, asked: Aggregates) -> None:
        """Compare what metadata would tell of aggregates with the rows of each file."""
        metrics = self._plan.file_metrics
        if metrics is None or self._limit is not None:
            return
        files = answerable(self.tasks, keeps_deleted=self._reader.request.keep_deleted)
        for location, statistics in metrics(asked.columns) if files else ():
            known, answered = asked.of_files(files, [(location, statistics)])
            if answered:
                rows = self._of_columns(asked, files[location])
                with rows._arrow_stream(rows._reader) as batches:  # noqa: SLF001 - another of the same class
                    check_known(location, asked, known, asked.of_batches(batches))

    def _stream(
        self,
        reader: TaskReader[B],
        tasks: Sequence[FileTask],
        limit: int | None,
        buffer_bytes: int | None = None,
    ) -> BatchStream[B]:
        tuning = self._tuning if buffer_bytes is None else replace(self._tuning, buffer_bytes=buffer_bytes)
        return stream_tasks(reader, tasks, tuning, limit=limit, when_done=self._keep_run)

    def _keep_run(self, run: Run) -> None:
        self._last_run = run

    def _arrow_stream(self, reader: TaskReader[B], buffer_bytes: int | None = None) -> BatchStream[pa.RecordBatch]:
        batch_type = self._reader.operations.batch_type
        if batch_type is not pa.RecordBatch:
            message = f"this scan gives batches of type {batch_type.__name__}, not Arrow; use to_batches()"
            raise UnsupportedError(message)
        return cast("BatchStream[pa.RecordBatch]", self._stream(reader, self.tasks, self._limit, buffer_bytes))

    def __repr__(self) -> str:
        names = ", ".join(field.name for field in self.schema.fields)
        return f"<Scan of {len(self.tasks)} tasks: {names}>"
