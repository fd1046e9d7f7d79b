"""INSERT, CTAS, RTAS, writeTo and saveAsTable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

import formatkit


def rows_of(catalog: SqlCatalog, name: str = "db.t") -> list[tuple[Any, ...]]:
    found = formatkit.scan(catalog.load_table(name)).to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "arrow"])
def test_rows_of_every_type_arrive(spark: SparkSession, catalog: SqlCatalog, file_format: str) -> None:
    spark.sql(
        "create table fk.db.t as select id, cast(id as decimal(12, 3)) m, cast(id as float) f, cast(id as string) s, "
        "cast('ab' as binary) b, timestamp_micros(id) at, cast(timestamp_micros(id) as timestamp_ntz) n, "
        "date_from_unix_date(cast(id as int)) d, id % 2 = 0 e, array(id, null) l, map(cast(id as string), id) k, "
        "named_struct('x', id, 'y', if(id % 2 = 0, null, 'z')) st from range(50)"
    )
    spark.sql(f"create table fk.db.u using {file_format} as select * from fk.db.t where false")
    spark.sql("insert into fk.db.u select * from fk.db.t")
    assert rows_of(catalog, "db.u") == rows_of(catalog, "db.t")
    assert spark.table("fk.db.u").orderBy("id").collect() == spark.table("fk.db.t").orderBy("id").collect()


def test_columns_are_matched_by_position_or_by_name_as_spark_does(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int, name string, n int)")
    spark.sql("insert into fk.db.t values (1, 'a', 2)")
    spark.sql("insert into fk.db.t (name, id) values ('b', 2)")
    spark.sql("insert into fk.db.t by name select 3 n, 'c' name, 3 id")
    frame = spark.createDataFrame([("d", 4, 5)], "name string, id int, n int")
    frame.writeTo("fk.db.t").append()
    frame.select("id", "name", "n").write.insertInto("fk.db.t")
    assert rows_of(catalog) == [(1, "a", 2), (2, "b", None), (3, "c", 3), (4, "d", 5), (4, "d", 5)]
    with pytest.raises(AnalysisException, match="INCOMPATIBLE_DATA_FOR_TABLE"):
        spark.sql("insert into fk.db.t values ('no number', 'a', 2)")


def test_overwrites_replace_what_they_say(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int, p int) partitioned by (p)")
    fill = "insert overwrite fk.db.t select cast(id as int), cast(id % 3 as int) from range(9)"

    def after(statement: Any) -> list[tuple[Any, ...]]:
        spark.sql(fill)
        statement()
        return rows_of(catalog)

    base = [(i, i % 3) for i in range(9)]
    new = spark.createDataFrame([(100, 1)], "id int, p int")
    without_1 = [*((i, p) for i, p in base if p != 1)]
    assert after(lambda: spark.sql("insert overwrite fk.db.t values (100, 1)")) == [(100, 1)]
    assert after(lambda: spark.sql("insert overwrite fk.db.t partition (p = 1) select 100")) == sorted(
        [*without_1, (100, 1)], key=repr
    )
    assert after(lambda: new.writeTo("fk.db.t").overwritePartitions()) == sorted([*without_1, (100, 1)], key=repr)
    assert after(lambda: new.writeTo("fk.db.t").overwrite(col("id") > 5)) == sorted(
        [*((i, p) for i, p in base if i <= 5), (100, 1)], key=repr
    )
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        assert after(lambda: spark.sql("insert overwrite fk.db.t values (100, 1)")) != [(100, 1)]
        assert rows_of(catalog) == sorted([*without_1, (100, 1)], key=repr)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_an_overwrite_that_iceberg_cannot_say_exactly_is_refused(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t as select 1 id, 'a' s")
    before = catalog.load_table("db.t").metadata_location
    with pytest.raises(Exception, match="does not support overwrite by expression"):
        spark.sql("select 2 id, 'b' s").writeTo("fk.db.t").overwrite(col("s").like("%a%"))
    assert catalog.load_table("db.t").metadata_location == before


def test_a_table_can_be_inserted_into_itself(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t as select id from range(5)")
    spark.sql("insert into fk.db.t select id + 10 from fk.db.t")
    spark.sql("insert overwrite fk.db.t select id from fk.db.t where id % 2 = 0")
    assert rows_of(catalog) == sorted([(i,) for i in (0, 2, 4, 10, 12, 14)], key=repr)


def test_a_query_that_fails_leaves_no_table_and_no_row(
    spark: SparkSession, catalog: SqlCatalog, tmp_path: Path
) -> None:
    failing = "select id, if(id = 9, cast(raise_error('on purpose') as int), 1) x from range(10)"
    with pytest.raises(Exception, match="on purpose"):
        spark.sql(f"create table fk.db.t as {failing}")
    assert catalog.list_tables("db") == []
    assert list(tmp_path.rglob("*.parquet")) == []
    spark.sql("create table fk.db.t as select id from range(3)")
    files = sorted(tmp_path.rglob("*.parquet"))
    for text in (f"replace table fk.db.t as {failing}", f"create or replace table fk.db.t as {failing}"):
        with pytest.raises(Exception, match="on purpose"):
            spark.sql(text)
    with pytest.raises(Exception, match="on purpose"):
        spark.sql("insert into fk.db.t select if(id = 9, cast(raise_error('on purpose') as int), 1) from range(10)")
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert rows_of(catalog) == [(0,), (1,), (2,)]


def test_a_replaced_table_has_other_columns_and_its_history(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t partitioned by (p) tblproperties ('k' = 'v') as select id, id % 2 p from range(4)")
    first = catalog.load_table("db.t").metadata.current_snapshot_id
    spark.sql(
        "create or replace table fk.db.t partitioned by (bucket(2, id)) as select cast(id as string) id from range(3)"
    )
    table = catalog.load_table("db.t")
    assert [field.name for field in table.spec().fields] == ["id_bucket"]
    assert table.properties["k"] == "v"
    assert rows_of(catalog) == [("0",), ("1",), ("2",)]
    assert sorted(spark.sql(f"select * from fk.db.t version as of {first}").collect()) == [
        (0, 0),
        (1, 1),
        (2, 0),
        (3, 1),
    ]
    spark.sql("insert into fk.db.t values ('x')")
    spark.sql("replace table fk.db.t (a int)")
    assert rows_of(catalog) == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("replace table fk.db.nope as select 1 a")


def test_the_dataframe_writers_create_append_and_replace(spark: SparkSession, catalog: SqlCatalog) -> None:
    frame = spark.range(3).toDF("id")
    frame.writeTo("fk.db.t").using("avro").tableProperty("k", "v").partitionedBy(col("id")).create()
    assert catalog.load_table("db.t").properties["write.format.default"] == "avro"
    frame.writeTo("fk.db.t").option("write-format", "orc").option("snapshot-property.who", "me").append()
    summary: Any = catalog.load_table("db.t").current_snapshot().summary  # type: ignore[union-attr]
    assert (summary["who"], summary["engine-name"]) == ("me", "spark")
    assert spark.sql("select count(*) from fk.db.t where _file like '%.orc'").collect() == [(3,)]
    frame.write.mode("append").saveAsTable("fk.db.t")
    assert len(rows_of(catalog)) == 9
    frame.write.mode("overwrite").saveAsTable("fk.db.t")
    assert rows_of(catalog) == [(0,), (1,), (2,)]
    frame.write.saveAsTable("fk.db.u")
    frame.filter("id = 1").writeTo("fk.db.u").createOrReplace()
    assert rows_of(catalog, "db.u") == [(1,)]


def test_rows_of_a_partition_are_given_to_one_task(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id bigint, p bigint) partitioned by (bucket(2, id), p)")
    spark.sql("insert into fk.db.t select id, id % 2 from range(0, 200, 1, 8)")
    assert spark.sql("select count(*) from fk.db.t.files").collect() == [(4,)]
    assert len(rows_of(catalog)) == 200


def test_a_table_that_is_dropped_while_rows_are_inserted_is_missing(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int)")
    name, uri = catalog.name, catalog.properties["uri"]

    def dropping(number: int) -> int:
        with SqlCatalog(name, uri=uri) as other:
            if other.table_exists("db.t"):
                other.drop_table("db.t")
        return number

    rows = spark.range(1).select(udf(dropping, "int", useArrow=False)("id").alias("id"))
    with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.* `db`\.`t` cannot"):
        rows.writeTo("fk.db.t").append()
