"""New rows take the place of those that match, in one snapshot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, Or
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, IdentityTransform

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, SchemaResolutionError, UnsupportedError
from formatkit.tck.rows import to_arrow
from support.filters import EqualTo, GreaterThan, IsNull, LessThan, NotEqualTo
from support.iceberg_tables import remove_data_files
from support.modelled_table import ModelledTable, new_table
from support.operated_tables import BY_BUCKET, BY_PART, PART, SCHEMA, VALUE, filled_table, some_rows
from support.written_tables import ALL_FORMATS, files_on_disk, spec


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize("version", [1, 3])
def test_rows_are_replaced_in_files_of_each_format(tmp_path: Path, file_format: str, version: int) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART, file_format=file_format)
    model.overwrite(some_rows(30, 33), Or(LessThan("id", 5), EqualTo("part", "b")), file_format)
    model.check(NotEqualTo("value", 0.5))
    model.overwrite(some_rows(40, 42), None, file_format)
    model.check()
    assert len(model.rows) == 2


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("partitions", [UNPARTITIONED_PARTITION_SPEC, BY_PART, BY_BUCKET])
def test_rows_are_replaced_in_tables_of_each_partitioning(
    tmp_path: Path, version: int, partitions: PartitionSpec
) -> None:
    model = filled_table(tmp_path, version, partitions=partitions)
    for number, where in enumerate([EqualTo("id", 3), And(LessThan("id", 15), IsNull("list")), GreaterThan("id", 25)]):
        snapshot = model.overwrite(some_rows(20 + 5 * number, 23 + 5 * number), where)
        assert snapshot == model.table.current_snapshot()
        model.check()


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_were_deleted_do_not_come_back(tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version)
    model.delete(LessThan("id", 4), "merge-on-read")
    model.overwrite(some_rows(30, 31), EqualTo("id", 7))
    model.check()


def test_all_rows_are_replaced_without_opening_a_file(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    remove_data_files(model.table)
    model.overwrite(some_rows(30, 33))
    model.check()


def test_the_operation_says_what_happened(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    data, nothing = to_arrow(SCHEMA, some_rows(30, 33)), to_arrow(SCHEMA, [])
    operations = []
    for rows, where in [(data, "id < 3"), (data, "id > 1000"), (nothing, "id >= 12"), (nothing, "id = 4")]:
        snapshot = formatkit.overwrite(model.table, rows, where)
        assert snapshot is not None
        assert snapshot.summary is not None
        operations.append(snapshot.summary.operation)
    assert operations == [Operation.OVERWRITE, Operation.APPEND, Operation.DELETE, Operation.OVERWRITE]


def test_nothing_is_committed_if_no_row_comes_and_none_goes(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    before, files = table.metadata, files_on_disk(table)
    assert formatkit.overwrite(table, to_arrow(SCHEMA, []), "id = 1000") is None
    assert table.refresh().metadata == before
    assert files_on_disk(table) == files


def test_data_that_does_not_fit_leaves_everything_as_it_was(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    files = files_on_disk(model.table)
    with pytest.raises(SchemaResolutionError):
        formatkit.overwrite(model.table, pa.table({"id": [1], "other": [2]}))
    with pytest.raises(ColumnNotFoundError):
        formatkit.overwrite(model.table, to_arrow(SCHEMA, some_rows(0, 1)), "other = 2")
    assert files_on_disk(model.table) == files
    model.check()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("source", [PART, VALUE])
def test_whole_partitions_are_replaced(tmp_path: Path, version: int, source: int) -> None:
    """Null, what looks like it, NaN and negative zero are partitions like others."""
    model = ModelledTable(new_table(tmp_path, SCHEMA, version=version, spec=spec((source, IdentityTransform()))))
    model.append([*some_rows(0, 20), {**some_rows(20, 21)[0], PART: "None"}])
    new = [row for row in some_rows(40, 50) if repr(row[source]) in ("'a'", "None", "nan", "-0.0")]
    formatkit.overwrite(model.table, to_arrow(SCHEMA, new), partitions=True)
    gone = {repr(row[source]) for row in new}
    assert {repr(row[source]) for row in model.rows} > gone
    expected = [row for row in model.rows if repr(row[source]) not in gone] + new
    model.holds(expected)
    model.check_rows()


def test_without_partitions_all_rows_are_replaced(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    new = some_rows(40, 42)
    formatkit.overwrite(model.table, to_arrow(SCHEMA, new), partitions=True)
    model.holds(new)
    model.check_rows()


def test_partitions_are_not_replaced_while_files_of_an_older_spec_may_have_rows_of_them(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    with model.table.update_spec() as update:
        update.add_field("id", BucketTransform(2), "bucket")
    files = files_on_disk(model.table)
    with pytest.raises(UnsupportedError, match="rewrite the table first"):
        formatkit.overwrite(model.table, to_arrow(SCHEMA, some_rows(30, 33)), partitions=True)
    assert files_on_disk(model.table) == files
    formatkit.rewrite(model.table)
    assert formatkit.overwrite(model.table, to_arrow(SCHEMA, some_rows(30, 33)), partitions=True) is not None


def test_a_filter_and_partitions_are_not_taken_together(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    with pytest.raises(ConfigurationError, match="either a filter or partitions"):
        formatkit.overwrite(table, to_arrow(SCHEMA, []), "id = 1", partitions=True)


def test_a_branch_is_changed_and_the_main_branch_is_not(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    snapshot = formatkit.overwrite(model.table, to_arrow(SCHEMA, some_rows(30, 33)), "id < 15", branch="other")
    assert snapshot is not None
    model.check()
    assert formatkit.scan(model.table, snapshot_id=snapshot.snapshot_id).count() == 8
