"""pyiceberg hands out rows in the Arrow types in which they were written; so does formatkit inside it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.types import ListType, MapType, StringType

from formatkit.integrations.pyiceberg import install
from support.animals import ANIMALS, by_id, new_table
from support.iceberg_tables import local_path

LARGE = ANIMALS.cast(
    pa.schema(
        [
            ANIMALS.schema.field("id"),
            pa.field("kind", pa.large_string()),
            ANIMALS.schema.field("weight"),
            pa.field("names", pa.large_list(pa.field("element", pa.string()))),
            pa.field("home", pa.struct([("city", pa.large_string()), ("floor", pa.int64())])),
        ]
    )
)

START_OF_NOTE = base64.b64encode(b"\xff\xff\xff\xff")[:5]


def small(table: Table) -> None:
    table.append(ANIMALS)


def large(table: Table) -> None:
    table.append(LARGE)


def small_and_large(table: Table) -> None:
    small(table)
    large(table)


def with_new_columns(table: Table) -> None:
    small(table)
    with table.update_schema() as update:
        update.add_column("note", StringType())
        update.add_column("tags", ListType(1, StringType(), element_required=False))
        update.add_column("words", MapType(1, StringType(), 2, StringType()))
        update.add_column(("home", "street"), StringType())


def without_a_column(table: Table) -> None:
    table.append(ANIMALS.drop_columns(["names", "home"]))


WAYS = [small, large, small_and_large, with_new_columns, without_a_column]


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_files_of_pyiceberg_are_read_in_the_types_that_pyiceberg_gives(
    catalog: InMemoryCatalog, write: Callable[[Table], None], partitioned: bool
) -> None:
    table = new_table(catalog, partitioned=partitioned)
    write(table)
    before = table.scan().to_arrow()
    with install():
        assert table.scan().to_arrow().schema.equals(before.schema, check_metadata=True)


@pytest.mark.parametrize("write", WAYS)
def test_files_of_formatkit_are_read_as_if_pyiceberg_had_written_them(
    catalog: InMemoryCatalog, write: Callable[[Table], None]
) -> None:
    table = new_table(catalog)
    write(table)
    before = by_id(table.scan().to_arrow())
    table.delete()
    with install():
        (small if write is with_new_columns else write)(table)
        with_formatkit = by_id(table.scan().to_arrow())
    for found in (with_formatkit, by_id(table.scan().to_arrow())):
        assert found.schema == before.schema
        assert str(found.to_pylist()) == str(before.to_pylist())  # so that NaN equals NaN


def test_a_file_without_matching_rows_says_nothing_about_types(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    table.append(ANIMALS.slice(0, 3))
    table.append(LARGE.slice(3))
    before = [table.scan(f"id = {number}").to_arrow().schema for number in (1, 6)]
    with install():
        assert [table.scan(f"id = {number}").to_arrow().schema for number in (1, 6)] == before
    assert before[0] != before[1]


def test_files_without_ids_are_read_in_the_types_that_they_note(catalog: InMemoryCatalog, tmp_path: Path) -> None:
    table = new_table(catalog)
    pq.write_table(LARGE, tmp_path / "added.parquet")
    table.add_files([str(tmp_path / "added.parquet")])
    before = table.scan().to_arrow().schema
    with install():
        assert table.scan().to_arrow().schema == before


def test_a_note_that_cannot_be_read_says_nothing(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    table.append(LARGE)
    (task,) = table.scan().plan_files()
    path = local_path(task.file.file_path)
    stored = path.read_bytes()
    assert stored.count(START_OF_NOTE) == 1
    path.write_bytes(stored.replace(START_OF_NOTE, b"A" * len(START_OF_NOTE)))
    with install():
        assert table.scan().to_arrow().schema == ANIMALS.schema
