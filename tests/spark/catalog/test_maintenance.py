"""Data maintenance in the manner of TPC-DS: DuckDB runs the same statements on the same rows, and all tables are equal.

Short runs take a table of each mode and version once; `make fuzz` takes both modes of both versions, refreshed several
times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import settings
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import formatkit
from support.maintenance import DATES, MORE_STATEMENTS, SOURCES, STATEMENTS, TABLES, RandomRows

pytestmark = pytest.mark.fuzz

COPY, MERGE = "copy-on-write", "merge-on-read"
assert settings.default is not None
LONG = settings.default.max_examples > 1000
CASES = [(COPY, 2), (MERGE, 3), (COPY, 3), (MERGE, 2)] if LONG else [(COPY, 2), (MERGE, 3)]
REFRESHES = 4 if LONG else 1
CHANGES = [*STATEMENTS, *MORE_STATEMENTS] if LONG else STATEMENTS


@dataclass
class Shop:
    """The tables, here and in DuckDB."""

    spark: SparkSession
    catalog: SqlCatalog
    model: duckdb.DuckDBPyConnection

    def both(self, text: str, **words: Any) -> None:
        self.model.execute(text.format(t="", **words))
        self.spark.sql(text.format(t="fk.db.", **words))

    def fill(self, name: str, random: Random, refresh: int = 0) -> None:
        columns = TABLES[name][0] if name in TABLES else SOURCES[name]
        rows = RandomRows(random, refresh).of(name)
        values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
        self.model.execute(f"create or replace table {name} ({columns})")
        self.model.execute(f"insert into {name} values {values}")
        if name in TABLES:
            formatkit.append(self.catalog.load_table(f"db.{name}"), self.model.table(name).to_arrow_table())
        else:
            typed = dict(each.split() for each in columns.replace("(7, 2)", "(7,2)").split(", "))
            cast = ", ".join(f"cast({column} as {kind}) {column}" for column, kind in typed.items())
            view = self.spark.sql(f"select {cast} from values {values} as v({', '.join(typed)})")
            view.createOrReplaceTempView(name)

    def check(self, name: str, statement: str) -> int:
        expected = Counter(self.model.execute(f"select * from {name}").fetchall())
        table = formatkit.scan(self.catalog.load_table(f"db.{name}")).to_arrow()
        found = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert found == expected, statement
        return len(expected)


@pytest.fixture
def shop(spark: SparkSession, catalog: SqlCatalog) -> Iterator[Shop]:
    with duckdb.connect() as model:
        yield Shop(spark, catalog, model)
    for name in SOURCES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize(("mode", "version"), CASES)
def test_maintenance_does_what_it_does_elsewhere(shop: Shop, mode: str, version: int) -> None:
    random = Random(f"{mode} {version}")
    modes = ", ".join(f"'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    for name, (columns, using) in TABLES.items():
        shop.spark.sql(
            f"create table fk.db.{name} ({columns}) {using} tblproperties ('format-version' = '{version}', {modes})"
        )
        shop.fill(name, random)
    for refresh in range(1, REFRESHES + 1):
        for name in SOURCES:
            shop.fill(name, random, refresh)
        start = random.randrange(DATES - 10)
        words = {
            "refresh": refresh,
            "low": f"date'2000-01-01' + {start}",
            "high": f"date'2000-01-01' + {start + 9}",
            "first": 100 + start,
            "last": 100 + start + 8,
        }
        for name, statement in CHANGES:
            before = shop.model.execute(f"select * from {name}").fetchall()
            shop.both(statement, **words)
            shop.check(name, statement)
            after = shop.model.execute(f"select * from {name}").fetchall()
            changed = Counter(before) != Counter(after)
            assert changed or refresh > 1, f"a statement that does nothing proves nothing: {statement}"
    for name in TABLES:
        assert shop.check(name, "the end") > 0
