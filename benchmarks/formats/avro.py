"""Avro: decoding against fastavro and DataFusion, codec by codec, and the first small file of a fresh process.

    python benchmarks/formats/avro.py --rows 300000

Times are the least of interleaved runs in one process: on a shared machine all that disturbs a run makes it longer.
Wall time and processor time are both given, because formatkit decompresses bzip2 and xz ahead in threads; DataFusion
and Polars decode a file in one thread. Readers that are not installed are left out, and one that cannot read a column
or a codec says so once. DataFusion 53 reads no decimals; all are compared on the other nine columns then.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa

from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.formats.avro.codecs import CODECS, compress
from formatkit.formats.avro.container import blocks, read_header
from formatkit.formats.avro.plugin import AvroFormat
from formatkit.io import open_source

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long", "field-id": 1},
        {"name": "price", "type": "double", "field-id": 2},
        {"name": "name", "type": "string", "field-id": 3},
        {"name": "comment", "type": ["null", "string"], "field-id": 4},
        {"name": "quantity", "type": ["null", "int"], "field-id": 5},
        {
            "name": "at",
            "type": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            "field-id": 6,
        },
        {
            "name": "amount",
            "type": {"type": "fixed", "name": "d", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2},
            "field-id": 7,
        },
        {"name": "open", "type": "boolean", "field-id": 8},
        {"name": "tags", "type": {"type": "array", "items": "long", "element-id": 10}, "field-id": 9},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "place",
                "fields": [
                    {"name": "x", "type": "long", "field-id": 12},
                    {"name": "y", "type": ["null", "string"], "field-id": 13},
                ],
            },
            "field-id": 11,
        },
    ],
}
TWO_COLUMNS = ("id", "name")
NO_DECIMAL = tuple(field["name"] for field in SCHEMA["fields"] if field["name"] != "amount")


def row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "price": number * 0.37,
        "name": f"customer {number % 5000}",
        "comment": None if number % 4 == 0 else f"a comment of some length about order {number}",
        "quantity": None if number % 10 == 0 else number % 1000,
        "at": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        "amount": Decimal(number % 1_000_000) / 100,
        "open": number % 3 == 0,
        "tags": list(range(number % 5)),
        "place": {"x": number * 7, "y": None if number % 2 else "somewhere"},
    }


def write_files(folder: Path, rows: int) -> dict[str, Path]:
    """The same rows once for each codec."""
    plain = folder / "null.avro"
    with plain.open("wb") as file:
        fastavro.writer(file, SCHEMA, map(row, range(rows)), codec="null", sync_interval=64_000)
    return {"null": plain} | {
        codec: recompress(plain, folder / f"{codec}.avro", codec) for codec in CODECS if codec != "null"
    }


def recompress(plain: Path, target: Path, codec: str) -> Path:
    with closing(open_source(str(plain))) as source, target.open("wb") as file:
        header = read_header(source)
        fastavro.writer(empty := io.BytesIO(), SCHEMA, [], codec="null", sync_marker=header.sync)
        file.write(empty.getvalue().replace(b"\x08null", varint(len(codec)) + codec.encode()))
        for block in blocks(source, header, None):
            data = compress(codec, block.payload)
            file.write(varint(block.rows) + varint(len(data)) + bytes(data) + header.sync)
    return target


def varint(number: int) -> bytes:
    fastavro.schemaless_writer(out := io.BytesIO(), "long", number)
    return out.getvalue()


def read_formatkit(path: Path, columns: tuple[str, ...] | None = None) -> int:
    with closing(open_source(str(path))) as source:
        file = AvroFormat().reader().open(source, OpenOptions())
        projection = file.schema if columns is None else file.schema.select(*columns)
        with file.read(ReadOptions(projection=projection)).batches as batches:
            return sum(batch.num_rows for batch in batches)


def read_fastavro(path: Path, columns: tuple[str, ...] | None = None) -> int:
    with path.open("rb") as file:
        rows = list(fastavro.reader(file))
    if columns is not None:
        rows = [{name: each[name] for name in columns} for each in rows]
    return pa.RecordBatch.from_pylist(rows).num_rows


def read_datafusion(path: Path, columns: tuple[str, ...] | None = None) -> int:
    import datafusion

    frame = datafusion.SessionContext(
        datafusion.SessionConfig({"datafusion.execution.target_partitions": "1"})
    ).read_avro(str(path))
    batches = (frame if columns is None else frame.select(*columns)).execute_stream()
    return sum(batch.to_pyarrow().num_rows for batch in batches)


def read_polars(path: Path, columns: tuple[str, ...] | None = None) -> int:
    import polars as pl

    return pl.read_avro(path, columns=list(columns) if columns else None).height


Reader = Callable[[Path, "tuple[str, ...] | None"], int]


def peers() -> dict[str, Reader]:
    known: dict[str, Reader] = {"datafusion": read_datafusion, "polars": read_polars}
    return {name: read for name, read in known.items() if importlib.util.find_spec(name)}


def refusal(read: Reader, path: Path, columns: tuple[str, ...] | None) -> str:
    """Why a reader cannot take part, or nothing. The attempt warms caches as well."""
    try:
        read(path, columns)
    except Exception as error:  # noqa: BLE001 - whatever a library raises for what it lacks
        return str(error).splitlines()[0][:100]
    return ""


def measured(peers: dict[str, Reader], path: Path, columns: tuple[str, ...] | None, runs: int, rows: int) -> None:
    """Print how many times the time of formatkit each peer takes."""
    refusals = {name: refusal(read, path, columns) for name, read in peers.items()}
    for name, reason in refusals.items():
        if reason:
            print(f"  {name} cannot: {reason}")
    readers = {"formatkit": read_formatkit} | {name: read for name, read in peers.items() if not refusals[name]}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in readers}
    read_formatkit(path, columns)
    for _ in range(runs):
        for name, read in readers.items():
            wall, processor = time.perf_counter(), time.process_time()
            assert read(path, columns) == rows, name
            times[name].append((time.perf_counter() - wall, time.process_time() - processor))
    best = {name: [min(kind) for kind in zip(*several, strict=True)] for name, several in times.items()}
    for name, (wall, processor) in best.items():
        ratios = (
            f"{wall / best['formatkit'][0]:6.2f} x the wall, {processor / best['formatkit'][1]:6.2f} x the processor"
        )
        print(f"  {name:12} wall {1000 * wall:7.1f} ms, processor {1000 * processor:7.1f} ms: {ratios} time")


_FASTAVRO = """
import sys, fastavro, pyarrow as pa
with open(sys.argv[1], "rb") as file: pa.RecordBatch.from_pylist(list(fastavro.reader(file)))
"""
PROCESSES = {
    "fastavro": _FASTAVRO,
    "fastavro, and the types of pyiceberg": "import pyiceberg.expressions, pyiceberg.schema" + _FASTAVRO,
    "formatkit, its Avro plugin": """
