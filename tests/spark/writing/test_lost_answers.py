"""A catalog that loses its answers: nothing is deleted that may be in the table, and nothing is written twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyspark.sql import SparkSession

import formatkit.spark
from formatkit.errors import CatalogError, CommitStateUnknownError
from support.losing_catalog import LosingCatalog, new_losing_catalog
from support.written_tables import data_files, files_on_disk, new_table, table_rows

ROWS = [(i,) for i in range(10)]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[LosingCatalog]:
    made = new_losing_catalog(tmp_path)
    made.create_namespace("db")
    yield made
    made.close()


@pytest.fixture
def table(catalog: LosingCatalog) -> Table:
    return new_table(catalog, NestedField(1, "id", LongType()))


def lose(catalog: LosingCatalog, applied: str, *, silent: bool) -> None:
    catalog.error = requests.ReadTimeout("no answer")
    catalog.applied = applied  # type: ignore[assignment]
    catalog.silent_afterwards = silent


def test_an_answer_that_got_lost_after_the_commit_is_a_success(
    spark: SparkSession, catalog: LosingCatalog, table: Table
) -> None:
    lose(catalog, "now", silent=False)
    result = formatkit.spark.write(spark.range(0, 10, 1, 2), table)
    assert result.snapshot == table.current_snapshot()
    assert table_rows(table) == ROWS


@pytest.mark.parametrize("applied", ["never", "now", "later"])
def test_a_job_whose_commit_is_in_doubt_is_run_again_with_its_key(
    spark: SparkSession, catalog: LosingCatalog, table: Table, applied: str
) -> None:
    lose(catalog, applied, silent=True)
    with pytest.raises(CommitStateUnknownError):
        formatkit.spark.write(spark.range(0, 10, 1, 2), table, idempotency_key="batch 1")
    kept = files_on_disk(table)
    assert len(kept) == 2
    catalog.unreachable = False
    if applied == "later":
        catalog.deliver()
    again = formatkit.spark.write(spark.range(0, 10, 1, 2), table, idempotency_key="batch 1")
    assert again.repeated == (applied != "never")
    assert table_rows(table.refresh()) == ROWS
    assert len(table.metadata.snapshots) == 1
    assert {Path(file.file_path).name for file in data_files(table)} <= {path.name for path in files_on_disk(table)}
    assert set(kept) <= set(files_on_disk(table))


def test_a_commit_that_is_refused_leaves_no_file(spark: SparkSession, catalog: LosingCatalog, table: Table) -> None:
    catalog.error = NotImplementedError("not by me")
    with pytest.raises(CatalogError, match="not by me"):
        formatkit.spark.write(spark.range(0, 10, 1, 2), table)
    assert files_on_disk(table) == []
