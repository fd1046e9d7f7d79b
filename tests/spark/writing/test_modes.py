"""Overwrites, branches of audits, tables that are made, and schemas that evolve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortDirection
from pyiceberg.transforms import BucketTransform, IdentityTransform, MonthTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from formatkit.errors import ConfigurationError, UnsupportedError
from support.written_tables import data_files, files_on_disk, new_table, spec, table_rows

COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
ROWS = [(i, "abc"[i % 3]) for i in range(30)] + [(None, "a"), (100, None)]
NEW = [(500, "b"), (501, "z")]


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "id bigint, part string").repartition(2)


@pytest.fixture
def new_rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(NEW, "id bigint, part string")


@pytest.fixture(params=["1", "2", "3"])
def table(request: pytest.FixtureRequest, catalog: SqlCatalog, frame: DataFrame) -> Table:
    made = new_table(
        catalog, *COLUMNS, partitions=spec((2, IdentityTransform())), properties={"format-version": request.param}
    )
    formatkit.spark.write(frame, made)
    return made


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


def test_an_overwrite_replaces_everything(new_rows: DataFrame, table: Table) -> None:
    formatkit.spark.write(new_rows, table, "overwrite")
    assert table_rows(table) == in_order(NEW)


def test_an_overwrite_by_a_filter_keeps_the_other_rows(spark: SparkSession, new_rows: DataFrame, table: Table) -> None:
    old = {file.file_path for file in data_files(table)}
    result = formatkit.spark.write(new_rows, table, "overwrite", where="id < 7 or part = 'b'")
    kept = [row for row in ROWS if not (row[1] == "b" or (row[0] is not None and row[0] < 7))]
    assert table_rows(table) == in_order(kept + NEW)
    # The partitions b and null were not copied: the one left by its metadata, and the other has no such row.
    copied = [row for row in kept if row[1] in ("a", "c")]
    assert result.rows == len(copied) + len(NEW)
    assert {file.file_path for file in data_files(table)} & old


def test_rows_that_are_deleted_do_not_come_back(new_rows: DataFrame, table: Table) -> None:
    if table.metadata.format_version == 1:
        pytest.skip("tables of version 1 have no deletes")
    formatkit.delete(table, "id = 12 or id = 3")
    formatkit.spark.write(new_rows, table, "overwrite", where="id < 7")
    kept = [row for row in ROWS if row[0] is None or (row[0] >= 7 and row[0] != 12)]
    assert table_rows(table) == in_order(kept + NEW)


def test_copied_rows_keep_their_lineage(new_rows: DataFrame, table: Table) -> None:
    if table.metadata.format_version < 3:
        pytest.skip("rows have ids from version 3 on")
    columns = ("id", "_row_id", "_last_updated_sequence_number")
    before = {row[0]: row for row in table_rows(table, select=columns)}
    formatkit.spark.write(new_rows, table, "overwrite", where="id < 7")
    after = {row[0]: row for row in table_rows(table, select=columns)}
    assert {key: after[key] for key in before.keys() & after.keys()} == {
        key: before[key] for key in before.keys() & after.keys()
    }


def test_a_filter_that_matches_nothing_is_an_append(new_rows: DataFrame, table: Table) -> None:
    old = {file.file_path for file in data_files(table)}
    formatkit.spark.write(new_rows, table, "overwrite", where="id = 7000")
    assert old < {file.file_path for file in data_files(table)}
    assert table_rows(table) == in_order(ROWS + NEW)


def test_partitions_with_new_rows_are_replaced(new_rows: DataFrame, table: Table) -> None:
    formatkit.spark.write(new_rows, table, "overwrite-partitions")
    assert table_rows(table) == in_order([row for row in ROWS if row[1] != "b"] + NEW)


def test_a_table_can_be_overwritten_with_its_own_rows(spark: SparkSession, table: Table) -> None:
    own = formatkit.spark.read(spark, table).selectExpr("id + 1 as id", "part")
    formatkit.spark.write(own, table, "overwrite")
    assert table_rows(table) == in_order([(None if row[0] is None else row[0] + 1, row[1]) for row in ROWS])


def test_partitions_of_an_older_spec_are_refused_and_no_file_is_left(new_rows: DataFrame, table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(2), "bucket")
    before = files_on_disk(table)
    with pytest.raises(UnsupportedError, match="older spec"):
        formatkit.spark.write(new_rows, table, "overwrite-partitions")
    assert files_on_disk(table) == before


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Settings of the session that a test adds to, and that are gone afterwards."""
    names: dict[str, str] = {}
    yield names
    for name in names:
        spark.conf.unset(name)


