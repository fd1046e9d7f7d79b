"""Lies that are possible in themselves: metadata and statistics that contradict the rows and nothing else."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from formatkit.contract import FormatFile, FormatPlugin, ReadOptions, ReadResult
from support.iceberg_tables import local_path
from support.mutations.orc_file import OrcFile
from support.mutations.parquet_file import ParquetFile
from support.mutations.tree import Node

__all__ = [
    "Change",
    "LyingFormat",
    "change_entries",
    "change_lines",
    "long_bound",
    "manifest_list",
    "manifests",
    "narrow_orc",
    "narrow_parquet",
    "rewrite_avro",
    "set_bound",
    "without_first_rows",
]

Change = Callable[[dict[str, Any]], object]


def long_bound(value: int) -> bytes:
    return struct.pack("<q", value)


def rewrite_avro(path: Path, change: Change, change_schema: Change | None = None, times: int = 1) -> None:
    """Write an Avro file of metadata again, with its records and its schema changed, and some times over."""
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        records: Any = list(reader)
        schema: Any = json.loads(reader.metadata["avro.schema"])
        metadata = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    for record in records:
        change(record)
    if change_schema is not None:
        change_schema(schema)
    with path.open("wb") as stream:
        fastavro.writer(stream, fastavro.parse_schema(schema), records * times, metadata=metadata)


def manifest_list(table: Table) -> Path:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return local_path(snapshot.manifest_list)


def manifests(table: Table) -> list[Path]:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    with manifest_list(table).open("rb") as stream:
        records: Any = list(fastavro.reader(stream))
    return [local_path(each["manifest_path"]) for each in records]


def change_entries(table: Table, change: Change) -> None:
    """Change the entries of all manifests, and give the manifest list their new lengths."""
    for path in manifests(table):
        rewrite_avro(path, change)

    def lengthen(line: dict[str, Any]) -> None:
        line["manifest_length"] = local_path(line["manifest_path"]).stat().st_size

    change_lines(table, lengthen)


def change_lines(table: Table, change: Change) -> None:
    """Change the lines of the manifest list."""
    rewrite_avro(manifest_list(table), change)


def set_bound(entry: dict[str, Any], name: str, field_id: int, value: bytes) -> None:
    """Replace a lower or an upper bound of a column in a manifest entry."""
    for pair in entry["data_file"][name]:
        if pair["key"] == field_id:
            pair["value"] = value


def narrow_parquet(path: Path, where: str) -> None:
    """Give the first column of a Parquet file its minimum as its maximum, or a bloom filter of one value."""
    file = ParquetFile(path.read_bytes())
    for group in file.footer["row_groups"].value:
        record = group["columns"].value[0]
        chunk = next(each for each in file.chunks if each.record is record)
        if where == "statistics":
            statistics = record["meta_data"]["statistics"]
            statistics["max_value"].value = statistics["min_value"].value
            if (old := statistics.get("max")) is not None:
                old.value = statistics["min_value"].value
        elif where == "column_index":
            assert chunk.column_index is not None
            lowest = chunk.column_index["min_values"].value
            for page, least in zip(chunk.column_index["max_values"].value, lowest, strict=True):
                page.value = least.value
        else:
            # The value whose hash is 0 sets the first bit in every word of the first block.
            chunk.bloom_bits = (b"\1\0\0\0" * 8).ljust(len(chunk.bloom_bits), b"\0")
    path.write_bytes(file.to_bytes())


def narrow_orc(path: Path, column: int, upper: int) -> None:
    """Give a column of longs, none below 0, a lower maximum in an ORC file, and a sum that is possible with it.

    They are changed in its footer, its stripes and its row index.
    """
    file = OrcFile(path.read_bytes())
    stripes = [child for child in file.metadata.value if child.key == "stripeStats"]
    everywhere = [
        [child for child in file.footer.value if child.key == "statistics"][column],
        *([child for child in stripe.value if child.key == "colStats"][column] for stripe in stripes),
        *_row_groups(file, column),
    ]
    for statistics in everywhere:
        integers = statistics.get("intStatistics")
        assert integers is not None
        minimum, maximum, total = (next(each for each in integers.value if each.key == key) for key in "123")
        # All three are zigzag.
        maximum.value = max(minimum.value, min(maximum.value, upper * 2))
        total.value = min(total.value, maximum.value * statistics["numberOfValues"].value)
    path.write_bytes(file.to_bytes())


def _row_groups(file: OrcFile, column: int) -> Iterator[Node]:
    for stripe in file.stripes:
        streams = [child for child in stripe.footer.value if child.key == "streams"]
        for place, index in stripe.indexes.items():
            if streams[place]["column"].value == column:
                yield from (entry["statistics"] for entry in index.value if entry.key == "entry")


Read = Callable[[FormatFile[pa.RecordBatch], ReadOptions], ReadResult[pa.RecordBatch]]


def without_first_rows(file: FormatFile[pa.RecordBatch], options: ReadOptions) -> ReadResult[pa.RecordBatch]:
    """Believe of ten rows that they match no predicate."""
    result = file.read(replace(options, batch_rows=10))
    if options.predicate is not AlwaysTrue():
        next(result.batches, None)
    return result


@dataclass(frozen=True)
class LyingFormat:
    """A format whose reader does something else than its file says.

    Attributes:
        given: The format.
        read: How its files are read.
        schema: What its files say of their columns; None for the truth.
    """

    given: FormatPlugin[pa.RecordBatch]
    read: Read = without_first_rows
    schema: Schema | None = None

    def reader(self) -> Any:
        return _LyingReader(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)


@dataclass(frozen=True)
class _LyingReader:
    format: LyingFormat

    def open(self, source: Any, options: Any) -> Any:
        return _LyingFile(self.format, self.format.given.reader().open(source, options))


@dataclass(frozen=True)
class _LyingFile:
    format: LyingFormat
    given: FormatFile[pa.RecordBatch]

    @property
    def schema(self) -> Schema:
        return self.format.schema or self.given.schema

    def read(self, options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        return self.format.read(self.given, options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, name)
