"""Variants that Spark and DuckDB write are read here, whole and shredded, and Spark reads ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField
from pyspark.sql import SparkSession

import formatkit
from formatkit.batches.arrow.constants import column_of
from formatkit.batches.arrow.variant import variants
from formatkit.contract import Variant, VariantType

DOCUMENTS = [
    "1", "-1.25", "12345678901", "1e300", "true", "null", '"a"', json.dumps("ä" * 50), "{}", "[]",
    '{"a": 1, "b": "x", "c": [1, 2.5, "z", null], "d": {"e": true, "f": 0.5}}',
    '{"a": "text", "d": {"e": "no", "g": [{}, []]}, "z": null}',
    '{"a": null, "c": "no array", "d": 5}',
    '{"c": [], "d": {}}',
    "[[1], {\"a\": 2}]",
]  # fmt: skip
SHREDDED = "a int, b string, c array<decimal(10,2)>, d struct<e boolean, f double>"
SCHEMA = Schema(NestedField(1, "i", IntegerType()), NestedField(2, "v", VariantType()))


def python_values(path: Path) -> list[Any]:
    table = formatkit.read_file(path).to_arrow().sort_by("i")
    found = variants(table.column("v").combine_chunks())
    return [None if value is None else value.to_python() for value in found]


@pytest.mark.parametrize("shredded", [False, True], ids=["whole", "shredded"])
def test_what_spark_wrote_is_read_here(spark: SparkSession, tmp_path: Path, shredded: bool) -> None:
    spark.conf.set("spark.sql.variant.writeShredding.enabled", str(shredded).lower())
    spark.conf.set("spark.sql.variant.forceShreddingSchemaForTest", SHREDDED if shredded else "")
    rows = [*enumerate(DOCUMENTS), (len(DOCUMENTS), None)]
    frame = spark.createDataFrame(rows, "i int, j string").selectExpr("i", "parse_json(j) v")
    frame.coalesce(1).write.parquet(str(tmp_path / "theirs"))
    (path,) = (tmp_path / "theirs").glob("*.parquet")
    assert formatkit.read_file(path).schema.find_type("v") == VariantType()
    assert python_values(path) == [*map(json.loads, DOCUMENTS), None]
    nulls = formatkit.read_file(path, "v is null").to_arrow()
    assert nulls.column("i").to_pylist() == [len(DOCUMENTS)]


def test_spark_reads_what_was_written_here(spark: SparkSession, tmp_path: Path) -> None:
    values: list[Any] = [json.loads(document) for document in DOCUMENTS]
    columns = [
        pa.array(range(len(values) + 1), pa.int32()),
        column_of(VariantType(), [*map(Variant.of, values), None]),
    ]
    path = tmp_path / "ours.parquet"
    formatkit.write_file(path, pa.RecordBatch.from_arrays(columns, names=["i", "v"]), SCHEMA)
    seen = (
        spark.read.schema("i int, v variant").parquet(str(path)).selectExpr("i", "to_json(v) j").orderBy("i").collect()
    )
    assert [None if row.j is None else json.loads(row.j) for row in seen] == [*values, None]


def test_what_duckdb_wrote_is_read_here(tmp_path: Path) -> None:
    path = tmp_path / "theirs.parquet"
    rows = "(1, 'x'::variant), (2, 42::variant), (3, {'a': 1, 'b': [1, 2]}::variant), (4, null), (5, [1, 2]::variant)"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select i, v::variant v from (values {rows}) t(i, v)) to '{path}' (format parquet)")
    assert python_values(path) == ["x", 42, {"a": 1, "b": [1, 2]}, None, [1, 2]]


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("{'a': i, 'b': 'n' || i}::variant", [{"a": number, "b": f"n{number}"} for number in range(5)]),
        ("[i, i + 1]::variant", [[number, number + 1] for number in range(5)]),
        ("(i * 1000000000000)::bigint::variant", [number * 1000000000000 for number in range(5)]),
        ("case when i = 2 then 'two'::variant else i::variant end", [0, 1, "two", 3, 4]),
        ("{'o': {'p': [{'q': i}]}}::variant", [{"o": {"p": [{"q": number}]}} for number in range(5)]),
    ],
)
def test_what_duckdb_shredded_is_read_here(tmp_path: Path, select: str, expected: list[Any]) -> None:
    path = tmp_path / "theirs.parquet"
    with duckdb.connect() as connection:
        connection.execute(f"copy (select i::int i, {select} v from range(5) t(i)) to '{path}' (format parquet)")
    assert python_values(path) == expected
