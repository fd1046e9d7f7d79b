"""The same rows in other files: fewer, longer, sorted, of another format, without deleted rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, CorruptFileError, FormatNotRegisteredError
from support.filters import EqualTo, In, LessThan
from support.iceberg_tables import local_path
from support.operated_tables import (
    BY_BUCKET,
    BY_PART,
    by_content,
    delete_by_equality,
    filled_table,
    some_rows,
    upgrade,
)
from support.written_tables import ALL_FORMATS, files_on_disk

DATA, POSITIONS, EQUALITY = DataFileContent.DATA, DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES


def formats(table: Table) -> set[str]:
    return {task.file_format for task in formatkit.scan(table).tasks}


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_becomes_one_of_another_format(tmp_path: Path, file_format: str, version: int) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART, file_format="avro" if file_format != "avro" else "orc")
    model.rewrite(file_format=file_format)
    assert formats(model.table) == {file_format}
    model.check(LessThan("id", 9))


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitions", [UNPARTITIONED_PARTITION_SPEC, BY_PART, BY_BUCKET])
def test_short_files_are_joined_within_their_partitions(
    tmp_path: Path, version: int, partitions: PartitionSpec
) -> None:
    model = filled_table(tmp_path, version, partitions=partitions)
    before = len(by_content(model.table)[DATA])
    model.rewrite()
    model.check()
    assert len(by_content(model.table)[DATA]) == before // 2 == (3 if partitions.fields else 1)
    snapshot = model.table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.REPLACE


def test_a_second_rewrite_has_nothing_to_do(tmp_path: Path) -> None:
    table = filled_table(tmp_path, partitions=BY_PART).table
    assert formatkit.rewrite(table).snapshot is not None
    before = table.metadata
    again = formatkit.rewrite(table)
    assert again.snapshot is None
    assert str(again) == "nothing to rewrite: none of 3 files"
    assert table.refresh().metadata == before


@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_and_what_deleted_them_are_gone(tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    model.delete(In("id", [1, 2, 15]), "merge-on-read")
    delete_by_equality(model, [4, 16])
    model.check()
    model.rewrite()
    model.check()
    assert by_content(model.table)[POSITIONS] == []
    assert by_content(model.table)[EQUALITY] == []
    assert sum(file.record_count for file in by_content(model.table)[DATA]) == 15


def test_delete_files_that_others_need_stay(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    delete_by_equality(model, [3, 4, 16])
    model.rewrite(where=EqualTo("part", "a"))
    model.check()
    assert len(by_content(model.table)[EQUALITY]) == 1


def test_delete_files_that_nothing_needs_are_removed(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    delete_by_equality(model, [3])
    model.rewrite(where=LessThan("id", 12))
    model.check()
    assert by_content(model.table)[EQUALITY] == []


def test_rows_of_later_files_are_not_deleted_by_earlier_deletes(tmp_path: Path) -> None:
    """Rows of different ages come into one file, which must not get the age of the oldest."""
    model = filled_table(tmp_path)
    delete_by_equality(model, [3, 16])
    model.append(some_rows(3, 4))
    model.append(some_rows(16, 17))
    model.rewrite(where=LessThan("id", 12))
    model.check()
    model.rewrite()
    model.check()


def test_only_files_that_may_match_are_rewritten(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    result = formatkit.rewrite(model.table, where="part = 'b'")
    assert [len(group.files) for group in result.plan.groups] == [2]
    assert result.added_files == 1
    model.check()


def test_files_of_an_older_spec_move_to_the_current_one(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    with model.table.update_spec() as update:
        update.remove_field("part_0")
        update.add_field("id", BucketTransform(2), "bucket")
    model.rewrite()
    model.check()
    assert {file.spec_id for file in by_content(model.table)[DATA]} == {model.table.spec().spec_id}
    assert len(by_content(model.table)[DATA]) == 2


@pytest.mark.parametrize(("sort", "descending"), [("id", False), (["id desc"], True), (["part", "id"], False)])
def test_rows_are_sorted_within_each_file(tmp_path: Path, sort: Any, descending: bool) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    model.append(some_rows(0, 1))
    model.rewrite(sort=sort)
    model.check()
    read = formatkit.scan(model.table, select=("_file", "id")).to_arrow()
    for file in read["_file"].unique():
        ids: list[Any] = read.filter(pc.equal(read["_file"], file))["id"].to_pylist()
        assert ids == sorted(ids, reverse=descending)


def test_long_files_are_cut(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    result = formatkit.rewrite(model.table, target_file_size=1)
    assert result.added_files > 2
    assert result.added_bytes == sum(file.file_size_in_bytes for file in by_content(model.table)[DATA])
    model.check()


def test_all_files_are_rewritten_if_asked_for(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    formatkit.rewrite(model.table)
    before = by_content(model.table)[DATA]
    model.rewrite(all_files=True)
    model.check()
    assert {file.file_path for file in before}.isdisjoint(f.file_path for f in by_content(model.table)[DATA])


def test_position_deletes_from_before_an_upgrade_are_applied(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    model.delete(In("id", [0, 1, 15]), "merge-on-read")
    upgrade(model)
    model.rewrite()
    model.check_rows()
    assert by_content(model.table)[POSITIONS] == []


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART, file_format="avro")
    model.delete(EqualTo("id", 1), "merge-on-read")
    before, files = model.table.metadata, files_on_disk(model.table)
    result = formatkit.rewrite(model.table, "orc", dry_run=True)
    assert result.snapshot is None
    title, head, *groups = str(result).splitlines()
    assert title == "rewrite 6 of 6 files as orc, about 536,870,912 bytes each"
    assert head.split() == ["partition", "files", "rows", "bytes", "why"]
    assert [line.split()[0] for line in groups] == ["part_0='a'", "part_0='b'", "part_0=None"]
    assert groups[1].endswith("is avro (2), too short (2), deleted rows (1)")
    assert model.table.refresh().metadata == before
    assert files_on_disk(model.table) == files


def test_progress_is_told_until_all_rows_are_read(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    model.delete(EqualTo("id", 1), "merge-on-read")
    calls: list[tuple[int, int]] = []
    formatkit.rewrite(model.table, progress=lambda done, total: calls.append((done, total)))
    assert {total for _, total in calls} == {20}
    assert calls == sorted(calls)
    assert calls[-1] == (20, 20)


def test_a_job_does_not_rewrite_what_it_has_written(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    options: dict[str, Any] = {"sort": "id", "job_id": "by id"}
    first = formatkit.rewrite(model.table, **options)
    assert first.job_id == "by id"
    assert len(first.plan.rewritten) == 6
    assert formatkit.rewrite(model.table, **options).snapshot is None
    assert len(formatkit.rewrite(model.table, sort="id", dry_run=True).plan.rewritten) == 3
    model.delete(EqualTo("id", 1), "merge-on-read")
    model.append(some_rows(21, 22))
    again = formatkit.rewrite(model.table, **options)
    reasons = [(reason, number) for group in again.plan.groups for reason, number in group.reasons.items()]
    assert reasons == [("sort", 1), ("too short", 1), ("deleted rows", 1)]
    model.check()


@pytest.mark.parametrize("version", [2, 3])
def test_work_is_committed_in_parts(tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    model.delete(In("id", [1, 2, 15]), "merge-on-read")
    result = formatkit.rewrite(model.table, "orc", max_commits=2)
    assert [each.parent_snapshot_id for each in result.snapshots][1:] == [result.snapshots[0].snapshot_id]
    assert str(result).endswith("bytes in 2 snapshots")
    model.check()
    assert formats(model.table) == {"orc"}
    assert by_content(model.table)[POSITIONS] == []


def test_what_is_committed_stays_when_another_part_fails(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    damaged = local_path(max(by_content(model.table)[DATA], key=lambda file: str(file.partition)).file_path)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-8] + b"damaged!")
    with pytest.raises(CorruptFileError):
        formatkit.rewrite(model.table, "orc", max_commits=3)
    assert formats(model.table) == {"orc", "parquet"}
    damaged.write_bytes(content)
    model.rewrite(file_format="orc")
    model.check()
    assert formats(model.table) == {"orc"}


@pytest.mark.parametrize("version", [2, 3])
def test_the_format_becomes_the_default(tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version)
    formatkit.rewrite(model.table, "orc", set_default=True, dry_run=True)
    assert "write.format.default" not in model.table.refresh().properties
    model.rewrite(file_format="orc", set_default=True)
    model.append(some_rows(20, 22))
    model.check()
    assert formats(model.table) == {"orc"}


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    with pytest.raises(ColumnNotFoundError):
        formatkit.rewrite(table, where="nobody = 1")
    with pytest.raises(ColumnNotFoundError):
        formatkit.rewrite(table, sort="nobody")
    with pytest.raises(FormatNotRegisteredError):
        formatkit.rewrite(table, "word")
    with pytest.raises(ConfigurationError, match="positive"):
        formatkit.rewrite(table, target_file_size=0)
    with pytest.raises(ConfigurationError, match="at least 1"):
        formatkit.rewrite(table, max_commits=0)
    with pytest.raises(ConfigurationError, match="which format"):
        formatkit.rewrite(table, set_default=True)
