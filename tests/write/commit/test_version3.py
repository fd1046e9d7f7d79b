"""Tables of format version 3: row ids, and metadata that pyiceberg refuses to write."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot

from formatkit.scan.manifests import read_manifest_list, read_manifests
from formatkit.write.commit import disable_version3, enable_version3
from support.commits import (
    SCHEMA,
    append,
    change,
    data_file,
    deletion_vector,
    head_id,
    metadata_json,
    new_table,
    raw_entries,
    raw_header,
    raw_list,
    upgrade_to_version_3,
)


@pytest.fixture(autouse=True)
def _enabled_again() -> Iterator[None]:
    yield
    enable_version3()


def row_ids(table: Table, snapshot: Snapshot) -> dict[str, int | None]:
    """The first row id of each live file, as the planner of scans reads it."""
    manifests = [each for each in read_manifest_list(snapshot.manifest_list, table.io) if not each.holds_deletes]
    return {
        entry.location.rpartition("/")[2]: entry.first_row_id
        for entry in read_manifests(manifests, table.io, metrics=False)
    }


def test_rows_are_numbered_through_as_they_come(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    append(table, data_file(table, "a", 5), data_file(table, "b", 7))
    snapshot = append(table, data_file(table, "c", 2))
    assert row_ids(table, snapshot) == {"a": 0, "b": 5, "c": 12}
    assert (snapshot.first_row_id, snapshot.added_rows) == (12, 2)
    assert metadata_json(table)["next-row-id"] == 14
    assert [each["data_file"]["first_row_id"] for each in raw_entries(snapshot)] == [None] * 3
    assert raw_header(snapshot.manifest_list)["format-version"] == "3"


def test_rows_keep_their_ids_when_a_manifest_is_rewritten(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    gone = data_file(table, "b", 7)
    append(table, data_file(table, "a", 5), gone, data_file(table, "c", 2))
    snapshot = change(
        table, Operation.OVERWRITE, added=(data_file(table, "d", 3),), removed=frozenset({gone.file_path})
    )
    ids = row_ids(table, snapshot)
    assert (ids["a"], ids["c"]) == (0, 12)
    assert ids["d"] == snapshot.first_row_id == 14
    # The ids of removed rows stay theirs, and no id is given twice.
    deleted = [each for each in raw_entries(snapshot) if each["status"] == 2]
    assert [each["data_file"]["first_row_id"] for each in deleted] == [5]
    later = append(table, data_file(table, "e", 1))
    assert row_ids(table, later)["e"] == metadata_json(table)["next-row-id"] - 1 >= 17


def test_delete_manifests_number_no_rows(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    target = data_file(table, "a", 5)
    append(table, target)
    snapshot = change(table, Operation.DELETE, added_deletes=(deletion_vector(table, "v", target, rows=2),))
    assert (snapshot.first_row_id, snapshot.added_rows) == (5, 0)
    assert [(line["content"], line["first_row_id"]) for line in raw_list(snapshot)] == [(0, 0), (1, None)]
    assert metadata_json(table)["next-row-id"] == 5


def test_a_vector_is_stored_with_its_place(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    target = data_file(table, "a", 5)
    append(table, target)
    snapshot = change(table, Operation.DELETE, added_deletes=(deletion_vector(table, "v", target, offset=44),))
    [vector] = [each["data_file"] for each in raw_entries(snapshot) if each["data_file"]["content"] == 1]
    assert vector["referenced_data_file"] == target.file_path
    assert (vector["content_offset"], vector["content_size_in_bytes"]) == (44, 40)
    assert vector["file_format"] == "PUFFIN"


def test_files_from_before_the_upgrade_are_numbered_by_the_next_commit(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 2)
    gone = data_file(table, "b", 7)
    append(table, data_file(table, "a", 5))
    append(table, gone, data_file(table, "c", 2))
    upgrade_to_version_3(table)
    snapshot = append(table, data_file(table, "d", 3))
    ids = row_ids(table, snapshot)
    assert snapshot.added_rows == 17
    assert metadata_json(table)["next-row-id"] == 17
    sizes = {"a": 5, "b": 7, "c": 2, "d": 3}
    taken = [id_ for name, first in ids.items() if first is not None for id_ in range(first, first + sizes[name])]
    assert sorted(taken) == list(range(17))


def test_files_from_before_the_upgrade_can_be_removed_at_once(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 2)
    gone = data_file(table, "b", 7)
    append(table, data_file(table, "a", 5), gone)
    upgrade_to_version_3(table)
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert row_ids(table, snapshot) == {"a": 0}
    assert snapshot.added_rows == 5


def test_metadata_of_version_3_is_read_back_as_it_was(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    append(table, data_file(table, "a", 5))
    again = FromInputFile.table_metadata(table.io.new_input(table.metadata_location))
    assert again == table.metadata
    assert isinstance(again, TableMetadataV3)
    assert again.next_row_id == 5


def test_the_next_row_id_of_metadata_that_lacks_it_is_found(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    append(table, data_file(table, "a", 5))
    document = metadata_json(table)
    del document["next-row-id"]
    metadata = TableMetadataUtil.parse_obj(document)
    assert json.loads(metadata.model_dump_json())["next-row-id"] == 5


def test_a_sequence_number_is_not_written_twice(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    append(table, data_file(table, "a", 5))
    document = metadata_json(table)
    [snapshot] = document["snapshots"]
    document["snapshots"].append({**snapshot, "snapshot-id": 7})
    with pytest.raises(Exception, match="another branch"):
        TableMetadataUtil.parse_obj(document).model_dump_json()


def test_there_is_a_way_back(catalog: SqlCatalog) -> None:
    enable_version3()
    enable_version3()
    disable_version3()
    catalog.create_namespace("db")
    with pytest.raises(NotImplementedError, match="V3"):
        catalog.create_table("db.u", SCHEMA, properties={"format-version": "3"})
    table = new_table(catalog, 3)
    disable_version3()
    # A commit needs it and asks for it by itself.
    append(table, data_file(table, "a"))
    assert head_id(table) is not None
