"""A rewrite on executors: the rows of the table stay, in the files that a rewrite in one process makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import CorruptFileError, FormatkitError, FormatNotRegisteredError, UnsupportedError
from formatkit.registry import FormatRegistry
from formatkit.spark import SparkEngine
from formatkit.write.operations.rewrite import JOB_ID
from support.doomed_tasks import DoomedEngine
from support.filters import EqualTo, In
from support.iceberg_tables import local_path
from support.operated_tables import BY_PART, by_content, delete_by_equality, filled_table, some_rows
from support.written_tables import files_on_disk

DATA, POSITIONS, EQUALITY = DataFileContent.DATA, DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(spark)


@pytest.mark.parametrize(("version", "file_format"), [(2, "orc"), (3, "avro")])
def test_executors_do_what_one_process_does(
    engine: SparkEngine, tmp_path: Path, version: int, file_format: str
) -> None:
    found = []
    for where, chosen in (("spark", engine), ("local", None)):
        model = filled_table(tmp_path / where, version, partitions=BY_PART)
        model.delete(In("id", [1, 2, 15]), "merge-on-read")
        delete_by_equality(model, [4, 16])
        with model.table.update_spec() as update:
            update.add_field("id", BucketTransform(2), "bucket")
        model.append(some_rows(20, 30))
        calls: list[tuple[int, int]] = []
        result = formatkit.rewrite(model.table, file_format, engine=chosen, progress=_recorder(calls))
        model.rewrite()  # nothing is left to do; the model takes note of the snapshot
        model.check()
        assert calls[-1] == (30, 30)
        assert calls == sorted(calls)
        live = by_content(model.table)
        assert live[POSITIONS] == live[EQUALITY] == []
        assert {path.name for path in files_on_disk(model.table)} >= {Path(f.file_path).name for f in live[DATA]}
        rows_by_file = [(str(f.partition), f.spec_id, f.record_count, f.file_format) for f in live[DATA]]
        found.append((str(result.plan), result.added_files, sorted(rows_by_file)))
    assert found[0] == found[1]


def test_rows_are_sorted_and_snapshots_name_the_engine_and_the_job(engine: SparkEngine, tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    result = formatkit.rewrite(model.table, sort="id desc", engine=engine, job_id="nightly", max_commits=2)
    model.check()
    assert len(result.snapshots) == 2
    for snapshot in result.snapshots:
        assert snapshot.summary is not None
        assert snapshot.summary.operation is Operation.REPLACE
        assert snapshot.summary.additional_properties["engine-name"] == "spark"
        assert snapshot.summary.additional_properties[JOB_ID] == "nightly"
    read = formatkit.scan(model.table, select=("_file", "id")).to_arrow()
    for file in read["_file"].unique():
        ids: list[Any] = read.filter(pc.equal(read["_file"], file))["id"].to_pylist()
        assert ids == sorted(ids, reverse=True)


def test_a_large_group_is_cut_for_the_executors(engine: SparkEngine, tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    for start in range(20, 60, 10):
        model.append(some_rows(start, start + 10))
    assert engine.parallelism == 2
    size = sum(file.file_size_in_bytes for file in by_content(model.table)[DATA]) // 2
    model.rewrite(target_file_size=size, all_files=True, engine=engine)
    model.check()
    pieces = {Path(file.file_path).name.split("-")[0] for file in by_content(model.table)[DATA]}
    assert pieces == {"00000", "00001"}


def test_a_dry_run_runs_nothing(engine: SparkEngine, tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    before = files_on_disk(table)
    result = formatkit.rewrite(table, "orc", engine=engine, dry_run=True)
    assert result.plan.file_format == "orc"
    assert len(result.plan.rewritten) == 2
    assert files_on_disk(table) == before
    assert table.metadata == table.refresh().metadata


def test_errors_of_tasks_are_typed_and_leave_the_table_as_it_was(engine: SparkEngine, tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    damaged = local_path(by_content(model.table)[DATA][0].file_path)
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-8] + b"damaged!")
    before, metadata = files_on_disk(model.table), model.table.metadata
    with pytest.raises(CorruptFileError, match=damaged.name):
        formatkit.rewrite(model.table, "orc", engine=engine)
    assert files_on_disk(model.table) == before
    assert model.table.refresh().metadata == metadata
    damaged.write_bytes(content)
    model.rewrite(file_format="orc", engine=engine)
    model.check()


def test_files_of_killed_workers_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    before = files_on_disk(model.table)
    with pytest.raises(FormatkitError, match="failed in every attempt"):
        formatkit.rewrite(model.table, engine=DoomedEngine(spark))
    assert files_on_disk(model.table) == before
    model.rewrite(engine=SparkEngine(spark))
    model.check()


def test_what_others_delete_meanwhile_is_a_conflict(engine: SparkEngine, tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    stale = model.table.catalog.load_table(model.table.name())
    model.delete(EqualTo("id", 3), "merge-on-read")
    model.append(some_rows(20, 25))
    before = files_on_disk(model.table)
    with pytest.raises(formatkit.FormatkitError, match="deleted rows of"):
        formatkit.rewrite(stale, engine=engine)
    assert files_on_disk(model.table) == before
    model.check()


def test_wrong_arguments_are_refused_before_a_task_runs(engine: SparkEngine, tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    with pytest.raises(FormatNotRegisteredError):
        formatkit.rewrite(table, "word", engine=engine)
    with pytest.raises(UnsupportedError, match="registry"):
        formatkit.rewrite(table, "orc", engine=engine, registry=FormatRegistry.from_entry_points())


def _recorder(calls: list[tuple[int, int]]) -> Callable[[int, int], None]:
    return lambda done, rows: calls.append((done, rows))
