"""Two writers with one base: what can be combined is, and what cannot be is refused with a name for the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField

from formatkit.errors import CommitConflictError, ConfigurationError, InvalidTableError
from formatkit.kernel import bind
from formatkit.write.commit import Change, commit
from formatkit.write.commit.conflicts import Conflicts
from formatkit.write.commit.records import ManifestReader
from support.commits import (
    append,
    change,
    data_file,
    deletion_vector,
    equality_deletes,
    head_id,
    live_files,
    metadata_files,
    new_table,
    position_deletes,
    upgrade_to_version_3,
)

BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))


class Rivals:
    """A table with one file ``a``, as two writers see it. The first one commits first."""

    def __init__(self, catalog: SqlCatalog, version: int = 2, **options: Any) -> None:
        self.first = new_table(catalog, version, **options)
        self.partition = ("x",) if self.first.spec().fields else ()
        self.a = data_file(self.first, "a", 9, partition=self.partition)
        self.b = data_file(self.first, "b", 9, partition=self.partition)
        append(self.first, self.a, self.b)
        self.second = catalog.load_table("db.t")

    def new(self, name: str, rows: int = 1, **facts: Any) -> DataFile:
        return data_file(self.first, name, rows, **{"partition": self.partition, **facts})

    def conflict(self, operation: Operation, cause: Snapshot, location: str | None = None, **parts: Any) -> None:
        """The second writer's change is refused because of a snapshot of the first one, and leaves nothing."""
        before = metadata_files(self.first)
        with pytest.raises(CommitConflictError, match="run the operation again") as refusal:
            change(self.second, operation, **parts)
        assert refusal.value.snapshot_id == cause.snapshot_id
        assert refusal.value.location == (location or self.a.file_path)
        assert metadata_files(self.first) == before
        self.second.refresh()
        assert self.second.current_snapshot() == self.first.current_snapshot()


def removal(*files: DataFile) -> dict[str, Any]:
    return {"removed": frozenset(file.file_path for file in files)}


