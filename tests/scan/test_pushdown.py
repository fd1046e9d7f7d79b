"""How far the metadata of a table goes for each part of a filter."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

import formatkit

SCHEMA = Schema(
    NestedField(1, "country", StringType()),
    NestedField(2, "size", LongType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "note", StringType()),
)
SPEC = PartitionSpec(
    PartitionField(1, 1000, IdentityTransform(), "country"),
    PartitionField(3, 1001, DayTransform(), "at_day"),
)


def rows_of(count: int = 16) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "country": [("de", "fr")[n % 2] for n in numbers],
            "size": list(numbers),
            "at": pa.array([n // 4 * 86_400_000_000 + 3_600_000_000 * n for n in numbers], pa.timestamp("us")),
            "note": [f"x{n}" for n in numbers],
        }
    )


@pytest.fixture
def table(catalog: InMemoryCatalog) -> Table:
    properties = {"write.metadata.metrics.column.note": "none"}
    created = catalog.create_table("db.sales", SCHEMA, partition_spec=SPEC, properties=properties)
    formatkit.append(created, rows_of())
    return created.refresh()


@pytest.mark.parametrize(
    ("where", "kinds"),
    [
        ("country = 'de'", ["exact"]),
        ("country != 'de'", ["exact"]),
        ("country in ('de', 'fr') or country is null", ["exact"]),
        ("at >= '1970-01-02T00:00:00'", ["exact"]),
        ("at >= '1970-01-02T00:30:00'", ["exact"]),
        ("at != '1970-01-02T04:00:00'", ["inexact"]),
        ("note = 'x1'", ["none"]),
        ("note like 'x%' and country = 'de'", ["none", "exact"]),
        ("country = 'de' or note = 'x1'", ["inexact"]),
        ("_spec_id = 0", ["exact"]),
    ],
)
def test_each_part_of_a_filter_is_classified(table: Table, where: str, kinds: list[str]) -> None:
    explanation = formatkit.scan(table, where).explain()
    assert list(explanation.pushdown.values()) == kinds
    for part, kind in explanation.pushdown.items():
        assert f"pushdown   {part}: {kind}" in str(explanation)


def test_a_column_that_is_identity_in_every_spec_stays_exact(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("at_day")
        update.add_field("size", BucketTransform(4), "size_bucket")
    formatkit.append(table, rows_of())
    scan = formatkit.scan(table.refresh(), "country = 'fr' and size > 3 and at != '1970-01-02T02:00:00'")
    assert len({task.spec_id for task in scan.tasks}) == 2
    assert next(iter(scan.explain().pushdown.values())) == "exact"


def test_a_column_that_a_spec_lacks_is_inexact(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("country")
    formatkit.append(table, rows_of())
    scan = formatkit.scan(table.refresh(), "country = 'fr'")
    assert list(scan.explain().pushdown.values()) == ["inexact"]


@pytest.mark.parametrize(("where", "kind"), [("note = 'x1'", "inexact"), ("note > 'x1'", "none")])
def test_buckets_prune_by_equality_only(catalog: InMemoryCatalog, where: str, kind: str) -> None:
    spec = PartitionSpec(PartitionField(4, 1000, BucketTransform(2), "note_bucket"))
    properties = {"write.metadata.metrics.default": "none"}
    table = catalog.create_table("db.bucketed", SCHEMA, partition_spec=spec, properties=properties)
    formatkit.append(table, rows_of())
    assert list(formatkit.scan(table.refresh(), where).explain().pushdown.values()) == [kind]


def test_a_file_without_a_table_has_no_metadata_to_decide(table: Table) -> None:
    location = formatkit.scan(table).tasks[0].location
    assert list(formatkit.read_file(location, "size > 3").explain().pushdown.values()) == ["none"]
