"""Reads partitions that carry everything that they need; for Spark's own readers of Python sources."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from formatkit.spark.worker import ReadBucket

__all__ = ["partition_payloads", "read_partitions"]


def partition_payloads(function: ReadBucket, buckets: Iterable[object]) -> list[bytes]:
    """What each partition is sent. Runtime filters change buckets and their reader together, so both are in it."""
    pickled = (pickle.dumps(bucket, protocol=pickle.HIGHEST_PROTOCOL) for bucket in buckets)
    return [pickle.dumps(replace(function, buckets=(bucket,)), protocol=pickle.HIGHEST_PROTOCOL) for bucket in pickled]


def read_partitions(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of the partitions that a task was given."""
    only = pa.record_batch({"index": [0]})
    for batch in rows:
        for payload in batch.column(0).to_pylist():
            function: ReadBucket = pickle.loads(payload or b"")  # noqa: S301 - the driver made it
            yield from function(iter([only]))
