"""Scans that give Polars frames: the kernel and the scan do not know what their batches are."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import FormatNotRegisteredError, UnsupportedError
from support.iceberg_tables import append_data_files, columns, data_file, write_rows

NUMBERS = 1_000


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    created = catalog.create_table("db.numbers", schema=columns(n=pa.int64(), word=pa.string()))
    parts = [range(NUMBERS // 2), range(NUMBERS // 2, NUMBERS)]
    files = []
    for number, part in enumerate(parts):
        rows = pa.table({"n": part, "word": [f"w{n % 10}" for n in part]}, schema=created.schema().as_arrow())
        location = write_rows(created, f"{number}.parquet", rows)
        files.append(data_file(created, location, len(part)))
    return append_data_files(created, *files)


@pytest.mark.parametrize("threads", [1, 2])
def test_frames_flow_through(table: Table, threads: int) -> None:
    scan = formatkit.scan(
        table,
        "n >= 300 and word = 'w3'",
        select=("word", "_pos", "n"),
        batch_type=pl.DataFrame,
        threads=threads,
        batch_rows=64,
    )
    with scan.to_batches() as stream:
        frames = list(stream)
    found = pl.concat(frames)
    assert found.schema == {"word": pl.String(), "_pos": pl.Int64(), "n": pl.Int64()}
    expected = [n for n in range(300, NUMBERS) if n % 10 == 3]
    assert found.get_column("n").to_list() == expected
    assert found.get_column("_pos").to_list() == [n % 500 for n in expected]
    assert max(frame.height for frame in frames) <= 64
    assert scan.count() == len(expected)


def test_rows_are_counted_without_columns(table: Table) -> None:
    scan = formatkit.scan(table, "n < 600", select=(), batch_type=pl.DataFrame)
    assert scan.count() == 600
    with scan.to_batches() as frames:
        assert sum(frame.height for frame in frames) == 600


def test_a_limit_slices_frames(table: Table) -> None:
    scan = formatkit.scan(table, limit=7, batch_type=pl.DataFrame)
    with scan.to_batches() as frames:
        assert pl.concat(frames).get_column("n").to_list() == list(range(7))


def test_explain_tells_who_decodes(table: Table) -> None:
    scan = formatkit.scan(table, "n >= 900", batch_type=pl.DataFrame)
    with scan.to_batches() as frames:
        assert sum(frame.height for frame in frames) == 100
    run = scan.explain().run
    assert run is not None
    assert run["row_groups_decoded_by_arrow"] == 0
    assert run["row_groups_read"] == 1


def test_frames_are_not_handed_out_as_arrow(table: Table) -> None:
    scan = formatkit.scan(table, batch_type=pl.DataFrame)
    with pytest.raises(UnsupportedError, match=r"DataFrame.*to_batches"):
        scan.to_arrow()
    with pytest.raises(UnsupportedError):
        pl.DataFrame(scan)


def test_a_format_without_frames_says_so(table: Table) -> None:
    with pytest.raises(FormatNotRegisteredError, match=r"avro.*DataFrame"):
        formatkit.read_file(b"Obj\x01", file_format="avro", batch_type=pl.DataFrame)


def test_one_file_is_read_as_frames(table: Table) -> None:
    location = formatkit.scan(table).tasks[0].location
    with formatkit.read_file(location, "n < 2", batch_type=pl.DataFrame).to_batches() as frames:
        assert pl.concat(frames).rows() == [(0, "w0"), (1, "w1")]
