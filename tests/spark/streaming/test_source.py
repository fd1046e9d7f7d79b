"""New snapshots of a table as micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.types import IntegerType, LongType
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import ConfigurationError
from formatkit.spark.options import parse_options
from support.streams import Batches, StreamTables, rows


@contextmanager
def fails(message: str) -> Iterator[None]:
    with pytest.raises(StreamingQueryException, match=message):
        yield


def test_all_rows_are_read_once_and_then_the_new_ones(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    tables.append(table, rows(1, 2), rows(3))
    assert tables.read(spark).first_columns == [[1, 2, 3]]
    assert tables.read(spark).first_columns == []
    tables.append(table, rows(4), rows(5, 6))
    limited: Any = {"streaming_max_files_per_micro_batch": 1}
    assert tables.read(spark, **limited).first_columns == [[4], [5, 6]]


def test_a_query_that_ends_by_itself_ends_where_the_table_was_when_it_began(
    spark: SparkSession, tables: StreamTables
) -> None:
    table = tables.new()
    tables.append_files(table, [rows(1), rows(2)])

    class Appending(Batches):
        def _take(self, frame: Any, batch_id: int) -> None:
            super()._take(frame, batch_id)
            tables.append(table, rows(10 + batch_id))

    batches = Appending()
    limited: Any = {"streaming_max_files_per_micro_batch": 1}
    batches.start(tables.stream(spark, **limited), tables.folder / "checkpoint").awaitTermination()
    assert batches.first_columns == [[1], [2]]
    assert tables.read(spark).first_columns == [[10, 11]]


def test_filters_columns_and_branches_are_those_of_any_read(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    (first,) = tables.append(table, rows(1, 2))
    table.manage_snapshots().create_branch(first, "side").commit()
    tables.append(table, rows(3))
    formatkit.append(table, rows(7, 8, 9), branch="side")
    read = tables.read(spark, branch="side", columns="kind,id", filter="id > 1 and id < 9")
    assert read.rows == [[("a", 2), ("a", 7), ("a", 8)]]


def test_overwrites_end_a_stream_unless_it_is_told_what_to_do(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    tables.append(table, rows(1), rows(2))
    formatkit.overwrite(table, rows(8), where="id = 1")
    tables.append(table, rows(3))
    batches = Batches()
    with fails(r"is of the operation overwrite.*set overwrite_snapshots to"):
        batches.start(tables.stream(spark), tables.folder / "checkpoint").awaitTermination()
    assert batches.first_columns == [[1, 2]]
    skipping: Any = {"streaming_skip_overwrite_snapshots": "true"}
    assert tables.read(spark, **skipping).first_columns == [[3]]
    reading: Any = {"streaming_read_added_files": "true"}
    assert tables.read(spark, checkpoint="another", **reading).first_columns == [[1, 2, 3, 8]]


def test_expired_snapshots_end_a_stream_with_words(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    first, second = tables.append(table, rows(1), rows(2))
    limited: Any = {"start_snapshot_id": first}
    assert tables.read(spark, **limited).first_columns == [[2]]
    (third,) = tables.append(table, rows(3))
    tables.append(table, rows(4))
    table.maintenance.expire_snapshots().by_ids([first, second, third]).commit()
    with fails(f"after snapshot {second} are asked for, and not all of them are there any more"):
        tables.read(spark)


def test_schemas_may_change_while_a_stream_runs(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
    tables.append(table, rows(1))
    frame = tables.stream(spark)
    # Columns that are added or renamed are seen when the query is loaded again.
    with table.update_schema() as update:
        update.rename_column("kind", "sort")
        update.add_column("more", LongType())
    formatkit.append(table, pa_table(id=[2], sort=["b"], size=[20], more=[200]))
    assert tables.run(frame).rows == [[(1, "a", None), (2, "b", 20)]]
    # Another type is an error, which goes away with the next load.
    with table.update_schema() as update:
        update.update_column("size", LongType())
    formatkit.append(table, pa_table(id=[3], sort=["c"], size=[30], more=[None]))
    with fails(r"reads column 'size' as int, and since it was loaded the column is long now; start the query again"):
        tables.run(frame)
    loaded = tables.stream(spark)
    assert loaded.columns == ["id", "sort", "size", "more"]
    assert tables.run(loaded).rows == [[(3, "c", 30, None)]]
    with table.update_schema() as update:
        update.delete_column("more")
    formatkit.append(table, pa_table(id=[4], sort=["d"], size=[40]))
    with fails("column 'more' as long, and since it was loaded the column was dropped"):
        tables.run(loaded)


def pa_table(**columns: list[Any]) -> Any:
    import pyarrow as pa

    types = {"id": pa.int64(), "size": pa.int32(), "more": pa.int64()}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})


def test_ranges_of_snapshots_are_options_of_batch_reads(spark: SparkSession, tables: StreamTables) -> None:
    table = tables.new()
    first, second, _ = tables.append(table, rows(1), rows(2), rows(3))

    def ids(**options: Any) -> list[int]:
        frame = spark.read.format("formatkit").options(**tables.options(**options)).load("db.source")
        return sorted(row.id for row in frame.collect())

    assert ids(start_snapshot_id=first) == [2, 3]
    assert ids(start_snapshot_id=first, end_snapshot_id=second) == [2]
    assert ids(end_snapshot_id=second) == [1, 2]
    assert ids(end_timestamp=0) == []
    read = formatkit.spark.read(spark, table, start_snapshot_id=second)
    assert sorted(row.id for row in read.filter("id < 100").collect()) == [3]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"start-snapshot-id": "1", "stream-from-timestamp": "1"}, "each say where a stream begins"),
        ({"start-snapshot-id": "1", "snapshot-id": "1"}, "snapshot-id asks for a state .*, and start-snapshot-id for"),
        ({"streaming-skip-overwrite-snapshots": "true", "streaming-read-added-files": "true"}, "give one of them"),
        ({"streaming-max-rows-per-micro-batch": "0"}, "must be at least 1, not 0"),
        ({"starting-offsets": "first"}, "starting-offsets must be earliest or latest, not 'first'"),
        ({"overwrite-snapshots": "ignore"}, "must be error, skip or added-files, not 'ignore'"),
    ],
)
def test_wrong_options_of_streams_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_options({"path": "t", **given})


def test_options_of_streams_are_refused_by_batch_reads_and_the_other_way_round(
    spark: SparkSession, tables: StreamTables
) -> None:
    tables.new()
    options = tables.options(streaming_max_rows_per_micro_batch=1)
    with pytest.raises(Exception, match="streaming-max-rows-per-micro-batch is for streams"):
        spark.read.format("formatkit").options(**options).load("db.source").collect()
    with fails("limit is for tables that are read once"):
        tables.read(spark, limit=5)
