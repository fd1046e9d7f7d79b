"""Writing on Spark Connect: by `formatkit.spark.write` and by the data source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from pyspark.sql import SparkSession

import formatkit.spark
from support.written_tables import data_files, files_on_disk, new_table, spec, table_rows

COLUMNS = (NestedField(1, "id", LongType()), NestedField(2, "part", StringType()), NestedField(3, "n", IntegerType()))
ROWS = [(i, f"p{i % 2}", i) for i in range(20)]
DDL = "id bigint, part string, n int"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "warehouse").as_uri())
    made.create_namespace("db")
    yield made
    made.close()


@pytest.fixture
def table(catalog: SqlCatalog) -> Table:
    return new_table(catalog, *COLUMNS, partitions=spec((2, IdentityTransform()), (1, BucketTransform(2))))


def test_rows_are_written_distributed_and_replaced(spark: SparkSession, table: Table) -> None:
    frame = spark.createDataFrame(ROWS, DDL).selectExpr("ID", "part", "cast(n as bigint) n")
    result = formatkit.spark.write(frame, table, idempotency_key="one")
    assert table_rows(table) == sorted(ROWS, key=repr)
    assert len(data_files(table)) == result.files == 4
    assert formatkit.spark.write(frame, table, idempotency_key="one").repeated
    formatkit.spark.write(frame.limit(0), table, "overwrite", where="id < 5 or part = 'p1'")
    assert table_rows(table) == sorted([row for row in ROWS if row[0] >= 5 and row[1] == "p0"], key=repr)


def test_a_failed_job_leaves_no_file(spark: SparkSession, table: Table) -> None:
    bad = spark.range(4).selectExpr("if(id = 3, raise_error('planted'), id) id")
    with pytest.raises(Exception, match="planted"):
        formatkit.spark.write(bad, table, distribution_mode="none")
    assert files_on_disk(table) == []


def test_the_data_source_writes(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    writer = spark.createDataFrame(ROWS, DDL).write.format("formatkit")
    where = {
        "catalog": "test",
        "catalog.type": "sql",
        "catalog.uri": f"sqlite:///{tmp_path}/catalog.db",
        "catalog.warehouse": (tmp_path / "warehouse").as_uri(),
    }
    for mode in ("append", "overwrite"):
        writer.mode(mode).options(**where).save("db.written")
        assert table_rows(table.refresh()) == sorted(ROWS, key=repr)
