"""Tables that were written here are read by Iceberg's own library and by iceberg-rust as they are read here."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, StringType

import formatkit
from formatkit.tck.rows import from_arrow, to_arrow
from support.everything import ROWS, SCHEMA
from support.oracle.comparing import FORMATS, read_here, same_rows
from support.oracle.events import EVENT_FILTERS, EVENT_ROWS, EVENT_TRANSFORMS, EVENTS
from support.oracle.rust_reading import read_by_rust
from support.oracle.servant import Servant
from support.oracle.shared_table import SharedTable

every_format = pytest.mark.parametrize("file_format", FORMATS)
every_version = pytest.mark.parametrize("version", [1, 2, 3])


@every_version
@every_format
def test_values_of_every_type(java: Servant, rust: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    shared = SharedTable(java, tmp_path, SCHEMA, version=version, rust=rust)
    data = to_arrow(SCHEMA, ROWS, ids=False)
    formatkit.append(shared.table, data, file_format)
    shared.check(from_arrow(shared.schema, data))


@pytest.mark.parametrize("parts", EVENT_TRANSFORMS, ids=str)
def test_every_transform(java: Servant, rust: Servant, parts: list[tuple[int, str]], tmp_path: Path) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, parts, rust=rust)
    formatkit.append(shared.table, to_arrow(EVENTS, EVENT_ROWS))
    shared.check(EVENT_ROWS)
    for where in EVENT_FILTERS:
        same_rows(shared.by_java().rows(where=where), read_here(shared.table, where), where)


def ids_left(shared: SharedTable) -> list[int]:
    return sorted(row[1] for row in shared.check())


@every_format
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_one_after_the_other(
    java: Servant, rust: Servant, file_format: str, version: int, tmp_path: Path
) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, [(6, "identity")], version=version, rust=rust)
    table = shared.table
    formatkit.append(table, to_arrow(EVENTS, EVENT_ROWS), file_format)
    formatkit.delete(table, "id = 4 or name = 'ab'", file_format=file_format)
    assert ids_left(shared) == [0, 1, 3, 5, 6, 7, 9, 10, 11]
    formatkit.delete(table, "id in (1, 5, 6)", file_format=file_format)
    assert ids_left(shared) == [0, 3, 7, 9, 10, 11]
    formatkit.delete(table, "id = 7", mode="copy-on-write", file_format=file_format)
    assert ids_left(shared) == [0, 3, 9, 10, 11]
    formatkit.delete(table, "code = 1", file_format=file_format)
    assert ids_left(shared) == [0, 3, 9, 11]


@every_format
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes(java: Servant, file_format: str, version: int, tmp_path: Path) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, version=version)
    formatkit.append(shared.table, to_arrow(EVENTS, EVENT_ROWS), file_format)
    by_name = Schema(EVENTS.find_field("name"))
    shared.delete_equal(by_name, [{2: "ab"}, {2: None}], file_format)
    assert ids_left(shared) == [1, 3, 4, 5, 7, 9, 10, 11]
    by_two = Schema(EVENTS.find_field("day"), EVENTS.find_field("code"))
    shared.delete_equal(by_two, [{3: 18_000, 6: 0}, {3: 18_031, 6: 7}, {3: 0, 6: 1}], file_format)
    assert ids_left(shared) == [4, 5, 10, 11]
    formatkit.append(shared.table, to_arrow(EVENTS, EVENT_ROWS[:3]), file_format)
    formatkit.delete(shared.table, "id = 5 or id = 2", file_format=file_format)
    assert ids_left(shared) == [0, 1, 4, 10, 11]


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_of_a_required_column_in_rust(
    java: Servant, rust: Servant, version: int, tmp_path: Path
) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, version=version)
    formatkit.append(shared.table, to_arrow(EVENTS, EVENT_ROWS))
    shared.delete_equal(Schema(EVENTS.find_field("id")), [{1: 3}, {1: 5}, {1: 77}])
    assert ids_left(shared) == [0, 1, 2, 4, *range(6, 12)]
    same_rows(read_by_rust(rust, shared.table.metadata_location, EVENTS), read_here(shared.table))


@every_format
@pytest.mark.parametrize("version", [2, 3])
def test_overwrite_upsert_and_rewrite(
    java: Servant, rust: Servant, file_format: str, version: int, tmp_path: Path
) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, [(1, "bucket[2]")], version=version, rust=rust)
    table = shared.table
    for start in (0, 4, 8):
        formatkit.append(table, to_arrow(EVENTS, EVENT_ROWS[start : start + 4]), file_format)
    news = [EVENT_ROWS[3] | {2: "new"}, EVENT_ROWS[9] | {5: None}, EVENT_ROWS[0] | {1: 20}]
    formatkit.upsert(table, to_arrow(EVENTS, news), file_format=file_format)
    assert ids_left(shared) == [*range(12), 20]
    formatkit.overwrite(table, to_arrow(EVENTS, [EVENT_ROWS[1] | {1: 21}]), "id < 2 or name = 'new'", file_format)
    assert ids_left(shared) == [2, *range(4, 12), 20, 21]
    formatkit.delete(table, "id = 20 or id = 5", file_format=file_format)
    formatkit.upsert(
        table, to_arrow(EVENTS, [EVENT_ROWS[8] | {2: "newer"}]), mode="copy-on-write", file_format=file_format
    )
    assert ids_left(shared) == [2, 4, *range(6, 12), 21]
    formatkit.rewrite(table, all_files=True)
    assert ids_left(shared) == [2, 4, *range(6, 12), 21]
    formatkit.rewrite(table, file_format="avro" if file_format == "parquet" else "parquet", all_files=True)
    assert ids_left(shared) == [2, 4, *range(6, 12), 21]


@every_format
def test_evolved_tables(java: Servant, rust: Servant, file_format: str, tmp_path: Path) -> None:
    shared = SharedTable(java, tmp_path, EVENTS, rust=rust)
    formatkit.append(shared.table, to_arrow(EVENTS, EVENT_ROWS), file_format)
    with shared.table.update_schema() as update:
        update.rename_column("name", "title")
        update.update_column("code", LongType())
        update.add_column("note", StringType())
        update.delete_column("day")
    with shared.table.update_spec() as respec:
        respec.add_field("code", "bucket[2]")
    formatkit.append(
        shared.table, to_arrow(shared.schema, [row | {9: "x", 6: 2**40} for row in EVENT_ROWS]), file_format
    )
    formatkit.delete(shared.table, "title = 'ab' or note = 'x' and id < 6", file_format=file_format)
    assert ids_left(shared) == [0, 1, 3, 4, 5, 6, 6, 7, 7, 9, 9, 10, 10, 11, 11]
    with shared.table.update_spec() as respec:
        respec.add_identity("title")
    formatkit.overwrite(shared.table, shared.arrow([EVENT_ROWS[0] | {9: None, 6: 0}]), "id > 3", file_format)
    assert ids_left(shared) == [0, 0, 1, 3]
