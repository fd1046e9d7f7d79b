"""Avro: encoding against fastavro and Polars, and what writing costs beside the codec alone.

    python -m benchmarks.formats.avro_write --rows 300000

Processor time counts every thread, so that of encoding and of compressing add up; wall time gains from the threads
that compress where a second core is idle. The codec alone compresses the same blocks in one thread, with the library,
the level and the contexts that formatkit uses; for gzip also with zlib, which is what fastavro and Java use. fastavro
is measured on fewer rows, because it takes that much longer, and its rows are Python objects before the clock starts.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
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

from benchmarks.formats.goals import at_least, at_most
from benchmarks.formats.timing import best_times
from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract import WriteOptions
from formatkit.formats.avro.codecs import compress
from formatkit.formats.avro.writer import AvroWriter
from formatkit.io import MemorySink

CODECS = {"gzip": "deflate", "snappy": "snappy", "zstd": "zstandard"}
PLACE = StructType(
    NestedField(12, "x", IntegerType(), required=False), NestedField(13, "y", StringType(), required=False)
)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "price", DoubleType(), required=False),
    NestedField(3, "name", StringType(), required=True),
    NestedField(4, "comment", StringType(), required=False),
    NestedField(5, "quantity", IntegerType(), required=False),
    NestedField(6, "at", TimestamptzType(), required=False),
    NestedField(7, "amount", DecimalType(12, 2), required=False),
    NestedField(8, "open", BooleanType(), required=False),
    NestedField(9, "tags", ListType(10, IntegerType(), element_required=True), required=False),
    NestedField(11, "place", PLACE, required=False),
)
WORDS = np.array(["alpha", "beta", "gamma ray", "d", "epsilon is a longer word", "zeta"])


def batches(rows: int) -> list[pa.RecordBatch]:
    """Ten columns of ten kinds, a tenth of the values null."""
    random = np.random.default_rng(7)

    def column(values: Any) -> Any:
        return pa.array(values, mask=random.random(rows) < 0.1)

    lengths = random.integers(0, 4, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    parts: list[Any] = [
        pa.array(random.integers(0, 9999, rows, dtype=np.int32)),
        pa.array(WORDS[random.integers(0, 6, rows)]),
    ]
    columns = [
        pa.array(np.arange(rows) * 7),
        column(random.random(rows)),
        pa.array([f"customer {number}" for number in random.integers(0, 5000, rows)]),
        column(WORDS[random.integers(0, 6, rows)]),
        column(random.integers(-(10**6), 10**6, rows, dtype=np.int32)),
        column(random.integers(15 * 10**14, 17 * 10**14, rows)).cast(pa.timestamp("us", "UTC")),
        column([Decimal(int(number)).scaleb(-2) for number in random.integers(-(10**8), 10**9, rows)]),
        column(random.random(rows) < 0.5),
        pa.ListArray.from_arrays(offsets, pa.array(random.integers(0, 1000, lengths.sum(), dtype=np.int32))),
        pa.StructArray.from_arrays(parts, names=["x", "y"], mask=pa.array(random.random(rows) < 0.1)),
    ]
    wanted = arrow_schema(SCHEMA)
    arrays: list[Any] = [array.cast(field.type) for array, field in zip(columns, wanted, strict=True)]
    return pa.Table.from_arrays(arrays, schema=wanted).to_batches(max_chunksize=32_768)


def write_formatkit(data: list[pa.RecordBatch], codec: str) -> bytes:
    sink = MemorySink()
    options = WriteOptions(schema=SCHEMA, properties={"write.avro.compression-codec": codec})
    with AvroWriter().open(sink, options) as writer:
        for batch in data:
            writer.write(batch)
    return sink.data or b""


def measure_uncompressed(data: list[pa.RecordBatch], plain: bytes, rows: int, rounds: int) -> None:
    few = min(rows, 10_000)
    table = pa.Table.from_batches(data)
    objects = table.slice(0, few).to_pylist()
    stored = json.loads(fastavro.reader(io.BytesIO(plain)).metadata["avro.schema"])
    schema = fastavro.parse_schema(stored)
    contestants: dict[str, Callable[[], object]] = {
        "formatkit": lambda: write_formatkit(data, "uncompressed"),
        "fastavro": lambda: fastavro.writer(io.BytesIO(), schema, objects),
    }
    if importlib.util.find_spec("polars"):
        import polars as pl

        # Polars writes neither timestamps with a zone nor decimals.
        frame = pl.from_arrow(table.drop_columns(["at", "amount"]))
        contestants["polars, 8 of 10 columns"] = lambda: frame.write_avro(io.BytesIO(), "uncompressed")
    times = best_times(contestants, rounds)
    ours = times["formatkit"].processor
    print(f"uncompressed: {len(plain) / ours / 1e6:.0f} MB and {rows / ours / 1e6:.1f} million rows a second")
    ratios = {name: found.processor * (rows / few if name == "fastavro" else 1) / ours for name, found in times.items()}
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio:.1f} x the processor time")
    at_least("Avro encode, null, as many times as fast as fastavro", ratios["fastavro"], 50)


def measure_codecs(data: list[pa.RecordBatch], plain: bytes, rounds: int) -> None:
    blocks = [block.bytes_.getvalue() for block in fastavro.block_reader(io.BytesIO(plain))]
    for codec, stored in CODECS.items():
        contestants: dict[str, Callable[[], object]] = {
            "formatkit": lambda codec=codec: write_formatkit(data, codec),
            "the codec": lambda stored=stored: [compress(stored, block) for block in blocks],
        }
        if codec == "gzip":
            contestants["zlib"] = lambda: [zlib.compress(block, wbits=-15) for block in blocks]
        times = best_times(contestants, rounds)
        ours = times.pop("formatkit")
        for name, (wall, processor) in times.items():
            ratios = f"{ours.processor / processor:.2f} x the processor time, {ours.wall / wall:.2f} x the wall time"
            print(f"{codec}: {ratios} of {name} alone")
        at_most(f"Avro encode, {codec}, time × the codec alone", ours.wall / times["the codec"].wall, 1.2)
        ratio = ours.processor / times["the codec"].processor
        at_most(f"Avro encode, {codec}, processor time × the codec alone", ratio, 1.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    data = batches(arguments.rows)
    plain = write_formatkit(data, "uncompressed")
    print(f"{arguments.rows} rows, {len(plain) / 1e6:.0f} MB, {os.cpu_count()} processors")
    measure_uncompressed(data, plain, arguments.rows, arguments.rounds)
    measure_codecs(data, plain, arguments.rounds)


if __name__ == "__main__":
    main()
