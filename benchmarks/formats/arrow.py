"""Arrow IPC read and written by formatkit, as ratios of the processor time that bare pyarrow.ipc takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
from pyiceberg.schema import Schema

import formatkit
from formatkit.contract import OpenOptions, ReadOptions, WriteOptions
from formatkit.formats.arrow.plugin import ArrowFormat
from formatkit.io import LocalSink, LocalSource
from formatkit.write.derive import derived_schema

ROWS = 1_000_000
BATCH_ROWS = 32_768
ROUNDS = 7


def rows() -> pa.Table:
    random = np.random.default_rng(7)
    numbers = random.integers(0, 1_000_000, ROWS)
    lists = pa.ListArray.from_arrays(pa.array(np.arange(ROWS + 1, dtype=np.int32) * 2), pa.array(np.repeat(numbers, 2)))
    return pa.table(
        {
            "id": np.arange(ROWS),
            "number": numbers,
            "ratio": random.random(ROWS),
            "text": pa.array(numbers).cast(pa.string()),
            "list": lists,
            "struct": pa.StructArray.from_arrays([pa.array(numbers), pa.array(random.random(ROWS))], names=["a", "b"]),
        }
    )


def bare_write(path: Path, table: pa.Table, codec: str | None) -> None:
    options = ipc.IpcWriteOptions(compression=codec, use_threads=False)
    with ipc.new_file(str(path), table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            writer.write_batch(batch)


def own_write(path: Path, table: pa.Table, schema: Schema, codec: str | None) -> None:
    options = WriteOptions(schema=schema, properties={"write.arrow.compression-codec": codec or "none"}, overwrite=True)
    with ArrowFormat().writer().open(LocalSink(str(path)), options) as writer:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            writer.write(batch)


def bare_read(path: Path, *, validate: bool) -> int:
    with pa.OSFile(str(path)) as file:
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(use_threads=False))
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
    if validate:
        for batch in batches:
            batch.validate(full=True)
    return sum(batch.num_rows for batch in batches)


def own_read(path: Path) -> int:
    source = LocalSource(str(path))
    file = ArrowFormat().reader().open(source, OpenOptions())
    with file.read(ReadOptions(projection=file.schema)).batches as stream:
        batches = list(stream)
    source.close()
    return sum(batch.num_rows for batch in batches)


def scanned(path: Path) -> int:
    return formatkit.read_file(path).to_arrow().num_rows


def ratios(contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Medians of interleaved runs, as ratios of the first contestant."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    medians = {name: statistics.median(found) for name, found in times.items()}
    first = next(iter(medians.values()))
    return {name: median / first for name, median in medians.items()}


def main() -> None:
    table = rows()
    schema = derived_schema(table.schema)
    with TemporaryDirectory() as folder:
        for codec in (None, "lz4", "zstd"):
            path, other = Path(folder) / f"{codec}.arrow", Path(folder) / "other.arrow"
            own_write(path, table, schema, codec)
            found = ratios(
                {
                    "pyarrow.ipc": lambda path=path: bare_read(path, validate=False),
                    "pyarrow.ipc, validated": lambda path=path: bare_read(path, validate=True),
                    "formatkit reader": lambda path=path: own_read(path),
                    "formatkit.read_file": lambda path=path: scanned(path),
                }
            )
            report(f"read, {codec or 'not compressed'}", found)
            found = ratios(
                {
                    "pyarrow.ipc": lambda codec=codec, other=other: bare_write(other, table, codec),
                    "formatkit writer": lambda codec=codec, other=other: own_write(other, table, schema, codec),
                }
            )
            report(f"write, {codec or 'not compressed'}", found)


def report(what: str, found: dict[str, float]) -> None:
    print(f"{what}: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items()))


if __name__ == "__main__":
    main()
