"""ORC: decoding and encoding against bare pyarrow, and what a filter that matches nothing reads.

    python -m benchmarks.formats.orc --rows 1000000

Processor times of interleaved runs in one process. A ratio is that of the fastest runs, which other work on the machine
disturbed least. pyarrow gets its fastest way: one stripe after the other, and columns in the types that it encodes.
There are two tables: one of columns as most tables have them, and one with every type.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow.orc import ORCFile, ORCWriter
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from benchmarks.formats.goals import at_most
from benchmarks.formats.timing import best_times
from formatkit.batches.arrow.types import arrow_schema
from formatkit.contract import OpenOptions, ReadOptions, WriteOptions
from formatkit.formats.orc.encoder_form import EncoderForm
from formatkit.formats.orc.plugin import OrcFormat
from formatkit.formats.orc.write_properties import OrcProperties
from formatkit.formats.orc.write_schema import stored_schema
from formatkit.io import LocalSink, LocalSource, MemorySource
from formatkit.kernel import bind

TYPES = {
    "id": LongType(),
    "quantity": IntegerType(),
    "price": DoubleType(),
    "rate": FloatType(),
    "amount": DecimalType(21, 2),
    "day": DateType(),
    "at": TimestampType(),
    "city": StringType(),
    "user": StringType(),
    "open": BooleanType(),
    "parent": LongType(),
}
SCHEMA = Schema(*(NestedField(i + 1, name, kind) for i, (name, kind) in enumerate(TYPES.items())))
OTHER_TYPES = {
    "moment": TimestamptzType(),
    "nanos": TimestampNanoType(),
    "time": TimeType(),
    "small": DecimalType(11, 2),
    "large": DecimalType(38, 10),
    "uuid": UUIDType(),
    "fixed": FixedType(16),
    "bytes": BinaryType(),
    "struct": StructType(
        NestedField(101, "a", LongType()), NestedField(102, "b", StringType()), NestedField(103, "c", TimestampType())
    ),
    "list": ListType(104, LongType(), element_required=False),
    "map": MapType(105, StringType(), 106, LongType(), value_required=False),
}
EVERY_TYPE = Schema(
    *(NestedField(i + 1, name, kind) for i, (name, kind) in enumerate({**TYPES, **OTHER_TYPES}.items()))
)
BATCH_ROWS = 32_768


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--stripe-bytes", type=int, default=64 << 20)
    asked = arguments.parse_args()
    tables = {
        "typical columns": (SCHEMA, make_table(asked.rows)),
        "every type": (EVERY_TYPE, every_type(asked.rows // 4)),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, (schema, table) in tables.items():
            print(f"{name}: {table.num_rows} rows, {len(table.schema)} columns")
            found = [
                measure(schema, table, codec, asked.stripe_bytes, asked.rounds, Path(folder))
                for codec in ("none", "snappy", "zlib", "zstd")
            ]
            worst = Ratios(*map(max, zip(*found, strict=True)))
            what = f"table of {name}, the worst codec"
            at_most(f"ORC full decode, {what}, processor time × bare pyarrow", worst.read, 1.05)
            at_most(f"ORC write, {what}, processor time × bare pyarrow", worst.write, 1.1)
            at_most(f"ORC filter that matches no stripe, {what}, share of the bytes read", worst.share_read, 0.02)


def make_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(1)
    whole = pa.array(rng.integers(0, 10**8, rows)).cast(pa.decimal128(19, 0))
    cities = np.array([f"city-{i}" for i in range(500)])
    columns: dict[str, Any] = {
        "id": np.arange(rows),
        "quantity": rng.integers(0, 1000, rows).astype(np.int32),
        "price": rng.random(rows),
        "rate": rng.random(rows).astype(np.float32),
        "amount": whole.cast(pa.decimal128(21, 2)),
        "day": pa.array((18_000 + rng.integers(0, 1000, rows)).astype(np.int32)).view(pa.date32()),
        "at": pa.array(1_600_000_000_000_000 + np.arange(rows) * 1000).cast(pa.timestamp("us")),
        "city": cities[rng.integers(0, 500, rows)],
        "user": [f"user-{number:x}" for number in rng.integers(0, 2**40, rows)],
        "open": rng.random(rows) < 0.3,
        "parent": pa.array(rng.integers(0, 100, rows), mask=rng.random(rows) < 0.2),
    }
    return pa.table(columns)


def every_type(rows: int) -> pa.Table:
    rng = np.random.default_rng(2)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * 2)
    numbers = rng.integers(0, 10**8, 2 * rows)
    moments = pa.array(rng.integers(0, 4 * 10**15, rows))
    words = pa.array([f"word {number % 1000}" for number in numbers.tolist()])
    keys = pa.array([f"key {number}" for number in range(1000)]).take(pa.array(numbers % 1000))
    mixed = rng.integers(0, 256, 16 * rows, dtype=np.uint8).tobytes()
    columns: list[Any] = [
        *make_table(rows).columns,
        moments.cast(pa.timestamp("us", "UTC")),
        pa.array(rng.integers(0, 10**18, rows)).cast(pa.timestamp("ns")),
        pa.array(rng.integers(0, 86_400_000_000, rows)).view(pa.time64("us")),
        pa.array(numbers[:rows]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(11, 2)),
        pa.array(numbers[:rows]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 10)),
        pa.Array.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(mixed)]),
        pa.Array.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(mixed)]),
        words.slice(0, rows).cast(pa.binary()),
        pa.StructArray.from_arrays(
            [pa.array(numbers[:rows]), words.slice(0, rows), moments.cast("timestamp[us]")], "abc"
        ),
        pa.ListArray.from_arrays(offsets, pa.array(numbers)),
        pa.MapArray.from_arrays(offsets, keys, pa.array(numbers)),
    ]
    schema = arrow_schema(EVERY_TYPE)
    return pa.table([_as(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def _as(column: Any, kind: Any) -> Any:
    return pa.ExtensionArray.from_storage(kind, column) if isinstance(kind, pa.UuidType) else column.cast(kind)


class Ratios(NamedTuple):
    """What the goals are about."""

    read: float
    write: float
    share_read: float


def measure(schema: Schema, table: pa.Table, codec: str, stripe_bytes: int, rounds: int, folder: Path) -> Ratios:
    properties = {"write.orc.compression-codec": codec, "write.orc.stripe-size-bytes": str(stripe_bytes)}
    options = OrcProperties.parse(properties, stored_schema(schema).leaves).encoder_options([])
    batches = table.to_batches(BATCH_ROWS)
    form = EncoderForm(stored_schema(schema).schema, frozenset())
    in_encoder_types = [form.table(batch) for batch in batches]
    bare, ours = folder / "bare.orc", folder / "ours.orc"

    def write_bare() -> None:
        with ORCWriter(str(bare), **options) as writer:
            for part in in_encoder_types:
                writer.write(part)

    def write_ours() -> None:
        asked = WriteOptions(schema=schema, properties=properties, overwrite=True)
        with OrcFormat().writer().open(LocalSink(ours), asked) as writer:
            for batch in batches:
                writer.write(batch)

    def read_bare(names: list[str] | None = None) -> None:
        file = ORCFile(str(ours))
        # A consumer holds a batch while the next one is decoded, here as there.
        for _ in (file.read_stripe(stripe, names) for stripe in range(file.nstripes)):
            pass

    def read_ours(names: list[str] | None = None) -> None:
        with closing(LocalSource(ours)) as source:
            file = OrcFormat().reader().open(source, OpenOptions())
            fields = [field for field in file.schema.fields if names is None or field.name in names]
            for _ in file.read(ReadOptions(projection=Schema(*fields))).batches:
                pass

    two = ["id", "city"]
    written, read = ratio(write_ours, write_bare, rounds), ratio(read_ours, read_bare, rounds)
    read_two = ratio(lambda: read_ours(two), lambda: read_bare(two), rounds)
    share = share_read(ours.read_bytes(), "id < 0")
    print(f"{codec:>7}  write {written:.3f}  read {read:.3f}  two columns {read_two:.3f}", end="  ")
    print(f"no match reads {share:.2%} of the bytes")
    return Ratios(read, written, share)


def ratio(ours: Callable[[], None], bare: Callable[[], None], rounds: int) -> float:
    ours()
    bare()
    mine, theirs = best_times({"ours": ours, "bare": bare}, rounds).values()
    return mine.processor / theirs.processor


class CountingSource(MemorySource):
    """Counts the bytes that were asked for."""

    bytes_read = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.bytes_read += length
        return super().read(offset, length)


def share_read(data: bytes, where: str) -> float:
    source = CountingSource(data)
    file = OrcFormat().reader().open(source, OpenOptions())
    options = ReadOptions(projection=file.schema, predicate=bind(file.schema, where))
    assert list(file.read(options).batches) == []
    return source.bytes_read / len(data)


if __name__ == "__main__":
    main()
