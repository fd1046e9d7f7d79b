"""What runs on executors first: clauses decide about joined rows, and what follows is sent to who carries it out.

New rows go to the task that writes their partition, and positions of old rows to the task that has their file. They
travel as Arrow and Python make them, because Spark lacks some of Iceberg's types.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as st
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyspark import TaskContext

from formatkit.batches.arrow import ArrowBatch
from formatkit.contract.batch import Booleans, Longs
from formatkit.contract.metadata_columns import ROW_ID
from formatkit.spark.writing.incoming import from_spark
from formatkit.spark.writing.task_errors import noted_errors
from formatkit.write.matching import Matcher
from formatkit.write.merge.clauses import Clauses
from formatkit.write.merge.rules import KeyPair, Outcome, Rules
from formatkit.write.merge.sides import Sides
from formatkit.write.operations.keys import KeyColumns, KeySummary
from formatkit.write.partition import Partitioner

__all__ = ["PARCELS", "DecideRows", "NewRows", "OldRows", "SummariseKeys", "parcels_in"]

PARCELS = st.StructType([st.StructField("task", st.LongType()), st.StructField("parcel", st.BinaryType())])
"""What is sent: rows with one number go to one task."""

_MAX_WAITING = 1 << 20
"""Positions that are gathered before they are sent."""


@dataclass(frozen=True)
class NewRows:
    """Rows of one partition of the table that are to be written, as an Arrow stream.

    Attributes:
        updated: How many of them take the place of others; they have their ids.
    """

    stream: bytes
    updated: int

    @classmethod
    def of(cls, rows: pa.RecordBatch, updated: int) -> NewRows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        return cls(sink.getvalue().to_pybytes(), updated)

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self.stream) as stream:
            yield from stream


@dataclass(frozen=True)
class OldRows:
    """Rows of one file that clauses apply to, once for each source row.

    Attributes:
        removed: Which of them go; the others would be updated to what they are.
    """

    file: str
    positions: Longs
    removed: Booleans


@dataclass
class DecideRows:
    """The function that `mapInArrow` runs: joined rows in, parcels out.

    The columns that come in: the source's row as a struct, the table's row as a struct, `_file`, `_pos`, and in tables
    with lineage `_row_id`. Of a row without a partner the other side is null.

    Attributes:
        clauses: What decides.
        sides: What rows look like.
        table: The table's schema.
        keys: The columns that were compared.
        case_sensitive: Whether case matters in names.
        spec: By which rows are spread over tasks; they are written where they are if it has no fields.
    """

    clauses: Clauses
    sides: Sides
    table: Schema
    keys: Sequence[KeyPair]
    case_sensitive: bool
    spec: PartitionSpec
    title: str = "formatkit merge: decide"
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted_errors():
            work = _Deciding(self)
            for batch in batches:
                yield from work.decide(batch)
            yield from work.rest()


class _Deciding:
    """The work of one task."""

    def __init__(self, asked: DecideRows) -> None:
        self._asked = asked
        self._rules = Rules(asked.clauses, asked.sides, asked.table, asked.keys, case_sensitive=asked.case_sensitive)
        self._source = _Side(asked.sides.source, asked.table)
        self._target = _Side(asked.sides.target, asked.table)
        self._partitioner = Partitioner(asked.spec, asked.table) if asked.spec.fields else None
        context = TaskContext.get()
        self._here = 0 if context is None else context.partitionId()
        self._waiting: dict[str, list[tuple[Longs, Booleans]]] = {}
        self._waiting_rows = 0

    def decide(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What follows from some rows."""
        sources, targets, where = batch.column(0), batch.column(1), batch.select(range(2, batch.num_columns))
        has_source, has_target = (np.asarray(side.is_valid()) for side in (sources, where.column(0)))
        both = np.flatnonzero(has_source & has_target)
        if len(both) and self._asked.clauses.matched:
            outcome = self._rules.matched(self._source.rows(sources, both), self._target.rows(targets, both))
            yield from self._send(outcome, both, where)
        alone = np.flatnonzero(has_target & ~has_source)
        if len(alone) and self._asked.clauses.not_matched_by_source:
            yield from self._send(self._rules.not_matched_by_source(self._target.rows(targets, alone)), alone, where)
        new = np.flatnonzero(has_source & ~has_target)
        if len(new) and self._asked.clauses.not_matched:
            for rows in self._rules.not_matched(self._source.rows(sources, new)).rows:
                yield from self._send_new(rows, updated=False)

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The positions that have not been sent yet."""
        for file, parts in self._waiting.items():
            positions, removed = (np.concatenate(each) for each in zip(*parts, strict=True))
            yield _parcel(zlib.crc32(file.encode()), OldRows(file, positions, removed))
        self._waiting, self._waiting_rows = {}, 0

    def _send(self, outcome: Outcome, rows: Longs, where: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        acting = rows[outcome.acts]
        self._wait(where, acting, outcome.removed[outcome.acts])
        if self._waiting_rows >= _MAX_WAITING:
            yield from self.rest()
        start = 0
        for new in outcome.rows:
            origins = rows[outcome.written[start : start + new.num_rows]]
            start += new.num_rows
            if where.num_columns > 2:
                new = new.append_column(ROW_ID.name, where.column(2).take(origins))
            yield from self._send_new(new, updated=True)

    def _wait(self, where: pa.RecordBatch, rows: Longs, removed: Booleans) -> None:
        if not len(rows):
            return
        files: Any = where.column(0).take(rows).dictionary_encode()
        positions, codes = where.column(1).take(rows).to_numpy(), files.indices.to_numpy()
        for code, file in enumerate(files.dictionary.to_pylist()):
            chosen = np.flatnonzero(codes == code)
            self._waiting.setdefault(file, []).append((positions[chosen], removed[chosen]))
        self._waiting_rows += len(rows)

    def _send_new(self, rows: pa.RecordBatch, *, updated: bool) -> Iterator[pa.RecordBatch]:
        if not rows.num_rows:
            return
        if self._partitioner is None:
            yield _parcel(self._here, NewRows.of(rows, rows.num_rows if updated else 0))
            return
        for partition, part in self._partitioner.split(rows).parts:
            task = zlib.crc32(repr(partition.key).encode(errors="surrogatepass"))
            yield _parcel(task, NewRows.of(part, part.num_rows if updated else 0))


class _Side:
    """One side of joined rows, from Spark's types to those of its schema."""

    def __init__(self, schema: Schema, table: Schema) -> None:
        self._from_spark = from_spark(table)
        self._matcher = Matcher(schema, ArrowBatch())

    def rows(self, structs: Any, chosen: Longs) -> pa.RecordBatch:
        taken = structs.take(chosen)
        columns = [taken.field(index) for index in range(taken.type.num_fields)]
        names = [taken.type.field(index).name for index in range(taken.type.num_fields)]
        return self._matcher.match(self._from_spark(pa.RecordBatch.from_arrays(columns, names)))


