"""Micro-batches as snapshots, each of them once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructField, StructType

import formatkit
from formatkit.errors import ConfigurationError, InternalError
from formatkit.spark.streaming.writer import StreamedFiles, TableStreamWriter
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.task import TaskFiles
from pyspark_formatkit import DefaultSource
from support.streams import StreamTables, rows
from support.written_tables import files_on_disk

SCHEMA = StructType([StructField("id", spark_types.LongType()), StructField("kind", spark_types.StringType())])


def write(tables: StreamTables, frame: DataFrame, mode: str = "append", source: str = "formatkit", **more: str) -> None:
    query = (
        frame.writeStream.format(source)
        .outputMode(mode)
        .options(**tables.options(), **more)
        .option("checkpointLocation", (tables.folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start("db.sink")
    )
    query.awaitTermination()


def ids(table: Table, **asked: Any) -> list[int]:
    table.refresh()
    found: list[Any] = formatkit.scan(table, **asked).to_arrow()["id"].to_pylist()
    return sorted(found)


def said(table: Table, name: str) -> list[str]:
    table.refresh()
    return [str(each.summary[name]) for each in table.metadata.snapshots if each.summary is not None]


def test_each_micro_batch_is_a_snapshot_that_says_so(spark: SparkSession, tables: StreamTables) -> None:
    source, sink = tables.new("source"), tables.new("sink")
    tables.append_files(source, [rows(1, 2), rows(3)])
    limited: Any = {"streaming_max_files_per_micro_batch": 1}
    write(tables, tables.stream(spark, **limited), **{"snapshot-property.team": "blue", "write-format": "orc"})
    assert ids(sink) == [1, 2, 3]
    assert said(sink, "spark.sql.streaming.epochId") == ["0", "1"]
    assert len(set(said(sink, "spark.sql.streaming.queryId"))) == 1
    assert said(sink, "team") == ["blue", "blue"]
    assert {path.suffix for path in files_on_disk(sink)} == {".orc"}
    # Nothing new, and then a micro-batch without rows: no snapshot.
    write(tables, tables.stream(spark, **limited))
    write(tables, tables.stream(spark, filter="id > 100", **limited))
    tables.append(source, rows(4))
    write(tables, tables.stream(spark, filter="id > 100", **limited))
    assert said(sink, "spark.sql.streaming.epochId") == ["0", "1"]
    tables.append(source, rows(5))
    write(tables, tables.stream(spark, **limited))
    assert ids(sink) == [1, 2, 3, 5]
    assert said(sink, "spark.sql.streaming.epochId") == ["0", "1", "3"]


def test_complete_results_replace_all_rows(spark: SparkSession, tables: StreamTables) -> None:
    source, sink = tables.new("source"), tables.new("sink")
    tables.append(source, rows(1, 2), rows(3, kind="b"))

    def counts() -> DataFrame:
        return tables.stream(spark).groupBy("kind").count().selectExpr("count as id", "kind")

    write(tables, counts(), "complete")
    assert ids(sink) == [1, 2]
    tables.append(source, rows(4, 5))
    write(tables, counts(), "complete")
    assert ids(sink) == [1, 4]
    assert [each.summary.operation.value for each in sink.metadata.snapshots if each.summary] == ["append", "overwrite"]


class Unlucky(TableStreamWriter):
    """The commit takes place, and its answer gets lost."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        raise ConnectionError("the answer got lost")


class UnluckySource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "unlucky"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return Unlucky(self.options, self.catalogs, schema, overwrite)


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_commit_whose_answer_got_lost_is_not_repeated(spark: SparkSession, tables: StreamTables, branch: str) -> None:
    source, sink = tables.new("source"), tables.new("sink")
    tables.append(source, rows(1, 2))
    tables.append(sink, rows(0))
    head = sink.metadata.current_snapshot_id
    spark.dataSource.register(UnluckySource)
    with pytest.raises(StreamingQueryException, match="the answer got lost"):
        write(tables, tables.stream(spark), source="unlucky", branch=branch)
    files = files_on_disk(sink)
    # Another writer commits before the query is started again.
    formatkit.append(tables.load("sink"), rows(9), branch=branch)
    write(tables, tables.stream(spark), branch=branch)
    sink.refresh()
    snapshot = sink.metadata.snapshot_by_name(branch)
    assert snapshot is not None
    assert ids(sink, snapshot_id=snapshot.snapshot_id) == [0, 1, 2, 9]
    assert set(files) < set(files_on_disk(sink))
    assert len(files_on_disk(sink)) == len(files) + 1, "files of the second attempt are removed"
    assert (sink.metadata.current_snapshot_id == head) == (branch == "side")


