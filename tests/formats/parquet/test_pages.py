"""Only pages that may hold matching rows are read, and a damaged page index never changes the rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, BooleanExpression, Or

from formatkit.contract import OpenOptions
from formatkit.errors import CorruptFileError
from formatkit.formats.parquet import column_stream
from formatkit.formats.parquet.reader import ParquetDataFile, ParquetReader
from formatkit.formats.parquet.thrift import decode_struct
from formatkit.io import MemorySource
from formatkit.kernel import bind
from support.filters import EqualTo, GreaterThanOrEqual, In, IsNull, LessThan, NotNull, StartsWith
from support.foreign_parquet import parquet_bytes
from support.parquet_reading import columns_named, read_rows

ROWS = 20_000


class CountingSource(MemorySource):
    """Knows how many bytes were read of it."""

    bytes_read = 0

    def read(self, offset: int, length: int) -> memoryview:
        self.bytes_read += length
        return super().read(offset, length)


@cache
def table() -> pa.Table:
    """Columns that ascend, repeat, or do neither; of sizes that make pages end at different rows."""
    numbers = np.arange(ROWS)
    shuffled = np.random.default_rng(7).permutation(ROWS)
    return pa.table(
        {
            "id": pa.array(numbers),
            "day": pa.array((numbers // 500).astype(np.int32)),
            "name": pa.array([f"name {number:06d}" for number in numbers]),
            "kind": pa.array([f"kind {number % 3}" for number in numbers]),
            "shuffled": pa.array(shuffled, mask=shuffled % 5 == 0),
            "late": pa.array(numbers, mask=numbers < ROWS // 2),
            "tags": pa.array([[number] * (number % 4) if number % 7 else None for number in numbers.tolist()]),
            "place": pa.array(
                [{"city": f"city {number % 11}", "path": [number, number]} for number in numbers.tolist()]
            ),
        }
    )


def write(**options: Any) -> bytes:
    layout = {"row_group_size": 8000, "data_page_size": 2000, "write_batch_size": 100, "write_page_index": True}
    return parquet_bytes(table(), **{**layout, **options})


DATA = write()

FILTERS: dict[str, tuple[BooleanExpression, Callable[[dict[str, Any]], bool]]] = {
    "one row": (EqualTo("id", 12_345), lambda row: row["id"] == 12_345),
    "a range": (
        And(GreaterThanOrEqual("id", 7_990), LessThan("id", 8_010)),
        lambda row: 7_990 <= row["id"] < 8_010,
    ),
    "far ends": (In("id", [0, 7_999, 8_000, ROWS - 1]), lambda row: row["id"] in (0, 7_999, 8_000, ROWS - 1)),
    "two columns at once": (
        And(LessThan("id", 5_000), StartsWith("name", "name 0049")),
        lambda row: row["id"] < 5_000 and row["name"].startswith("name 0049"),
    ),
    "one of two columns": (
        Or(EqualTo("day", 3), EqualTo("name", "name 015000")),
        lambda row: row["day"] == 3 or row["name"] == "name 015000",
    ),
    "an unsorted column": (EqualTo("shuffled", 4_321), lambda row: row["shuffled"] == 4_321),
    "a sorted and an unsorted column": (
        And(LessThan("id", 4_000), LessThan("shuffled", 4_000)),
        lambda row: row["id"] < 4_000 and row["shuffled"] is not None and row["shuffled"] < 4_000,
    ),
    "nulls": (And(IsNull("late"), GreaterThanOrEqual("id", 9_990)), lambda row: 9_990 <= row["id"] < 10_000),
    "values among nulls": (And(NotNull("late"), LessThan("id", 10_005)), lambda row: 10_000 <= row["id"] < 10_005),
    "inside a struct": (
        And(EqualTo("place.city", "city 4"), LessThan("id", 100)),
        lambda row: row["place"]["city"] == "city 4" and row["id"] < 100,
    ),
    "nothing": (And(GreaterThanOrEqual("id", 100), LessThan("id", 100)), lambda row: False),
}


def opened(data: bytes) -> tuple[ParquetDataFile, CountingSource]:
    source = CountingSource(data)
    return ParquetReader().open(source, OpenOptions()), source


@cache
def all_rows() -> list[dict[str, Any]]:
    return table().to_pylist()


def expected_rows(keep: Callable[[dict[str, Any]], bool], *names: str) -> list[dict[str, Any]]:
    """The rows that a naive filter keeps; with these columns, or with all of them and the position."""
    rows = [{**row, "_pos": position} for position, row in enumerate(all_rows()) if keep(row)]
    return [{name: row[name] for name in names} for row in rows] if names else rows


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("name", FILTERS)
def test_filters_return_exactly_the_matching_rows(name: str, use_dictionary: bool, version: str) -> None:
    predicate, keep = FILTERS[name]
    file, _ = opened(write(use_dictionary=use_dictionary, data_page_version=version))
    everything = columns_named(file, *table().column_names, positions=True)
    assert read_rows(file, everything, predicate=bind(file.schema, predicate)) == expected_rows(keep)


@pytest.mark.parametrize("name", ["one row", "a range", "two columns at once"])
def test_a_filter_on_a_sorted_column_reads_a_small_part_of_the_file(name: str) -> None:
    predicate, keep = FILTERS[name]
    file, source = opened(write(use_dictionary=False))
    source.bytes_read = 0
    rows = read_rows(file, predicate=bind(file.schema, predicate))
    assert len(rows) == len(expected_rows(keep))
    assert source.bytes_read < source.size() / 5


def test_columns_are_not_read_where_no_row_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        column_stream.RowGroupColumns, "decoded", _only("shuffled", column_stream.RowGroupColumns.decoded)
    )
    file, _ = opened(DATA)
    # A value that the bounds of every page enclose, and that only null rows would have had.
    assert read_rows(file, predicate=bind(file.schema, EqualTo("shuffled", 4_320))) == []


def _only(name: str, decoded: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., Iterator[pa.RecordBatch]]:
    def checked(*arguments: Any) -> Iterator[pa.RecordBatch]:
        for batch in decoded(*arguments):
            assert batch.schema.names == [name]
            yield batch

    return checked


def test_files_without_a_page_index_are_filtered_all_the_same() -> None:
    file, _ = opened(write(write_page_index=False))
    predicate, keep = FILTERS["two columns at once"]
    everything = columns_named(file, *table().column_names, positions=True)
    assert read_rows(file, everything, predicate=bind(file.schema, predicate)) == expected_rows(keep)


def page_indexes(data: bytes, kind: int) -> list[range]:
    """Where the offset indexes (4) or column indexes (6) of a file are."""
    length = int.from_bytes(data[-8:-4], "little")
    footer, _ = decode_struct(data[-8 - length : -8])
    chunks = [chunk for row_group in footer[4] for chunk in row_group[1]]
    return [range(chunk[kind], chunk[kind] + chunk[kind + 1]) for chunk in chunks]


def answers(data: bytes, predicate: BooleanExpression) -> list[dict[str, Any]] | None:
    try:
        file, _ = opened(data)
        return read_rows(file, columns_named(file, "id", "name", "tags"), predicate=bind(file.schema, predicate))
    except CorruptFileError:
        return None


@pytest.mark.parametrize("name", ["a range", "two columns at once"])
def test_a_damaged_offset_index_never_gives_other_rows(name: str) -> None:
    predicate, keep = FILTERS[name]
    expected = expected_rows(keep, "id", "name", "tags")
    choose = random.Random(1)
    places = [place for index in page_indexes(DATA, 4) for place in index]
    for place in choose.sample(places, 100):
        damaged = bytearray(DATA)
        damaged[place] ^= 1 << choose.randrange(8)
        found = answers(bytes(damaged), predicate)
        # Where two columns are tested, rows that are in no page of both are not looked for.
        assert found == expected or (name == "two columns at once" and found is not None), place


def test_a_damaged_column_index_gives_no_rows_that_do_not_match() -> None:
    predicate, keep = FILTERS["a range"]
    expected = expected_rows(keep, "id", "name", "tags")
    choose = random.Random(2)
    places = [place for index in page_indexes(DATA, 6) for place in index]
    for place in choose.sample(places, 60):
        damaged = bytearray(DATA)
        damaged[place] = choose.randrange(256)
        found = answers(bytes(damaged), predicate)
        assert found is None or all(row in expected for row in found)


@pytest.mark.parametrize("kind", [4, 6])
def test_an_index_of_noise_is_ignored(kind: int) -> None:
    predicate, keep = FILTERS["a range"]
    damaged = bytearray(DATA)
    for index in page_indexes(DATA, kind):
        damaged[index.start : index.stop] = random.Random(3).randbytes(len(index))
    assert answers(bytes(damaged), predicate) == expected_rows(keep, "id", "name", "tags")


def test_pages_that_are_not_where_the_index_has_them_are_an_error() -> None:
    file, _ = opened(DATA)
    chunk = pq.read_metadata(pa.BufferReader(DATA)).row_group(1).column(0)
    damaged = bytearray(DATA)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    damaged[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    assert answers(bytes(damaged), EqualTo("id", 12_345)) is None
    assert file.row_count == ROWS


def test_the_offset_index_of_another_chunk_is_ignored() -> None:
    data = write(use_dictionary=False)
    leaves = pq.read_metadata(pa.BufferReader(data)).num_columns
    here, there = page_indexes(data, 4)[leaves], page_indexes(data, 4)[0]
    foreign = data[there.start : there.stop]
    assert len(foreign) <= len(here)
    damaged = data[: here.start] + foreign.ljust(len(here), b"\0") + data[here.stop :]
    predicate, keep = FILTERS["one row"]
    assert answers(damaged, predicate) == expected_rows(keep, "id", "name", "tags")


@pytest.mark.parametrize("number", [49, 50, 51, 99, 100])
def test_rows_at_the_edges_of_decoded_batches_are_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_stream, "_MIN_DECODED_ROWS", 1)
    monkeypatch.setattr(column_stream, "_MAX_DECODED_ROWS", 50)
    data = write(write_page_index=False)
    assert answers(data, EqualTo("id", number)) == expected_rows(lambda row: row["id"] == number, "id", "name", "tags")
