"""Checking hints costs no skipping: files of sound writers are skipped as far as before hints were checked."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

import formatkit
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.orc.reader import OrcReader
from formatkit.formats.parquet.reader import ParquetReader
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from support import orc_files
from support.mutations.parquet_file import ParquetFile

ROWS = 20_000
GROUP = 5_000
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "late", LongType()),
    NestedField(4, "never", DoubleType()),
    NestedField(5, "even", LongType()),
)
FILTERS = (
    "id = 12345",
    "name < 'name 001000'",
    "late is not null and id < 11000",
    "never is not null",
    "never is null and id >= 19990",
    "even = 10001",
)


@cache
def table() -> pa.Table:
    """Ascending numbers and texts, nulls in the first half, nulls only, and even numbers all over."""
    numbers = np.arange(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "name": pa.array([f"name {number:06d}" for number in numbers]),
            "late": pa.array(numbers, mask=numbers < ROWS // 2),
            "never": pa.nulls(ROWS, pa.float64()),
            "even": pa.array(np.random.default_rng(5).permutation(ROWS) * 2),
        }
    )


def _ours(file_format: str, properties: dict[str, str]) -> bytes:
    sink = MemorySink()
    assert formatkit.write_file(sink, table(), SCHEMA, file_format, properties=properties)
    assert sink.data is not None
    return sink.data


def _pyarrow() -> bytes:
    output = io.BytesIO()
    pq.write_table(
        table(), output, row_group_size=GROUP, data_page_size=4000, write_batch_size=500, write_page_index=True
    )
    return output.getvalue()


def _duckdb() -> bytes:
    found = table()
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.register("found", found)
        path = Path(folder) / "file"
        connection.execute(f"copy found to '{path}' (format parquet, row_group_size {GROUP})")
        return path.read_bytes()


def _polars() -> bytes:
    output = io.BytesIO()
    pl.DataFrame(table()).write_parquet(output, row_group_size=GROUP, data_page_size=4000, statistics="full")
    return output.getvalue()


def _pyorc() -> bytes:
    rows = [tuple(row.values()) for row in table().to_pylist()]
    schema = "struct<id:bigint,name:string,late:bigint,never:double,even:bigint>"
    return orc_files.pyorc_bytes(schema, rows, stripe_size=1000, batch_size=GROUP, row_index_stride=1000, compression=0)


_PARQUET = {
    "write.parquet.row-group-limit": str(GROUP),
    "write.parquet.page-row-limit": "500",
    "write.parquet.bloom-filter-enabled.column.even": "true",
}
FILES: dict[str, Callable[[], bytes]] = {
    "formatkit": lambda: _ours("parquet", _PARQUET),
    "pyarrow": _pyarrow,
    "duckdb": _duckdb,
    "polars": _polars,
    "orc formatkit": lambda: _ours("orc", orc_files.stripes_of(GROUP)),
    "orc pyarrow": lambda: orc_files.foreign(table(), stripe_size=50_000, batch_size=GROUP),
    "orc pyorc": _pyorc,
}


class WatchedSource(MemorySource):
    """Remembers what was read of it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads: list[range] = []

    def read(self, offset: int, length: int) -> memoryview:
        self.reads.append(range(offset, offset + length))
        return super().read(offset, length)

    def open(self) -> Any:
        return WatchedFile(self)


class WatchedFile(io.BytesIO):
    """The same, read as a file."""

    def __init__(self, source: WatchedSource) -> None:
        super().__init__(source.read(0, source.size()))
        source.reads.pop()
        self._source = source

    def read(self, size: int | None = -1, /) -> bytes:
        start = self.tell()
        found = super().read(size)
        self._source.reads.append(range(start, start + len(found)))
        return found


def chunks_read(name: str, data: bytes, where: str) -> tuple[int, int]:
    """How many row groups or stripes, and how many data pages of Parquet, were read."""
    is_orc = name.startswith("orc")
    source = WatchedSource(data)
    file = (OrcReader() if is_orc else ParquetReader()).open(source, OpenOptions())
    source.reads.clear()
    result = file.read(ReadOptions(projection=file.schema, predicate=bind(file.schema, where)))
    with result.batches as batches:
        assert sum(batch.num_rows for batch in batches) == expected(where)
    assert not [key for key in result.counters if key.endswith("_dropped")]
    if is_orc:
        return result.counters["stripes_read"], 0
    return result.counters["row_groups_read"], sum(_touched(page, source.reads) for page in pages(name))


def expected(where: str) -> int:
    """How many rows DuckDB finds."""
    return len(duckdb.from_arrow(table()).filter(where).fetchall())


@cache
def content(name: str) -> bytes:
    return FILES[name]()


@cache
def pages(name: str) -> list[range]:
    """Where the data pages of a file are."""
    found, data = [], content(name)
    for chunk in ParquetFile(data).chunks:
        column = chunk.record["meta_data"]
        start = column["data_page_offset"].value
        for page in (page for page in chunk.pages if page.holds_data):
            if not page.body:
                continue
            start = data.index(page.body, start)
            found.append(range(start, start + len(page.body)))
            start += len(page.body)
    return found


def _touched(page: range, reads: list[range]) -> bool:
    return any(read.start < page.stop and page.start < read.stop for read in reads)


STRIPES = [(1, 0), (1, 0), (1, 0), (0, 0), (1, 0), (4, 0)]
BEFORE = {
    "formatkit": [(1, 5), (1, 10), (1, 10), (0, 0), (1, 5), (0, 0)],
    "pyarrow": [(1, 7), (1, 7), (1, 9), (0, 0), (1, 5), (4, 12)],
    "duckdb": [(1, 5), (1, 5), (1, 5), (0, 0), (1, 5), (4, 8)],
    "polars": [(1, 5), (1, 16), (1, 17), (0, 0), (1, 5), (4, 48)],
    "orc formatkit": STRIPES,
    "orc pyarrow": STRIPES,
    "orc pyorc": STRIPES,
}
"""For each filter what was read before anything was checked: row groups of 4 and pages, or stripes of 4."""


@pytest.mark.parametrize("name", FILES)
def test_no_more_is_read_than_without_checks(name: str) -> None:
    found = [chunks_read(name, content(name), where) for where in FILTERS]
    assert all(now <= before for now, before in zip(found, BEFORE[name], strict=True)), found
