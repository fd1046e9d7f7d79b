"""`formatkit.spark.write`: rows, names of files, summaries, and what a repeated write does."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import CommitConflictError, ConfigurationError, InternalError
from formatkit.spark.writing.commit import FILES_ID, WRITE_ID, WriteJob
from formatkit.spark.writing.jobs import run_tasks
from formatkit.write.orphans.names import is_data_name
from support.written_tables import ALL_FORMATS, data_files, files_on_disk, new_table, spec, table_rows

COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
ROWS = [(i, "abc"[i % 3]) for i in range(30)]


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return new_table(catalog, *COLUMNS)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return rows_of(spark, ROWS)


def rows_of(spark: SparkSession, rows: list[tuple[Any, ...]], columns: str = "id bigint, part string") -> DataFrame:
    return spark.createDataFrame(rows, columns).repartition(3)


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_rows_are_appended_in_every_format(frame: DataFrame, table: Table, file_format: str) -> None:
    result = formatkit.spark.write(frame, table, file_format=file_format)
    assert table_rows(table) == sorted(ROWS, key=repr)
    assert (result.rows, result.files) == (len(ROWS), len(files_on_disk(table)))
    assert result.bytes == sum(path.stat().st_size for path in files_on_disk(table))
    assert result.snapshot == table.current_snapshot()
    assert {path.suffix for path in files_on_disk(table)} == {f".{file_format}"}


def test_files_are_named_by_partition_attempt_and_write(frame: DataFrame, table: Table) -> None:
    formatkit.spark.write(frame, table)
    names = [path.name for path in files_on_disk(table)]
    found = [re.fullmatch(r"(\d{5})-(\d+)-([0-9a-f-]{36})-(\d{5})\.parquet", name) for name in names]
    assert len({match[3] for match in found if match}) == 1
    assert {match[1] for match in found if match} == {"00000", "00001", "00002"}
    assert all(map(is_data_name, names))  # so that clean_orphans knows what an attempt leaves that was killed


def test_the_summary_says_who_wrote(spark: SparkSession, frame: DataFrame, table: Table) -> None:
    result = formatkit.spark.write(frame, table, snapshot_properties={"reason": "test"}, idempotency_key="day 7")
    assert result.snapshot is not None
    assert result.snapshot.summary is not None
    said = result.snapshot.summary.additional_properties
    assert said["engine-name"] == "spark"
    assert said["engine-version"] == spark.version
    assert said["spark.app.id"] == spark.sparkContext.applicationId
    assert said["reason"] == "test"
    assert said[WRITE_ID] == "day 7"
    assert f"-{said[FILES_ID]}-" in files_on_disk(table)[0].name


def test_a_frame_without_rows_commits_nothing(frame: DataFrame, table: Table) -> None:
    result = formatkit.spark.write(frame.filter("id < 0"), table)
    assert (result.snapshot, result.rows, result.files) == (None, 0, 0)
    assert table.current_snapshot() is None


def test_a_write_with_the_same_key_commits_once(frame: DataFrame, table: Table) -> None:
    first = formatkit.spark.write(frame, table, idempotency_key="batch 1")
    formatkit.spark.write(frame, table, idempotency_key="batch 2")
    again = formatkit.spark.write(frame, table, idempotency_key="batch 1")
    assert again.repeated
    assert again.snapshot == first.snapshot
    assert len(table_rows(table)) == 2 * len(ROWS)


def test_a_write_whose_key_was_committed_meanwhile_removes_its_files(frame: DataFrame, table: Table) -> None:
    slow, fast = (WriteJob(table, idempotency_key="batch 1", speculation=False) for _ in range(2))
    messages = run_tasks(frame, slow.task)
    first = fast.commit(run_tasks(frame, fast.task), fast.append)
    assert slow.commit(messages, slow.append) == first
    assert len(table_rows(table)) == len(ROWS)
    assert {path.name for path in files_on_disk(table)} == {Path(file.file_path).name for file in data_files(table)}


def test_a_key_is_looked_for_again_when_a_commit_is_tried_again(
    frame: DataFrame, table: Table, catalog: SqlCatalog
) -> None:
    other = catalog.load_table("db.written")
    slow, fast = (WriteJob(each, idempotency_key="batch 1", speculation=False) for each in (table, other))
    messages, others = run_tasks(frame, slow.task), run_tasks(frame, fast.task)

    def commit_in_between(files: Any) -> Any:
        fast.commit(others, fast.append)
        return slow.append(files)

    slow.commit(messages, commit_in_between)
    assert len(table_rows(table.refresh())) == len(ROWS)
    assert len(files_on_disk(table)) == len(data_files(table))


def test_a_missing_message_is_refused(frame: DataFrame, table: Table) -> None:
    job = WriteJob(table, speculation=False)
    messages = run_tasks(frame, job.task)
    with pytest.raises(InternalError, match="reported None"):
        job.commit([*messages[:1], None, *messages[2:]], job.append)
    assert table.refresh().current_snapshot() is None


def test_files_that_no_message_reports_are_removed(frame: DataFrame, table: Table) -> None:
    job = WriteJob(table, speculation=True)
    messages = run_tasks(frame, job.task)
    loser = run_tasks(frame, job.task)  # as attempts that lost against others
    other = WriteJob(table, speculation=False)
    run_tasks(frame, other.task)
    assert loser[0].files
    job.commit(messages, job.append)
    left = [path.name for path in files_on_disk(table)]
    assert sum(f"-{job.write_id}-" in name for name in left) == len(data_files(table))
    assert sum(f"-{other.write_id}-" in name for name in left) == 3
    assert table_rows(table) == sorted(ROWS, key=repr)


def test_a_job_that_fails_leaves_the_table_and_no_file(spark: SparkSession, frame: DataFrame, table: Table) -> None:
    formatkit.spark.write(frame, table)
    before = files_on_disk(table)
    bad = frame.selectExpr("if(id = 29, raise_error('planted'), id) id", "part").repartition(3)
    with pytest.raises(Exception, match="planted"):
        formatkit.spark.write(bad, table)
    assert files_on_disk(table) == before
    assert table_rows(table.refresh()) == sorted(ROWS, key=repr)


def test_an_abort_after_a_commit_deletes_nothing(frame: DataFrame, table: Table) -> None:
    job = WriteJob(table, speculation=False)
    messages = run_tasks(frame, job.task)
    job.commit(messages, job.append)
    same = WriteJob(table, write_id=job.write_id)  # as Spark's process for aborts has it
    same.abort(messages)
    same.abort([*messages[:2], None])
    same.abort()
    assert table_rows(table) == sorted(ROWS, key=repr)


def test_an_abort_removes_the_files_of_the_write_and_no_others(frame: DataFrame, table: Table) -> None:
    formatkit.spark.write(frame, table)
    before = files_on_disk(table)
    job = WriteJob(table)
    messages = run_tasks(frame, job.task)
    WriteJob(table, write_id=job.write_id).abort([*messages[:2], None])
    assert files_on_disk(table) == before


def test_an_abort_deletes_nothing_if_the_catalog_is_silent(
    frame: DataFrame, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    job = WriteJob(table)
    run_tasks(frame, job.task)
    before = files_on_disk(table)
    table.catalog.drop_table("db.written")
    with caplog.at_level(logging.WARNING):
        job.abort()
    assert files_on_disk(table) == before
    assert "stay" in caplog.text


def test_rows_of_a_partitioned_and_sorted_table(spark: SparkSession, catalog: SqlCatalog, frame: DataFrame) -> None:
    table = new_table(
        catalog,
        *COLUMNS,
        partitions=spec((2, IdentityTransform()), (1, BucketTransform(4))),
        sort_order=SortOrder(SortField(source_id=1, transform=IdentityTransform())),
    )
    formatkit.spark.write(frame, table)
    assert table_rows(table) == sorted(ROWS, key=repr)
    assert all(file.sort_order_id == table.sort_order().order_id for file in data_files(table))
    for file in data_files(table):
        ids: list[Any] = formatkit.read_file(file.file_path).to_arrow()["id"].to_pylist()
        assert ids == sorted(ids)


def test_a_branch_is_written_to(frame: DataFrame, table: Table) -> None:
    formatkit.spark.write(frame, table)
    formatkit.spark.write(frame, table, branch="audit")
    assert len(table_rows(table)) == len(ROWS)
    head = table.metadata.refs["audit"].snapshot_id
    assert len(table_rows(table, snapshot_id=head)) == 2 * len(ROWS)


@pytest.mark.parametrize("given", [{"mode": "replace"}, {"where": "id = 1"}, {"partition_by": "part"}])
def test_arguments_that_do_not_fit_together_are_refused(frame: DataFrame, table: Table, given: Any) -> None:
    with pytest.raises(ConfigurationError):
        formatkit.spark.write(frame, table, **given)


def test_unknown_options_name_the_nearest(frame: DataFrame, table: Table) -> None:
    with pytest.raises(ConfigurationError, match="did you mean distribution-mode"):
        formatkit.spark.write(frame, table, distribution_mod="hash")


def test_an_overwrite_that_others_contradict_leaves_no_file(
    frame: DataFrame, table: Table, catalog: SqlCatalog
) -> None:
    formatkit.spark.write(frame, table)
    read = table.current_snapshot()
    assert read is not None
    formatkit.spark.write(frame, catalog.load_table("db.written"))
    table.refresh()
    before = files_on_disk(table)
    with pytest.raises(CommitConflictError):
        formatkit.spark.write(frame, table, "overwrite", validate_from_snapshot_id=read.snapshot_id)
    assert files_on_disk(table) == before
    formatkit.spark.write(
        frame, table, "overwrite", validate_from_snapshot_id=read.snapshot_id, isolation_level="snapshot"
    )
    assert table_rows(table) == sorted(ROWS, key=repr)
