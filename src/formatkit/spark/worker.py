"""What runs on an executor: a bucket comes in, batches that Spark takes go out."""

from __future__ import annotations

import gc
import pickle
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from formatkit.contract.results import BatchStream
from formatkit.errors import enough_memory
from formatkit.spark.normalise import Normalise, empty_columns, normaliser
from formatkit.spark.types import Nanoseconds

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

    from formatkit.scan.buckets import Bucket, BucketReader

__all__ = ["BATCH_ROWS", "ReadBucket", "run_task", "spark_batches", "work_in"]

_concat_batches: Any = pa.concat_batches  # type: ignore[attr-defined]  # the published stubs lack it
BATCH_ROWS = 131_072
"""The most rows of a batch, unless somebody says otherwise; both fewer and more were slower in Java."""
# Fewer rows cost more in Spark's protocol than copying them together does; more bytes only cost memory.
_LEAST_ROWS = 16_384
_MOST_BYTES = 32 << 20


@dataclass
class ReadBucket:
    """The function that `mapInArrow` runs: rows of (index, bucket) in, the rows of those buckets out.

    It is sent to every executor once a task, so that it holds only what all buckets have in common.

    Attributes:
        reader: Reads buckets; the same for all of them.
        nanoseconds: As in `spark_schema`.
        counters: Where to count, if anybody looks.
        buckets: The pickled buckets, where tasks are told the numbers of theirs only.
        title: How plans call it.
    """

    reader: BucketReader[pa.RecordBatch]
    nanoseconds: Nanoseconds = "error"
    counters: Accumulator[dict[int, dict[str, int]]] | None = None
    buckets: tuple[bytes, ...] = field(default=(), repr=False)
    title: str = "formatkit"

    @property
    def __name__(self) -> str:  # where Spark looks for the title
        return self.title

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        normalise = normaliser(self.reader.schema, self.nanoseconds)
        for bucket in work_in(rows, self.buckets):
            with closing(self._counted(bucket, normalise)) as batches:
                yield from batches

    def _counted(self, bucket: Bucket, normalise: Normalise) -> Generator[pa.RecordBatch, None, None]:
        files = len({task.location for task in bucket.tasks})
        counts: Counter[str] = Counter(files=files, bytes=bucket.bytes, rows=0, arrow_bytes=0)
        began = time.perf_counter_ns()
        waited = 0
        batches = spark_batches(self.reader.batches(bucket, counts), normalise)
        try:
            for batch in batches:
                counts["rows"] += batch.num_rows
                counts["arrow_bytes"] += batch.nbytes
                paused = time.perf_counter_ns()
                yield batch
                waited += time.perf_counter_ns() - paused
        finally:
            batches.close()
            if self.counters is not None:
                counts["read_ms"] = (time.perf_counter_ns() - began - waited) // 1_000_000
                counts["handover_ms"] = waited // 1_000_000
                self.counters.add({bucket.index: dict(counts)})


def run_task(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run a function in a task, and say of a lack of memory what to do: workers often are under a limit."""
    with enough_memory("a task of Spark"):
        yield from function(rows)


def work_in(rows: Iterable[pa.RecordBatch], pickled: tuple[bytes, ...] = ()) -> Iterator[Any]:
    """The work that a task was given, either by value or by number: what `map_each` was given for it."""
    _spare_imports()
    for batch in rows:
        columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
        given = columns[1] if len(columns) > 1 else [pickled[index] for index in columns[0]]
        yield from (pickle.loads(each) for each in given)  # noqa: S301 - the driver made it


@cache
def _spare_imports() -> None:
    """Spark collects garbage after each task, which takes long where much is imported, unless that is left out."""
    gc.freeze()


def spark_batches(batches: Iterable[pa.RecordBatch], normalise: Normalise) -> BatchStream[pa.RecordBatch]:
    """Batches in the form and of the size that suit Spark. Closing the stream closes `batches`.

    Args:
        batches: What a scan gives.
        normalise: The way to Spark's form.
    """
    return BatchStream(_resized(map(normalise, batches)), getattr(batches, "close", None))


def _resized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, tiny batches together and huge ones apart."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= _LEAST_ROWS:
            yield from _cut(_together(waiting))
            waiting = []
    if any(batch.num_rows for batch in waiting):
        yield from _cut(_together(waiting))


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if batches[0].num_columns == 0:
        return empty_columns(sum(batch.num_rows for batch in batches))
    together: pa.RecordBatch = _concat_batches(batches)
    return together


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    parts = -(-batch.nbytes // _MOST_BYTES)
    rows = max(1, -(-batch.num_rows // max(parts, 1)))
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
