"""Queries that need parts of lists and maps read those parts and no others."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType
from pyspark.sql import DataFrame, SparkSession

import formatkit
import formatkit.spark
from support.iceberg_tables import new_catalog
from support.spark_plans import rows_as_arrow, sorted_rows
from support.written_tables import new_table

_FORMATS = ("parquet", "orc", "avro")
_ITEM = StructType(
    NestedField(10, "sku", StringType()),
    NestedField(11, "n", IntegerType()),
    NestedField(12, "tags", ListType(13, StringType(), element_required=False)),
)
_FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "items", ListType(20, _ITEM, element_required=False)),
    NestedField(
        3,
        "places",
        MapType(
            21,
            StringType(),
            22,
            StructType(NestedField(23, "x", IntegerType()), NestedField(24, "y", IntegerType())),
            value_required=False,
        ),
    ),
    NestedField(
        4,
        "deep",
        StructType(
            NestedField(
                30,
                "lists",
                ListType(
                    31,
                    ListType(
                        32,
                        StructType(NestedField(33, "a", IntegerType()), NestedField(34, "b", StringType())),
                        element_required=False,
                    ),
                    element_required=False,
                ),
            ),
            NestedField(35, "other", IntegerType()),
        ),
    ),
)


def _row(id_: int, items: Any, places: Any, lists: Any) -> dict[str, Any]:
    return {"id": id_, "items": items, "places": places, "deep": {"lists": lists, "other": id_}}


_ROWS = [
    _row(
        1,
        [{"sku": "a", "n": 1, "tags": ["t"]}, None, {"sku": None, "n": 2, "tags": None}],
        [("p", {"x": 1, "y": 2})],
        [],
    ),
    _row(2, None, None, None),
    _row(3, [], [], [[], None, [{"a": 1, "b": "v"}, None]]),
    _row(
        4, [{"sku": "b", "n": None, "tags": []}], [("q", None), ("r", {"x": None, "y": 5})], [[{"a": None, "b": None}]]
    ),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    table = new_table(new_catalog(tmp_path_factory.mktemp("nested")), *_FIELDS)
    for file_format in _FORMATS:
        formatkit.append(table, rows_as_arrow(table, _ROWS), file_format=file_format)
    return table


@pytest.fixture(scope="module")
def frame(spark: SparkSession, table: Table) -> DataFrame:
    return formatkit.spark.read(spark, table)


@pytest.fixture(scope="module")
def truth(spark: SparkSession, frame: DataFrame) -> DataFrame:
    rows = [row | {"places": None if row["places"] is None else dict(row["places"])} for row in _ROWS]
    return spark.createDataFrame(rows * len(_FORMATS), frame.schema)


def _columns(frame: DataFrame) -> str:
    leaf: Any = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    return str(leaf.schema().simpleString())


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select id, item.sku from t lateral view explode(items) as item", "id:bigint,items:array<struct<sku:string>>"),
        ("select items.n from t", "items:array<struct<n:int>>"),
        ("select get(items, 0).sku, get(items, 1).n from t", "items:array<struct<sku:string,n:int>>"),
        ("select places['r'].y from t", "places:map<string,struct<y:int>>"),
        ("select map_values(places).x from t", "places:map<string,struct<x:int>>"),
        ("select get(deep.lists, 0).b from t", "deep:struct<lists:array<array<struct<b:string>>>>"),
        ("select id, items from t", "id:bigint,items:array<struct<sku:string,n:int,tags:array<string>>>"),
        ("select size(items) from t", "items:array<struct<sku:string,n:int,tags:array<string>>>"),
        ("select map_keys(places) from t", "places:map<string,struct<x:int,y:int>>"),
        ("select item.tags from t lateral view explode(items) as item where item.n = 1", None),
    ],
)
def test_only_the_parts_that_a_query_needs_are_read(
    spark: SparkSession, frame: DataFrame, truth: DataFrame, query: str, columns: str | None
) -> None:
    frame.createOrReplaceTempView("t")
    found = spark.sql(query)
    rows = sorted_rows(found)
    if columns is not None:
        assert _columns(found) == f"struct<{columns}>"
    truth.createOrReplaceTempView("t")
    assert rows == sorted_rows(spark.sql(query))


def test_parts_of_what_was_selected(spark: SparkSession, table: Table, truth: DataFrame) -> None:
    frame = formatkit.spark.read(spark, table, select=["items.element.sku", "items.element.n", "places.value.y"])
    found = frame.selectExpr("items.n", "places['r'].y as y")
    assert _columns(found) == "struct<items:array<struct<n:int>>,places:map<string,struct<y:int>>>"
    assert sorted_rows(found) == sorted_rows(truth.selectExpr("items.n", "places['r'].y as y"))
