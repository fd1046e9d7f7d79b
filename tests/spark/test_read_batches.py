"""What a worker hands to Spark: batches of a good size, and nothing open when Spark has had enough."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import formatkit
from formatkit.contract import BatchStream
from formatkit.spark import worker
from formatkit.spark.worker import ReadBucket, spark_batches
from support.spark_tables import everything


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def batches_of(*sizes: int) -> Iterator[pa.RecordBatch]:
    starts = [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    return (pa.record_batch({"a": pa.array(range(start, stop), pa.int64())}) for start, stop in pairwise(starts))


@pytest.mark.parametrize(
    ("sizes", "made"),
    [
        ((), []),
        ((0,), []),
        ((0, 5, 0), [5]),
        ((100,) * 200, [16_400, 3_600]),
        ((20_000, 10, 20_000), [20_000, 20_010]),
        ((60_000, 60_000), [60_000, 60_000]),
    ],
)
def test_tiny_batches_are_put_together(sizes: tuple[int, ...], made: list[int]) -> None:
    batches = list(spark_batches(batches_of(*sizes), same))
    assert [batch.num_rows for batch in batches] == made
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == list(range(sum(sizes)))


def test_huge_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_MOST_BYTES", 100_000)
    batches = list(spark_batches(batches_of(50_000), same))
    assert max(batch.nbytes for batch in batches) <= 100_000
    assert [row for batch in batches for row in batch.column(0).to_pylist()] == list(range(50_000))


@pytest.mark.parametrize("taken", [0, 1])
def test_closing_closes_what_is_read_whoever_else_holds_it(taken: int) -> None:
    closed = []
    stream = BatchStream(batches_of(20_000, 20_000), on_close=lambda: closed.append(True))
    batches = spark_batches(stream, same)
    for _ in range(taken):
        next(batches)
    assert not closed
    batches.close()
    assert closed


def test_what_is_imported_is_left_out_of_collections_of_garbage() -> None:
    worker._spare_imports.cache_clear()
    gc.unfreeze()
    try:
        list(worker.work_in(iter([]), ()))
        assert gc.get_freeze_count() > len(sys.modules)
    finally:
        gc.unfreeze()


def open_files(folder: str) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.append(str(descriptor.readlink()))
        except OSError:
            continue
    return [each for each in found if each.startswith(folder)]


def test_a_worker_that_is_stopped_closes_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_LEAST_ROWS", 1)
    with everything("parquet") as table:
        folder = str(Path(table.files[0].location.removeprefix("file://")).parent)
        # Without a buffer nothing is read to its end before it is asked for.
        scan = formatkit.scan(table.table, select=["long"], batch_rows=1, buffer_bytes=0)
        bucket = scan.buckets(1)[0]
        function = ReadBucket(pickle.loads(pickle.dumps(scan.bucket_reader())), buckets=(pickle.dumps(bucket),))
        batches: Any = function(iter([pa.record_batch({"id": [0]})]))
        assert next(batches).num_rows == 1
        assert open_files(folder)
        batches.close()
        assert open_files(folder) == []
