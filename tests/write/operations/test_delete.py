"""Rows that match are gone and all others stay, in each format and version, whatever became of the table before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import AlwaysTrue, And, Or
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, InvalidPredicateError, UnsupportedError
from formatkit.write.operations import Mode
from support.filters import EqualTo, GreaterThan, GreaterThanOrEqual, In, IsNaN, IsNull, LessThan, NotEqualTo
from support.iceberg_tables import remove_data_files
from support.modelled_table import ModelledTable, new_table
from support.operated_tables import (
    BY_BUCKET,
    BY_PART,
    ID,
    SCHEMA,
    by_content,
    delete_by_equality,
    filled_table,
    some_rows,
    upgrade,
)
from support.written_tables import ALL_FORMATS, files_on_disk

MERGE: Mode = "merge-on-read"
COPY: Mode = "copy-on-write"
WAYS: list[tuple[int, Mode]] = [(1, COPY), (2, MERGE), (2, COPY), (3, MERGE), (3, COPY)]
DATA, DELETES = DataFileContent.DATA, DataFileContent.POSITION_DELETES


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_rows_are_deleted_from_files_of_each_format(tmp_path: Path, file_format: str, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART, file_format=file_format)
    model.delete(In("id", [1, 5, 13]), mode, file_format=file_format)
    model.check(GreaterThan("id", 4))
    model.delete(Or(NotEqualTo("value", 0.5), EqualTo("part", "b")), mode, file_format=file_format)
    model.check(IsNull("part"))
    assert model.rows
    for snapshot_id in model.snapshot_ids:
        model.check_snapshot(snapshot_id)


@pytest.mark.parametrize(("version", "mode"), WAYS)
@pytest.mark.parametrize("partitions", [UNPARTITIONED_PARTITION_SPEC, BY_PART, BY_BUCKET])
def test_rows_are_deleted_from_tables_of_each_partitioning(
    tmp_path: Path, version: int, mode: Mode, partitions: PartitionSpec
) -> None:
    model = filled_table(tmp_path, version, partitions=partitions)
    filters = [EqualTo("id", 3), IsNaN("value"), And(LessThan("id", 15), IsNull("list")), NotEqualTo("part", "a")]
    for where in (*filters, AlwaysTrue()):
        assert model.rows
        snapshot = model.delete(where, mode)
        assert snapshot is not None
        assert snapshot == model.table.current_snapshot()
        model.check()
    assert by_content(model.table) == {content: [] for content in DataFileContent}


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_rows_are_deleted_after_the_schema_and_the_spec_evolved(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    with model.table.update_schema() as schema:
        schema.add_column("added", LongType())
        schema.rename_column("value", "old value")
    with model.table.update_spec() as update:
        update.remove_field("part_0")
        update.add_field("id", BucketTransform(2), "bucket")
    model.evolved()
    model.append([{**row, 6: row[ID]} for row in some_rows(20, 30)], "orc")
    model.delete(Or(IsNaN("old value"), EqualTo("added", 23)), mode)
    model.check(IsNull("added"))
    model.delete(LessThan("id", 4), mode)
    model.check()


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_files_of_which_all_rows_match_are_not_opened(tmp_path: Path, mode: Mode) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    remove_data_files(model.table)
    snapshot = formatkit.delete(model.table, "part = 'a' or id >= 12", mode)
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.DELETE
    assert {file.partition[0] for file in by_content(model.table)[DATA]} == {"b", None}
    assert by_content(model.table)[DELETES] == []


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_files_of_which_all_rows_turn_out_to_match_are_removed(tmp_path: Path, version: int, mode: Mode) -> None:
    model = ModelledTable(new_table(tmp_path, SCHEMA, version=version))
    model.append(some_rows(0, 3))
    model.append(some_rows(3, 9))
    snapshot = model.delete(In("id", [0, 1, 2]), mode)
    model.check()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.operation is Operation.DELETE
    assert len(by_content(model.table)[DATA]) == 1
    assert by_content(model.table)[DELETES] == []


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_nothing_is_committed_or_written_if_nothing_matches(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version)
    before, files = model.table.metadata, files_on_disk(model.table)
    for where in ("id = 100", "id = 7 and part = 'a'", "value = 0.25"):
        assert formatkit.delete(model.table, where, mode) is None
    assert model.table.metadata == before
    assert model.table.refresh().metadata == before
    assert files_on_disk(model.table) == files


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_an_empty_table_has_nothing_to_delete(tmp_path: Path, version: int, mode: Mode) -> None:
    table = new_table(tmp_path, SCHEMA, version=version)
    assert formatkit.delete(table, AlwaysTrue(), mode) is None


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_what_is_deleted_is_not_deleted_again(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version)
    assert model.delete(LessThan("id", 3), mode) is not None
    assert model.delete(LessThan("id", 3), mode) is None
    model.check()


@pytest.mark.parametrize(("granularity", "delete_files"), [("partition", 3), ("file", 6)])
def test_delete_files_are_made_for_each_partition_or_for_each_file(
    tmp_path: Path, granularity: str, delete_files: int
) -> None:
    model = filled_table(tmp_path, partitions=BY_PART, write_delete_granularity=granularity)
    model.delete(GreaterThanOrEqual("value", 0.0), MERGE)
    model.check()
    deletes = by_content(model.table)[DELETES]
    assert len(deletes) == delete_files
    assert [file.spec_id for file in deletes] == [model.table.spec().spec_id] * delete_files


def test_an_unknown_granularity_is_refused(tmp_path: Path) -> None:
    model = filled_table(tmp_path, write_delete_granularity="row")
    with pytest.raises(ConfigurationError, match=r"write\.delete\.granularity.*'row'"):
        formatkit.delete(model.table, "id = 1")


def test_delete_files_have_the_format_that_the_table_asks_for(tmp_path: Path) -> None:
    model = filled_table(tmp_path, write_delete_format_default="avro", write_format_default="orc")
    model.delete(EqualTo("id", 1), MERGE)
    (deletes,) = by_content(model.table)[DELETES]
    assert str(deletes.file_format).upper().endswith("AVRO")
    model.check()


def test_each_data_file_has_one_deletion_vector(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 3, partitions=BY_PART)
    for id_ in (0, 3, 6):
        model.delete(EqualTo("id", id_), MERGE)
        model.check()
    (vector,) = by_content(model.table)[DELETES]
    assert vector.record_count == 3
    assert vector.partition[0] == "a"


def test_a_file_goes_with_the_vector_that_deletes_its_last_row(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 3)
    for first in (0, 6):
        model.delete(In("id", list(range(first, first + 6))), MERGE)
        model.check()
    assert len(by_content(model.table)[DATA]) == 1
    assert by_content(model.table)[DELETES] == []


def test_a_branch_is_changed_and_the_main_branch_is_not(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    snapshot = formatkit.delete(model.table, "id < 15", COPY, branch="other")
    again = formatkit.delete(model.table, "id = 19", MERGE, branch="other")
    assert snapshot is not None
    assert again is not None
    model.check()
    assert formatkit.scan(model.table, snapshot_id=snapshot.snapshot_id).count() == 5
    assert formatkit.scan(model.table, snapshot_id=again.snapshot_id).count() == 4
    assert again.parent_snapshot_id == snapshot.snapshot_id


def test_the_summary_says_what_the_caller_says(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    snapshot = formatkit.delete(model.table, "id < 4", snapshot_properties={"ticket": "17"})
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["ticket"] == "17"
    assert snapshot.summary["added-position-deletes"] == "4"


def test_version_1_is_refused_with_advice(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 1)
    with pytest.raises(UnsupportedError, match="copy-on-write"):
        formatkit.delete(model.table, "id = 1")


def test_wrong_arguments_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    remove_data_files(table)
    with pytest.raises(ConfigurationError, match="merge-on-read"):
        formatkit.delete(table, "id = 1", "in-place")  # type: ignore[arg-type]
    with pytest.raises(ColumnNotFoundError):
        formatkit.delete(table, "nobody = 1")
    with pytest.raises(ColumnNotFoundError):
        formatkit.delete(table, "ID = 1")
    with pytest.raises(InvalidPredicateError):
        formatkit.delete(table, "id = 'one'")


def test_names_may_be_given_in_any_case(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    assert formatkit.delete(table, "ID = 1", case_sensitive=False) is not None
    assert formatkit.scan(table).count() == 19


def test_a_column_that_hides_a_metadata_column_is_refused(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    with model.table.update_schema() as schema:
        schema.add_column("_pos", LongType())
    with pytest.raises(UnsupportedError, match="'_pos'"):
        formatkit.delete(model.table, "id = 1")


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_position_deletes_from_before_an_upgrade_are_taken_over(tmp_path: Path, mode: Mode) -> None:
    model = filled_table(tmp_path, 2, partitions=BY_PART, write_delete_granularity="partition")
    model.delete(In("id", [0, 1, 15]), MERGE)
    upgrade(model)
    model.delete(In("id", [3, 4]), mode)
    model.check_rows()
    model.delete(In("id", [6, 18]), mode)
    model.check_rows()


@pytest.mark.parametrize("mode", [MERGE, COPY])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_equality_deletes_removed_stay_away(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    delete_by_equality(model, [2, 3, 14])
    model.check()
    model.delete(In("id", [3, 4, 5]), mode)
    model.check()
    model.append(some_rows(3, 5))
    model.check()
    model.delete(EqualTo("id", 4), mode)
    model.check()
