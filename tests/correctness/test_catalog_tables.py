"""Tables that pyiceberg itself made, filled and evolved in a SQL catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType, StructType

import formatkit
from formatkit.tck import naive
from formatkit.tck.naive import File
from formatkit.tck.rows import comparable, from_arrow, to_arrow

SCHEMA = Schema(
    NestedField(1, "n", IntegerType()),
    NestedField(2, "f", FloatType()),
    NestedField(3, "s", StructType(NestedField(5, "a", StringType()), NestedField(6, "b", IntegerType()))),
    NestedField(4, "p", IntegerType()),
)
ROWS: list[naive.Row] = [
    {1: 1, 2: 1.100000023841858, 3: {5: "x", 6: 1}, 4: 1},
    {1: None, 2: None, 3: None, 4: 1},
    {1: 2**31 - 1, 2: float("nan"), 3: {5: None, 6: 2}, 4: 7},
    {1: 5, 2: -0.0, 3: {5: "y", 6: None}, 4: None},
]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("db")
    yield catalog
    catalog.close()


@pytest.fixture(params=["whole", "partitioned"])
def table(request: pytest.FixtureRequest, catalog: SqlCatalog) -> Table:
    identity = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "p"))
    spec = identity if request.param == "partitioned" else UNPARTITIONED_PARTITION_SPEC
    table = catalog.create_table("db.t", SCHEMA, partition_spec=spec, properties={"write.parquet.row-group-limit": "2"})
    table.append(to_arrow(SCHEMA, ROWS))
    return table


def check(table: Table, files: list[File], where: str) -> None:
    schema = table.schema()
    answer = from_arrow(schema, formatkit.scan(table, where=where).to_arrow())
    # pyiceberg decides which file comes first, so order is left out of the comparison.
    assert sorted(comparable(answer)) == sorted(comparable(naive.read(files, schema, parse(where))))


@pytest.mark.parametrize(
    "where",
    [
        "n < 5000000000",
        "n != 5000000000",
        "f > 1.1",
        "f != 1.1",
        "f is not nan",
        "t.a = 'x'",
        "t.a != 'x'",
        "t.b is null",
        "p < 5 or n = 5",
        "not (p > 5)",
        "added is null",
        "p in (1, 8) and added is null",
        "added = 'new' or n = 1",
    ],
)
def test_a_table_that_was_evolved_by_pyiceberg_is_read_rightly(table: Table, where: str) -> None:
    with table.update_schema() as update:
        update.update_column("n", LongType())
        update.update_column("f", DoubleType())
        update.rename_column("s", "t")
        update.add_column("added", StringType())
        update.move_first("f")
    added = table.schema().find_field("added").field_id
    new: list[naive.Row] = [
        {1: 2**40, 2: 1.1, 3: {5: "x", 6: None}, 4: 1, added: "new"},
        {1: None, 2: None, 3: None, 4: None, added: None},
    ]
    table.append(to_arrow(table.schema(), new))
    check(table, [File(schema=SCHEMA, rows=ROWS), File(schema=table.schema(), rows=new)], where)


def test_a_table_is_read_as_pyiceberg_left_it_after_a_rewrite(table: Table) -> None:
    table.delete(EqualTo("n", 1))  # type: ignore[call-arg, arg-type]
    check(table, [File(schema=SCHEMA, rows=ROWS[1:])], "n is null or n > 1")
    first = table.snapshots()[0].snapshot_id
    assert formatkit.scan(table, snapshot_id=first).count() == len(ROWS)
