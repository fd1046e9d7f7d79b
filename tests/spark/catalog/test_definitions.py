"""Namespaces and tables by SQL: what is created, changed, shown and dropped."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import IntegerType, LongType, TimestamptzType
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


def test_namespaces_are_created_shown_changed_and_dropped(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create namespace fk.sales comment 'all of them' with dbproperties ('a' = 'b')")
    spark.sql("create namespace if not exists fk.sales")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql("create namespace fk.sales")
    assert [row[0] for row in spark.sql("show namespaces in fk").collect()] == ["db", "sales"]
    spark.sql("alter namespace fk.sales set dbproperties ('a' = 'c', 'd' = 'e')")
    properties = catalog.load_namespace_properties("sales")
    assert (properties["a"], properties["d"], properties["comment"]) == ("c", "e", "all of them")
    spark.sql("create table fk.sales.t (id int)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql("drop namespace fk.sales")
    spark.sql("drop namespace fk.sales cascade")
    spark.sql("drop namespace if exists fk.sales")
    assert catalog.list_namespaces() == [("db",)]


def test_what_is_missing_is_what_spark_calls_missing(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("drop table if exists fk.db.t")
    for text in ("select * from fk.db.t", "drop table fk.db.t", "insert into fk.db.t values (1)", "describe fk.db.t"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            spark.sql(text)
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql("create table fk.nowhere.t (id int)")
    spark.sql("create table fk.db.t (id int)")
    spark.sql("create table if not exists fk.db.t (id int)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("create table fk.db.t (id int)")
    assert spark.catalog.tableExists("fk.db.t")
    assert not spark.catalog.tableExists("fk.db.u")


def test_create_table_makes_the_columns_partitions_and_properties_of_iceberg(
    spark: SparkSession, catalog: SqlCatalog
) -> None:
    spark.sql(
        "create table fk.db.t (id bigint not null comment 'key', at timestamp, s struct<a: int, b: array<string>>, "
        "name string, small tinyint) using orc comment 'events' "
        "partitioned by (name, bucket(8, id), truncate(3, name), days(at)) "
        "tblproperties ('format-version' = '3', 'x' = 'y')"
    )
    table = catalog.load_table("db.t")
    key = table.schema().find_field("id")
    assert (key.field_type, key.required, key.doc) == (LongType(), True, "key")
    assert table.schema().find_field("at").field_type == TimestamptzType()
    assert table.schema().find_field("small").field_type == IntegerType()
    assert [(each.name, each.transform) for each in table.spec().fields] == [
        ("name", IdentityTransform()),
        ("id_bucket", BucketTransform(8)),
        ("name_trunc", TruncateTransform(3)),
        ("at_day", DayTransform()),
    ]
    assert table.metadata.format_version == 3
    told = {key: table.properties[key] for key in ("write.format.default", "x", "comment")}
    assert told == {"write.format.default": "orc", "x": "y", "comment": "events"}
    shown = spark.sql("show create table fk.db.t").collect()[0][0]
    assert "PARTITIONED BY (name, bucket(8, id), truncate(3, name), days(at))" in shown
    spark.sql("insert into fk.db.t values (1, timestamp'2020-01-01 00:00:00', null, 'abcd', 1)")
    assert spark.table("fk.db.t").select("id", "name").collect() == [(1, "abcd")]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("create table fk.db.t (id interval day to second)", "Iceberg has no type"),
        ("create table fk.db.t (id int) partitioned by (zorder(id))", "Iceberg has columns as they are"),
        ("create table fk.db.t (id int) partitioned by (days(id))", "has no such parts"),
        ("create table fk.db.t (id int) using csv", "there is no such format"),
        ("create table fk.db.t (id int) tblproperties ('format-version' = '9')", "must be 1, 2 or 3"),
    ],
)
def test_what_iceberg_lacks_is_refused_in_words(
    spark: SparkSession, catalog: SqlCatalog, text: str, complaint: str
) -> None:
    with pytest.raises(AnalysisException, match=complaint) as found:
        spark.sql(text)
    assert "Traceback" not in str(found.value)
    assert "py4j" not in str(found.value)
    assert catalog.list_tables("db") == []


def test_alter_table_changes_columns_and_properties(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int not null, a int, p string) partitioned by (p)")
    spark.sql("insert into fk.db.t values (1, 2, 'x')")
    for change in (
        "add columns (n int comment 'new' after id, s struct<x: int>)",
        "add column s.y string",
        "rename column a to b",
        "alter column b type bigint",
        "alter column b first",
        "alter column id drop not null",
        "alter column b comment 'long'",
        "set tblproperties ('k' = 'v', 'gone' = 'x')",
        "unset tblproperties ('gone')",
    ):
        spark.sql(f"alter table fk.db.t {change}")
    table = catalog.load_table("db.t")
    assert [field.name for field in table.schema().fields] == ["b", "id", "n", "p", "s"]
    assert table.schema().find_field("b").field_type == LongType()
    assert table.schema().find_field("b").doc == "long"
    assert not table.schema().find_field("id").required
    assert table.properties["k"] == "v"
    assert "gone" not in table.properties
    assert spark.table("fk.db.t").collect() == [(2, 1, None, "x", None)]
    spark.sql("alter table fk.db.t drop column n")
    spark.sql("alter table fk.db.t drop column if exists n")
    for change, complaint in (
        ("alter column b type string", "Cannot change column type"),
        ("drop column p", "partitioned by p"),
        ("add column m int not null", "no value for it"),
        ("set tblproperties ('format-version' = '1')", "cannot go back"),
    ):
        with pytest.raises(AnalysisException, match=complaint):
            spark.sql(f"alter table fk.db.t {change}")


def test_tables_are_renamed_and_dropped_but_not_purged(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t as select 1 id")
    spark.sql("create table fk.db.u as select 2 id")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("alter table fk.db.t rename to db.u")
    spark.sql("alter table fk.db.t rename to db.v")
    assert [row.tableName for row in spark.sql("show tables in fk.db").collect()] == ["u", "v"]
    with pytest.raises(AnalysisException, match="PURGE is refused"):
        spark.sql("drop table fk.db.v purge")
    assert spark.table("fk.db.v").collect() == [(1,)]
    spark.sql("drop table fk.db.v")
    assert catalog.list_tables("db") == [("db", "u")]
