"""A planned scan, and the many ways to take its rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import pyarrow as pa
from pyiceberg.schema import Schema

from formatkit.batches.arrow import arrow_schema
from formatkit.batches.arrow.pools import MEMORY_POOL
from formatkit.contract.options import DEFAULT_BATCH_ROWS
from formatkit.contract.results import BatchStream
from formatkit.errors import UnsupportedError
from formatkit.scan.counting import count_unopened
from formatkit.scan.explain import Explanation, explain
from formatkit.scan.options import Tuning
from formatkit.scan.planner import Plan
from formatkit.scan.reading import TaskReader
from formatkit.scan.runner import run_in_order
from formatkit.scan.tasks import FileTask

__all__ = ["Scan"]

if TYPE_CHECKING:
    import typing_extensions

    B = typing_extensions.TypeVar("B", default=pa.RecordBatch)
else:
    B = TypeVar("B")

_WHOLE_BATCH_ROWS = 131_072


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
        self._counters: dict[str, int] | None = None

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

    def of_tasks(self, tasks: Iterable[FileTask]) -> Scan[B]:
        """The same scan over some of its tasks, or over parts of them."""
        return Scan(replace(self._plan, tasks=tuple(tasks)), self._reader, self._tuning, self._limit)

    def explain(self) -> Explanation:
        """What is read, what is left out and why; after a run also what the readers counted."""
        return explain(self._plan, self.schema, threads=self._tuning.threads, limit=self._limit, run=self._counters)

    def to_batches(self) -> BatchStream[B]:
        """The rows in batches, in a stable order.

        Memory is bounded whatever the size of the table. Leaving the ``with`` block, or closing the stream, stops all
        reading and releases everything.
        """
        return self._stream(self._tuning.buffer_bytes, self._reader)

    def to_arrow(self) -> pa.Table:
        """All rows in memory."""
        # Everything ends up in memory here, so no thread has to wait until its rows are next. Arrow's default pool soon
        # returns what is freed to the operating system, which has to clear every page of the next table anew.
        request = self._reader.request
        properties = {MEMORY_POOL: "system", **request.properties}
        # Larger batches are decoded at less cost, and only a stream has a reason to keep them small.
        rows = _WHOLE_BATCH_ROWS if request.batch_rows == DEFAULT_BATCH_ROWS else request.batch_rows
        reader = replace(self._reader, request=replace(request, properties=properties, batch_rows=rows))
        with self._arrow_stream(sys.maxsize, reader) as batches:
            return pa.Table.from_batches(batches, schema=self.arrow_schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's own stream."""
        batches = self._arrow_stream(self._tuning.buffer_bytes, self._reader)
        return pa.RecordBatchReader.from_batches(self.arrow_schema, batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Arrow's stream interface; each call reads anew."""
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def count(self) -> int:
        """The number of rows. Files of which every row is known to match or to be deleted are not opened."""
        known, uncounted = count_unopened(self._reader, self.tasks, self._tuning.threads)
        if self._limit is not None and known >= self._limit:
            return self._limit
        if not uncounted:
            return known
        reader = replace(self._reader, request=replace(self._reader.request, schema=Schema()))
        rest = None if self._limit is None else self._limit - known
        num_rows = reader.operations.num_rows
        with BatchStream(self._batches(reader, uncounted, rest, self._tuning.buffer_bytes)) as batches:
            return known + sum(num_rows(batch) for batch in batches)

    def _stream(self, buffer_bytes: int, reader: TaskReader[B]) -> BatchStream[B]:
        return BatchStream(self._batches(reader, self.tasks, self._limit, buffer_bytes))

    def _batches(
        self, reader: TaskReader[B], tasks: Sequence[FileTask], limit: int | None, buffer_bytes: int
    ) -> Iterator[B]:
        session = reader.session(tasks)
        batches = run_in_order(
            tasks,
            session.batches,
            threads=self._tuning.threads,
            buffer_bytes=buffer_bytes,
            start_slowly=limit is not None,
        )
        try:
            if limit is None:
                yield from batches
            else:
                yield from _first_rows(batches, limit, reader)
        finally:
            try:
                batches.close()
            finally:
                session.close()
                self._counters = dict(session.counters)

    def _arrow_stream(self, buffer_bytes: int, reader: TaskReader[B]) -> BatchStream[pa.RecordBatch]:
        batch_type = self._reader.operations.batch_type
        if batch_type is not pa.RecordBatch:
            message = f"this scan gives batches of type {batch_type.__name__}, not Arrow; use to_batches()"
            raise UnsupportedError(message)
        return cast("BatchStream[pa.RecordBatch]", self._stream(buffer_bytes, reader))

    def __repr__(self) -> str:
        names = ", ".join(field.name for field in self.schema.fields)
        return f"<Scan of {len(self.tasks)} tasks: {names}>"


def _first_rows(batches: Iterator[B], limit: int, reader: TaskReader[B]) -> Iterator[B]:
    left = limit
    for batch in batches if left else ():
        rows = reader.operations.num_rows(batch)
        yield batch if rows <= left else reader.operations.slice(batch, 0, left)
        left -= rows
        if left <= 0:
            return