@dataclass
class SummariseKeys:
    """The function that `mapInArrow` runs: columns of the source in, one row with pickled `KeySummary`s out.

    Attributes:
        source: The columns of the source that come in.
        table: The table's schema.
        keys: The columns that are compared.
    """

    source: Schema
    table: Schema
    keys: Sequence[KeyPair]
    title: str = "formatkit merge: keys"
    buckets: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with noted_errors():
            yield from self._summaries(batches)

    def _summaries(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        own = KeyColumns(self.source, [source for _, source in self.keys])
        wanted = KeyColumns(self.table, [target for target, _ in self.keys])
        convert = from_spark(self.table)
        matcher, to_keys = Matcher(self.source, ArrowBatch()), Matcher(wanted.schema, ArrowBatch())
        found: list[list[KeySummary]] = [[] for _ in self.keys]
        for batch in batches:
            keys = to_keys.match(own.of(matcher.match(convert(batch))).rename_columns(wanted.names))
            complete = keys.drop_null()
            for parts, summary in zip(found, wanted.summaries([complete]), strict=True):
                parts.append(summary)
                parts[:] = [KeySummary.together(parts)]
        if all(found):
            yield _parcel(0, [parts[0] for parts in found])


def _parcel(task: int, content: object) -> pa.RecordBatch:
    pickled = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return pa.RecordBatch.from_arrays(
        [pa.array([task], pa.int64()), pa.array([pickled], pa.binary())], ["task", "parcel"]
    )


def parcels_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """What was sent."""
    for batch in batches:
        for pickled in batch.column(1):
            yield pickle.loads(pickled.as_buffer())  # noqa: S301 - a task of ours made it