def test_columns_that_do_not_fit_are_refused_before_tasks_run(spark: SparkSession, tables: StreamTables) -> None:
    source, sink = tables.new("source"), tables.new("sink")
    with source.update_schema() as update:
        update.add_column("size", LongType())
    tables.append(source, rows(1))
    with pytest.raises(StreamingQueryException, match="'size'"):
        write(tables, tables.stream(spark))
    assert files_on_disk(sink) == []
    write(tables, tables.stream(spark), **{"merge-schema": "true"})
    assert ids(sink) == [1]
    assert sink.schema().column_names == ["id", "kind", "size"]


def writer(tables: StreamTables, overwrite: bool = False, **options: str) -> TableStreamWriter:
    return TableStreamWriter({**tables.options(), "path": "db.sink", **options}, {}, SCHEMA, overwrite)


def written(tables: StreamTables, batch_id: int, *ids: int, query_id: str = "q") -> StreamedFiles:
    """What a task reports."""
    job = WriteJob(tables.load("sink"))
    return StreamedFiles(job.task.write(rows(*ids).to_batches()), query_id, batch_id, job.write_id)


def test_micro_batches_that_the_branch_has_are_not_written_again(tables: StreamTables) -> None:
    sink = tables.new("sink")
    for batch_id, id_ in ((0, 10), (2, 11), (3, 12)):
        writer(tables).commit([written(tables, batch_id, id_)], batch_id)
    assert ids(sink) == [10, 11, 12]
    # The same one, older ones, of which one had no rows, and one of another query.
    for batch_id in (3, 2, 1):
        writer(tables).commit([written(tables, batch_id, 99)], batch_id)
        assert ids(sink) == [10, 11, 12]
    assert len(files_on_disk(sink)) == 3
    writer(tables).commit([written(tables, 1, 13, query_id="another")], 1)
    assert ids(sink) == [10, 11, 12, 13]


@pytest.mark.parametrize("overwrite", [False, True])
def test_micro_batches_with_missing_messages_are_refused(tables: StreamTables, overwrite: bool) -> None:
    sink = tables.new("sink")
    tables.append(sink, rows(1))
    message = written(tables, 5, 2)
    for messages in ([message, None], [None]):
        with pytest.raises(InternalError, match="reported None instead of its files"):
            writer(tables, overwrite).commit(messages, 5)
    with pytest.raises(InternalError, match="micro-batch 6 is to be committed, and tasks wrote query q, micro-batch 5"):
        writer(tables, overwrite).commit([message], 6)
    with pytest.raises(InternalError, match="query p, micro-batch 5; query q, micro-batch 5"):
        writer(tables, overwrite).commit([message, written(tables, 5, 3, query_id="p")], 5)
    assert ids(sink) == [1]


def test_empty_micro_batches_change_nothing_unless_results_are_complete(tables: StreamTables) -> None:
    sink = tables.new("sink")
    tables.append(sink, rows(1))
    nothing = StreamedFiles(TaskFiles((), 0, 0, 0, 0), "q", 0, written(tables, 0).write_id)
    for messages in ([], [nothing]):
        writer(tables).commit(messages, 0)
        assert len(sink.refresh().metadata.snapshots) == 1
    writer(tables, overwrite=True).commit([nothing], 0)
    assert ids(sink) == []


def test_an_abort_removes_files_only_if_no_snapshot_has_them(tables: StreamTables) -> None:
    sink = tables.new("sink")
    message = written(tables, 0, 1)
    writer(tables).commit([message], 0)
    # Spark aborts after a commit that raised, with all messages, or with some if tasks failed.
    for messages in ([message], [message, None], [None], []):
        writer(tables).abort(messages, 0)
        assert ids(sink) == [1]
    writer(tables).abort([written(tables, 1, 2), None], 1)
    assert len(files_on_disk(sink)) == 1


@pytest.mark.parametrize(
    "option", ["distribution-mode", "overwrite-mode", "filter", "idempotency-key", "validate-from-snapshot-id"]
)
def test_options_of_writes_that_are_done_once_are_refused(tables: StreamTables, option: str) -> None:
    values = {"distribution-mode": "hash", "overwrite-mode": "dynamic", "validate-from-snapshot-id": "1"}
    with pytest.raises(ConfigurationError, match=f"the option {option} is for a write that is done once"):
        writer(tables, False, **{option: values.get(option, "x")})
