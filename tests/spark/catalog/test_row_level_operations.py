"""DELETE, UPDATE and MERGE INTO against a model in Python, both modes, versions 2 and 3."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import formatkit
from formatkit.errors import CommitConflictError

Row = tuple[int, int | None, int | None]
Model = list[Row]
MODES = ["copy-on-write", "merge-on-read"]


def properties(mode: str, version: int = 2, **others: str) -> str:
    told = {f"write.{command}.mode": mode for command in ("delete", "update", "merge")}
    told |= {"format-version": str(version), **others}
    return ", ".join(f"'{key}' = '{value}'" for key, value in told.items())


def rows_of(catalog: SqlCatalog, name: str = "db.t") -> Model:
    found: Any = formatkit.scan(catalog.load_table(name)).to_arrow().to_pylist()
    return sorted(((row["id"], row["v"], row["p"]) for row in found), key=repr)


class Condition:
    """A random condition, as SQL and as Python, where null is neither true nor false."""

    def __init__(self, random: Random) -> None:
        kind, number = random.randrange(5), random.randrange(40)
        self.sql: str
        self.holds: Callable[[int, int | None, int | None], bool]
        conditions: list[tuple[str, Callable[[int, int | None, int | None], bool]]] = [
            (f"id % 3 = {number % 3}", lambda i, v, p: i % 3 == number % 3),
            (f"id > {number}", lambda i, v, p: i > number),
            (f"p = {number % 3}", lambda i, v, p: p is not None and p == number % 3),
            ("v is null", lambda i, v, p: v is None),
            (
                f"not (v = {number} or p = 1)",
                lambda i, v, p: v is not None and p is not None and v != number and p != 1,
            ),
        ]
        self.sql, self.holds = conditions[kind]


def random_merge(random: Random) -> tuple[str, Any]:
    """A MERGE, and the same in Python."""
    start, stop = sorted(random.sample(range(60), 2))
    condition = Condition(random)
    deletes_first, by_source = random.random() < 0.5, random.random() < 0.3
    matched = [
        f"when matched and t.{condition.sql} then delete" if condition.sql.startswith(("id", "p", "v")) else "",
        "when matched then update set v = s.v, p = s.p",
    ]
    if not deletes_first or not matched[0]:
        matched, deletes = matched[1:], False
    else:
        deletes = True
    text = f"""merge into fk.db.t t using (select id, cast(id * 10 as int) v, cast(id % 4 as int) p
        from range({start}, {stop})) s on t.id = s.id {" ".join(matched)}
        when not matched and s.id % 2 = 0 then insert *
        {"when not matched by source and t.id % 5 = 0 then delete" if by_source else ""}"""

    def model(rows: Model) -> Model:
        known = {row[0] for row in rows}
        kept: Model = []
        for row in rows:
            if start <= row[0] < stop:
                if not (deletes and condition.holds(*row)):
                    kept.append((row[0], row[0] * 10, row[0] % 4))
            elif not (by_source and row[0] % 5 == 0):
                kept.append(row)
        return kept + [(i, i * 10, i % 4) for i in range(start, stop) if i % 2 == 0 and i not in known]

    return text, model


def random_statement(random: Random) -> tuple[str, Any]:
    condition = Condition(random)
    match random.randrange(4):
        case 0:
            return f"delete from fk.db.t where {condition.sql}", lambda rows: [
                row for row in rows if not condition.holds(*row)
            ]
        case 1:
            return f"update fk.db.t set v = id + 1, p = 2 where {condition.sql}", lambda rows: [
                (row[0], row[0] + 1, 2) if condition.holds(*row) else row for row in rows
            ]
        case 2:
            start = random.randrange(100, 200)
            new = [(i, i if i % 2 else None, i % 3) for i in range(start, start + 7)]
            values = ", ".join(f"({i}, {'null' if v is None else v}, {p})" for i, v, p in new)
            return f"insert into fk.db.t values {values}", lambda rows: [*rows, *new]
    return random_merge(random)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("partitions", ["", "partitioned by (p)", "partitioned by (bucket(3, id))"])
def test_random_statements_do_what_they_do_to_a_list(
    spark: SparkSession, catalog: SqlCatalog, partitions: str, mode: str, version: int
) -> None:
    random = Random(f"{partitions} {mode} {version}")
    format_name = random.choice(["parquet", "orc", "avro"])
    spark.sql(
        f"create table fk.db.t (id int, v int, p int) using {format_name} {partitions} "
        f"tblproperties ({properties(mode, version)})"
    )
    model: Model = [(i, None if i % 7 == 0 else i % 10, [0, 1, None][i % 3]) for i in range(40)]
    values = ", ".join(f"({i}, {'null' if v is None else v}, {'null' if p is None else p})" for i, v, p in model)
    spark.sql(f"insert into fk.db.t values {values}")
    for _ in range(6):
        text, change = random_statement(random)
        before = {row[0] for row in model}
        if len(before) < len(model) and text.startswith("merge"):
            continue  # several rows of one id are fine for the table, and not for this model of MERGE
        spark.sql(text)
        model = change(model)
        assert rows_of(catalog) == sorted(model, key=repr), text


@pytest.mark.parametrize("mode", MODES)
def test_a_changed_row_keeps_its_id_and_becomes_younger(spark: SparkSession, catalog: SqlCatalog, mode: str) -> None:
    spark.sql(f"create table fk.db.t (id int, v int, p int) tblproperties ({properties(mode, 3)})")
    spark.sql("insert into fk.db.t select cast(id as int), 0, 0 from range(0, 6, 1, 1)")
    lineage = "select id, _row_id, _last_updated_sequence_number from fk.db.t order by id"
    before = spark.sql(lineage).collect()
    spark.sql("update fk.db.t set v = 1 where id = 3")
    spark.sql(
        "merge into fk.db.t t using (select 4 id union all select 9 id) s on t.id = s.id "
        "when matched then update set v = 2 when not matched then insert (id, v, p) values (s.id, 3, 0)"
    )
    after = {row[0]: (row[1], row[2]) for row in spark.sql(lineage).collect()}
    for id_, row_id, age in before:
        assert after[id_][0] == row_id
        assert after[id_][1] == {3: 2, 4: 3}.get(id_, age)
    assert after[9][1] == 3
    assert after[9][0] not in {row[1] for row in before}


@pytest.mark.parametrize("mode", MODES)
def test_two_source_rows_for_one_row_are_an_error_and_change_nothing(
    spark: SparkSession, catalog: SqlCatalog, mode: str
) -> None:
    spark.sql(f"create table fk.db.t (id int, v int, p int) tblproperties ({properties(mode)})")
    spark.sql("insert into fk.db.t values (1, 1, 1), (2, 2, 2)")
    before = catalog.load_table("db.t").metadata_location
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(
            "merge into fk.db.t t using (select 1 id, 5 v union all select 1 id, 6 v) s on t.id = s.id "
            "when matched then update set v = s.v"
        )
    assert catalog.load_table("db.t").metadata_location == before
    assert rows_of(catalog) == [(1, 1, 1), (2, 2, 2)]


@pytest.mark.parametrize("mode", MODES)
def test_a_task_that_fails_leaves_the_table_and_no_file(
    spark: SparkSession, catalog: SqlCatalog, tmp_path: Path, mode: str
) -> None:
    spark.sql(f"create table fk.db.t (id int, v int, p int) tblproperties ({properties(mode)})")
    spark.sql("insert into fk.db.t select cast(id as int), 0, 0 from range(10)")
    files = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(Exception, match="on purpose"):
        spark.sql("update fk.db.t set v = if(id = 9, cast(raise_error('on purpose') as int), 1)")
    assert sorted(tmp_path.rglob("*.parquet")) == files
    assert rows_of(catalog) == [(i, 0, 0) for i in range(10)]


@pytest.mark.parametrize("mode", MODES)
def test_subqueries_and_the_table_itself_as_the_source(spark: SparkSession, catalog: SqlCatalog, mode: str) -> None:
    spark.sql(f"create table fk.db.t (id int, v int, p int) partitioned by (p) tblproperties ({properties(mode)})")
    spark.sql("insert into fk.db.t select cast(id as int), cast(id as int), cast(id % 3 as int) from range(12)")
    spark.sql("update fk.db.t set v = -1 where id in (select max(id) from fk.db.t group by p)")
    spark.sql("delete from fk.db.t as t where exists (select 1 from fk.db.t s where s.id = t.id and s.v = 3)")
    spark.sql(
        "merge into fk.db.t t using (select id + 100 id, v, p from fk.db.t where p = 0) s on t.id = s.id "
        "when not matched then insert *"
    )
    kept = [(i, -1 if i >= 9 else i, i % 3) for i in range(12) if i != 3]
    assert rows_of(catalog) == sorted([*kept, *((i + 100, v, p) for i, v, p in kept if p == 0)], key=repr)


def test_a_delete_of_whole_partitions_reads_and_writes_no_data_file(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int, v int, p int) partitioned by (p)")
    spark.sql("insert into fk.db.t select cast(id as int), 0, cast(id % 3 as int) from range(9)")
    plan = spark.sql("explain delete from fk.db.t where p = 1").collect()[0][0]
    assert "DeleteFromTable" in plan
    assert "MapInArrow" not in plan
    spark.sql("delete from fk.db.t where p = 1")
    summary = catalog.load_table("db.t").current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary.operation.value == "delete"
    assert summary["added-data-files"] is None
    assert rows_of(catalog) == sorted(((i, 0, i % 3) for i in range(9) if i % 3 != 1), key=repr)


def test_files_that_cannot_match_stay_in_the_table(spark: SparkSession, catalog: SqlCatalog) -> None:
    spark.sql("create table fk.db.t (id int, v int, p int)")
    for start in (0, 100, 200):
        spark.sql(f"insert into fk.db.t select cast(id as int), 0, 0 from range({start}, {start + 10}, 1, 1)")
    before = {row[0] for row in spark.sql("select file_path from fk.db.t.files").collect()}
    spark.sql("update fk.db.t set v = 1 where id = 105")
    after = {row[0] for row in spark.sql("select file_path from fk.db.t.files").collect()}
    assert len(before & after) == 2
    assert len(after) == 3


@contextmanager
def meanwhile(spark: SparkSession, folder: Path, action: Callable[[], object]) -> Iterator[None]:
    """The first statement that calls `pause` waits until something else is done."""
    started, go_on = folder / "started", folder / "go_on"

    def pause(value: int) -> int:
        started.touch()
        while not go_on.exists():
            time.sleep(0.1)
        return value

    def other_writer() -> None:
        while not started.exists():
            time.sleep(0.1)
        try:
            action()
        finally:
            go_on.touch()

    spark.udf.register("pause", pause, "int")
    thread = threading.Thread(target=other_writer)
    thread.start()
    try:
        yield
    finally:
        started.touch()
        thread.join()


@pytest.mark.parametrize("mode", MODES)
def test_another_writer_of_the_same_rows_is_a_conflict(
    spark: SparkSession, catalog: SqlCatalog, tmp_path: Path, mode: str
) -> None:
    spark.sql(f"create table fk.db.t (id int, v int, p int) tblproperties ({properties(mode)})")
    spark.sql("insert into fk.db.t select cast(id as int), 0, 0 from range(0, 10, 1, 1)")
    with (
        meanwhile(spark, tmp_path, lambda: formatkit.delete(catalog.load_table("db.t"), "id = 0", "copy-on-write")),
        pytest.raises(AnalysisException, match=CommitConflictError.__name__),
    ):
        spark.sql("update fk.db.t set v = pause(1)")
    assert rows_of(catalog) == [(i, 0, 0) for i in range(1, 10)]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_key_that_another_writer_inserted_meanwhile_is_not_inserted_twice(
    spark: SparkSession, catalog: SqlCatalog, tmp_path: Path, isolation: str
) -> None:
    told = {"write.merge.isolation-level": isolation}
    spark.sql(f"create table fk.db.t (id int, v int, p int) tblproperties ({properties(MODES[0], 2, **told)})")
    spark.sql("insert into fk.db.t values (1, 1, 1)")
    merge = (
        "merge into fk.db.t t using (select 7 id, pause(cast(id as int)) v, 0 p from range(1)) s on t.id = s.id "
        "when not matched then insert *"
    )
    with meanwhile(spark, tmp_path, lambda: formatkit.append(catalog.load_table("db.t"), seven())):
        if isolation == "serializable":
            with pytest.raises(AnalysisException, match=CommitConflictError.__name__):
                spark.sql(merge)
        else:
            spark.sql(merge)
    assert len(rows_of(catalog)) == (2 if isolation == "serializable" else 3)
    spark.sql(merge)
    assert len(rows_of(catalog)) == (2 if isolation == "serializable" else 3)


def seven() -> pa.Table:
    return pa.table({name: pa.array([value], pa.int32()) for name, value in (("id", 7), ("v", 1), ("p", 1))})
