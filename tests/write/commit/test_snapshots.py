"""What a commit makes of a table, as pyiceberg, fastavro and a JSON parser see it."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import SetSnapshotRefUpdate

from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.write.commit import Change, commit
from support.commits import (
    append,
    change,
    data_file,
    deletion_vector,
    equality_deletes,
    live_files,
    metadata_files,
    metadata_json,
    new_table,
    position_deletes,
    raw_entries,
    raw_header,
    raw_list,
)

DELETES = ManifestContent.DELETES
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@VERSIONS
def test_appended_files_are_in_the_table_for_everybody(catalog: SqlCatalog, version: int) -> None:
    table = new_table(catalog, version)
    first = append(table, data_file(table, "a", 3), data_file(table, "b", 2))
    second = append(table, data_file(table, "c"))
    assert table.current_snapshot() == second
    assert second.parent_snapshot_id == first.snapshot_id
    assert catalog.load_table("db.t").metadata == table.metadata
    for view in (table, StaticTable.from_metadata(table.metadata_location)):
        assert live_files(view) == ["a", "b", "c"]


@VERSIONS
def test_the_metadata_file_says_what_the_specification_asks_for(catalog: SqlCatalog, version: int) -> None:
    table = new_table(catalog, version)
    append(table, data_file(table, "a", 3))
    snapshot = append(table, data_file(table, "b", 2))
    document = metadata_json(table)
    assert document["format-version"] == version
    assert document["current-snapshot-id"] == snapshot.snapshot_id
    assert document["refs"] == {"main": {"snapshot-id": snapshot.snapshot_id, "type": "branch"}}
    assert [each["snapshot-id"] for each in document["snapshot-log"]] == [
        each["snapshot-id"] for each in document["snapshots"]
    ]
    if version == 1:
        return
    assert document["last-sequence-number"] == 2
    assert [each["sequence-number"] for each in document["snapshots"]] == [1, 2]
    if version == 3:
        assert document["next-row-id"] == 5
        assert [(each["first-row-id"], each["added-rows"]) for each in document["snapshots"]] == [(0, 3), (3, 2)]


def test_new_files_inherit_the_number_of_their_snapshot(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    snapshot = append(table, data_file(table, "a"))
    [entry] = raw_entries(snapshot)
    assert entry["sequence_number"] is None
    assert entry["file_sequence_number"] is None
    [line] = raw_list(snapshot)
    assert (line["sequence_number"], line["min_sequence_number"], line["content"]) == (1, 1, 0)


@VERSIONS
def test_removed_files_are_marked_and_the_others_keep_their_age(catalog: SqlCatalog, version: int) -> None:
    table = new_table(catalog, version)
    old, kept = data_file(table, "old", 3), data_file(table, "kept", 2)
    base = append(table, old, kept)
    snapshot = change(table, Operation.OVERWRITE, added=(data_file(table, "new"),), removed=frozenset({old.file_path}))
    assert live_files(table) == ["kept", "new"]
    found = {
        entry.data_file.file_path.rpartition("/")[2]: (entry.status, entry.snapshot_id, entry.sequence_number)
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    first, second = (0, 0) if version == 1 else (1, 2)
    assert found == {
        "old": (ManifestEntryStatus.DELETED, snapshot.snapshot_id, first),
        "kept": (ManifestEntryStatus.EXISTING, base.snapshot_id, first),
        "new": (ManifestEntryStatus.ADDED, snapshot.snapshot_id, second),
    }


def test_what_an_earlier_snapshot_removed_is_not_carried_on(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    gone = data_file(table, "gone")
    append(table, gone)
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert [line["deleted_files_count"] for line in raw_list(snapshot)] == [1]
    assert raw_list(append(table, data_file(table, "later")))[1:] == []


def test_manifests_without_removed_files_are_carried_over_as_they_are(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    old = data_file(table, "old")
    [other] = raw_list(append(table, data_file(table, "other")))
    append(table, old)
    snapshot = change(table, Operation.DELETE, removed=frozenset({old.file_path}))
    assert other in raw_list(snapshot)


def test_delete_files_get_delete_manifests(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    target = data_file(table, "a", 3)
    append(table, target)
    deletes = (position_deletes(table, "p", target), equality_deletes(table, "e"))
    snapshot = change(table, Operation.DELETE, added=(data_file(table, "b"),), added_deletes=deletes)
    assert live_files(table, DELETES) == ["e", "p"]
    assert live_files(table) == ["a", "b"]
    [line] = [line for line in raw_list(snapshot) if line["content"] == 1]
    header = raw_header(line["manifest_path"])
    assert header["content"] == "deletes"
    assert header["format-version"] == "2"


def test_the_ids_of_equality_deletes_are_stored_as_ints(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    snapshot = change(table, Operation.DELETE, added_deletes=(equality_deletes(table, "d"),))
    [line] = raw_list(snapshot)
    schema = raw_header(line["manifest_path"])["avro.schema"]
    assert '"items": "int", "element-id": 136' in schema or '"element-id": 136, "items": "int"' in schema


def test_rewritten_rows_keep_the_age_that_they_are_given(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    old = data_file(table, "old", 3)
    append(table, old)
    append(table, data_file(table, "other"))
    snapshot = change(
        table,
        Operation.REPLACE,
        added=(data_file(table, "new", 3),),
        removed=frozenset({old.file_path}),
        data_sequence_number=1,
    )
    line = raw_list(snapshot)[0]
    assert (line["sequence_number"], line["min_sequence_number"]) == (3, 1)
    [new] = [e for m in snapshot.manifests(table.io) for e in m.fetch_manifest_entry(table.io) if e.status == 1][:1]
    assert (new.sequence_number, new.file_sequence_number) == (1, 3)
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.REPLACE


def test_deletes_of_removed_files_go_with_them(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    gone, stays = data_file(table, "gone", 3), data_file(table, "stays", 3)
    append(table, gone, stays)
    deletes = (
        position_deletes(table, "of-gone", gone),
        position_deletes(table, "of-both", gone, stays),
        position_deletes(table, "of-stays", stays),
        equality_deletes(table, "equality"),
    )
    change(table, Operation.DELETE, added_deletes=deletes)
    change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert live_files(table, DELETES) == ["equality", "of-both", "of-stays"]


def test_deletes_that_are_older_than_all_data_go(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    old = data_file(table, "old", 3)
    append(table, old)
    change(table, Operation.DELETE, added_deletes=(equality_deletes(table, "equality"),))
    change(table, Operation.OVERWRITE, added=(data_file(table, "new"),), removed=frozenset({old.file_path}))
    assert live_files(table, DELETES) == []


def test_one_of_two_vectors_in_a_file_can_be_replaced(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    a, b = data_file(table, "a", 3), data_file(table, "b", 3)
    append(table, a, b)
    vectors = (deletion_vector(table, "v1", a, offset=4), deletion_vector(table, "v1", b, offset=44))
    change(table, Operation.DELETE, added_deletes=vectors)
    snapshot = change(
        table,
        Operation.DELETE,
        added_deletes=(deletion_vector(table, "v2", a, rows=2),),
        removed_deletes=frozenset({(vectors[0].file_path, 4)}),
    )
    live = [
        (each["data_file"]["file_path"].rpartition("/")[2], each["data_file"]["content_offset"])
        for each in raw_entries(snapshot)
        if each["status"] != 2 and each["data_file"]["content"] == 1
    ]
    assert sorted(live) == [("v1", 44), ("v2", 4)]


def test_a_new_branch_starts_at_the_head_of_main(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    main = append(table, data_file(table, "a"))
    side = append(table, data_file(table, "b"), branch="side")
    assert side.parent_snapshot_id == main.snapshot_id
    assert table.current_snapshot() == main
    assert live_files(table, branch="side") == ["a", "b"]
    append(table, data_file(table, "c"), branch="side")
    append(table, data_file(table, "d"))
    assert live_files(table, branch="side") == ["a", "b", "c"]
    assert live_files(table) == ["a", "d"]


def test_a_branch_keeps_its_rules_of_retention(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    base = append(table, data_file(table, "a"))
    ages = {"max-ref-age-ms": 5, "max-snapshot-age-ms": 6, "min-snapshots-to-keep": 7}
    rules = {"ref-name": "side", "type": "branch", "snapshot-id": base.snapshot_id, **ages}
    table._do_commit((SetSnapshotRefUpdate.model_validate(rules),), ())
    append(table, data_file(table, "b"), branch="side")
    assert metadata_json(table)["refs"]["side"].items() >= ages.items()


def test_tags_and_branches_of_empty_tables_are_refused(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    with pytest.raises(ConfigurationError, match="write to 'main' first"):
        append(table, data_file(table, "a"), branch="side")
    base = append(table, data_file(table, "a"))
    table.manage_snapshots().create_tag(base.snapshot_id, "tag").commit()
    with pytest.raises(ConfigurationError, match="is a tag"):
        append(table, data_file(table, "b"), branch="tag")
    assert len(metadata_files(table)) == 2


@pytest.mark.parametrize(
    ("version", "kind", "advice"),
    [
        (1, "equality deletes", "upgrade the table"),
        (2, "vector", "write position deletes"),
        (3, "position deletes", "write deletion vectors"),
    ],
)
def test_files_that_the_version_does_not_know_are_refused(
    catalog: SqlCatalog, version: int, kind: str, advice: str
) -> None:
    table = new_table(catalog, version)
    target = data_file(table, "a")
    deletes = {
        "equality deletes": equality_deletes(table, "d"),
        "vector": deletion_vector(table, "d", target),
        "position deletes": position_deletes(table, "d", target),
    }
    with pytest.raises(UnsupportedError, match=advice):
        change(table, Operation.DELETE, added_deletes=(deletes[kind],))


def test_tables_without_a_catalog_are_refused(catalog: SqlCatalog) -> None:
    table = StaticTable.from_metadata(new_table(catalog).metadata_location)
    with pytest.raises(UnsupportedError, match="without a catalog"):
        append(table, data_file(table, "a"))


def test_encrypted_tables_are_refused(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties={"encryption.key-id": "k"})
    with pytest.raises(UnsupportedError, match="plain text"):
        append(table, data_file(table, "a"))


def test_changes_that_make_no_sense_are_refused(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    file, deletes = data_file(table, "a"), equality_deletes(table, "d")
    with pytest.raises(ConfigurationError, match="only adds data files"):
        Change(operation=Operation.APPEND, removed=frozenset({"a"}))
    for wrong, reason in [
        (Change(operation=Operation.APPEND, added=(file, file)), "2 times"),
        (Change(operation=Operation.APPEND, added=(deletes,)), "holds deletes"),
        (Change(operation=Operation.DELETE, added_deletes=(file,)), "holds data"),
        (Change(operation=Operation.APPEND, added=(data_file(table, "b", spec_id=7),)), "partition spec 7"),
        (Change(operation=Operation.APPEND, added=(data_file(table, "b", partition=(1,)),)), "1 partition values"),
    ]:
        with pytest.raises(ConfigurationError, match=reason):
            commit(table, wrong)
    table = new_table(catalog, 3, name="db.t3")
    two = (deletion_vector(table, "v", file), deletion_vector(table, "w", file))
    with pytest.raises(ConfigurationError, match="2 deletion vectors"):
        commit(table, Change(operation=Operation.DELETE, added_deletes=two))
