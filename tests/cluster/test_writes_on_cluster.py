"""Attempts that fail, die or lose cost time: no row is missing or there twice, and no file is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.jobs import run_tasks
from formatkit.spark.writing.task import WriteTask
from support.doomed_tasks import Doom, DoomedTask
from support.written_tables import data_files, files_on_disk, new_table, table_rows

ROWS = 1000


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    yield new_table(catalog, NestedField(1, "id", LongType()))
    catalog.close()


@pytest.mark.parametrize(("doom", "attempts"), [("kill worker", 1), ("raise", 3), ("dawdle", 1)])
def test_only_winning_attempts_are_committed(spark: SparkSession, table: Table, doom: Doom, attempts: int) -> None:
    job = WriteJob(table, speculation=True)
    task = DoomedTask(**_values(job.task), doom=doom, attempts=attempts)
    messages = run_tasks(spark.range(0, ROWS, 1, 4), task)
    assert [message.retried for message in sorted(messages, key=lambda each: each.partition)].count(True) == 1
    assert len(files_on_disk(table)) == 4 + attempts
    job.commit(messages, job.append)
    assert table_rows(table) == [(i,) for i in sorted(range(ROWS), key=lambda i: repr((i,)))]
    assert {path.name for path in files_on_disk(table)} == {Path(file.file_path).name for file in data_files(table)}


def test_a_task_that_never_succeeds_leaves_the_table_as_it_was(spark: SparkSession, table: Table) -> None:
    formatkit.spark.write(spark.range(0, 10, 1, 2), table)
    before = files_on_disk(table)
    job = WriteJob(table)
    task = DoomedTask(**_values(job.task), doom="raise", attempts=100)
    with pytest.raises(Exception, match="planted"):
        run_tasks(spark.range(0, ROWS, 1, 4), task)
    assert len(files_on_disk(table)) > len(before)
    job.abort()
    assert files_on_disk(table) == before
    assert len(table_rows(table.refresh())) == 10


def _values(task: WriteTask) -> dict[str, Any]:
    return {field.name: getattr(task, field.name) for field in fields(task)}
