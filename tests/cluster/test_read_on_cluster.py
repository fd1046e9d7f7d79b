"""What executors of a real cluster read is what one process reads, in each format, with each kind of delete and type.

`make cluster` runs each kind of delete alone in each format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.spark import map_buckets
from formatkit.tck.deletions import Deletes
from formatkit.tck.rows import from_arrow
from support.spark_tables import EVERY_DELETE, EVERYTHING, everything, rows_of, seen_by_spark
from support.written_tables import ALL_FORMATS

ROWS = 18
LONG = "CLUSTER_RUNS" in os.environ
TOGETHER = {"all kinds": EVERY_DELETE}
ALONE = {"none": (), **{type(each).__name__: (each,) for each in EVERY_DELETE}}


@pytest.mark.parametrize("kind", [*TOGETHER, *ALONE] if LONG else TOGETHER)
@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_executors_read_what_one_process_reads(spark: SparkSession, file_format: str, kind: str) -> None:
    deletes: Sequence[Deletes] = {**TOGETHER, **ALONE}[kind]
    with everything(file_format, deletes) as table:
        alone = formatkit.scan(table.table)
        expected = seen_by_spark(EVERYTHING, from_arrow(EVERYTHING, alone.to_arrow()))
        assert len(expected) == (ROWS if kind in TOGETHER else 24 - 2 * len(deletes))
        frame = formatkit.spark.read(spark, table.table, nanoseconds="integer", buckets=3)
        assert rows_of(EVERYTHING, frame) == expected


def test_both_workers_read_and_the_driver_does_not(spark: SparkSession) -> None:
    def who_reads(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1])
        yield pa.record_batch({"rows": [rows], "executor": [executor], "process": [os.getpid()]})

    with everything("parquet") as table:
        scan = formatkit.scan(table.table, select=["long"])
        found = map_buckets(spark, scan, who_reads, "rows long, executor long, process long", buckets=3).collect()
    assert sum(row.rows for row in found) == ROWS
    assert len({row.executor for row in found}) == 2
    assert os.getpid() not in {row.process for row in found} | {row.executor for row in found}
