"""What the benchmarks of Vortex and Lance share: the data, and the comparison with a library's own reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from benchmarks.formats.timing import Times, best_times
from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract import FormatPlugin, OpenOptions, ReadOptions, WriteOptions
from formatkit.io import LocalSink, LocalSource

Plugin = FormatPlugin[pa.RecordBatch]

ROUNDS = 15
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "quantity", IntegerType()),
    NestedField(4, "price", DecimalType(12, 2)),
    NestedField(5, "name", StringType()),
    NestedField(6, "key", StringType()),
    NestedField(7, "at", TimestamptzType()),
    NestedField(8, "place", StructType(NestedField(9, "x", DoubleType()), NestedField(10, "y", DoubleType()))),
    NestedField(11, "marks", ListType(12, IntegerType(), element_required=False)),
)


def table(rows: int) -> pa.Table:
    random = np.random.default_rng(7)
    offsets = np.arange(0, 2 * rows + 1, 2, dtype=np.int32)
    columns = [
        pa.array(np.arange(rows)),
        pa.array(random.random(rows), mask=random.random(rows) < 0.1),
        pa.array(random.integers(0, 1000, rows, dtype=np.int32)),
        pa.array(random.integers(0, 10**8, rows, dtype=np.int32)).cast(pa.decimal128(12, 2)),
        pa.array([f"name {number}" for number in range(5000)]).take(pa.array(random.integers(0, 5000, rows))),
        pa.array([f"{number * 7919 % rows:09d}-key" for number in range(rows)]),
        pa.array(np.sort(random.integers(0, 10**15, rows))).view(pa.timestamp("us", "UTC")),
        pa.StructArray.from_arrays([pa.array(random.random(rows)), pa.array(random.random(rows))], ["x", "y"]),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(random.integers(0, 9, 2 * rows, dtype=np.int32))),
    ]
    return pa.table(columns, names=[field.name for field in SCHEMA.fields]).cast(arrow_schema(SCHEMA))


def write(plugin: Plugin, path: Path, data: pa.Table) -> None:
    with plugin.writer().open(LocalSink(path), WriteOptions(schema=SCHEMA)) as writer:
        for batch in data.to_batches(max_chunksize=32_768):
            writer.write(batch)


def read(plugin: Plugin, path: Path, options: ReadOptions) -> int:
    source = LocalSource(path)
    file = plugin.reader().open(source, OpenOptions())
    with file.read(options).batches as batches:
        rows = drain(batches)
    file.close()
    source.close()
    return rows


def drain(batches: Iterable[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def compare(name: str, ours: Callable[[], int], theirs: Callable[[], int]) -> Times:
    """Print and return the ratios of processor time and of time."""
    assert ours() == theirs()
    mine, other = best_times({"ours": ours, "theirs": theirs}, ROUNDS).values()
    ratios = Times(mine.wall / other.wall, mine.processor / other.processor)
    milliseconds = f"({1000 * mine.processor:.0f} ms)"
    print(f"{name:44} processor {ratios.processor:5.2f}   time {ratios.wall:5.2f}   {milliseconds}")
    return ratios
