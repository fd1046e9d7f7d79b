"""Translated filters keep the rows that Spark keeps, asked of Spark itself for many filters over rows at the edges."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import formatkit
from formatkit.batches.arrow import arrow_schema
from formatkit.spark.filters import SparkFilter, from_spark, translate
from formatkit.spark.types import spark_schema

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "truth", BooleanType()),
    NestedField(3, "whole", IntegerType()),
    NestedField(4, "long", LongType()),
    NestedField(5, "single", FloatType()),
    NestedField(6, "double", DoubleType()),
    NestedField(7, "money", DecimalType(9, 2)),
    NestedField(8, "day", DateType()),
    NestedField(9, "local", TimestampType()),
    NestedField(10, "moment", TimestamptzType()),
    NestedField(11, "text", StringType()),
    NestedField(12, "bytes", BinaryType()),
    NestedField(13, "struct", StructType(NestedField(14, "inner", DoubleType()))),
)
NAN = float("nan")
FLOATS = [0.0, -0.0, NAN, float("inf"), float("-inf"), 1.5, 0.1]
MOMENTS = ["1969-12-31 23:59:59.999999", "1500-02-28 00:00:00", "2024-02-29 12:00:00.000001", "0001-01-01 00:00:00"]
DAYS = ["1969-12-31", "1500-02-28", "2024-02-29", "0001-01-01"]
TEXTS = ["", "a", "ab", "é", "\U0001f600", "\uffff"]
BYTES = [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"]
NUMBERS = [0, -1, 7, 2**31 - 1, -(2**31)]
VALUES: dict[str, Sequence[Any]] = {
    "truth": [True, False],
    "whole": NUMBERS,
    "long": [*NUMBERS, 2**63 - 1],
    "single": FLOATS,
    "double": FLOATS,
    "money": [Decimal("0.00"), Decimal("-1.50"), Decimal("9999999.99")],
    "day": [date.fromisoformat(day) for day in DAYS],
    "local": [datetime.fromisoformat(moment) for moment in MOMENTS],
    "moment": [datetime.fromisoformat(moment).replace(tzinfo=UTC) for moment in MOMENTS],
    "text": TEXTS,
    "bytes": BYTES,
    "struct.inner": FLOATS,
}
SQL_VALUES: dict[str, list[str]] = {
    "truth": ["true", "false"],
    "whole": [f"int({value})" for value in NUMBERS],
    "long": [f"bigint({value})" for value in VALUES["long"]],
    "single": [f"float('{value}')" for value in FLOATS],
    "double": [f"double('{value}')" for value in FLOATS],
    "money": [f"cast('{value}' as decimal(9, 2))" for value in VALUES["money"]],
    "day": [f"date'{day}'" for day in DAYS],
    "local": [f"timestamp_ntz'{moment}'" for moment in MOMENTS],
    "moment": [f"timestamp'{moment}Z'" for moment in MOMENTS],
    "text": [f"'{text}'" for text in TEXTS],
    "bytes": [f"X'{value.hex()}'" for value in BYTES],
    "struct.inner": [f"double('{value}')" for value in FLOATS],
}
SIGNS = ("=", "<=>", "<", "<=", ">", ">=", "!=")
EVERY_COMPARISON = [f"double {sign} {value}" for sign in SIGNS for value in SQL_VALUES["double"]]
FILTERS = 200


def rows() -> list[dict[str, Any]]:
    """Each value of each column once or more, and nulls, also of the struct."""
    count = 12
    made: list[dict[str, Any]] = []
    for i in range(count):
        row: dict[str, Any] = {"id": i}
        for j, (name, values) in enumerate(VALUES.items()):
            choices = [*values, None]
            value = choices[(i + j) % len(choices)]
            row |= {"struct": {"inner": value} if i % 4 else None} if name == "struct.inner" else {name: value}
        made.append(row)
    return made


def some_filter(rng: random.Random, depth: int = 2) -> str:
    if depth and rng.random() < 0.5:
        left, right = some_filter(rng, depth - 1), some_filter(rng, depth - 1)
        return rng.choice([f"({left} and {right})", f"({left} or {right})", f"(not {left})"])
    column = rng.choice(list(SQL_VALUES))
    values = SQL_VALUES[column]
    value = rng.choice([*values, "null"])
    several = ", ".join(rng.choices([*values, "null"] if rng.random() < 0.3 else values, k=rng.choice([1, 2, 3, 14])))
    prefix = rng.choice(["", "a", "é"])
    forms = [f"{column} {sign} {value}" for sign in SIGNS]
    forms += [f"{column} in ({several})", f"{column} not in ({several})", f"{column} is null", f"{column} is not null"]
    forms += [f"text like '{prefix}%'", f"text not like '{prefix}%'", "text like '%b'", "whole % 2 = 1"]
    return rng.choice(forms)


@dataclass(frozen=True)
class Asked:
    """A filter, the rows for which it is true and false in Spark, and what Spark hands to a source."""

    text: str
    true: list[int]
    false: list[int]
    pushed: SparkFilter | None


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.Table.from_pylist(rows(), schema=arrow_schema(SCHEMA))


@pytest.fixture(scope="module")
def file(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters") / "rows.parquet"
    formatkit.write_file(path, table.to_batches(), schema=SCHEMA)
    return path


@pytest.fixture(scope="module")
def asked(spark: SparkSession, table: pa.Table) -> list[Asked]:
    rng = random.Random(20)
    texts = EVERY_COMPARISON + [some_filter(rng) for _ in range(FILTERS)]
    frame = spark.createDataFrame(spark.sparkContext.parallelize(as_tuples(table), 1), spark_schema(SCHEMA))
    answers = frame.select("id", *(sf.expr(text).alias(f"f{i}") for i, text in enumerate(texts)))
    found = sorted(answers.collect(), key=lambda row: row["id"])
    pushed = as_sources_see_them(answers, len(texts))
    return [
        Asked(
            text,
            [row["id"] for row in found if row[f"f{i}"] is True],
            [row["id"] for row in found if row[f"f{i}"] is False],
            pushed[i],
        )
        for i, text in enumerate(texts)
    ]


def as_tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [
        tuple((value["inner"],) if isinstance(value, dict) else value for value in row.values())
        for row in table.to_pylist()
    ]


def as_sources_see_them(answers: DataFrame, count: int) -> list[SparkFilter | None]:
    """Each filter after Spark's optimizer has been at it."""
    jvm: Any = answers.sparkSession.sparkContext._jvm
    columns = answers._jdf.queryExecution().optimizedPlan().projectList()
    translator = getattr(getattr(jvm.org.apache.spark.sql.execution.datasources, "DataSourceStrategy$"), "MODULE$")
    filters = [translator.translateFilter(columns.apply(i + 1).child(), True) for i in range(count)]
    return [from_spark(jvm, each.get()) if each.isDefined() else None for each in filters]


