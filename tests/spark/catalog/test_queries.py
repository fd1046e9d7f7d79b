"""SELECT from tables of the catalog: pushdown, older states, metadata columns and metadata tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


@pytest.fixture
def filled(spark: SparkSession, catalog: SqlCatalog) -> SqlCatalog:
    spark.sql("create table fk.db.t (id bigint, d date) partitioned by (d)")
    spark.sql("insert into fk.db.t select id, date'2020-01-01' + cast(id % 3 as int) from range(9)")
    return catalog


def test_filters_columns_and_the_name_reach_the_scan(spark: SparkSession, filled: SqlCatalog) -> None:
    query = spark.sql("select id from fk.db.t where d = date'2020-01-02' and id > 1")
    plan = query._jdf.queryExecution().toString()
    assert "formatkit fk.db.t" in plan
    assert "file_count:[1]" in plan
    assert "id > 1" in plan
    assert sorted(row[0] for row in query.collect()) == [4, 7]


def test_queries_of_one_table_do_not_see_each_others_filters(spark: SparkSession, filled: SqlCatalog) -> None:
    both = spark.sql("select id from fk.db.t where id = 1 union all select id from fk.db.t where id = 2")
    assert sorted(row[0] for row in both.collect()) == [1, 2]
    frame = spark.table("fk.db.t")
    assert frame.filter("id = 1").count() == 1
    assert frame.count() == 9
    joined = spark.sql("select a.id from fk.db.t a join fk.db.t b on a.id = b.id where a.d = date'2020-01-01'")
    assert sorted(row[0] for row in joined.collect()) == [0, 3, 6]


def test_metadata_columns_are_there_for_those_who_ask(spark: SparkSession, filled: SqlCatalog) -> None:
    assert spark.table("fk.db.t").columns == ["id", "d"]
    found = spark.sql("select _file, count(*), max(_pos) from fk.db.t group by _file").collect()
    files = {row[0] for row in spark.sql("select file_path from fk.db.t.files").collect()}
    assert {row[0] for row in found} == files
    assert all(row[2] == row[1] - 1 for row in found)


def test_older_states_by_snapshot_time_branch_and_tag(spark: SparkSession, filled: SqlCatalog) -> None:
    table = filled.load_table("db.t")
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").create_branch(first.snapshot_id, "audit").commit()
    spark.sql("alter table fk.db.t add column n int")
    spark.sql("insert into fk.db.t values (100, null, 1)")
    counted = "select count(*) from fk.db.t"
    assert spark.sql(counted).collect() == [(10,)]
    assert spark.sql(f"{counted} version as of {first.snapshot_id}").collect() == [(9,)]
    assert spark.sql(f"{counted} version as of 'v1'").collect() == [(9,)]
    assert spark.sql(f"{counted} version as of 'audit'").collect() == [(9,)]
    moment = f"timestamp_millis({first.timestamp_ms})"
    assert spark.sql(f"{counted} timestamp as of {moment}").collect() == [(9,)]
    assert spark.sql("select * from fk.db.t version as of 'v1'").columns == ["id", "d"]
    assert spark.read.option("versionAsOf", first.snapshot_id).table("fk.db.t").count() == 9
    with pytest.raises(AnalysisException, match="does not have; its branches and tags: audit, main, v1"):
        spark.sql(f"{counted} version as of 'nope'")


def test_a_write_is_seen_by_cached_tables_and_older_dataframes(spark: SparkSession, filled: SqlCatalog) -> None:
    spark.sql("cache table fk.db.t")
    try:
        assert spark.table("fk.db.t").count() == 9
        spark.sql("insert into fk.db.t values (100, null)")
        assert spark.table("fk.db.t").count() == 10
        spark.sql("delete from fk.db.t where id = 0")
        assert spark.table("fk.db.t").count() == 9
    finally:
        spark.sql("uncache table fk.db.t")


def test_an_option_that_nothing_knows_is_refused(spark: SparkSession, filled: SqlCatalog) -> None:
    with pytest.raises(AnalysisException, match="has no option snapshot-id"):
        spark.read.option("snapshot-id", 1).table("fk.db.t").collect()
    with pytest.raises(AnalysisException, match="nope"):
        spark.range(1).selectExpr("id", "current_date() d").writeTo("fk.db.t").option("nope", 1).append()


def test_metadata_tables_say_what_the_metadata_says(spark: SparkSession, filled: SqlCatalog) -> None:
    spark.sql("alter table fk.db.t set tblproperties ('write.delete.mode' = 'merge-on-read')")
    spark.sql("delete from fk.db.t where id = 4")
    table = filled.load_table("db.t")
    current: Any = table.current_snapshot()

    def rows(text: str) -> list[Any]:
        return spark.sql(text).collect()

    assert rows("select snapshot_id, operation, summary['added-records'] from fk.db.t.snapshots order by 2") == [
        (table.history()[0].snapshot_id, "append", "9"),
        (current.snapshot_id, "delete", None),
    ]
    assert [row[0] for row in rows("select snapshot_id from fk.db.t.history where is_current_ancestor")] == [
        entry.snapshot_id for entry in table.history()
    ]
    assert rows("select name, type, snapshot_id from fk.db.t.refs") == [("main", "BRANCH", current.snapshot_id)]
    assert rows("select content, count(*), sum(record_count) from fk.db.t.files group by content order by content") == [
        (0, 3, 9),
        (1, 1, 1),
    ]
    assert rows(
        "select partition.d, record_count, file_count, position_delete_record_count from fk.db.t.partitions order by 1"
    ) == [(date(2020, 1, day), 3, 1, int(day == 2)) for day in (1, 2, 3)]
    assert rows(
        "select content, added_data_files_count, added_delete_files_count from fk.db.t.manifests order by 1"
    ) == [
        (0, 3, 0),
        (1, 0, 1),
    ]
    first = table.history()[0].snapshot_id
    assert rows(f"select count(*) from fk.db.t.files version as of {first}") == [(3,)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("select * from fk.db.t.nope")
    with pytest.raises(AnalysisException, match="does not support append"):
        spark.sql("insert into fk.db.t.refs select * from fk.db.t.refs")


def test_maintenance_by_call(spark: SparkSession, filled: SqlCatalog) -> None:
    spark.sql("insert into fk.db.t select id, date'2020-01-01' from range(20, 23)")
    before = filled.load_table("db.t").metadata.current_snapshot_id
    (counts,) = spark.sql("call fk.system.rewrite_data_files(table => 'fk.db.t', file_format => 'avro')").collect()
    assert (counts.rewritten_data_files_count, counts.added_data_files_count) == (4, 3)
    assert spark.sql("select count(*) from fk.db.t where _file like '%.avro'").collect() == [(12,)]
    after = filled.load_table("db.t").metadata.current_snapshot_id
    moved = spark.sql(f"call fk.system.rollback_to_snapshot('db.t', {before})").collect()
    assert moved == [(after, before)]
    assert spark.sql("select count(*) from fk.db.t where _file like '%.avro'").collect() == [(0,)]
    assert spark.sql("call fk.system.remove_orphan_files('db.t')").collect() == []
    with pytest.raises(AnalysisException, match=r"has no table db\.nope"):
        spark.sql("call fk.system.rewrite_data_files('db.nope')")
    with pytest.raises(AnalysisException, match="there is no procedure"):
        spark.sql("call fk.system.nope('db.t')")
