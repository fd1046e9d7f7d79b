"""Rows of a stream that replace those with their keys, by the data source and by `toTable`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import formatkit
import formatkit.spark
from formatkit.errors import ConfigurationError, InvalidDataError
from formatkit.spark.streaming.commit import MicroBatchJob
from formatkit.spark.streaming.writer import TableStreamWriter
from formatkit.spark.writing.commit import WriteJob
from formatkit.spark.writing.options import WriteOptions
from formatkit.spark.writing.task import TaskFiles
from formatkit.write.commit import disable_version3, enable_version3
from support.streams import StreamTables, rows
from support.written_tables import files_on_disk

UPSERT = {"upsert-enabled": "true", "join-columns": "id"}
EACH_WAY = pytest.mark.parametrize(("sink", "way"), [(2, "table"), (3, "source")], indirect=["sink"])


@pytest.fixture(params=[2, 3])
def sink(request: pytest.FixtureRequest, tables: StreamTables) -> Any:
    enable_version3()
    yield tables.new("sink", **{"format-version": str(request.param)})
    disable_version3()


def contents(table: Table) -> dict[int, str]:
    found = formatkit.scan(table.refresh()).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["kind"] for row in found}


def run(
    spark: SparkSession, tables: StreamTables, frame: DataFrame, way: str, mode: str = "append", **options: str
) -> None:
    writer = (
        frame.writeStream.outputMode(mode)
        .options(**options)
        .option("checkpointLocation", (tables.folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
    )
    if way == "source":
        query = writer.format("formatkit").options(**tables.options()).start("db.sink")
    else:
        formatkit.spark.register(spark, streams=tables.catalog)
        query = writer.toTable("streams.db.sink")
    query.awaitTermination()


@EACH_WAY
def test_rows_replace_those_with_their_keys(spark: SparkSession, tables: StreamTables, sink: Table, way: str) -> None:
    source = tables.new("source")
    tables.append(sink, rows(1, 2, 3, kind="old"))
    tables.append(source, rows(2, 4, kind="first"), rows(4, 3, kind="second"), rows(9))
    one_file: Any = {"streaming_max_files_per_micro_batch": 1}
    run(spark, tables, tables.stream(spark, **one_file), way, **UPSERT)
    assert contents(sink) == {1: "old", 2: "first", 3: "second", 4: "second", 9: "a"}
    epochs = [each.summary["spark.sql.streaming.epochId"] for each in sink.metadata.snapshots[1:] if each.summary]
    assert epochs == ["0", "1", "2"]


@EACH_WAY
def test_two_rows_with_one_key_end_the_query_and_change_nothing(
    spark: SparkSession, tables: StreamTables, sink: Table, way: str
) -> None:
    source = tables.new("source")
    tables.append(sink, rows(1))
    tables.append(source, rows(5, 6, 5))
    before = files_on_disk(sink)
    with pytest.raises(StreamingQueryException, match="have the same key, id = 5"):
        run(spark, tables, tables.stream(spark), way, **UPSERT)
    assert contents(sink) == {1: "a"}
    assert files_on_disk(sink) == before


def test_results_that_change_are_updated(spark: SparkSession, tables: StreamTables) -> None:
    source = tables.new("source")
    schema = Schema(
        NestedField(1, "kind", StringType(), required=True), NestedField(2, "n", LongType()), identifier_field_ids=[1]
    )
    sink = tables.catalog.create_table("db.sink", schema)

    def counts() -> DataFrame:
        return tables.stream(spark).groupBy("kind").count().selectExpr("coalesce(kind, '') kind", "count as n")

    tables.append(source, rows(1, 2), rows(3, kind="b"))
    run(spark, tables, counts(), "table", "update", **{"upsert-enabled": "true"})
    tables.append(source, rows(4, kind="b"), rows(5, kind="c"))
    run(spark, tables, counts(), "table", "update", **{"upsert-enabled": "true"})
    found = formatkit.scan(sink.refresh()).to_arrow().to_pylist()
    assert sorted((row["kind"], row["n"]) for row in found) == [("a", 2), ("b", 2), ("c", 1)]
    tables.append(source, rows(6))
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        run(spark, tables, counts(), "table", "update")


def micro_batch(table: Table, data: pa.Table, batch_id: int) -> tuple[MicroBatchJob, list[TaskFiles]]:
    written = WriteJob(table)
    files = [written.task.write(data.to_batches())]
    options = WriteOptions(upsert=True, join_columns=("id",))
    job = MicroBatchJob(table, options, overwrite=False, query_id="q", batch_id=batch_id, write_id=written.write_id)
    return job, files


def test_others_that_change_the_same_rows_meanwhile_are_caught_up_with(tables: StreamTables, sink: Table) -> None:
    tables.append(sink, rows(1, 2, 3, kind="old"))
    job, messages = micro_batch(tables.load("sink"), rows(2, 7, kind="new"), 0)
    others = tables.load("sink")
    formatkit.rewrite(others, all_files=True)
    formatkit.upsert(others, rows(7, kind="other"), "id")
    job.commit(messages)
    assert contents(sink) == {1: "old", 2: "new", 3: "old", 7: "new"}
    again, repeated = micro_batch(tables.load("sink"), rows(2, kind="again"), 0)
    files = set(files_on_disk(sink))
    again.commit(repeated)
    assert contents(sink)[2] == "new"
    assert set(files_on_disk(sink)) < files, "the files of the repeated micro-batch are removed"


def test_conflicts_between_a_look_and_the_commit_are_tried_again(
    tables: StreamTables, sink: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.append(sink, rows(1, 2, 3, kind="old"))
    table = tables.load("sink")
    job, messages = micro_batch(table, rows(2, kind="new"), 0)
    ask = Table._do_commit
    rivals = iter([lambda: formatkit.delete(tables.load("sink"), "id = 3", "copy-on-write")])

    def others_are_faster(self: Table, *arguments: Any, **more: Any) -> None:
        if self is table:
            next(rivals, lambda: None)()
        ask(self, *arguments, **more)

    monkeypatch.setattr(Table, "_do_commit", others_are_faster)
    job.commit(messages)
    assert contents(sink) == {1: "old", 2: "new"}
    referenced = {task.location for task in formatkit.scan(sink).tasks}
    deletes = [path for path in files_on_disk(sink) if "deletes" in path.name]
    assert len(deletes) == 1, "those of the first attempt are removed"
    assert len(referenced) == 2


def test_null_in_a_key_is_refused(tables: StreamTables, sink: Table) -> None:
    data = pa.table({"id": pa.array([None], pa.int64()), "kind": ["x"]})
    job, messages = micro_batch(tables.load("sink"), data, 0)
    with pytest.raises(InvalidDataError, match="column 'id' is null"):
        job.commit(messages)
    assert files_on_disk(sink) == []


@pytest.mark.parametrize(
    ("overwrite", "options", "text"),
    [
        (True, UPSERT, "choose one of them"),
        (False, {"join-columns": "id"}, "say upsert-enabled=true"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tables: StreamTables, overwrite: bool, options: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        TableStreamWriter({**tables.options(), "path": "db.sink", **options}, {}, StructType(), overwrite)


def test_writes_that_are_done_once_refuse_them(spark: SparkSession, tables: StreamTables) -> None:
    sink = tables.new("sink")
    frame = spark.createDataFrame([(1, "a")], "id bigint, kind string")
    formatkit.spark.register(spark, streams=tables.catalog)
    with pytest.raises(ConfigurationError, match="is for streams"):
        formatkit.spark.write(frame, sink, upsert_enabled=True)
    with pytest.raises(Exception, match="is for streams"):
        frame.writeTo("streams.db.sink").options(**UPSERT).append()
