"""Validation, orphan cleaning, commands and SQL on executors: what they find is what one process finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyspark.sql import SparkSession

import formatkit
import formatkit.spark
from formatkit.cli.app import run
from formatkit.spark import SparkEngine
from support.filters import In
from support.iceberg_tables import local_path
from support.modelled_table import ModelledTable, new_table
from support.operated_tables import BY_PART, SCHEMA, by_content, delete_by_equality, filled_table, some_rows
from support.orphans import add_file
from support.stopped_jobs import check_that_a_stopped_job_goes_on

DATA = DataFileContent.DATA


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(spark)


@pytest.mark.parametrize("version", [2, 3])
def test_executors_find_what_one_process_finds(engine: SparkEngine, tmp_path: Path, version: int) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    model.delete(In("id", [1, 2, 15]), "merge-on-read")
    delete_by_equality(model, [4, 16])
    calls: list[tuple[int, int]] = []
    sound = formatkit.validate(model.table, engine=engine, progress=lambda done, files: calls.append((done, files)))
    assert sound.findings == ()
    assert sound == formatkit.validate(model.table)
    assert calls[-1][0] == calls[-1][1] > 8
    files = [local_path(file.file_path) for file in by_content(model.table)[DATA]]
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:-8] + b"damaged!")
    found = formatkit.validate(model.table, engine=engine)
    assert {each.code for each in found.findings} == {"file-missing", "file-corrupt"}
    assert found == formatkit.validate(model.table)


def test_executors_delete_orphans(engine: SparkEngine, tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    orphans = {add_file(table, f"data/00000-{uuid4()}-00001.parquet") for _ in range(5)}
    dry = formatkit.clean_orphans(table, engine=engine)
    assert {file.location for file in dry.orphans} == orphans
    report = formatkit.clean_orphans(table, dry_run=False, engine=engine)
    assert (report.deleted, report.failures) == (5, {})
    assert not any(local_path(each).exists() for each in orphans)
    assert report.journal is not None
    lines = [json.loads(line) for line in local_path(report.journal).read_text().splitlines()]
    assert {line["location"] for line in lines if line["kind"] == "outcome"} == orphans


def test_a_killed_driver_leaves_a_job_that_goes_on(engine: SparkEngine, tmp_path: Path) -> None:
    check_that_a_stopped_job_goes_on(tmp_path, "spark", "after the catalog committed", 1, engine)


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[tuple[Table, tuple[str, ...]]]:
    """A table that a command finds, and the arguments that name it."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db", (tmp_path / "warehouse").as_uri()
    with SqlCatalog("store", uri=uri, warehouse=warehouse) as catalog:
        catalog.create_namespace("db")
        model = ModelledTable(new_table(tmp_path, SCHEMA, spec=BY_PART, catalog=catalog))
        model.append(some_rows(0, 12))
        model.append(some_rows(12, 20))
        options = ("db.t", "--catalog", "store", "-p", "type=sql", "--uri", uri, "--warehouse", warehouse)
        yield model.table, (*options, "--json")


def test_commands_run_on_the_session(
    spark: SparkSession, stored: tuple[Table, tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    table, options = stored
    before = formatkit.scan(table).count()
    on_spark = (*options, "--engine", "spark")
    assert run(["rewrite", *on_spark, "--format", "orc", "--set-default", "--max-commits", "3"]) == 0
    assert len(json.loads(capsys.readouterr().out)["snapshot_ids"]) == 3
    table.refresh()
    assert table.properties["write.format.default"] == "orc"
    assert {task.file_format for task in formatkit.scan(table).tasks} == {"orc"}
    assert formatkit.scan(table).count() == before
    summary = table.metadata.snapshots[-1].summary
    assert summary is not None
    assert summary.additional_properties["spark.app.id"] == spark.sparkContext.applicationId
    assert run(["validate", *on_spark]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]
    orphan = add_file(table, f"data/00000-{uuid4()}-00001.parquet")
    assert run(["clean-orphans", *on_spark, "--delete"]) == 0
    assert [each["location"] for each in json.loads(capsys.readouterr().out)["orphans"]] == [orphan]
    assert not local_path(orphan).exists()


def test_sql_procedures_run_on_executors(spark: SparkSession, stored: tuple[Table, tuple[str, ...]]) -> None:
    table, _ = stored
    formatkit.spark.register(spark, jobs=table.catalog)
    call = "call jobs.system.rewrite_data_files(table => 'db.t', file_format => 'avro', max_commits => 2)"
    assert spark.sql(call).collect()[0][:2] == (6, 3)
    table.refresh()
    summaries = [each.summary for each in table.metadata.snapshots if each.summary is not None][-2:]
    assert all("spark.app.id" in each.additional_properties for each in summaries)
    assert {task.file_format for task in formatkit.scan(table).tasks} == {"avro"}
    orphan = add_file(table, f"data/00000-{uuid4()}-00001.parquet")
    found = spark.sql("call jobs.system.remove_orphan_files(table => 'db.t', dry_run => false)").collect()
    assert [row[0] for row in found] == [orphan]
    assert not local_path(orphan).exists()