def configure(spark: SparkSession, settings: dict[str, str], **values: str) -> None:
    for key, value in values.items():
        name = "spark." + key.replace("_", ".")
        settings[name] = value
        spark.conf.set(name, value)


def test_a_wap_id_stages_the_snapshot(
    spark: SparkSession, settings: dict[str, str], catalog: SqlCatalog, frame: DataFrame, new_rows: DataFrame
) -> None:
    table = new_table(catalog, *COLUMNS, properties={"write.wap.enabled": "true"})
    formatkit.spark.write(frame, table)
    head = table.current_snapshot()
    configure(spark, settings, wap_id="audit 1")
    result = formatkit.spark.write(new_rows, table, idempotency_key="k")
    assert result.snapshot is not None
    assert result.snapshot.summary is not None
    assert result.snapshot.summary.additional_properties["wap.id"] == "audit 1"
    assert table.refresh().current_snapshot() == head
    assert table_rows(table) == in_order(ROWS)
    assert table_rows(table, snapshot_id=result.snapshot.snapshot_id) == in_order(ROWS + NEW)
    assert formatkit.spark.write(new_rows, table, idempotency_key="k").repeated
    with pytest.raises(ConfigurationError, match=r"spark\.wap\.id"):
        formatkit.spark.write(new_rows, table, branch="other")


def test_a_wap_branch_takes_the_rows(
    spark: SparkSession, settings: dict[str, str], catalog: SqlCatalog, frame: DataFrame, new_rows: DataFrame
) -> None:
    table = new_table(catalog, *COLUMNS, properties={"write.wap.enabled": "true"})
    formatkit.spark.write(frame, table)
    configure(spark, settings, wap_branch="audit")
    formatkit.spark.write(new_rows, table)
    assert table_rows(table) == in_order(ROWS)
    assert table_rows(table, snapshot_id=table.metadata.refs["audit"].snapshot_id) == in_order(ROWS + NEW)


def test_wap_settings_do_not_touch_other_tables(
    spark: SparkSession, settings: dict[str, str], catalog: SqlCatalog, frame: DataFrame
) -> None:
    table = new_table(catalog, *COLUMNS)
    configure(spark, settings, wap_id="audit 1")
    formatkit.spark.write(frame, table)
    assert table_rows(table) == in_order(ROWS)


def test_a_missing_table_is_made_on_request(
    spark: SparkSession, settings: dict[str, str], tmp_path: Path, catalog: SqlCatalog
) -> None:
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": (tmp_path / "warehouse").as_uri()}
    for name, value in where.items():
        settings[f"spark.formatkit.catalog.test.{name}"] = value
        spark.conf.set(f"spark.formatkit.catalog.test.{name}", value)
    frame = spark.sql("select id, timestamp'2020-03-01 00:00:00' at, named_struct('a', 1) as inner from range(5)")
    with pytest.raises(ConfigurationError, match="create=True"):
        formatkit.spark.write(frame, "test.db.made")
    for _ in range(2):
        formatkit.spark.write(
            frame, "test.db.made", create=True, partition_by=("months(at)", "bucket(4, id)"), sort_by="id desc"
        )
    table = catalog.load_table("db.made")
    assert formatkit.scan(table).count() == 10
    assert [str(field.transform) for field in table.spec().fields] == ["month", "bucket[4]"]
    assert isinstance(table.spec().fields[0].transform, MonthTransform)
    assert [field.name for field in table.spec().fields] == ["at_month", "id_bucket"]
    assert table.sort_order().fields[0].direction == SortDirection.DESC