@pytest.mark.parametrize("negated", [False, True])
def test_filters_keep_what_spark_keeps(asked: list[Asked], file: Path, negated: bool) -> None:
    exact = 0
    for each in asked:
        if each.pushed is None:
            continue
        wanted = each.false if negated else each.true
        translated = translate(SCHEMA, SparkFilter("Not", children=(each.pushed,)) if negated else each.pushed)
        found = formatkit.read_file(file, where=translated.keep, select=["id"]).to_arrow()["id"].to_pylist()
        if translated.exact:
            exact += 1
            assert found == wanted, each
        else:
            assert set(found) >= set(wanted), each
    assert exact > FILTERS // 2


@pytest.mark.parametrize(
    "asked",
    [
        SparkFilter("StringEndsWith", ("text",), ("a",)),
        SparkFilter("StringContains", ("text",), ("a",)),
        SparkFilter("EqualTo", ("no_such_column",), (1,)),
        SparkFilter("EqualTo", ("uuid",), ("00000000-0000-0000-0000-000000000000",)),
        SparkFilter("EqualTo", ("whole",), ("1",)),
        SparkFilter("EqualTo", ("money",), (Decimal("1.001"),)),
        SparkFilter("In", ("whole",), ()),
        SparkFilter("NewInSomeSpark", ("whole",), (1,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_has_no_exact_equal_is_left_to_spark(asked: SparkFilter, negated: bool) -> None:
    schema = Schema(*SCHEMA.fields, NestedField(20, "uuid", UUIDType()))
    translated = translate(schema, SparkFilter("Not", children=(asked,)) if negated else asked)
    assert (translated.keep, translated.exact) == (AlwaysTrue(), False)


def test_one_side_of_a_disjunction_that_is_unknown_leaves_all_rows() -> None:
    known, unknown = SparkFilter("EqualTo", ("whole",), (1,)), SparkFilter("StringContains", ("text",), ("a",))
    assert translate(SCHEMA, SparkFilter("Or", children=(known, unknown))).keep == AlwaysTrue()
    conjunction = translate(SCHEMA, SparkFilter("And", children=(known, unknown)))
    assert conjunction.keep == translate(SCHEMA, known).keep
    assert not conjunction.exact


def test_comparing_with_null_keeps_nothing_not_even_the_contrary() -> None:
    unknown = SparkFilter("GreaterThan", ("double",), (None,))
    for each in (unknown, SparkFilter("Not", children=(unknown,))):
        assert translate(SCHEMA, each).keep == AlwaysFalse()
