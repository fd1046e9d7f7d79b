"""Workers and executors that die in the middle of a scan cost time, and no rows.

`make cluster` does it often; CLUSTER_RUNS says how often.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import formatkit
import formatkit.spark
from support.deadly_io import DEADLY_IO, FOLDER, Fault, arm, victim
from support.written_tables import new_table

RUNS = int(os.environ.get("CLUSTER_RUNS", "1"))
FILES = 6
# More than a batch to Spark is made of, so that a task has handed over rows of earlier files when it dies.
ROWS_PER_FILE = 20_000
KEYS = 7


class Doomed(NamedTuple):
    table: Table
    folder: Path


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doomed]:
    """A table with deleted rows whose files are deadly once they are armed."""
    folder = tmp_path_factory.mktemp("doomed")
    catalog = InMemoryCatalog("doomed", warehouse=folder.as_uri(), **DEADLY_IO, **{FOLDER: str(folder)})
    catalog.create_namespace("db")
    fields = [NestedField(1, "id", LongType()), NestedField(2, "key", LongType()), NestedField(3, "text", StringType())]
    table = new_table(catalog, *fields, properties={"write.delete.mode": "merge-on-read"})
    for number in range(FILES):
        ids = np.arange(ROWS_PER_FILE) + number * ROWS_PER_FILE
        formatkit.append(table, pa.table({"id": ids, "key": ids % KEYS, "text": [f"row {i}" for i in ids]}))
    formatkit.delete(table, "id >= 19990 and id < 20010")
    yield Doomed(catalog.load_table("db.written"), folder)
    catalog.close()


@pytest.fixture(autouse=True)
def nothing_armed_afterwards(doomed: Doomed) -> Iterator[None]:
    yield
    (doomed.folder / "armed").unlink(missing_ok=True)


@pytest.mark.parametrize("run", range(RUNS))
@pytest.mark.parametrize("fault", ["raise", "kill worker", "kill executor"])
def test_a_scan_survives(spark: SparkSession, doomed: Doomed, fault: Fault, run: int) -> None:
    scan = formatkit.scan(doomed.table)
    expected = scan.to_arrow().sort_by("id")
    planned = formatkit.spark.SparkScan(spark, scan, buckets=2)
    tasks = planned.buckets[run % 2].tasks
    arm(doomed.folder, tasks[-1 if run == 0 else random.randrange(len(tasks))].location, fault)
    found = planned.dataframe().toArrow().sort_by("id")
    assert found.to_pydict() == expected.to_pydict()
    assert planned.metrics().total["rows"] == len(expected)
    assert not (doomed.folder / "armed").exists()
    assert fault == "raise" or is_gone(victim(doomed.folder))


@pytest.mark.parametrize("run", range(RUNS))
def test_an_aggregate_survives_an_executor_with_finished_work(spark: SparkSession, doomed: Doomed, run: int) -> None:
    scan = formatkit.scan(doomed.table)
    rows = scan.to_arrow().group_by("key").aggregate([("id", "sum"), ("id", "count")]).sort_by("key").to_pylist()
    planned = formatkit.spark.SparkScan(spark, scan, buckets=FILES)
    arm(doomed.folder, planned.buckets[FILES - 1 - run % FILES].tasks[0].location, "kill executor")
    frame = planned.dataframe().groupBy("key").agg(f.sum("id").alias("total"), f.count("*").alias("rows"))
    assert [tuple(row) for row in frame.orderBy("key").collect()] == [
        (row["key"], row["id_sum"], row["id_count"]) for row in rows
    ]
    assert is_gone(victim(doomed.folder))


def is_gone(process: int) -> bool:
    """Whether a process has ended; a zombie has, too."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    return True
