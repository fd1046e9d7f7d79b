"""Avro: decoding against fastavro, DataFusion and Polars, codec by codec.

    python -m benchmarks.formats.avro_read --rows 200000

Wall time and processor time are both given, because formatkit decompresses bzip2 and xz ahead in threads; DataFusion
and Polars decode a file in one thread. Readers that are not installed are left out, and one that cannot read a column
or a codec says so. DataFusion 53 reads no decimals; all are compared on the other nine columns then.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import tempfile
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import fastavro
import pyarrow as pa

from benchmarks.formats.goals import at_least, at_most
from benchmarks.formats.timing import Times, best_times
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


def measured(others: dict[str, Reader], path: Path, columns: tuple[str, ...] | None, rounds: int) -> dict[str, Times]:
    """Print how many times the time of formatkit each peer takes."""
    refusals = {name: refusal(read, path, columns) for name, read in others.items()}
    for name, reason in refusals.items():
        if reason:
            print(f"  {name} cannot: {reason}")
    readers = {"formatkit": read_formatkit} | {name: read for name, read in others.items() if not refusals[name]}
    assert len({read(path, columns) for read in readers.values()}) == 1, "the readers disagree about the rows"
    times = best_times({name: partial(read, path, columns) for name, read in readers.items()}, rounds)
    ours = times["formatkit"]
    for name, (wall, processor) in times.items():
        ratios = f"{wall / ours.wall:6.2f} x the wall, {processor / ours.processor:6.2f} x the processor"
        print(f"  {name:12} wall {1000 * wall:7.1f} ms, processor {1000 * processor:7.1f} ms: {ratios} time")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = write_files(Path(folder), options.rows)
        print(f"null, {options.rows} rows, 10 columns:")
        times = measured({"fastavro": read_fastavro}, files["null"], None, 3)
        ratio = times["fastavro"].processor / times["formatkit"].processor
        others = peers()
        lacks_decimals = "datafusion" in others and refusal(read_datafusion, files["null"], None)
        columns = NO_DECIMAL if lacks_decimals else None
        against_datafusion = {}
        for codec, path in files.items():
            print(f"{codec}, {path.stat().st_size / 1e6:.1f} MB, {len(columns or SCHEMA['fields'])} columns:")
            against_datafusion[codec] = measured(others, path, columns, options.rounds)
        print("null, two columns of ten:")
        measured(others, files["null"], TWO_COLUMNS, options.rounds)
    at_least("Avro decode, null, as many times as fast as fastavro → from_pylist", ratio, 60)
    for codec, times in against_datafusion.items():
        if theirs := times.get("datafusion"):
            ours = times["formatkit"]
            at_most(f"Avro decode, {codec}, time × DataFusion", ours.wall / theirs.wall, 1)
            at_most(f"Avro decode, {codec}, processor time × DataFusion", ours.processor / theirs.processor, 1)


if __name__ == "__main__":
    main()
