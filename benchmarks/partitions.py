"""Writing a table that is partitioned by bucket[16] and day, against writing the same rows without partitions.

    python benchmarks/partitions.py --rows 4000000 --days 4

Times are the least of interleaved runs in one process, wall and processor time. The peer "same files" writes what the
partitioned table has, from rows that are in its order already: the cost of more and smaller files alone.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from formatkit.write import write_data_files
from formatkit.write.partition import Partitioner

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestampType()),
    NestedField(3, "name", StringType()),
    NestedField(4, "price", DoubleType()),
    NestedField(5, "quantity", IntegerType()),
    NestedField(6, "city", StringType()),
    NestedField(7, "amount", DecimalType(12, 2)),
    NestedField(8, "flag", BooleanType()),
)
SPEC = PartitionSpec(
    PartitionField(1, 1000, BucketTransform(16), "id_bucket"), PartitionField(2, 1001, DayTransform(), "at_day")
)
_DAY = 86_400_000_000


def shuffled_rows(rows: int, days: int) -> pa.Table:
    random = np.random.default_rng(1)
    cities = pa.array([f"city {i}" for i in range(300)])
    moments = 18_262 * _DAY + random.integers(0, days * _DAY, rows)
    amounts = pa.array(random.integers(0, 10**6, rows)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
    return pa.table(
        {
            "id": random.permutation(rows),
            "at": pa.array(moments, pa.timestamp("us")),
            "name": pa.array(random.integers(0, 10**9, rows)).cast(pa.string()),
            "price": random.random(rows),
            "quantity": pa.array(random.integers(0, 100, rows), pa.int32()),
            "city": cities.take(pa.array(random.integers(0, len(cities), rows))),
            "amount": amounts,
            "flag": random.random(rows) > 0.5,
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--format", default="parquet")
    arguments = parser.parse_args()
    rows = shuffled_rows(arguments.rows, arguments.days)
    in_order = [part for _, part in Partitioner(SPEC, SCHEMA).split(rows.combine_chunks().to_batches()[0]).parts]
    with tempfile.TemporaryDirectory() as folder:
        catalog = InMemoryCatalog("benchmark", warehouse=Path(folder).as_uri())
        catalog.create_namespace("db")
        plain = catalog.create_table("db.plain", SCHEMA)
        partitioned = catalog.create_table("db.partitioned", SCHEMA, partition_spec=SPEC)

        def same_files() -> int:
            return sum(len(write_data_files(plain, part, file_format=arguments.format)) for part in in_order)

        contestants: dict[str, Callable[[], int]] = {
            "not partitioned": lambda: len(write_data_files(plain, rows, file_format=arguments.format)),
            "same files": same_files,
            "partitioned": lambda: len(write_data_files(partitioned, rows, file_format=arguments.format)),
        }
        best: dict[str, tuple[float, float]] = {}
        files: dict[str, int] = {}
        for _ in range(arguments.runs):
            for name, write in contestants.items():
                wall, processor = time.perf_counter(), time.process_time()
                files[name] = write()
                found = time.perf_counter() - wall, time.process_time() - processor
                best[name] = min(best.get(name, found)[0], found[0]), min(best.get(name, found)[1], found[1])
        catalog.close()
    for name, (wall, processor) in best.items():
        ratios = wall / best["not partitioned"][0], processor / best["not partitioned"][1]
        print(
            f"{name:16} {files[name]:5} files  {wall:6.2f} s  {processor:6.2f} s of processor time"
            f"  {ratios[0]:5.2f} x  {ratios[1]:5.2f} x"
        )


if __name__ == "__main__":
    main()