import sys
from contextlib import closing
from formatkit.contract.options import OpenOptions, ReadOptions
from formatkit.formats.avro.plugin import AvroFormat
from formatkit.io import open_source
with closing(open_source(sys.argv[1])) as source:
    file = AvroFormat().reader().open(source, OpenOptions())
    list(file.read(ReadOptions(projection=file.schema)).batches)
""",
    "fastavro, and tables of pyiceberg": "import pyiceberg.table" + _FASTAVRO,
    "formatkit.read_file": "import sys, formatkit; formatkit.read_file(sys.argv[1]).to_arrow()",
}


def first_file(folder: Path, rows: int, runs: int) -> None:
    path = folder / "small.avro"
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA, map(row, range(rows)), codec="deflate")
    print(f"fresh process, {rows} rows in {path.stat().st_size} bytes:")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in PROCESSES}
    for _ in range(runs + 1):
        for name, program in PROCESSES.items():
            wall, processor = time.perf_counter(), children_time()
            subprocess.run([sys.executable, "-c", program, str(path)], check=True)
            times[name].append((time.perf_counter() - wall, children_time() - processor))
    for name, (_, *several) in times.items():
        wall, processor = (min(kind) for kind in zip(*several, strict=True))
        print(f"  {name:40} wall {wall:6.3f} s, processor {processor:6.3f} s")


def children_time() -> float:
    used = os.times()
    return used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--small", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--only-start", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not options.only_start:
            files = write_files(folder, options.rows)
            print("null, against fastavro:")
            measured({"fastavro": read_fastavro}, files["null"], None, 1, options.rows)
            others = peers()
            columns = (
                None if "datafusion" not in others or not refusal(read_datafusion, files["null"], None) else NO_DECIMAL
            )
            for codec, path in files.items():
                print(f"{codec}, {path.stat().st_size / 1e6:.1f} MB, {len(columns or SCHEMA['fields'])} columns:")
                measured(others, path, columns, options.runs, options.rows)
            print("null, two columns of ten:")
            measured(others, files["null"], TWO_COLUMNS, options.runs, options.rows)
        for rows in options.small:
            first_file(folder, rows, options.runs)


if __name__ == "__main__":
    main()
