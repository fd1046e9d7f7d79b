"""What formatkit does on Spark, each as one short run whose rows are compared with the truth."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from formatkit.spark.versions import obstacle

__all__ = ["FEATURES", "SHORT", "Feature", "Tables", "WithoutError"]

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "key", StringType()), NestedField(3, "n", LongType()))
KEYS = "abc"
Row = tuple[Any, ...]
Rows = list[Row]


class WithoutError(Exception):
    """The rows are right, but came without what the feature is about; the message says why."""


@dataclass
class Tables:
    """A catalog in a folder of its own, which other processes can open, too."""

    spark: SparkSession
    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.catalog: Catalog = load_catalog("local", **self.properties)
        self.catalog.create_namespace("db")

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": self.folder.as_uri()}

    @property
    def options(self) -> dict[str, str]:
        return {"catalog": "local", **{f"catalog.{name}": value for name, value in self.properties.items()}}

    def new(self, name: str = "t", rows: Sequence[Row] = (), *, schema: Schema = SCHEMA, **more: Any) -> Table:
        table = self.catalog.create_table(f"db.{name}", schema, **more)
        if rows:
            formatkit.append(table, batch(rows))
        return table

    def by_key(self, name: str = "t", rows: Sequence[Row] = ()) -> Table:
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "key"))
        return self.new(name, rows, partition_spec=spec)

    def load(self, name: str = "t") -> Rows:
        found: Any = formatkit.scan(self.catalog.load_table(f"db.{name}")).to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def frame(self, rows: Rows) -> DataFrame:
        return self.spark.createDataFrame(rows, "id bigint, key string, n bigint")


def batch(rows: Sequence[Row]) -> pa.Table:
    ids, keys, numbers = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "key": list(keys), "n": pa.array(numbers, pa.int64())})


def some(start: int, stop: int) -> Rows:
    return [(i, KEYS[i % 3], i * i) for i in range(start, stop)]


def rows_of(frame: DataFrame) -> Rows:
    return sorted(tuple(row) for row in frame.collect())


def equal(found: Any, expected: Any) -> None:
    if found != expected:
        raise AssertionError(f"wrong rows: {found!r:.600}, and not {expected!r:.600}")


def sums(rows: Rows) -> Rows:
    keys = sorted({row[1] for row in rows})
    return [(key, sum(row[2] for row in rows if row[1] == key)) for key in keys]


def plan_of(frame: DataFrame) -> str:
    java_frame: Any = frame._jdf
    return str(java_frame.queryExecution().executedPlan().toString())


def only_if(holds: bool, spark: SparkSession, otherwise: str) -> None:
    """Whether a plan shows the feature. Where it does not, `obstacle` has to say why."""
    if not holds:
        reason = obstacle(spark)
        if reason is None:
            raise AssertionError(otherwise)
        raise WithoutError(reason)


# Reading


def read(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 30))
    formatkit.delete(table, "id in (3, 4)", mode="merge-on-read")
    left = [row for row in some(0, 30) if row[0] not in (3, 4)]
    equal(rows_of(formatkit.spark.read(tables.spark, table)), left)
    frame = formatkit.spark.read(tables.spark, table, where="n > 100 and key = 'a'", select=["n", "id"])
    equal(rows_of(frame), sorted((n, i) for i, key, n in left if n > 100 and key == "a"))
    equal(formatkit.spark.read(tables.spark, table, limit=5).count(), 5)
    equal(formatkit.spark.read(tables.spark, table).count(), len(left))
    equal(rows_of(formatkit.scan(table).to_spark(tables.spark)), left)


def types(tables: Tables) -> None:
    kinds: dict[str, tuple[IcebergType, Any]] = {
        "flag": (BooleanType(), True),
        "real": (DoubleType(), 1.5),
        "price": (DecimalType(20, 3), Decimal("-12345678901234567.891")),
        "day": (DateType(), dt.date(1582, 10, 1)),
        "at": (TimestampType(), dt.datetime(2026, 1, 2, 3, 4, 5, 678901)),
        "moment": (TimestamptzType(), dt.datetime(1950, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)),
        "text": (StringType(), "grüße"),
        "raw": (BinaryType(), b"\x00\xff"),
        "uuid": (UUIDType(), "f79c3e09-677c-4bbd-a479-3f349cb785e7"),
        "list": (ListType(20, LongType(), element_required=False), [1, None]),
        "map": (MapType(21, StringType(), 22, LongType(), value_required=False), [("a", 1), ("b", None)]),
        "pair": (StructType(NestedField(23, "x", LongType()), NestedField(24, "y", StringType())), {"x": 1, "y": "z"}),
    }
    fields = [NestedField(i, name, kind) for i, (name, (kind, _)) in enumerate(kinds.items(), start=1)]
    table = tables.new(schema=Schema(*fields))
    given = {name: value for name, (_, value) in kinds.items()}
    schema = formatkit.scan(table).arrow_schema
    formatkit.append(table, pa.Table.from_pylist([{**given, "uuid": UUID(given["uuid"]).bytes}, {}], schema=schema))
    frame = formatkit.spark.read(tables.spark, table)
    names = [name for name in kinds if name not in ("map", "pair", "raw")]
    # The moment as text: as an object it would be in the time zone of this machine.
    shown = frame.selectExpr(
        *(f"cast(moment as string) as {name}" if name == "moment" else name for name in names),
        "hex(raw)",
        "map['a'] + size(map)",
        "pair.y",
    )
    whole, empty = sorted(map(tuple, shown.collect()), key=lambda row: row[0] is None)
    equal(
        whole,
        (*(("1950-01-02 03:04:05.678901" if name == "moment" else given[name]) for name in names), "00FF", 3, "z"),
    )
    equal(set(empty), {None})
    formatkit.spark.write(frame, table)
    found = formatkit.scan(table).to_arrow().to_pylist()
    equal(sorted(map(repr, found[:2])), sorted(map(repr, found[2:])))


def time_columns(tables: Tables) -> None:
    table = tables.new(schema=Schema(NestedField(1, "at", TimeType())))
    noon = dt.time(12, 0, 0, 1)
    formatkit.append(table, pa.table({"at": pa.array([noon], pa.time64("us"))}))
    frame = formatkit.spark.read(tables.spark, table)
    equal(rows_of(frame), [(noon,)])
    formatkit.spark.write(frame, table)
    equal(tables.load(), [(noon,)] * 2)


def filters_reach_the_scan(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 30))
    frame = formatkit.spark.read(tables.spark, table)
    asked = frame.filter("key = 'b' and n > 50").select("id", "_file" if "_file" in plan_of(frame) else "key")
    expected = [row[0] for row in some(0, 30) if row[1] == "b" and row[2] > 50]
    equal([row[0] for row in rows_of(asked)], expected)
    equal(frame.filter("id < 7").limit(3).count(), 3)
    equal(
        rows_of(frame.join(tables.frame([(1, "c", 0)]).select("key"), "key").select("id")),
        [(row[0],) for row in some(0, 30) if row[1] == "c"],
    )
    only_if("file_count:[1]" in plan_of(asked), tables.spark, f"the filter did not reach the scan: {plan_of(asked)}")


def partitioning_is_declared(tables: Tables) -> None:
    rows = some(0, 30)
    frame = formatkit.spark.read(tables.spark, tables.by_key(rows=rows), partitioned_by="key", buckets=4)
    grouped = frame.groupBy("key").sum("n")
    equal(rows_of(grouped), sums(rows))
    fixed = formatkit.spark.dataframe(
        tables.spark, formatkit.scan(tables.catalog.load_table("db.t")), partitioned_by="key", buckets=4
    )
    again = fixed.groupBy("key").sum("n")
    equal(rows_of(again), sums(rows))
    plans = plan_of(grouped) + plan_of(again)
    only_if("Exchange" not in plans, tables.spark, f"there is an Exchange: {plans}")


def aggregates_from_metadata(tables: Tables) -> None:
    frame = formatkit.spark.read(tables.spark, tables.by_key(rows=some(0, 30)))
    asked = frame.selectExpr("count(*)", "min(n)", "max(n)")
    equal(rows_of(asked), [(30, 0, 29 * 29)])
    only_if("LocalTableScan" in plan_of(asked), tables.spark, f"rows were read: {plan_of(asked)}")


def counters(tables: Tables) -> None:
    scan = formatkit.spark.SparkScan(tables.spark, formatkit.scan(tables.by_key(rows=some(0, 30))), buckets=2)
    equal(rows_of(scan.dataframe()), some(0, 30))
    equal(scan.metrics().total["rows"], 30)
    pages = scan._counters
    only_if(pages is not None and pages.is_named, tables.spark, "Spark's pages do not show the counters")


def work_in_buckets(tables: Tables) -> None:
    rows = some(0, 30)
    table = tables.by_key(rows=rows)
    scan = formatkit.scan(table)

    def count(batches: Iterable[pa.RecordBatch]) -> pa.Table:
        return pa.table({"rows": [sum(batch.num_rows for batch in batches)]})

    mapped = formatkit.spark.map_buckets(tables.spark, scan, count, "rows bigint", buckets=2)
    equal(sum(row[0] for row in mapped.collect()), 30)
    grouped = formatkit.spark.group_in_buckets(tables.spark, scan, by="key", aggregates={"total": "sum(n)"})
    equal(rows_of(grouped), sums(rows))
    told = formatkit.spark.aggregate(tables.spark, scan, "count", "max(n)")
    equal(told.to_pylist(), [{"count": 30, "max(n)": 29 * 29}])
    other = tables.by_key("other", some(0, 2))
    pairs = formatkit.spark.co_bucketed(tables.spark, scan, formatkit.scan(other), on="key", buckets=2)
    equal(rows_of(pairs.join("semi").select("id")), [(row[0],) for row in rows if row[1] in "ab"])


# Writing


def append(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 3))
    result = formatkit.spark.write(tables.frame(some(3, 30)), table, write_format="orc")
    equal((result.rows, tables.load()), (27, some(0, 30)))


def overwrite(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 12))
    formatkit.spark.write(tables.frame(some(100, 103)), table, "overwrite", where="id >= 6")
    equal(tables.load(), some(0, 6) + some(100, 103))
    formatkit.spark.write(tables.frame([(7, "a", 7)]), table, "overwrite-partitions")
    left = [row for row in some(0, 6) + some(100, 103) if row[1] != "a"]
    equal(tables.load(), sorted([*left, (7, "a", 7)]))
    formatkit.spark.write(tables.frame(some(0, 2)), table, "overwrite")
    equal(tables.load(), some(0, 2))


def upsert_and_merge(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 10))
    formatkit.spark.write(tables.frame([(1, "b", -1), (50, "c", -50)]), table, "upsert", join_columns=["id"])
    expected = {row[0]: row for row in some(0, 10)} | {1: (1, "b", -1), 50: (50, "c", -50)}
    equal(tables.load(), sorted(expected.values()))
    for mode in ("copy-on-write", "merge-on-read"):
        formatkit.spark.write(
            tables.frame([(2, "a", 0), (3, "x", 33), (60, "b", 60)]),
            table,
            "merge",
            on="id",
            matched=[formatkit.Delete("source.n = 0"), formatkit.Update()],
            merge_mode=mode,
        )
        expected = {**expected, 3: (3, "x", 33), 60: (60, "b", 60)}
        expected.pop(2, None)
        equal(tables.load(), sorted(expected.values()))
        formatkit.spark.write(tables.frame([(2, "a", 4)]), table)
        expected[2] = (2, "a", 4)


def distribution(tables: Tables) -> None:
    for mode in ("none", "hash", "range"):
        table = tables.by_key(mode)
        formatkit.spark.write(tables.frame(some(0, 60)).repartition(4), table, distribution_mode=mode)
        equal(tables.load(mode), some(0, 60))
        files = len(list(formatkit.scan(table).tasks))
        if mode == "hash" and files != len(KEYS):
            raise AssertionError(f"{files} files of {len(KEYS)} partitions")


def distribution_by_bucket(tables: Tables) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    table = tables.new(partition_spec=spec)
    formatkit.spark.write(tables.frame(some(0, 60)).repartition(4), table, distribution_mode="hash")
    equal(tables.load(), some(0, 60))
    equal(len(list(formatkit.scan(table).tasks)), 4)


# The data source


def source_read(tables: Tables) -> None:
    tables.by_key(rows=some(0, 30))
    reader = tables.spark.read.format("formatkit").options(**tables.options)
    equal(rows_of(reader.load("db.t")), some(0, 30))
    chosen = reader.option("filter", "n > 100").option("columns", "id").load("db.t")
    equal(rows_of(chosen), [(row[0],) for row in some(0, 30) if row[2] > 100])


def source_catalogs(tables: Tables) -> None:
    tables.new(rows=some(0, 5))
    settings = {f"spark.formatkit.catalog.local.{name}": value for name, value in tables.properties.items()}
    for name, value in settings.items():
        tables.spark.conf.set(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            formatkit.spark.register(tables.spark)
        equal(rows_of(tables.spark.read.format("formatkit").load("local.db.t")), some(0, 5))
    finally:
        for name in settings:
            tables.spark.conf.unset(name)


def source_write(tables: Tables) -> None:
    tables.by_key(rows=some(0, 3))

    def save(rows: Rows, mode: str, **options: str) -> None:
        writer = tables.frame(rows).write.format("formatkit").mode(mode)
        writer.options(**tables.options, **options).save("db.t")

    save(some(3, 9), "append")
    equal(tables.load(), some(0, 9))
    save([(7, "a", 7)], "overwrite", **{"overwrite-mode": "dynamic"})
    equal(tables.load(), sorted([*(row for row in some(0, 9) if row[1] != "a"), (7, "a", 7)]))
    save(some(0, 2), "overwrite")
    equal(tables.load(), some(0, 2))


def stream_source(tables: Tables) -> None:
    table = tables.new(rows=some(0, 4))
    formatkit.append(table, batch(some(4, 9)))
    found: Rows = []

    def take(frame: DataFrame, _batch: int) -> None:
        found.extend(rows_of(frame))

    stream = tables.spark.readStream.format("formatkit").options(**tables.options)
    limited = stream.option("streaming-max-files-per-micro-batch", "1").load("db.t")
    checkpoint = (tables.folder / "checkpoint").as_uri()
    for _ in range(2):
        query = limited.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
    equal(sorted(found), some(0, 9))


def stream_sink(tables: Tables) -> None:
    tables.by_key()
    given = tables.folder / "given"
    checkpoint = (tables.folder / "checkpoint").as_uri()
    # A source of Spark's own, which every version has.
    for part in (some(0, 5), some(5, 9)):
        tables.frame(part).write.mode("append").parquet(str(given))
        rows = tables.spark.readStream.schema("id bigint, key string, n bigint").parquet(str(given))
        query = rows.writeStream.format("formatkit").options(**tables.options).option("checkpointLocation", checkpoint)
        query.trigger(availableNow=True).start("db.t").awaitTermination()
    equal(tables.load(), some(0, 9))
    equal(len(tables.catalog.load_table("db.t").metadata.snapshots), 2)


# SQL


def with_sql(tables: Tables) -> Callable[[str], DataFrame]:
    formatkit.spark.register(tables.spark, fk=tables.catalog)
    return tables.spark.sql


def sql_queries(tables: Tables) -> None:
    sql = with_sql(tables)
    table = tables.by_key(rows=some(0, 9))
    first = table.metadata.current_snapshot_id
    formatkit.append(table, batch(some(9, 12)))
    equal(rows_of(sql("select * from fk.db.t")), some(0, 12))
    asked = sql("select id from fk.db.t where key = 'b' and n > 20")
    equal(rows_of(asked), [(row[0],) for row in some(0, 12) if row[1] == "b" and row[2] > 20])
    equal(rows_of(sql(f"select * from fk.db.t version as of {first}")), some(0, 9))
    equal(rows_of(sql("select count(*) from fk.db.t.snapshots")), [(2,)])
    equal(rows_of(sql("select sum(record_count) from fk.db.t.files")), [(12,)])
    equal([row[1] for row in sql("show tables in fk.db").collect()], ["t"])


def sql_definitions(tables: Tables) -> None:
    sql = with_sql(tables)
    sql("create namespace fk.other")
    sql(
        "create table fk.other.t (id bigint not null, at timestamp, amount double) using orc "
        "partitioned by (days(at), truncate(4, id)) tblproperties ('format-version' = '2')"
    )
    sql("alter table fk.other.t add column note string")
    sql("alter table fk.other.t rename column amount to value")
    sql("insert into fk.other.t values (1, timestamp'2026-01-01 00:00:00', 1.5, 'x')")
    made = tables.catalog.load_table("other.t")
    equal(made.schema().column_names, ["id", "at", "value", "note"])
    equal([str(field.transform) for field in made.spec().fields], ["day", "truncate[4]"])
    equal(made.properties["write.format.default"], "orc")
    equal(rows_of(sql("select id, value, note from fk.other.t")), [(1, 1.5, "x")])
    for refused in ("id bigint default 3", "id bigint, constraint positive check (id > 0)", "id bigint primary key"):
        try:
            sql(f"create table fk.other.refused ({refused})")
        except Exception as error:
            if "Py4J" in type(error).__name__:
                raise
        else:
            raise AssertionError(f"CREATE TABLE ({refused}) was not refused")
    sql("drop table fk.other.t")
    sql("drop namespace fk.other")
    equal(("other",) in tables.catalog.list_namespaces(), False)


def sql_inserts(tables: Tables) -> None:
    sql = with_sql(tables)
    tables.by_key()
    tables.frame(some(0, 9)).createOrReplaceTempView("given")
    sql("insert into fk.db.t select * from given")
    equal(tables.load(), some(0, 9))
    sql("create table fk.db.copy using avro as select * from fk.db.t where id < 4")
    equal(tables.load("copy"), some(0, 4))
    sql("insert overwrite fk.db.copy select * from given where id > 6")
    equal(tables.load("copy"), some(7, 9))
    tables.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    sql("insert overwrite fk.db.t values (7, 'a', 7)")
    tables.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    equal(tables.load(), sorted([*(row for row in some(0, 9) if row[1] != "a"), (7, "a", 7)]))
    sql("create or replace table fk.db.copy as select 1L as one")
    equal(tables.load("copy"), [(1,)])
    tables.frame(some(20, 22)).writeTo("fk.db.t").append()
    equal(len(tables.load()), 9)


def _changes(tables: Tables, mode: str) -> None:
    sql = with_sql(tables)
    told = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    sql(f"create table fk.db.t (id bigint, key string, n bigint) partitioned by (key) tblproperties ({told})")
    model = {row[0]: row for row in some(0, 30)}
    tables.frame(some(0, 30)).createOrReplaceTempView("given")
    sql("insert into fk.db.t select * from given")

    def check() -> None:
        equal(tables.load(), sorted(model.values()))
        equal(rows_of(sql("select * from fk.db.t")), sorted(model.values()))

    sql("delete from fk.db.t where id % 5 = 0")
    model = {i: row for i, row in model.items() if i % 5}
    check()
    sql("delete from fk.db.t where key = 'c'")
    model = {i: row for i, row in model.items() if row[1] != "c"}
    check()
    sql("update fk.db.t set n = -n, key = 'z' where id > 20")
    model = {i: row if i <= 20 else (i, "z", -row[2]) for i, row in model.items()}
    check()
    sql("delete from fk.db.t where id in (select id from given where n = 1)")
    model.pop(1)
    check()
    changes = [(4, "gone", 0), (6, "new", 66), (90, "new", 90), (91, "gone", 91)]
    tables.frame(changes).createOrReplaceTempView("changes")
    sql(
        "merge into fk.db.t t using changes s on t.id = s.id when matched and s.key = 'gone' then delete "
        "when matched then update set * when not matched and s.key <> 'gone' then insert * "
        "when not matched by source and t.key = 'z' then update set n = 0"
    )
    model = {i: (i, "z", 0) if row[1] == "z" else row for i, row in model.items()}
    model.pop(4)
    model |= {6: (6, "new", 66), 90: (90, "new", 90)}
    check()
    tables.frame([(90, "again", 0), (95, "more", 95)]).createOrReplaceTempView("changes")
    sql("merge into fk.db.t t using changes s on t.id = s.id when not matched then insert *")
    model[95] = (95, "more", 95)
    check()


def _lineage(tables: Tables, mode: str) -> None:
    """Rows of version 3 keep their ids, and those that change become younger."""
    sql = tables.spark.sql
    told = f"'write.update.mode' = '{mode}', 'write.merge.mode' = '{mode}', 'format-version' = '3'"
    sql(f"create table fk.db.third (id bigint, key string, n bigint) tblproperties ({told})")
    sql("insert into fk.db.third select * from given where id < 6")
    ids = {row[0]: row[1] for row in sql("select id, _row_id from fk.db.third").collect()}
    sql("update fk.db.third set n = -1 where id = 2")
    sql("merge into fk.db.third t using (select 3L id) s on t.id = s.id when matched then update set n = -2")
    found = rows_of(sql("select id, _row_id, _last_updated_sequence_number, n from fk.db.third"))
    younger = {2: (2, -1), 3: (3, -2)}
    equal(found, [(i, ids[i], *younger.get(i, (1, i * i))) for i in range(6)])


def sql_copy_on_write(tables: Tables) -> None:
    _changes(tables, "copy-on-write")
    _lineage(tables, "copy-on-write")


def sql_merge_on_read(tables: Tables) -> None:
    _changes(tables, "merge-on-read")
    _lineage(tables, "merge-on-read")


def sql_procedures(tables: Tables) -> None:
    sql = with_sql(tables)
    table = tables.new(rows=some(0, 5))
    first = table.metadata.current_snapshot_id
    formatkit.append(table, batch(some(5, 9)))
    sql("call fk.system.rewrite_data_files(table => 'db.t')")
    equal(tables.load(), some(0, 9))
    sql(f"call fk.system.rollback_to_snapshot('db.t', {first})")
    equal(tables.load(), some(0, 5))


def sql_streams(tables: Tables) -> None:
    sql = with_sql(tables)
    sql("create table fk.db.t (id bigint, key string, n bigint) partitioned by (key)")
    given = tables.folder / "given"
    for part in (some(0, 5), [(3, "a", -3), (7, "b", 7)]):
        tables.frame(part).write.mode("append").parquet(str(given))
        rows = tables.spark.readStream.schema("id bigint, key string, n bigint").parquet(str(given))
        query = rows.writeStream.option("checkpointLocation", (tables.folder / "checkpoint").as_uri())
        query = query.options(**{"upsert-enabled": "true", "join-columns": "id"})
        query.trigger(availableNow=True).toTable("fk.db.t").awaitTermination()
    equal(tables.load(), sorted([*some(0, 3), (3, "a", -3), *some(4, 5), (7, "b", 7)]))
    equal(len(tables.catalog.load_table("db.t").metadata.snapshots), 2)


def jobs(tables: Tables) -> None:
    table = tables.by_key(rows=some(0, 9))
    formatkit.append(table, batch(some(9, 20)))
    engine = formatkit.spark.SparkEngine(tables.spark)
    formatkit.rewrite(table, file_format="orc", engine=engine)
    equal(tables.load(), some(0, 20))
    equal({task.location.rpartition(".")[2] for task in formatkit.scan(table).tasks}, {"orc"})
    equal(list(formatkit.validate(table, engine=engine).findings), [])


@dataclass(frozen=True)
class Feature:
    """A line of the table in docs/spark.md."""

    title: str
    run: Callable[[Tables], None]


FEATURES = {
    each.run.__name__: each
    for each in (
        Feature("`read`, `dataframe`, `to_spark`", read),
        Feature("columns of other types (variant was not tried)", types),
        Feature("columns of type time", time_columns),
        Feature("later filters, columns and limits reach the scan", filters_reach_the_scan),
        Feature("`partitioned_by` spares an Exchange", partitioning_is_declared),
        Feature("`count`, `min`, `max` from metadata", aggregates_from_metadata),
        Feature("counters on Spark's pages", counters),
        Feature("`map_buckets`, `group_in_buckets`, `aggregate`, `co_bucketed`", work_in_buckets),
        Feature("`write`: append", append),
        Feature("`write`: overwrite, overwrite-partitions", overwrite),
        Feature("`write`: upsert, merge", upsert_and_merge),
        Feature("`distribution-mode` none, hash, range", distribution),
        Feature("`distribution-mode` of tables that are partitioned by `bucket`", distribution_by_bucket),
        Feature("`rewrite`, `validate` on `SparkEngine`", jobs),
        Feature('`spark.read.format("formatkit")`', source_read),
        Feature('`df.write.format("formatkit")`', source_write),
        Feature("catalogs of the session's settings, after `register`", source_catalogs),
        Feature("`readStream`", stream_source),
        Feature("`writeStream`", stream_sink),
        Feature("SQL: queries, time travel, metadata tables", sql_queries),
        Feature("SQL: definitions", sql_definitions),
        Feature("SQL: `INSERT`, `CREATE TABLE … AS`, `writeTo`", sql_inserts),
        Feature("SQL: `DELETE`, `UPDATE`, `MERGE`, copy-on-write", sql_copy_on_write),
        Feature("SQL: `DELETE`, `UPDATE`, `MERGE`, merge-on-read", sql_merge_on_read),
        Feature("SQL: `CALL`", sql_procedures),
        Feature("SQL: `writeStream.toTable`, upserts by key", sql_streams),
    )
}
SHORT = ("read", "append", "source_read")
"""What CI runs."""
