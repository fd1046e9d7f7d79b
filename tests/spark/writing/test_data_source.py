"""``df.write.format("formatkit")``."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from formatkit.spark.datasource.writer import TableSink, Written, sink_for
from formatkit.spark.writing.commit import FILES_ID, WRITE_ID
from support.written_tables import data_files, files_on_disk, new_table, spec, table_rows

COLUMNS = (NestedField(1, "id", LongType(), required=True), NestedField(2, "part", StringType()))
ROWS = [(i, "abc"[i % 3]) for i in range(30)]


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return new_table(catalog, *COLUMNS, partitions=spec((2, IdentityTransform())))


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, "id bigint, part string").repartition(2)


def options_of(tmp_path: Path) -> dict[str, str]:
    return {
        "catalog": "test",
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalog.warehouse": (tmp_path / "warehouse").as_uri(),
    }


def writer(df: DataFrame, tmp_path: Path, mode: str = "append", **options: str) -> DataFrameWriter:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return df.write.format("formatkit").mode(mode).options(**options_of(tmp_path), **named)


def test_rows_are_appended_and_replaced(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    writer(frame, tmp_path).save("db.written")
    writer(frame, tmp_path, write_format="orc").option("snapshot-property.reason", "test").save("db.written")
    assert len(table_rows(table.refresh())) == 2 * len(ROWS)
    assert {path.suffix for path in files_on_disk(table)} == {".parquet", ".orc"}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties["reason"] == "test"
    assert snapshot.summary.additional_properties["engine-name"] == "spark"
    writer(frame.filter("id < 5"), tmp_path, "overwrite").save("db.written")
    assert table_rows(table.refresh()) == sorted(ROWS[:5], key=repr)


def test_partitions_are_replaced_dynamically(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    writer(frame, tmp_path).save("db.written")
    writer(frame.filter("id = 1"), tmp_path, "overwrite", overwrite_mode="dynamic").save("db.written")
    assert table_rows(table.refresh()) == sorted([row for row in ROWS if row[1] != "b" or row[0] == 1], key=repr)


def test_a_key_is_committed_once(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    for _ in range(2):
        writer(frame, tmp_path, idempotency_key="batch").save("db.written")
    assert len(table.refresh().metadata.snapshots) == 1
    assert len(files_on_disk(table)) == len(data_files(table))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"write_formt": "orc"}, "did you mean write-format"),
        ({"distribution_mode": "hash"}, "no data source of Python shuffle"),
        ({"filter": "id = 1"}, "formatkit.spark.write"),
        ({"overwrite_mode": "quick"}, "static or dynamic"),
    ],
)
def test_options_that_cannot_be_had_are_errors(
    tmp_path: Path, frame: DataFrame, table: Table, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        writer(frame, tmp_path, **options).save("db.written")


@pytest.mark.parametrize(
    ("select", "message"),
    [
        (["id", "part", "1 as more"], "'more'"),
        (["part"], "'id' is required"),
        (["cast(id as string) id", "part"], "not written as long"),
        (["ID", "part"], "'ID'"),
    ],
)
def test_columns_that_do_not_fit_are_errors_before_anything_is_written(
    tmp_path: Path, frame: DataFrame, table: Table, select: list[str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        writer(frame.selectExpr(*select), tmp_path).save("db.written")
    assert not (tmp_path / "warehouse" / "db" / "written" / "data").exists()


def test_the_schema_is_merged_on_request(tmp_path: Path, spark: SparkSession, catalog: SqlCatalog) -> None:
    table = new_table(catalog, NestedField(1, "id", IntegerType()))
    frame = spark.createDataFrame([(2**40, "new")], "id bigint, word string")
    writer(frame, tmp_path, merge_schema="true").save("db.written")
    assert table_rows(table.refresh()) == [(2**40, "new")]


def test_a_failed_task_leaves_the_table_as_it_was(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    writer(frame, tmp_path).save("db.written")
    bad = frame.selectExpr("if(id = 29, raise_error('planted'), id) id", "part")
    with pytest.raises(PySparkException, match="planted"):
        writer(bad, tmp_path).save("db.written")
    assert table_rows(table.refresh()) == sorted(ROWS, key=repr)
    assert len(files_on_disk(table)) == len(data_files(table))


def test_an_abort_after_a_commit_that_raised_deletes_nothing(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    sink = sink_for({"path": "db.written", **options_of(tmp_path)}, {}, frame.schema, False)
    messages = [sink.write(iter(frame.toArrow().to_batches()))]
    sink.commit(messages)
    sink.abort(messages)
    sink.abort([*messages, None])
    assert table_rows(table.refresh()) == sorted(ROWS, key=repr)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert said[WRITE_ID] == said[FILES_ID]


def test_an_abort_removes_what_unfinished_tasks_left(tmp_path: Path, frame: DataFrame, table: Table) -> None:
    sink: TableSink = sink_for({"path": "db.written", **options_of(tmp_path)}, {}, frame.schema, False)
    message = sink.write(iter(frame.toArrow().to_batches()))
    sink.write(iter(frame.toArrow().to_batches()))
    assert isinstance(message, Written)
    sink.abort([message, None])
    assert files_on_disk(table) == []
