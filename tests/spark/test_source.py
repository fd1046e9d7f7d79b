"""`spark.read.format("formatkit")` in Spark: SQL, configuration, and queries that Spark's own pushdown gets wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from formatkit.tck import naive
from support.iceberg_tables import local_path
from support.source_tables import FIRST, WORDS, KnownTable, known_table
from support.spark_tables import EVERYTHING, everything, rows_of, seen_by_spark


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnownTable]:
    with known_table(tmp_path_factory.mktemp("source")) as table:
        yield table


def load(spark: SparkSession, known: KnownTable, **options: Any) -> DataFrame:
    return spark.read.format("formatkit").options(**known.options(**options)).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_a_table_is_found_with_no_registration(spark: SparkSession, known: KnownTable) -> None:
    frame = load(spark, known, buckets=2)
    assert frame.dtypes == [("id", "bigint"), ("name", "string"), ("size", "int")]
    assert [field.nullable for field in frame.schema] == [False, True, True]
    assert frame.schema["name"].metadata == {"comment": "A name"}
    assert frame.rdd.getNumPartitions() == 2
    assert rows(frame) == WORDS
    assert known.properties["uri"] not in frame._jdf.queryExecution().toString()
    assert spark.read.format("formatkit").load(known.table.metadata_location).count() == len(WORDS)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_every_type_and_kind_of_delete_comes_out_as_it_is(spark: SparkSession, file_format: str) -> None:
    with everything(file_format) as table:
        read = spark.read.format("formatkit").option("nanoseconds", "integer").option("buckets", 2)
        truth = naive.read(table.files, EVERYTHING, AlwaysTrue())
        assert rows_of(EVERYTHING, read.load(table.table.metadata_location)) == seen_by_spark(EVERYTHING, truth)


def test_spark_passes_on_the_ways_to_name_a_state(spark: SparkSession, known: KnownTable) -> None:
    assert rows(load(spark, known, snapshot_id=known.snapshots[0])) == FIRST
    assert rows(load(spark, known, versionAsOf="second").filter("id < 4")) == FIRST
    assert rows(load(spark, known, timestampAsOf="2126-01-01T00:00:00Z", columns="id", limit=6)) == [
        row[:1] for row in WORDS
    ]


def test_sql_reads_through_a_view(spark: SparkSession, known: KnownTable) -> None:
    options = ", ".join(f"`{name}` '{value}'" for name, value in known.options(metadata_columns="_pos").items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW words USING formatkit OPTIONS ({options})")
    found = spark.sql("SELECT count(*), count(name), max(_pos) FROM words WHERE id <> 6")
    assert rows(found) == [(5, 4, 2)]
    assert rows(spark.sql("SELECT a.id FROM words a JOIN words b ON a.id = b.id + 1 WHERE b.id IN (1, 5)")) == [
        (2,),
        (6,),
    ]
    spark.catalog.dropTempView("words")


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_one_dataframe_can_be_asked_twice(
    spark: SparkSession, known: KnownTable, tmp_path: Path, pushdown: str
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    frame = load(session, known, columns="id,name")
    assert rows(frame.filter("id = 3")) == FIRST[2:]
    assert frame.count() == len(WORDS)
    assert rows(frame.filter("id = 3").union(frame.filter("id = 1"))) == [FIRST[0], FIRST[2]]
    twins = frame.filter("id = 3").join(frame.filter("id > 1").withColumnRenamed("name", "other"), "id")
    assert rows(twins) == [(3, "three", "three")]
    frame.write.parquet(str(tmp_path / "copy"))
    assert session.read.parquet(str(tmp_path / "copy")).count() == len(WORDS)


def test_an_empty_table_is_empty(spark: SparkSession, known: KnownTable) -> None:
    assert rows(load(spark, known, path="db.empty")) == []


def test_a_given_schema_chooses_columns(spark: SparkSession, known: KnownTable) -> None:
    read = spark.read.format("formatkit").options(**known.options()).schema("size int, id bigint")
    assert rows(read.load().filter("id = 6")) == [(60, 6)]


def test_catalogs_come_from_the_configuration_of_the_session(spark: SparkSession, known: KnownTable) -> None:
    session = spark.newSession()
    for name, value in known.properties.items():
        session.conf.set(f"spark.formatkit.catalog.local.{name}", value)
    with pytest.raises(AnalysisException, match="nothing is known about catalog 'default'"):
        session.read.format("formatkit").load("local.db.words")
    formatkit.spark.register(session)
    assert rows(session.read.format("formatkit").load("local.db.words")) == WORDS


def test_errors_say_in_spark_what_they_say_elsewhere(spark: SparkSession, known: KnownTable) -> None:
    with pytest.raises(AnalysisException, match=r"ConfigurationError: the source formatkit has no option spilt-size"):
        load(spark, known, spilt_size=1)
    with pytest.raises(AnalysisException, match=r"ColumnNotFoundError: no column 'idd'.*did you mean 'id'"):
        load(spark, known, columns="idd")


def test_an_error_in_a_worker_names_the_file(spark: SparkSession, tmp_path: Path) -> None:
    with known_table(tmp_path) as made:
        frame = load(spark, made)
        location = formatkit.scan(made.table).tasks[0].location
        local_path(location).unlink()
        with pytest.raises(Exception, match="FileMissingError") as caught:
            frame.collect()
        assert location in str(caught.value)
