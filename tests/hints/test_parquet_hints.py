"""No lie about a Parquet file that can be told from the file changes the answer of a filter."""

from __future__ import annotations

import gc
import io
import pickle
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from hints.edits import tell_one
from hints.parquet_lies import (
    bloom_lies,
    column_index_lies,
    offset_index_lies,
    order_lies,
    row_lies,
    statistics_lies,
)
from hints.truth import CHUNK, ROWS, SCHEMA, SETTINGS, asked, filters, found, right, table
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import BooleanExpression

import formatkit
from formatkit.contract import OpenOptions, ReadOptions
from formatkit.formats.parquet.reader import ParquetReader
from formatkit.io import MemorySink, MemorySource
from formatkit.kernel import bind
from support.mutations.parquet_file import ParquetFile
from support.thresholds import picking_pages

# 500 examples in CI.
OFTEN = settings(SETTINGS, max_examples=5 * settings.default.max_examples)  # type: ignore[union-attr]
LESS_OFTEN = settings(SETTINGS, max_examples=settings.default.max_examples)  # type: ignore[union-attr]
KINDS = [statistics_lies, order_lies, column_index_lies, offset_index_lies, bloom_lies]


def _ours() -> bytes:
    sink = MemorySink()
    properties = {
        "write.parquet.row-group-limit": str(CHUNK),
        "write.parquet.page-row-limit": "4",
        **{f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("id", "text", "small")},
    }
    assert formatkit.write_file(sink, table(ids=True), SCHEMA, "parquet", properties=properties)
    assert sink.data is not None
    return sink.data


def _pyarrow(**options: Any) -> Callable[[], bytes]:
    def write() -> bytes:
        output = io.BytesIO()
        layout = {"row_group_size": CHUNK, "data_page_size": 16, "write_batch_size": 4, "write_page_index": True}
        pq.write_table(table(), output, **{**layout, **options})
        return output.getvalue()

    return write


def _polars() -> bytes:
    output = io.BytesIO()
    pl.DataFrame(table()).write_parquet(output, row_group_size=CHUNK, data_page_size=32, statistics="full")
    return output.getvalue()


def _duckdb() -> bytes:
    rows = table()
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.register("rows", rows)
        path = Path(folder) / "file"
        connection.execute(f"copy rows to '{path}' (format parquet)")
        return path.read_bytes()


FILES: Mapping[str, Callable[[], bytes]] = {
    "formatkit": _ours,
    "pyarrow": _pyarrow(compression="none"),
    "pyarrow-v2": _pyarrow(data_page_version="2.0", use_dictionary=False),
    "polars": _polars,
    "duckdb": _duckdb,
}


@cache
def good(name: str) -> bytes:
    return FILES[name]()


@cache
def _taken_apart(name: str) -> bytes:
    return pickle.dumps(ParquetFile(good(name)))


def parts_of(name: str) -> ParquetFile:
    # Half of the time would go into looking for garbage among the nodes.
    gc.disable()
    try:
        parts: ParquetFile = pickle.loads(_taken_apart(name))
    finally:
        gc.enable()
    return parts


def answer(data: bytes, predicate: BooleanExpression) -> tuple[list[Any], Mapping[str, int]]:
    """What a filter returns, and what was counted."""
    file = ParquetReader().open(MemorySource(data), OpenOptions())
    result = file.read(
        ReadOptions(projection=asked(file.schema, predicate), predicate=bind(file.schema, predicate), batch_rows=5)
    )
    with result.batches as batches:
        return found(list(batches)), result.counters


def check(data: bytes, predicates: list[BooleanExpression], *, pages: bool) -> None:
    with picking_pages() if pages else nullcontext():
        for predicate in predicates:
            assert answer(data, predicate)[0] == right(predicate), predicate


@pytest.mark.parametrize("name", FILES)
def test_files_are_good(name: str) -> None:
    file = ParquetReader().open(MemorySource(good(name)), OpenOptions())
    result = file.read(ReadOptions(projection=file.schema))
    with result.batches as batches:
        assert found(list(batches)) == [(row[1], row[2], row[13]) for row in ROWS]


@OFTEN
@given(st.data())
def test_no_lie_changes_an_answer(data: st.DataObject) -> None:
    parts = parts_of(data.draw(st.sampled_from(list(FILES)), label="file"))
    numbers = data.draw(st.lists(st.integers(0, len(parts.chunks) - 1), min_size=1, max_size=2, unique=True))
    # Each is made of the file as it was.
    kinds = [[list(kind(parts, parts.chunks[number])) for kind in KINDS] for number in numbers]
    for lies in [[each for each in kind if each] for kind in kinds]:
        tell_one(data, lies[data.draw(st.integers(0, 9), label="kind") % len(lies)])
    predicates = data.draw(st.lists(filters(), min_size=1, max_size=3), label="where")
    check(parts.to_bytes(), predicates, pages=data.draw(st.booleans(), label="pages"))


@LESS_OFTEN
@given(st.data())
def test_pages_with_other_rows_than_their_index_are_read_as_a_chunk(data: st.DataObject) -> None:
    parts = parts_of(data.draw(st.sampled_from([each for each in FILES if each != "duckdb"]), label="file"))
    indexed = [chunk for chunk in parts.chunks if list(row_lies(parts, chunk))]
    chunk = indexed[data.draw(st.integers(0, 999), label="chunk") % len(indexed)]
    tell_one(data, list(row_lies(parts, chunk)))
    path = ".".join(part.value.decode() for part in chunk.record["meta_data"]["path_in_schema"].value)
    predicate = data.draw(filters("id" if path.startswith("tags") else path) | filters("id"), label="where")
    check(parts.to_bytes(), [predicate], pages=True)


@LESS_OFTEN
@given(st.data(), st.integers(0, 1 << 32))
def test_an_index_or_a_filter_of_noise_changes_no_answer(data: st.DataObject, seed: int) -> None:
    name = data.draw(st.sampled_from([each for each in FILES if each != "duckdb"]), label="file")
    content, random, places = bytearray(good(name)), Random(seed), []
    for chunk in parts_of(name).chunks:
        indexes = [index for index in ("column_index", "offset_index") if chunk.record.get(f"{index}_offset")]
        places += [tuple(chunk.record[f"{index}_{part}"].value for part in ("offset", "length")) for index in indexes]
        if chunk.bloom is not None:
            places.append((chunk.record["meta_data"]["bloom_filter_offset"].value, 12))
    for start, length in random.sample(places, 5):
        content[start : start + length] = random.randbytes(length)
    check(bytes(content), [data.draw(filters(), label="where")], pages=True)
