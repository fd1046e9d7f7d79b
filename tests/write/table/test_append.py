"""Rows that are appended are in the table, in each format and from each kind of data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

import formatkit
from formatkit.contract.metadata_columns import LAST_UPDATED, ROW_ID
from formatkit.errors import (
    ConfigurationError,
    FormatNotRegisteredError,
    InvalidDataError,
    MissingRequiredFieldError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.tck.rows import from_arrow, to_arrow
from formatkit.write import write_data_files
from support import everything
from support.iceberg_tables import local_path
from support.written_tables import ALL_FORMATS, files_on_disk, new_table, spec, table_rows

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    return new_table(catalog, ID, NAME)


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_rows_of_each_format_are_read_back(table: Table, file_format: str) -> None:
    snapshot = formatkit.append(table, ROWS, file_format)
    assert snapshot == table.current_snapshot()
    assert table_rows(table) == [(1, "a"), (2, None), (3, "c")]
    (path,) = files_on_disk(table)
    assert path.suffix == f".{file_format}"


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_pyiceberg_reads_what_was_appended(table: Table, file_format: str) -> None:
    formatkit.append(table, ROWS, file_format)
    assert table.scan().to_arrow().sort_by("id").to_pydict() == ROWS.to_pydict()
    assert table.scan(row_filter="id > 2").to_arrow().to_pydict() == {"id": [3], "name": ["c"]}


def test_files_of_several_formats_make_one_table(table: Table) -> None:
    for file_format in ALL_FORMATS:
        formatkit.append(table, ROWS, file_format)
    assert len(table.snapshots()) == len(ALL_FORMATS)
    assert table_rows(table) == sorted([(1, "a"), (2, None), (3, "c")] * len(ALL_FORMATS), key=repr)


def test_the_format_is_that_of_the_table(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NAME, properties={"write.format.default": "ORC"})
    formatkit.append(table, ROWS)
    formatkit.append(table, ROWS, properties={"write.format.default": "avro"})
    assert {path.suffix for path in files_on_disk(table)} == {".orc", ".avro"}


class Frame:
    """What pandas and others look like from here."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda rows: rows,
    "batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "reader": lambda rows: rows.to_reader(),
    "generator": lambda rows: (batch for batch in rows.to_batches()),
    "generator of tables": lambda rows: (part for part in (rows.slice(0, 1), rows.slice(1))),
    "polars": pl.from_arrow,
    "duckdb": duckdb.from_arrow,
    "anything with a stream": Frame,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_kind_of_data_is_accepted(table: Table, form: str) -> None:
    formatkit.append(table, FORMS[form](ROWS))
    assert table_rows(table) == [(1, "a"), (2, None), (3, "c")]


def test_a_scan_is_appended_to_the_table_that_it_reads(table: Table) -> None:
    formatkit.append(table, ROWS)
    formatkit.append(table, formatkit.scan(table, where="id = 1"))
    assert table_rows(table) == [(1, "a"), (1, "a"), (2, None), (3, "c")]


@pytest.mark.parametrize(
    "rows", [ROWS.slice(0, 0), [], ROWS.schema.empty_table().to_reader()], ids=["table", "list", "reader"]
)
def test_no_rows_make_no_snapshot(table: Table, rows: Any) -> None:
    assert formatkit.append(table, rows) is None
    assert table.current_snapshot() is None
    assert files_on_disk(table) == []


def test_columns_are_matched_by_name(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, NAME, NestedField(3, "score", DoubleType()))
    formatkit.append(table, pa.table({"name": ["a"], "id": pa.array([1], pa.int16())}))
    assert table_rows(table) == [(1, "a", None)]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ({"id": [1], "nome": ["a"]}, SchemaResolutionError),
        ({"id": ["1"], "name": ["a"]}, SchemaResolutionError),
        ({"name": ["a"]}, MissingRequiredFieldError),
        ({"id": [1, None], "name": ["a", "b"]}, InvalidDataError),
    ],
    ids=["extra column", "wrong type", "missing required column", "null in a required column"],
)
def test_rows_that_do_not_fit_are_refused(table: Table, rows: dict[str, list[Any]], error: type[Exception]) -> None:
    with pytest.raises(error):
        formatkit.append(table, pa.table(rows))
    assert table.current_snapshot() is None
    assert files_on_disk(table) == []


def test_the_format_must_be_known_and_writable(table: Table) -> None:
    with pytest.raises(FormatNotRegisteredError):
        formatkit.append(table, ROWS, "csv")


def test_nothing_is_written_in_plain_text_to_an_encrypted_table(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog, ID, properties={"encryption.key-id": "k1"})
    with pytest.raises(UnsupportedError, match="k1"):
        formatkit.append(table, ROWS.select(["id"]))


def test_the_summary_of_the_snapshot_says_what_was_asked(table: Table) -> None:
    snapshot = formatkit.append(table, ROWS, snapshot_properties={"who": "me"})
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["who"] == "me"
    assert snapshot.summary["added-records"] == "3"
    assert snapshot.summary["added-data-files"] == "1"


def test_a_branch_is_written_apart_from_main(table: Table) -> None:
    formatkit.append(table, ROWS)
    snapshot = formatkit.append(table, ROWS, branch="try")
    assert snapshot is not None
    assert len(table_rows(table)) == 3
    assert len(table_rows(table, snapshot_id=snapshot.snapshot_id)) == 6


def test_rows_may_bring_their_lineage(table: Table) -> None:
    schema = Schema(*table.schema().fields, ROW_ID, LAST_UPDATED)
    data = ROWS.append_column("_row_id", pa.array([7, 8, None])).append_column(
        "_last_updated_sequence_number", pa.array([1, 2, None])
    )
    (file,) = write_data_files(table, data, schema=schema)
    assert pq.read_table(local_path(file.file_path)).to_pydict() == data.to_pydict()


def test_files_may_be_written_without_a_commit(table: Table) -> None:
    (file,) = write_data_files(table, ROWS)
    assert (file.record_count, file.spec_id) == (3, 0)
    assert table.current_snapshot() is None
    assert len(files_on_disk(table)) == 1


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_every_type_is_written_to_partitions(catalog: InMemoryCatalog, file_format: str) -> None:
    table = new_table(catalog, *everything.SCHEMA.fields, partitions=spec((2, BucketTransform(3))))
    formatkit.append(table, to_arrow(everything.SCHEMA, everything.ROWS, ids=False), file_format)
    read = from_arrow(everything.SCHEMA, formatkit.scan(table).to_arrow())
    assert sorted(map(repr, read)) == sorted(map(repr, everything.ROWS))


@pytest.mark.parametrize("mark", "#?")
def test_a_location_that_pyiceberg_would_cut_off_is_refused_before_anything_is_written(
    tmp_path: Path, mark: str
) -> None:
    with closing(SqlCatalog("cut", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())) as catalog:
        catalog.create_namespace("db")
        rows = pa.table({"n": [1]})
        table = catalog.create_table("db.cut", rows.schema, location=f"{tmp_path.as_uri()}/with{mark}mark/t")
        before = set(tmp_path.rglob("*"))
        with pytest.raises(ConfigurationError, match="without '#' and '\\?'"):
            formatkit.append(table, rows)
        assert set(tmp_path.rglob("*")) == before
        plain = catalog.create_table("db.plain", rows.schema, location=f"{tmp_path}/with{mark}mark/plain")
        formatkit.append(plain, rows)
        formatkit.append(plain, rows)
        assert formatkit.scan(plain).to_arrow().num_rows == 2
