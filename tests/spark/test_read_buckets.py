"""Functions and joins that run inside of buckets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, UUIDType
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.spark import co_bucketed, map_buckets
from formatkit.spark.joins import How
from support.iceberg_tables import new_catalog
from support.written_tables import new_table, spec

KEY = NestedField(1, "key", StringType())
BY_KEY = spec((1, IdentityTransform()))
KEYS = ["a", "b", None, "c", "d"]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Table:
    fields = [
        KEY,
        NestedField(2, "n", LongType(), required=True),
        NestedField(3, "list", ListType(4, StringType(), element_required=False)),
        NestedField(5, "id", UUIDType()),
    ]
    table = new_table(new_catalog(tmp_path_factory.mktemp("left")), *fields, partitions=BY_KEY)
    for start in (0, 20):
        rows = range(start, start + 20)
        formatkit.append(
            table,
            pa.table(
                {
                    "key": [KEYS[i % 5] for i in rows],
                    "n": pa.array(rows, pa.int64()),
                    "list": [[str(i), None] if i % 3 else None for i in rows],
                    "id": pa.array([bytes([i]) * 16 for i in rows], pa.binary(16)),
                }
            ),
        )
    return table


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Table:
    fields = [KEY, NestedField(2, "name", StringType(), required=True)]
    table = new_table(new_catalog(tmp_path_factory.mktemp("right")), *fields, partitions=BY_KEY)
    formatkit.append(table, pa.table({"key": ["a", "a", "b", None, "e"], "name": ["a1", "a2", "b1", "null", "e1"]}))
    return table


def sorted_rows(frame: Any) -> list[str]:
    return sorted(map(repr, map(tuple, frame.collect())))


def test_sums_of_buckets_are_all_that_reaches_spark(spark: SparkSession, left: Table) -> None:
    def total(batches: Iterator[pa.RecordBatch]) -> pa.Table:
        numbers: list[Any] = [n for batch in batches for n in batch.column("n").to_pylist()]
        return pa.table({"rows": [len(numbers)], "total": [sum(numbers)]})

    scan = formatkit.scan(left, "n >= 10", ["n"])
    sums = map_buckets(spark, scan, total, "total bigint, rows int", buckets=3).collect()
    assert len(sums) == 3
    assert sum(row.total for row in sums) == sum(range(10, 40))
    assert sum(row.rows for row in sums) == 30


def test_functions_get_batches_as_the_scan_has_them_and_may_return_them(spark: SparkSession, left: Table) -> None:
    scan = formatkit.scan(left, select=["id", "n"])
    frame = map_buckets(spark, scan, lambda batches: batches, scan.schema)
    assert frame.dtypes == [("id", "string"), ("n", "bigint")]
    assert {row.id for row in frame.collect() if row.n == 1} == {"01010101-0101-0101-0101-010101010101"}


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [({"other": [1]}, "no column 'n'"), ({"n": ["x"]}, "column 'n' as string, which is no int64")],
)
def test_what_a_function_returns_has_to_fit(
    spark: SparkSession, left: Table, returned: dict[str, list[Any]], complaint: str
) -> None:
    frame = map_buckets(spark, formatkit.scan(left), lambda _: pa.table(returned), "n bigint")
    with pytest.raises(PythonException, match=complaint):
        frame.collect()


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_joins_of_buckets_are_those_of_spark(spark: SparkSession, left: Table, right: Table, how: How) -> None:
    scans = formatkit.scan(left), formatkit.scan(right)
    joined = co_bucketed(spark, *scans, on="key", buckets=4).join(how)
    frames = [formatkit.spark.dataframe(spark, scan) for scan in scans]
    expected = frames[0].join(frames[1], "key", how)
    assert joined.columns == expected.columns
    assert joined.rdd.getNumPartitions() == 4
    assert sorted_rows(joined) == sorted_rows(expected)


def test_a_scan_in_buckets_of_its_partitions_is_grouped_without_an_exchange(spark: SparkSession, left: Table) -> None:
    plain = formatkit.scan(left, select=["key", "n"]).to_spark(spark, buckets=3)
    frame = formatkit.scan(left, select=["key", "n"]).to_spark(spark, partitioned_by="key", buckets=3)
    groups = frame.groupBy("key").sum("n")
    assert frame.rdd.getNumPartitions() == 3
    assert "Exchange" not in groups._jdf.queryExecution().toString()
    assert sorted_rows(groups) == sorted_rows(plain.groupBy("key").sum("n"))


def test_functions_see_both_sides_of_a_bucket(spark: SparkSession, left: Table, right: Table) -> None:
    def keys(*sides: Iterator[pa.RecordBatch]) -> pa.Table:
        found = [{key for batch in side for key in batch.column("key").to_pylist()} for side in sides]
        return pa.table({"only_left": pa.array([sorted(map(str, found[0] - found[1]))], pa.list_(pa.string()))})

    pairs = co_bucketed(spark, formatkit.scan(left), formatkit.scan(right), "key", 3)
    rows = pairs.map(keys, "only_left array<string>").collect()
    assert sorted(key for row in rows for key in row.only_left) == ["c", "d"]


def test_scans_that_do_not_fit_are_refused(spark: SparkSession, left: Table, right: Table, tmp_path: Path) -> None:
    plain = new_table(new_catalog(tmp_path), KEY, NestedField(2, "n", DoubleType()))
    formatkit.append(plain, pa.table({"key": ["a"], "n": [1.0]}))
    with pytest.raises(UnsupportedError, match="cannot be put into buckets by key"):
        co_bucketed(spark, formatkit.scan(left), formatkit.scan(plain), "key", 2)
    with pytest.raises(UnsupportedError, match="cannot be put into buckets by key"):
        map_buckets(spark, formatkit.scan(plain), lambda batches: batches, "n double", partitioned_by="key")
    with pytest.raises(UnsupportedError, match="limit of 3 rows"):
        map_buckets(spark, formatkit.scan(plain, limit=3), lambda batches: batches, "n double")
    with pytest.raises(UnsupportedError, match="'n' is double and long"):
        co_bucketed(spark, formatkit.scan(left), formatkit.scan(plain), "n", 2)
    twice = co_bucketed(spark, formatkit.scan(left), formatkit.scan(left), "key", 2)
    with pytest.raises(ConfigurationError, match="both sides have the columns id, list, n"):
        twice.join()
    with pytest.raises(ConfigurationError, match="not 'cross'"):
        twice.join("cross")  # type: ignore[arg-type]
