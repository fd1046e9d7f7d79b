"""A DataFrame is merged into a table by executors, and the table then holds what SQL's rule gives row by row."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, UUIDType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import formatkit
import formatkit.spark
from formatkit import Delete, Insert, MergeResult, Update
from formatkit.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    ConfigurationError,
    InvalidDataError,
    SchemaResolutionError,
)
from formatkit.write.operations import Mode
from support.filters import LessThan
from support.merges import SCHEMA, SPECS, merges, table_rows
from support.modelled_table import ModelledTable, new_table, shown
from support.naive_merge import SeveralMatchesError
from support.written_tables import files_on_disk

MERGE: Mode = "merge-on-read"
COPY: Mode = "copy-on-write"
WAYS: list[tuple[int, Mode]] = [(1, COPY), (2, MERGE), (2, COPY), (3, MERGE), (3, COPY)]
DDL = "k bigint, key int, p string, v double, f float, n int, op string"


def frame_of(spark: SparkSession, source: pa.Table) -> DataFrame:
    rows = [tuple(row.values()) for row in source.to_pylist()]
    return spark.createDataFrame(rows, DDL).repartition(2)


@pytest.fixture(scope="module")
def few_partitions(spark: SparkSession) -> Any:
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", "4")


@pytest.mark.parametrize(("version", "mode"), WAYS)
@settings(
    max_examples=max(settings.default.max_examples // 10, 3),  # type: ignore[union-attr]
    # A smaller example would take many more runs of Spark to be found.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_a_merge_does_what_a_list_of_rows_would(
    few_partitions: SparkSession, version: int, mode: Mode, data: st.DataObject
) -> None:
    spark = few_partitions
    with tempfile.TemporaryDirectory() as directory:
        table = new_table(Path(directory), SCHEMA, version=version, spec=data.draw(st.sampled_from(SPECS)))

        def merge_by_spark(_: Any, source: pa.Table, **arguments: Any) -> MergeResult:
            return formatkit.spark.merge(frame_of(spark, source), table, case_sensitive=True, **arguments)

        model = ModelledTable(table, merge=merge_by_spark)
        for _ in range(data.draw(st.integers(1, 3))):
            model.append(data.draw(table_rows()), data.draw(st.sampled_from(["parquet", "orc", "avro"])))
        if version > 1 and data.draw(st.booleans()):
            model.delete(LessThan("n", 1), MERGE)
        merge = data.draw(merges())
        try:
            for row in model.rows:
                merge.model.fate_of(row)
        except SeveralMatchesError:
            before = shown(table)
            files = {path for path in Path(directory).rglob("*") if path.is_file()}
            with pytest.raises(InvalidDataError, match="several source rows"):
                model.merge(merge.source, merge.model, mode=mode, **merge.arguments)
            assert shown(table) == before
            assert {path for path in Path(directory).rglob("*") if path.is_file() and path.suffix != ".crc"} <= files
        else:
            model.merge(merge.source, merge.model, mode=mode, **merge.arguments)
        model.check()


STOCK = Schema(
    NestedField(1, "sku", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "count", IntegerType()),
    NestedField(4, "tag", UUIDType()),
    identifier_field_ids=[1],
)
TAG = "F79C3E09-677C-4BBD-A479-3F349CB785E7"


@pytest.fixture(params=[2, 3])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    table = new_table(tmp_path, STOCK, version=request.param)
    tags = pa.array([bytes.fromhex(TAG.replace("-", "")), None, None], pa.binary(16))
    count = pa.array([1, 2, 3], pa.int32())
    formatkit.append(table, pa.table({"sku": [1, 2, 3], "name": ["a", "b", None], "count": count, "tag": tags}))
    return table


def counts(result: MergeResult) -> tuple[int, int, int]:
    return result.rows_updated, result.rows_deleted, result.rows_inserted


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    read: pa.Table = formatkit.scan(table, select=("sku", "name", "count")).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True))


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_columns_are_cast_and_found_as_spark_does_it(spark: SparkSession, stock: Table, mode: Mode) -> None:
    frame = spark.createDataFrame([(2, 20), (9, 90)], "SKU int, Count bigint")
    assert counts(formatkit.spark.merge(frame, stock, mode=mode)) == (1, 0, 1)
    assert rows_of(stock) == [(1, "a", 1), (2, "b", 20), (3, None, 3), (9, None, 90)]
    snapshot = stock.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties["engine-name"] == "spark"
    assert counts(formatkit.spark.merge(frame, stock, mode=mode)) == (0, 0, 0)
    assert stock.current_snapshot() == snapshot


def test_uuids_are_compared_whatever_case_their_text_is_in(spark: SparkSession, stock: Table) -> None:
    frame = spark.createDataFrame([(TAG, "found")], "tag string, name string")
    assert counts(formatkit.spark.merge(frame, stock, "tag", not_matched=None)) == (1, 0, 0)
    assert rows_of(stock)[0] == (1, "found", 1)


def test_the_source_is_computed_once(spark: SparkSession, stock: Table, tmp_path: Path) -> None:
    log = tmp_path / "computed"

    def noted(value: int) -> int:
        with log.open("a") as lines:
            lines.write(f"{value}\n")
        return value

    computed = f.udf(noted, "bigint", useArrow=False)
    frame = spark.range(2, 5).repartition(2).select(computed("id").alias("sku"), f.uuid().alias("name"))
    clauses = [Update({"name": "source.name"}, "source.name != target.name"), Update({"name": "source.name"})]
    assert counts(formatkit.spark.merge(frame, stock, matched=clauses)) == (2, 0, 1)
    # If it were computed again, a source that is random would have other rows.
    assert sorted(log.read_text().split()) == ["2", "3", "4"]


def test_a_key_of_which_there_are_many_is_looked_for_between_the_least_and_the_greatest(
    spark: SparkSession, stock: Table
) -> None:
    frame = spark.range(2, 3000).select(f.col("id").alias("sku"), f.lit("x").alias("name"))
    assert counts(formatkit.spark.merge(frame, stock)) == (2, 0, 2996)
    assert formatkit.scan(stock).count() == 2999


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_two_source_rows_that_change_one_row_are_refused(spark: SparkSession, stock: Table, mode: Mode) -> None:
    # In different tasks, and one of them alone with a row that is new.
    frame = spark.createDataFrame([(1, "x"), (1, "y"), (7, "z")], "sku bigint, name string").repartition(3)
    files = files_on_disk(stock)
    for clauses in ({}, {"matched": [Delete("source.name = 'x'"), Update()]}):
        with pytest.raises(InvalidDataError, match="sku = 1"):
            formatkit.spark.merge(frame, stock, mode=mode, **clauses)  # type: ignore[arg-type]
        assert files_on_disk(stock) == files
    assert counts(formatkit.spark.merge(frame, stock, matched="delete", not_matched=None)) == (0, 1, 0)


def test_a_merge_with_the_same_key_is_done_once(spark: SparkSession, stock: Table) -> None:
    frame = spark.createDataFrame([(7, "z")], "sku bigint, name string")
    first = formatkit.spark.merge(frame, stock, not_matched=Insert(), idempotency_key="k")
    assert counts(first) == (0, 0, 1)
    again = formatkit.spark.merge(frame, stock, matched="delete", idempotency_key="k")
    assert (counts(again), again.snapshot) == ((0, 0, 0), first.snapshot)
    assert len(rows_of(stock)) == 4


def test_rows_that_others_added_are_a_conflict(spark: SparkSession, stock: Table, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(7, "z")], "sku bigint, name string")
    stale = stock.catalog.load_table("db.t")
    formatkit.append(stock, pa.table({"sku": [7]}))
    files = files_on_disk(stock)
    with pytest.raises(CommitConflictError):
        formatkit.spark.merge(frame, stale)
    assert files_on_disk(stock) == files


def test_wrong_clauses_are_refused_before_anything_runs(spark: SparkSession, stock: Table) -> None:
    frame = spark.createDataFrame([(7, "z")], "sku bigint, name string")
    with pytest.raises(ColumnNotFoundError, match="nothing"):
        formatkit.spark.merge(frame, stock, matched=Delete("source.nothing = 1"))
    with pytest.raises(SchemaResolutionError, match="count"):
        formatkit.spark.merge(frame, stock, matched=Update({"count": "source.name"}))


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_write_merges_and_upserts(spark: SparkSession, stock: Table, mode: Mode) -> None:
    some = spark.createDataFrame([(1, 11), (9, 9)], "sku bigint, count int")
    assert counts(formatkit.spark.write(some, stock, "merge", on="sku", merge_mode=mode)) == (1, 0, 1)
    others = spark.createDataFrame([(9, 10), (10, 1)], "sku bigint, count int")
    assert counts(formatkit.spark.write(others, stock, "upsert", merge_mode=mode)) == (1, 0, 1)
    assert rows_of(stock) == [(1, "a", 11), (2, "b", 2), (3, None, 3), (9, None, 10), (10, None, 1)]


def test_an_upsert_wants_one_row_for_each_key(spark: SparkSession, stock: Table) -> None:
    before = stock.metadata.current_snapshot_id
    twice = spark.createDataFrame([(9, 9), (9, 8)], "sku bigint, count int")
    with pytest.raises(InvalidDataError, match="2 rows of the data have the same key, sku = 9"):
        formatkit.spark.write(twice, stock, "upsert")
    without_key = spark.createDataFrame([(9, None)], "sku bigint, name string")
    with pytest.raises(InvalidDataError, match="has no key: name = None"):
        formatkit.spark.write(without_key, stock, "upsert", join_columns="name")
    with pytest.raises(ConfigurationError, match="does not take where"):
        formatkit.spark.write(twice, stock, "merge", on="sku", where="sku = 1")
    assert stock.refresh().metadata.current_snapshot_id == before