def test_a_history_that_goes_round_in_a_circle_is_an_error(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    newest = append(rivals.first, rivals.new("c"))
    metadata = rivals.first.metadata
    circle = [each.model_copy(update={"parent_snapshot_id": newest.snapshot_id}) for each in metadata.snapshots]
    head = next(each for each in circle if each.snapshot_id == newest.snapshot_id)
    asked = Change(operation=Operation.DELETE, base_snapshot_id=1, **removal(rivals.a))
    reader = ManifestReader(metadata, rivals.first.io)
    with pytest.raises(InvalidTableError, match="is an ancestor of itself"):
        Conflicts(asked, metadata.model_copy(update={"snapshots": circle}), head, reader).check()


def test_appends_never_conflict(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    append(rivals.first, rivals.new("c"))
    append(rivals.second, rivals.new("d"))
    assert live_files(rivals.second) == ["a", "b", "c", "d"]


def test_a_file_cannot_be_removed_twice(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    cause = change(rivals.first, Operation.DELETE, **removal(rivals.a))
    append(rivals.first, rivals.new("later"))
    rivals.conflict(Operation.OVERWRITE, cause, added=(rivals.new("c"),), **removal(rivals.a, rivals.b))


def test_different_files_can_be_removed_at_the_same_time(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    change(rivals.first, Operation.DELETE, **removal(rivals.a))
    change(rivals.second, Operation.OVERWRITE, added=(rivals.new("c"),), **removal(rivals.b))
    assert live_files(rivals.second) == ["c"]


@pytest.mark.parametrize("named", ["by the entry", "by the caller"])
def test_positions_in_a_file_that_is_gone_delete_nothing(catalog: SqlCatalog, named: str) -> None:
    rivals = Rivals(catalog)
    cause = change(rivals.first, Operation.REPLACE, added=(rivals.new("c", 9),), **removal(rivals.a))
    if named == "by the entry":
        parts: dict[str, Any] = {"added_deletes": (position_deletes(rivals.second, "d", rivals.a),)}
    else:
        parts = {
            "added_deletes": (position_deletes(rivals.second, "d", rivals.a, rivals.b),),
            "referenced": frozenset({rivals.a.file_path, rivals.b.file_path}),
        }
    rivals.conflict(Operation.DELETE, cause, **parts)


def test_a_vector_for_a_file_that_is_gone_is_refused(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 3)
    cause = change(rivals.first, Operation.DELETE, **removal(rivals.a))
    rivals.conflict(Operation.DELETE, cause, added_deletes=(deletion_vector(rivals.second, "v", rivals.a),))


def test_a_file_can_have_one_vector_only(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 3)
    cause = change(rivals.first, Operation.DELETE, added_deletes=(deletion_vector(rivals.first, "v", rivals.a),))
    vector = deletion_vector(rivals.second, "w", rivals.a)
    rivals.conflict(Operation.DELETE, cause, added_deletes=(vector,))
    # Whoever has not noticed the first vector at all is refused as well.
    with pytest.raises(CommitConflictError, match="deleted rows of"):
        change(rivals.second, Operation.DELETE, added_deletes=(vector,))
    change(
        rivals.second,
        Operation.DELETE,
        added_deletes=(vector,),
        removed_deletes=frozenset({(f"{rivals.first.location()}/data/v", 4)}),
    )
    assert live_files(rivals.second, ManifestContent.DELETES) == ["w"]


def test_vectors_of_different_files_can_be_written_at_the_same_time(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 3)
    change(rivals.first, Operation.DELETE, added_deletes=(deletion_vector(rivals.first, "v", rivals.a),))
    change(rivals.second, Operation.DELETE, added_deletes=(deletion_vector(rivals.second, "w", rivals.b),))
    assert live_files(rivals.second, ManifestContent.DELETES) == ["v", "w"]


def test_a_delete_file_cannot_be_replaced_twice(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 3)
    old = deletion_vector(rivals.first, "v", rivals.a)
    change(rivals.first, Operation.DELETE, added_deletes=(old,))
    rivals.second.refresh()
    replaced = frozenset({(old.file_path, 4)})
    cause = change(
        rivals.first,
        Operation.DELETE,
        added_deletes=(deletion_vector(rivals.first, "w", rivals.a),),
        removed_deletes=replaced,
    )
    rivals.conflict(Operation.REPLACE, cause, location=old.file_path, removed_deletes=replaced)


KINDS: dict[str, Callable[[Table, DataFile], DataFile]] = {
    "position deletes": lambda table, target: position_deletes(table, "d", target),
    "positions of many files": lambda table, target: position_deletes(
        table, "d", target, data_file(table, "b", partition=("x",) if table.spec().fields else ())
    ),
    "equality deletes": lambda table, target: equality_deletes(
        table, "d", partition=tuple(target.partition[i] for i in range(len(target.partition)))
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spec", [PartitionSpec(), BY_NAME], ids=["unpartitioned", "partitioned"])
def test_rows_that_others_deleted_are_not_brought_back_by_a_rewrite(
    catalog: SqlCatalog, kind: str, spec: PartitionSpec
) -> None:
    rivals = Rivals(catalog, spec=spec)
    cause = change(rivals.first, Operation.DELETE, added_deletes=(KINDS[kind](rivals.first, rivals.a),))
    rivals.conflict(Operation.OVERWRITE, cause, added=(rivals.new("c", 9),), **removal(rivals.a))


def test_files_that_are_dropped_whole_may_have_got_deletes(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    change(rivals.first, Operation.DELETE, added_deletes=(position_deletes(rivals.first, "d", rivals.a),))
    change(rivals.second, Operation.DELETE, **removal(rivals.a))
    assert live_files(rivals.second) == ["b"]
    assert live_files(rivals.second, ManifestContent.DELETES) == []


@pytest.mark.parametrize("bounds", ["whole", "cut"])
def test_other_spellings_of_a_location_are_the_same_file(catalog: SqlCatalog, bounds: str) -> None:
    rivals = Rivals(catalog)
    other = data_file(rivals.first, "a")
    path = rivals.a.file_path.replace("file:///", "file:/")
    end = len(path) if bounds == "whole" else 20
    many = position_deletes(rivals.first, "d", other, other)
    many.lower_bounds[2147483546] = many.upper_bounds[2147483546] = path[:end].encode()
    cause = change(rivals.first, Operation.DELETE, added_deletes=(many,))
    rivals.conflict(Operation.OVERWRITE, cause, added=(rivals.new("c", 9),), **removal(rivals.a))


def test_a_vector_of_another_spelling_is_a_rival_and_goes_with_its_file(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 3)
    vector = deletion_vector(rivals.first, "v", rivals.a)
    vector[17] = rivals.a.file_path.replace("file:///", "file:/")
    change(rivals.first, Operation.DELETE, added_deletes=(vector,))
    with pytest.raises(CommitConflictError):
        change(rivals.first, Operation.DELETE, added_deletes=(deletion_vector(rivals.first, "w", rivals.a),))
    change(rivals.first, Operation.DELETE, **removal(rivals.a))
    assert live_files(rivals.first, ManifestContent.DELETES) == []


def test_partitions_that_are_not_a_number_are_the_same(catalog: SqlCatalog) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "x", DoubleType(), required=False))
    table = new_table(catalog, schema=schema, spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "x")))
    old = data_file(table, "a", partition=(float("nan"),))
    append(table, old)
    late = catalog.load_table("db.t")
    change(table, Operation.DELETE, added_deletes=(equality_deletes(table, "d", partition=(float("nan"),)),))
    new = data_file(table, "n", partition=(float("nan"),))
    with pytest.raises(CommitConflictError, match="deleted rows"):
        change(late, Operation.OVERWRITE, added=(new,), **removal(old))


def test_deletes_in_other_partitions_and_files_do_not_matter(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, spec=BY_NAME)
    change(
        rivals.first,
        Operation.DELETE,
        added_deletes=(
            equality_deletes(rivals.first, "d", partition=("y",)),
            position_deletes(rivals.first, "e", rivals.b),
            position_deletes(rivals.first, "f", rivals.b, rivals.new("c")),
        ),
    )
    change(rivals.second, Operation.OVERWRITE, added=(rivals.new("n"),), **removal(rivals.a))
    assert live_files(rivals.second) == ["b", "n"]


def test_rows_that_keep_their_age_are_still_found_by_equality_deletes(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    change(rivals.first, Operation.DELETE, added_deletes=(equality_deletes(rivals.first, "d"),))
    change(
        rivals.second,
        Operation.REPLACE,
        added=(rivals.new("n", 9),),
        data_sequence_number=1,
        **removal(rivals.a),
    )
    assert live_files(rivals.second, ManifestContent.DELETES) == ["d"]
    rivals.first.refresh()
    cause = change(rivals.first, Operation.DELETE, added_deletes=(position_deletes(rivals.first, "e", rivals.b),))
    rivals.conflict(
        Operation.REPLACE,
        cause,
        location=rivals.b.file_path,
        added=(rivals.new("m", 9),),
        data_sequence_number=1,
        **removal(rivals.b),
    )


def test_deletes_by_position_can_be_combined(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    change(rivals.first, Operation.DELETE, added_deletes=(position_deletes(rivals.first, "d", rivals.a),))
    change(rivals.second, Operation.DELETE, added_deletes=(position_deletes(rivals.second, "e", rivals.a),))
    assert live_files(rivals.second, ManifestContent.DELETES) == ["d", "e"]


def test_a_vector_does_not_hide_position_deletes_from_before_the_upgrade(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, 2)
    base = head_id(rivals.first)
    cause = change(rivals.first, Operation.DELETE, added_deletes=(position_deletes(rivals.first, "d", rivals.a),))
    upgrade_to_version_3(rivals.first)
    late = Change(
        operation=Operation.DELETE,
        added_deletes=(deletion_vector(rivals.first, "v", rivals.a),),
        base_snapshot_id=base,
    )
    with pytest.raises(CommitConflictError) as refusal:
        commit(rivals.first, late)
    assert refusal.value.snapshot_id == cause.snapshot_id


def test_an_update_does_not_bring_back_rows_that_others_deleted(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    cause = change(rivals.first, Operation.DELETE, added_deletes=(position_deletes(rivals.first, "d", rivals.a),))
    rivals.conflict(
        Operation.OVERWRITE,
        cause,
        added=(rivals.new("c"),),
        added_deletes=(position_deletes(rivals.second, "e", rivals.a),),
    )


def bounded(rivals: Rivals, name: str, lower: int, upper: int) -> DataFile:
    return rivals.new(
        name,
        9,
        value_counts={1: 9},
        null_value_counts={1: 0},
        lower_bounds={1: to_bytes(LongType(), lower)},
        upper_bounds={1: to_bytes(LongType(), upper)},
    )


def guarded(rivals: Rivals, where: str = "id > 100", **parts: Any) -> dict[str, Any]:
    return {**removal(rivals.a), "conflict_filter": bind(rivals.first.schema(), where), **parts}


@pytest.mark.parametrize("where", ["id > 100", "id IS NOT NULL", "name = 'unbounded'"])
def test_rows_that_match_and_came_meanwhile_are_a_conflict(catalog: SqlCatalog, where: str) -> None:
    rivals = Rivals(catalog)
    cause = append(rivals.first, bounded(rivals, "c", 90, 110))
    rivals.conflict(Operation.DELETE, cause, f"{rivals.first.location()}/data/c", **guarded(rivals, where))


def test_rows_that_cannot_match_are_no_conflict(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    append(rivals.first, bounded(rivals, "c", 0, 100))
    change(rivals.second, Operation.DELETE, **guarded(rivals))
    assert live_files(rivals.second) == ["b", "c"]


def test_partitions_decide_which_rows_can_match(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, spec=BY_NAME)
    append(rivals.first, rivals.new("c", partition=("y",)))
    rivals.second = catalog.load_table("db.t")
    cause = append(rivals.first, rivals.new("d", partition=("z",)))
    rivals.conflict(Operation.DELETE, cause, f"{rivals.first.location()}/data/d", **guarded(rivals, where="name = 'z'"))
    change(rivals.second, Operation.DELETE, **guarded(rivals, where="name = 'x'"))


def test_rewritten_rows_are_not_new(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    change(rivals.first, Operation.REPLACE, added=(rivals.new("c", 9),), **removal(rivals.b))
    change(rivals.second, Operation.DELETE, **guarded(rivals))
    assert live_files(rivals.second) == ["c"]


def test_rows_of_a_manifest_that_was_rewritten_later_are_still_new(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    cause = append(rivals.first, bounded(rivals, "c", 90, 110), rivals.new("d"))
    change(rivals.first, Operation.DELETE, **removal(rivals.new("d")))
    rivals.conflict(Operation.DELETE, cause, f"{rivals.first.location()}/data/c", **guarded(rivals))


def test_new_rows_that_were_rewritten_since_are_still_new(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    cause = append(rivals.first, bounded(rivals, "c", 90, 110))
    change(rivals.first, Operation.REPLACE, added=(bounded(rivals, "n", 90, 110),), **removal(rivals.new("c")))
    rivals.conflict(Operation.DELETE, cause, f"{rivals.first.location()}/data/c", **guarded(rivals))


@pytest.mark.parametrize(
    ("command", "operation", "name"),
    [
        (None, Operation.DELETE, "delete"),
        (None, Operation.OVERWRITE, "update"),
        ("merge", Operation.OVERWRITE, "merge"),
        ("delete", Operation.OVERWRITE, "delete"),
    ],
)
def test_snapshot_isolation_does_not_ask_for_new_rows(
    catalog: SqlCatalog, command: Any, operation: Operation, name: str
) -> None:
    rivals = Rivals(catalog, properties={f"write.{name}.isolation-level": "snapshot"})
    append(rivals.first, bounded(rivals, "c", 90, 110))
    change(rivals.second, operation, command=command, **guarded(rivals))
    cause = change(rivals.second, Operation.DELETE, added_deletes=(equality_deletes(rivals.second, "d"),))
    rivals.first.refresh()
    base = cause.parent_snapshot_id
    late = Change(
        operation=operation,
        command=command,
        base_snapshot_id=base,
        added=(rivals.new("n"),),
        **removal(rivals.b),
    )
    with pytest.raises(CommitConflictError, match="deleted rows"):
        commit(rivals.first, late)


def test_unknown_levels_of_isolation_are_refused(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog, properties={"write.delete.isolation-level": "none"})
    append(rivals.first, rivals.new("c"))
    with pytest.raises(ConfigurationError, match="'serializable' or 'snapshot'"):
        change(rivals.second, Operation.DELETE, **guarded(rivals))


def test_a_table_that_was_rolled_back_is_not_the_base_any_more(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    first = head_id(rivals.first)
    append(rivals.first, rivals.new("c"))
    rivals.second.refresh()
    rivals.first.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()
    rivals.first.refresh()
    append(rivals.first, rivals.new("d"))
    with pytest.raises(CommitConflictError, match="no longer descends"):
        change(rivals.second, Operation.DELETE, **removal(rivals.a))
    append(rivals.second, rivals.new("e"))
    assert live_files(rivals.second) == ["a", "b", "d", "e"]


def test_a_table_that_was_empty_at_the_base_is_compared_whole(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    late = catalog.load_table("db.t")
    cause = append(table, data_file(table, "a"))
    with pytest.raises(CommitConflictError) as refusal:
        change(late, Operation.OVERWRITE, added=(data_file(late, "b"),), conflict_filter=AlwaysTrue())
    assert refusal.value.snapshot_id == cause.snapshot_id


def test_a_file_that_never_was_there_is_a_conflict_without_a_culprit(catalog: SqlCatalog) -> None:
    rivals = Rivals(catalog)
    with pytest.raises(CommitConflictError, match="the table does not have") as refusal:
        change(rivals.first, Operation.DELETE, removed=frozenset({"nowhere"}))
    assert refusal.value.snapshot_id is None
    assert len(metadata_files(rivals.first)) == 2
