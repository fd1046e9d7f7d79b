"""What Spark writes through formatkit is read by Iceberg's own library as a list of rows says.

Short runs take three of the six tables; `make fuzz` takes all.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import settings
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
)
from pyspark.sql import DataFrame, SparkSession

import formatkit.spark
from formatkit import Delete, Update
from formatkit.tck.naive import Row
from support.oracle.comparing import read_here, same_rows
from support.oracle.installation import is_installed, start_java
from support.oracle.java_table import read_by_java
from support.oracle.servant import Servant
from support.written_tables import new_table, spec

pytestmark = pytest.mark.fuzz

COLUMNS = (
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "x", DoubleType()),
    NestedField(7, "tags", ListType(9, StringType(), element_required=False)),
    NestedField(8, "in", StructType(NestedField(10, "n", LongType()))),
)
SPECS = {
    "day": spec((3, IdentityTransform())),
    "bucket": spec((1, BucketTransform(3)), (4, DayTransform())),
    "name": spec((2, IdentityTransform())),
}
ALL = [
    ("parquet", 2, "bucket"),
    ("orc", 3, "day"),
    ("avro", 3, "name"),
    ("parquet", 3, "name"),
    ("orc", 2, "bucket"),
    ("avro", 2, "day"),
]
assert settings.default is not None
CHOSEN = ALL if settings.default.max_examples > 1000 else ALL[:3]
MICROSECONDS_A_DAY = 86_400_000_000


@pytest.fixture(scope="module")
def java() -> Iterator[Servant]:
    if not is_installed():
        pytest.fail("Iceberg for Java is not installed; `make oracle` does that")
    servant = start_java()
    yield servant
    servant.close()


def row(id_: int, name: str | None) -> Row:
    """A row by its field ids, of which some columns follow from the id."""
    n = abs(id_)
    return {
        1: id_,
        2: name,
        3: None if n % 7 == 0 else 18_000 + n % 3,
        4: (18_000 + n % 2) * MICROSECONDS_A_DAY + n,
        5: (Decimal(n) / 4).quantize(Decimal("0.01")),
        6: float("nan") if n % 5 == 0 else n / 2,
        7: None if n % 4 == 0 else [f"t{n}", None],
        8: None if n % 6 == 0 else {10: n},
    }


def frame(spark: SparkSession, ids: range, name: str) -> DataFrame:
    """The same rows, made by Spark."""
    return spark.range(ids.start, ids.stop, 1, 3).selectExpr(
        "id",
        f"{name} name",
        "if(id % 7 = 0, null, date_from_unix_date(cast(18000 + id % 3 as int))) day",
        "timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(cast(18000 + id % 2 as int), 0, 0, id / 1000000) at",
        "cast(id / 4 as decimal(9, 2)) price",
        "if(id % 5 = 0, double('nan'), id / 2) x",
        "if(id % 4 = 0, null, array(concat('t', id), null)) tags",
        "if(id % 6 = 0, null, named_struct('n', id)) in",
    )


def check(java: Servant, table: Table, model: dict[int, Row], what: str) -> None:
    table.refresh()
    schema: Schema = table.schema()
    same_rows(read_here(table), model.values(), f"formatkit after {what}")
    same_rows(read_by_java(java, table.metadata_location, schema), model.values(), f"Java after {what}")


@pytest.mark.parametrize(("file_format", "version", "place"), CHOSEN)
def test_java_reads_what_spark_wrote(
    spark: SparkSession, catalog: SqlCatalog, java: Servant, file_format: str, version: int, place: str
) -> None:
    told = {f"write.{command}.mode": "merge-on-read" for command in ("delete", "update", "merge")}
    told |= {"format-version": str(version), "write.format.default": file_format}
    told |= {"write.delete.format.default": file_format}
    order = SortOrder(SortField(source_id=6, transform=IdentityTransform()))
    table = new_table(catalog, *COLUMNS, partitions=SPECS[place], sort_order=order, properties=told)
    formatkit.spark.register(spark, fk=catalog)

    formatkit.spark.write(frame(spark, range(1, 40), "if(id % 9 = 0, null, concat('n', id % 2))"), table)
    model = {i: row(i, None if i % 9 == 0 else f"n{i % 2}") for i in range(1, 40)}
    check(java, table, model, "append")

    formatkit.spark.write(frame(spark, range(50, 55), "'new'"), table, "overwrite", where="id < 6 or name is null")
    model = {i: each for i, each in model.items() if i >= 6 and each[2] is not None}
    model |= {i: row(i, "new") for i in range(50, 55)}
    check(java, table, model, "overwrite")

    formatkit.spark.write(frame(spark, range(30, 45), "'up'"), table, "upsert", join_columns="id")
    model |= {i: row(i, "up") for i in range(30, 45)}
    check(java, table, model, "upsert")

    clauses = [Delete("source.id < 12"), Update({"name": "source.name"})]
    formatkit.spark.merge(frame(spark, range(8, 20), "'merged'"), table, "id", clauses, mode="merge-on-read")
    for i in range(8, 20):
        if i not in model:
            model[i] = row(i, "merged")
        elif i < 12:
            del model[i]
        else:
            model[i] = model[i] | {2: "merged"}
    check(java, table, model, "merge")

    frame(spark, range(38, 60), "'sql'").createOrReplaceTempView("source")
    spark.sql(
        "merge into fk.db.written t using source s on t.id = s.id when matched and t.id % 2 = 0 then delete "
        "when matched then update set name = s.name when not matched and s.id > 57 then insert *"
    )
    for i in range(38, 60):
        if i not in model and i > 57:
            model[i] = row(i, "sql")
        elif i in model and i % 2 == 0:
            del model[i]
        elif i in model:
            model[i] = model[i] | {2: "sql"}
    check(java, table, model, "MERGE")

    spark.sql("update fk.db.written set x = null, tags = array('u') where id % 5 = 1")
    model = {i: each | {6: None, 7: ["u"]} if i % 5 == 1 else each for i, each in model.items()}
    check(java, table, model, "UPDATE")
    spark.sql("delete from fk.db.written where id % 3 = 0 and name != 'merged'")
    model = {i: each for i, each in model.items() if i % 3 != 0 or each[2] == "merged"}
    check(java, table, model, "DELETE")
