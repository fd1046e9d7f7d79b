"""The counters in the summary of a snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform

from formatkit.write.commit import Change, commit
from support.commits import (
    append,
    change,
    data_file,
    deletion_vector,
    equality_deletes,
    metadata_json,
    new_table,
    position_deletes,
)

BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))


def counters(snapshot: Snapshot) -> dict[str, Any]:
    """What the summary counts; totals apart."""
    assert snapshot.summary is not None
    return {k: int(v) for k, v in snapshot.summary.additional_properties.items() if not k.startswith("total-")}


def totals(snapshot: Snapshot) -> list[int]:
    assert snapshot.summary is not None
    names = ("records", "data-files", "delete-files", "position-deletes", "equality-deletes", "files-size")
    return [int(snapshot.summary.additional_properties[f"total-{name}"]) for name in names]


def test_data_and_deletes_are_counted_by_their_kinds(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    a, b = data_file(table, "a", 5), data_file(table, "b", 3)
    snapshot = append(table, a, b)
    assert counters(snapshot) == {
        "added-data-files": 2,
        "added-records": 8,
        "added-files-size": 800,
        "changed-partition-count": 1,
    }
    assert totals(snapshot) == [8, 2, 0, 0, 0, 800]
    deletes = (position_deletes(table, "p", a, rows=2), equality_deletes(table, "e", 4))
    snapshot = change(table, Operation.DELETE, added_deletes=deletes)
    assert counters(snapshot) == {
        "added-delete-files": 2,
        "added-position-delete-files": 1,
        "added-position-deletes": 2,
        "added-equality-delete-files": 1,
        "added-equality-deletes": 4,
        "added-files-size": 600,
        "changed-partition-count": 1,
    }
    assert totals(snapshot) == [8, 2, 2, 2, 4, 1400]
    snapshot = change(
        table, Operation.OVERWRITE, added=(data_file(table, "c", 1),), removed=frozenset({a.file_path, b.file_path})
    )
    assert counters(snapshot) == {
        "added-data-files": 1,
        "added-records": 1,
        "added-files-size": 100,
        "deleted-data-files": 2,
        "deleted-records": 8,
        "removed-delete-files": 2,
        "removed-position-delete-files": 1,
        "removed-position-deletes": 2,
        "removed-equality-delete-files": 1,
        "removed-equality-deletes": 4,
        "removed-files-size": 1400,
        "changed-partition-count": 1,
    }
    assert totals(snapshot) == [1, 1, 0, 0, 0, 100]


def test_vectors_have_counters_of_their_own_and_only_their_own_size(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    a = data_file(table, "a", 5)
    append(table, a)
    old = deletion_vector(table, "v", a, rows=2)
    snapshot = change(table, Operation.DELETE, added_deletes=(old,))
    assert counters(snapshot) == {
        "added-delete-files": 1,
        "added-dvs": 1,
        "added-position-deletes": 2,
        "added-files-size": 40,
        "changed-partition-count": 1,
    }
    snapshot = change(
        table,
        Operation.DELETE,
        added_deletes=(deletion_vector(table, "w", a, rows=3),),
        removed_deletes=frozenset({(old.file_path, 4)}),
    )
    assert counters(snapshot).items() >= {"removed-dvs": 1, "removed-position-deletes": 2, "added-dvs": 1}.items()
    assert totals(snapshot) == [5, 1, 1, 3, 0, 540]


def test_partitions_are_described_up_to_the_limit(catalog: SqlCatalog) -> None:
    table = new_table(catalog, spec=BY_NAME, properties={"write.summary.partition-limit": "2"})
    files = [data_file(table, name, partition=(name,)) for name in ("x", "y", "z")]
    few = append(table, *files[:2]).summary
    assert few is not None
    assert few["changed-partition-count"] == "2"
    assert few["partition-summaries-included"] == "true"
    assert few["partitions.name=x"] == "added-files-size=100,added-data-files=1,added-records=1"
    many = append(table, *(data_file(table, f"{n}", partition=(n,)) for n in "abc")).summary
    assert many is not None
    assert many["changed-partition-count"] == "3"
    assert not [key for key in many.additional_properties if key.startswith("partition")]


def test_properties_of_the_caller_are_kept_but_replace_no_counter(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    properties = {"who": "me", "added-records": "77", "operation": "delete"}
    commit(table, Change(operation=Operation.APPEND, added=(data_file(table, "a"),), properties=properties))
    summary = metadata_json(table)["snapshots"][0]["summary"]
    assert summary["who"] == "me"
    assert summary["added-records"] == "1"
    assert summary["operation"] == "append"


@pytest.mark.parametrize("summary", [{"operation": "append"}, {"operation": "append", "total-records": "many"}])
def test_totals_that_the_parent_does_not_tell_are_left_out(catalog: SqlCatalog, summary: dict[str, str]) -> None:
    table = new_table(catalog)
    snapshot = append(table, data_file(table, "a"))
    foreign = {**snapshot.model_dump(by_alias=True), "snapshot-id": 5, "sequence-number": 2, "summary": summary}
    move = {"ref-name": "main", "type": "branch", "snapshot-id": 5}
    table._do_commit(
        (
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(foreign)),
            SetSnapshotRefUpdate.model_validate(move),
        ),
        (),
    )
    after = append(table, data_file(table, "b")).summary
    assert after is not None
    assert not [key for key in after.additional_properties if key.startswith("total-")]
