"""Rows that the snapshots between two points of a table's history added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.errors import ConfigurationError, NonAppendSnapshotError, SnapshotExpiredError
from formatkit.scan.manifests import read_manifest_list
from formatkit.write import TableWriteConfig, TableWriter
from support.commits import change, upgrade_to_version_3
from support.deletes import position_file
from support.iceberg_tables import new_catalog

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "kind", StringType()))
BY_KIND = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "kind"))


@pytest.fixture
def catalog(tmp_path: Path) -> InMemoryCatalog:
    return new_catalog(tmp_path / "warehouse")


@pytest.fixture(params=["1", "2", "3"])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows(*ids: int, kind: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "kind": [kind] * len(ids)})


def new_table(catalog: InMemoryCatalog, version: str = "2", **properties: str) -> Table:
    created = "2" if version == "3" else version
    table = catalog.create_table(
        "db.t", SCHEMA, partition_spec=BY_KIND, properties={"format-version": created, **properties}
    )
    if version == "3":
        upgrade_to_version_3(table)
    return table


def head(table: Table) -> int:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def appended(table: Table, *parts: pa.Table) -> list[int]:
    """Append each and return the ids of the snapshots."""
    ids = []
    for part in parts:
        formatkit.append(table, part)
        ids.append(head(table))
    return ids


def ids_of(table: Table, **asked: Any) -> list[int]:
    """The rows, sorted within each file: the order of files is that of the snapshots."""
    found: list[Any] = formatkit.scan(table, **asked).to_arrow()["id"].to_pylist()
    return found


def test_the_start_is_left_out_and_the_end_is_read(catalog: InMemoryCatalog, version: str) -> None:
    table = new_table(catalog, version)
    first, second, third = appended(table, rows(1, 2), rows(3), rows(4, 5))
    assert ids_of(table, start_snapshot_id=first) == [3, 4, 5]
    assert ids_of(table, start_snapshot_id=first, end_snapshot_id=second) == [3]
    assert ids_of(table, end_snapshot_id=second) == [1, 2, 3]
    assert ids_of(table, start_snapshot_id=third) == []
    assert ids_of(table, start_snapshot_id=second, end_snapshot_id=second) == []


def test_snapshots_are_found_by_the_moment_they_were_made(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    appended(table, rows(1), rows(2), rows(3))
    # Snapshots of one millisecond would be one moment.
    moments = [1000, 2000, 3000]
    snapshots = [
        each.model_copy(update={"timestamp_ms": moment})
        for each, moment in zip(table.metadata.snapshots, moments, strict=True)
    ]
    table.metadata = table.metadata.model_copy(update={"snapshots": snapshots})
    assert ids_of(table, start_timestamp=1000) == [2, 3]
    assert ids_of(table, start_timestamp=999) == [1, 2, 3]
    assert ids_of(table, start_timestamp=1500, end_timestamp=2999) == [2]
    assert ids_of(table, end_timestamp=2000) == [1, 2]
    assert ids_of(table, end_timestamp=999) == []
    assert ids_of(table, start_timestamp=3000) == []


def test_filters_projections_and_limits_are_those_of_any_scan(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, *_ = appended(table, rows(1), rows(2, kind="b"), rows(3, 4), rows(5, kind="b"))
    planned = formatkit.scan(table, "kind = 'a' and id > 3", ("id", "_file"), start_snapshot_id=first)
    assert planned.to_arrow()["id"].to_pylist() == [4]
    assert len(planned.tasks) == 1
    assert ids_of(table, start_snapshot_id=first, limit=2) == [2, 3]
    assert formatkit.scan(table, start_snapshot_id=first).count() == 4
    found = formatkit.scan(table, start_snapshot_id=first).aggregate("min(id)", "count").to_pylist()
    assert found == [{"min(id)": 2, "count": 4}]


def test_the_current_schema_is_used(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    (first,) = appended(table, rows(1))
    appended(table, rows(2))
    with table.update_schema() as update:
        update.rename_column("id", "number")
        update.add_column("size", LongType())
    formatkit.append(table, pa.table({"number": [3], "kind": ["a"], "size": [30]}))
    assert formatkit.scan(table, select=("number", "size"), start_snapshot_id=first).to_arrow().to_pylist() == [
        {"number": 2, "size": None},
        {"number": 3, "size": 30},
    ]


def test_files_that_a_merged_manifest_carries_on_are_not_new(catalog: InMemoryCatalog, version: str) -> None:
    table = new_table(catalog, version, **{"commit.manifest.min-count-to-merge": "2"})
    first, second, third = appended(table, rows(1), rows(2), rows(3))
    assert len(read_manifest_list(table.metadata.snapshots[-1].manifest_list, table.io)) == 1
    assert ids_of(table, start_snapshot_id=second) == [3]
    assert ids_of(table, start_snapshot_id=first) == [2, 3]
    assert ids_of(table, end_snapshot_id=third) == [1, 2, 3]


def test_compaction_adds_no_rows(catalog: InMemoryCatalog, version: str) -> None:
    table = new_table(catalog, version)
    first, *_ = appended(table, rows(1), rows(2), rows(3))
    formatkit.rewrite(table)
    appended(table, rows(4))
    assert ids_of(table, start_snapshot_id=first) == [2, 3, 4]


def test_rows_are_there_although_they_were_deleted_later(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, second = appended(table, rows(1, 2), rows(3, 4))
    formatkit.delete(table, "id = 3")
    assert ids_of(table, start_snapshot_id=first, end_snapshot_id=second) == [3, 4]
    asked = {"overwrite_snapshots": "skip", "delete_snapshots": "skip"}
    assert ids_of(table, start_snapshot_id=first, **asked) == [3, 4]
    assert sorted(ids_of(table)) == [1, 2, 4]


def test_deletes_are_refused_unless_they_are_skipped(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    (first,) = appended(table, rows(1))
    appended(table, rows(2, kind="b"))
    table.delete("kind = 'b'")
    deletion = head(table)
    appended(table, rows(3))
    with pytest.raises(
        NonAppendSnapshotError, match=f"{deletion} is of the operation delete.*delete_snapshots"
    ) as told:
        formatkit.scan(table, start_snapshot_id=first)
    assert told.value.snapshot_id == deletion
    assert ids_of(table, start_snapshot_id=deletion) == [3]
    assert ids_of(table, start_snapshot_id=first, delete_snapshots="skip") == [2, 3]


def test_overwrites_are_refused_skipped_or_read_for_what_they_added(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    (first,) = appended(table, rows(1, 2))
    formatkit.overwrite(table, rows(7, 8), where="id = 1")
    appended(table, rows(9))
    with pytest.raises(NonAppendSnapshotError, match=r"operation overwrite.*overwrite_snapshots.*added-files"):
        formatkit.scan(table, start_snapshot_id=first)
    assert ids_of(table, start_snapshot_id=first, overwrite_snapshots="skip") == [9]
    # Row 2 was written anew beside the new rows, and nobody can tell that it is not new.
    found = ids_of(table, start_snapshot_id=first, overwrite_snapshots="added-files")
    assert sorted(found) == [2, 7, 8, 9]


def test_rows_that_died_in_the_commit_that_added_them_are_not_read(catalog: InMemoryCatalog) -> None:
    table = catalog.create_table("db.plain", SCHEMA)
    (first,) = appended(table, rows(1))
    with TableWriter(TableWriteConfig.of(table.metadata), table.io) as writer:
        writer.write(rows(2, 3, 4).to_batches()[0])
        (file,) = writer.close()
    deletes = position_file(table, "deletes", [(file.file_path, 1)])
    change(table, Operation.OVERWRITE, added=(file,), added_deletes=(deletes,))
    assert ids_of(table, start_snapshot_id=first, overwrite_snapshots="added-files") == [2, 4]


def test_a_start_that_expired_will_do_as_long_as_its_child_is_there(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, second, third = appended(table, rows(1), rows(2), rows(3))
    # As Iceberg for Java leaves it; pyiceberg also takes the ids of parents away.
    table.metadata = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[1:]})
    assert ids_of(table, start_snapshot_id=first) == [2, 3]
    table.metadata = table.metadata.model_copy(update={"snapshots": table.metadata.snapshots[1:]})
    assert ids_of(table, start_snapshot_id=second) == [3]
    with pytest.raises(SnapshotExpiredError, match=f"after snapshot {first} .* back to snapshot {third}"):
        formatkit.scan(table, start_snapshot_id=first)


@pytest.mark.parametrize("merges", [False, True])
def test_a_history_that_is_cut_is_not_taken_for_a_whole_one(catalog: InMemoryCatalog, merges: bool) -> None:
    table = new_table(catalog, **({"commit.manifest.min-count-to-merge": "2"} if merges else {}))
    first, second, third = appended(table, rows(1), rows(2), rows(3))
    table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    assert table.metadata.snapshots[0].parent_snapshot_id is None
    for asked in ({"start_snapshot_id": first}, {"end_snapshot_id": third}, {"start_timestamp": 5}):
        with pytest.raises(SnapshotExpiredError, match=f"back to snapshot {third}") as told:
            ids_of(table, **asked)
        assert told.value.snapshot_id == third


def test_the_end_descends_from_the_start(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, second = appended(table, rows(1), rows(2))
    table.manage_snapshots().create_branch(first, "side").commit()
    formatkit.append(table, rows(5), branch="side")
    side = table.refs()["side"].snapshot_id
    assert ids_of(table, start_snapshot_id=first, end_snapshot_id=side) == [5]
    with pytest.raises(ConfigurationError, match=f"{second} is no ancestor of snapshot {side}"):
        formatkit.scan(table, start_snapshot_id=second, end_snapshot_id=side)
    with pytest.raises(ConfigurationError, match="no ancestor"):
        formatkit.scan(table, start_snapshot_id=second, end_snapshot_id=first)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"start_snapshot_id": 1, "start_timestamp": 1}, "start_snapshot_id and start_timestamp say the same"),
        ({"end_snapshot_id": 1, "end_timestamp": 1}, "end_snapshot_id and end_timestamp say the same"),
        ({"end_snapshot_id": 1}, "no snapshot 1; it has: none"),
        ({"start_snapshot_id": 1}, "no snapshot 1; it has: none"),
        ({"start_snapshot_id": 1, "snapshot_id": 1}, "give one"),
        ({"start_snapshot_id": 1, "overwrite_snapshots": "ignore"}, "must be error, skip or added-files, not 'ignore'"),
    ],
)
def test_wrong_ranges_are_named(catalog: InMemoryCatalog, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        formatkit.scan(new_table(catalog), **asked)


def test_a_table_without_rows_has_none_between_moments(catalog: InMemoryCatalog) -> None:
    assert ids_of(new_table(catalog), start_timestamp=0, end_timestamp=5) == []


def test_buckets_of_one_range_are_not_read_as_those_of_another(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, second, _ = appended(table, rows(1), rows(2), rows(3))
    (bucket,) = formatkit.scan(table, start_snapshot_id=first).buckets(1)
    reader = formatkit.scan(table, start_snapshot_id=second).bucket_reader()
    with pytest.raises(ConfigurationError, match="is of scan"):
        reader.batches(bucket)


def test_skipping_is_verified_in_ranges_too(catalog: InMemoryCatalog) -> None:
    table = new_table(catalog)
    first, *_ = appended(table, rows(1), rows(2, 3), rows(4))
    properties = {"read.verify-skipping": "true"}
    assert ids_of(table, where="id > 2", start_snapshot_id=first, properties=properties) == [3, 4]
