"""Small manifests are merged, as the table's properties say."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import Operation

from support.commits import (
    append,
    change,
    data_file,
    equality_deletes,
    live_files,
    metadata_files,
    new_table,
    raw_entries,
    raw_list,
)

EAGER = {"commit.manifest.min-count-to-merge": "3"}


def test_manifests_are_merged_once_there_are_enough(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=EAGER)
    counts = [len(raw_list(append(table, data_file(table, f"{number}")))) for number in range(6)]
    assert counts == [1, 2, 1, 2, 1, 2]
    assert live_files(table) == [f"{number}" for number in range(6)]


def test_what_was_merged_keeps_its_age_and_its_snapshot(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=EAGER)
    snapshots = [append(table, data_file(table, f"{number}")) for number in range(3)]
    found = [
        (each["data_file"]["file_path"][-1], each["status"], each["snapshot_id"], each["sequence_number"])
        for each in raw_entries(snapshots[2])
    ]
    assert found == [
        ("2", 1, snapshots[2].snapshot_id, None),
        ("1", 0, snapshots[1].snapshot_id, 2),
        ("0", 0, snapshots[0].snapshot_id, 1),
    ]
    [line] = raw_list(snapshots[2])
    assert (line["added_files_count"], line["existing_files_count"], line["min_sequence_number"]) == (1, 2, 1)


def test_manifests_that_were_merged_at_once_are_not_left_behind(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=EAGER)
    for number in range(3):
        append(table, data_file(table, f"{number}"))
    # Three lists, two manifests of the first commits, and the merged one.
    assert len(metadata_files(table)) == 6


def test_removals_of_this_snapshot_are_merged_along(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=EAGER)
    gone = data_file(table, "gone")
    append(table, gone)
    append(table, data_file(table, "kept"))
    snapshot = change(table, Operation.OVERWRITE, added=(data_file(table, "new"),), removed=frozenset({gone.file_path}))
    [line] = raw_list(snapshot)
    assert [line[f"{each}_files_count"] for each in ("added", "existing", "deleted")] == [1, 1, 1]
    assert live_files(table) == ["kept", "new"]
    append(table, data_file(table, "later"))
    assert live_files(table) == ["kept", "later", "new"]


def test_delete_manifests_are_merged_apart_from_data(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties=EAGER)
    append(table, data_file(table, "a"))
    for number in range(3):
        snapshot = change(table, Operation.DELETE, added_deletes=(equality_deletes(table, f"{number}"),))
    assert [line["content"] for line in raw_list(snapshot)] == [0, 1]
    assert live_files(table, ManifestContent.DELETES) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "properties",
    [
        {**EAGER, "commit.manifest-merge.enabled": "false"},
        {**EAGER, "commit.manifest.target-size-bytes": "10"},
        {},
    ],
    ids=["disabled", "large enough", "too few"],
)
def test_manifests_stay_as_they_are_otherwise(catalog: SqlCatalog, properties: dict[str, str]) -> None:
    table = new_table(catalog, properties=properties)
    for number in range(4):
        snapshot = append(table, data_file(table, f"{number}"))
    assert len(raw_list(snapshot)) == 4


def test_rows_keep_their_ids_when_manifests_are_merged(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3, properties=EAGER)
    for number in range(3):
        snapshot = append(table, data_file(table, f"{number}", 10))
    ids = {each["data_file"]["file_path"][-1]: each["data_file"]["first_row_id"] for each in raw_entries(snapshot)}
    assert ids == {"0": 0, "1": 10, "2": None}
    [line] = raw_list(snapshot)
    assert line["first_row_id"] == 20
