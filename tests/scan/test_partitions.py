"""Pruning by partition values: nothing that matches is lost, and what cannot match is not read."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.expressions import BooleanExpression, Or
from pyiceberg.expressions.literals import literal
from pyiceberg.expressions.parser import parse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import formatkit
from formatkit.scan.transforms import source_range
from formatkit.tck.naive import File, read
from formatkit.tck.tables import make_table, write_parquet
from support.filters import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNull,
)
from support.iceberg_tables import columns

P, V = 1, 2
DAY = 86_400_000_000


def partitioned(
    directory: Path, source: IcebergType, transform: Transform[Any, Any], values: Sequence[Any]
) -> tuple[Table, Schema, list[File]]:
    """A table with one file for each partition, and the files as the truth sees them."""
    schema = Schema(NestedField(P, "p", source), NestedField(V, "v", LongType()))
    spec = PartitionSpec(PartitionField(P, 1000, transform, "p_part"), spec_id=0)
    apply = transform.transform(source)
    groups: dict[Any, list[dict[int, Any]]] = {}
    for number, value in enumerate(values):
        groups.setdefault(apply(value), []).append({P: value, V: number})
    files = [
        write_parquet(
            directory / f"{number}.parquet", File(schema=schema, rows=rows, partition={1000: key}, sequence_number=1)
        )
        for number, (key, rows) in enumerate(groups.items())
    ]
    return make_table(directory, [schema], files, specs=[spec]), schema, files


def numbers(scan: formatkit.Scan, column: str) -> list[int]:
    found: list[Any] = scan.to_arrow()[column].to_pylist()
    return sorted(found)


def check(table: Table, schema: Schema, files: Sequence[File], where: BooleanExpression | str) -> formatkit.Scan:
    scan = formatkit.scan(table, where, select=("v",), threads=1)
    predicate = parse(where) if isinstance(where, str) else where
    assert numbers(scan, "v") == sorted(row[V] for row in read(files, schema, predicate))
    return scan


TIMES = [-DAY * 800, -1, 0, 1, DAY - 1, DAY * 40, DAY * 400, DAY * 365 * 50, None]
CASES = [
    (IntegerType(), IdentityTransform(), [-3, 0, 5, 9, None]),
    (StringType(), IdentityTransform(), ["", "a", "ab", "b", None]),
    (DoubleType(), IdentityTransform(), [-1.5, 0.0, 2.0, float("nan"), None]),
    (BooleanType(), IdentityTransform(), [False, True, None]),
    (FloatType(), IdentityTransform(), [-0.0, 0.5, None]),
    (DecimalType(9, 2), IdentityTransform(), [Decimal("-1.50"), Decimal("0.00"), None]),
    (UUIDType(), IdentityTransform(), [bytes([1]) * 16, bytes([200]) * 16, None]),
    (FixedType(2), IdentityTransform(), [b"aa", b"\xff\x00", None]),
    (BinaryType(), IdentityTransform(), [b"", b"ab", None]),
    (DateType(), IdentityTransform(), [-1, 0, 18_000, None]),
    (TimeType(), IdentityTransform(), [0, 3_600_000_000, None]),
    (TimestamptzType(), IdentityTransform(), [-5, 0, DAY, None]),
    (IntegerType(), TruncateTransform(10), [-11, -10, -1, 0, 9, 10, 25, None]),
    (DecimalType(9, 2), TruncateTransform(50), [Decimal("-0.75"), Decimal("0.00"), Decimal("10.65"), None]),
    (StringType(), TruncateTransform(2), ["", "a", "ab", "abc", "abz", "b", "\U0010ffff\U0010ffff!", None]),
    (BinaryType(), TruncateTransform(1), [b"", b"a", b"ab", b"\xff\x01", None]),
    (IntegerType(), BucketTransform(4), [*range(12), None]),
    (StringType(), BucketTransform(4), ["a", "b", "c", "d", "", None]),
    (DateType(), YearTransform(), [-800, -1, 0, 364, 365, 20_000, None]),
    (DateType(), MonthTransform(), [-32, -1, 0, 30, 31, 20_000, None]),
    (DateType(), DayTransform(), [-1, 0, 1, None]),
    (TimestampType(), YearTransform(), TIMES),
    (TimestampType(), MonthTransform(), TIMES),
    (TimestampType(), DayTransform(), TIMES),
    (TimestampType(), HourTransform(), TIMES),
    (TimestampNanoType(), DayTransform(), [None if value is None else value * 1000 for value in TIMES]),
    (IntegerType(), VoidTransform(), [1, 2, None]),
]


@pytest.mark.parametrize(
    ("source", "transform", "values"), CASES, ids=[f"{source}-{transform}" for source, transform, _ in CASES]
)
def test_every_transform_prunes_without_losing_rows(
    tmp_path: Path, source: IcebergType, transform: Transform[Any, Any], values: list[Any]
) -> None:
    table, schema, files = partitioned(tmp_path, source, transform, values)
    check(table, schema, files, IsNull("p"))
    check(table, schema, files, NotNull("p"))
    known = [value for value in values if value is not None and value == value]
    for value in known:
        for kind in (EqualTo, NotEqualTo, LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual):
            check(table, schema, files, kind("p", literal(value)))
    check(table, schema, files, Or(LessThan("p", literal(known[1])), EqualTo("v", 0)))
    check(table, schema, files, In("p", set(known[:2])))
    check(table, schema, files, NotIn("p", set(known[:2])))


@pytest.mark.parametrize(
    ("source", "transform", "values", "where", "read_files"),
    [
        (IntegerType(), IdentityTransform(), [1, 2, None], "p = 2", 1),
        (IntegerType(), IdentityTransform(), [1, 2, None], "p != 2", 2),
        (StringType(), IdentityTransform(), ["a", "b", None], "p = 'a' or p is null", 2),
        (IntegerType(), TruncateTransform(10), [1, 15, 25], "p >= 10 and p < 20", 1),
        (StringType(), TruncateTransform(2), ["abc", "abd", "xyz"], "p like 'ab%'", 1),
        (IntegerType(), BucketTransform(16), list(range(40)), "p = 7", 1),
        (TimestampType(), DayTransform(), [DAY, 2 * DAY, 3 * DAY], "p >= '1970-01-03T00:00:00'", 2),
    ],
)
def test_files_of_other_partitions_are_not_read(
    tmp_path: Path, source: IcebergType, transform: Transform[Any, Any], values: list[Any], where: str, read_files: int
) -> None:
    table, schema, files = partitioned(tmp_path, source, transform, values)
    scan = check(table, schema, files, where)
    assert len({task.location for task in scan.tasks}) == read_files
    assert scan.explain().files_skipped.get("partition", 0) + scan.explain().files_read == len(files)


@pytest.mark.parametrize(
    ("source", "transform", "values", "where"),
    [
        (StringType(), IdentityTransform(), ["a", "b", None], "p = 'a'"),
        (IntegerType(), IdentityTransform(), [1, 2, None], "p is null or p > 1"),
        (TimestampType(), DayTransform(), [DAY, DAY + 5, 9 * DAY], "p < '1970-01-05T00:00:00'"),
        (IntegerType(), TruncateTransform(10), [1, 5, 25], "p <= 9"),
    ],
)
def test_no_row_is_tested_where_the_partition_decides(
    tmp_path: Path, source: IcebergType, transform: Transform[Any, Any], values: list[Any], where: str
) -> None:
    table, schema, files = partitioned(tmp_path, source, transform, values)
    scan = check(table, schema, files, where)
    assert set(scan.explain().residuals) == {"true"}


@pytest.mark.parametrize(
    "where",
    [
        "p < 5 or v = 1",
        "p < 5 or v = 2",
        "p is null or v = 0",
        "not (p < 5)",
        "p != 1 and v != 1",
        "p not in (1, 3) or v = 1",
        "(p = 1 or v = 2) and (p is null or v = 0)",
    ],
)
def test_null_partition_values_under_or(tmp_path: Path, where: str) -> None:
    table, schema, files = partitioned(tmp_path, IntegerType(), IdentityTransform(), [1, 3, None, None, 9])
    check(table, schema, files, where)


def test_a_manifest_whose_summary_excludes_the_filter_is_not_opened(catalog: InMemoryCatalog) -> None:
    schema = columns(p=pa.int64(), v=pa.int64())
    table = catalog.create_table("db.summaries", schema=schema)
    with table.update_spec() as update:
        update.add_identity("p")
    for p in (1, 2, None):
        table.append(pa.table({"p": [p], "v": [10]}, schema=schema))
    scan = formatkit.scan(table, "p = 2")
    assert scan.explain().manifests_skipped == 2
    assert scan.to_arrow().to_pylist() == [{"p": 2, "v": 10}]
    assert formatkit.scan(table, "p is null").explain().manifests_skipped == 2
    assert formatkit.scan(table, "p is not null").explain().manifests_skipped == 1
    assert formatkit.scan(table, "p is null or p = 1").count() == 2


def test_a_partition_field_may_have_the_name_of_an_older_one(catalog: InMemoryCatalog) -> None:
    schema = columns(a=pa.string())
    table = catalog.create_table("db.truncated", schema=schema)
    for width, text in ((1, "one"), (2, "two")):
        if width > 1:
            with table.update_spec() as update:
                update.remove_field("a_trunc")
        with table.update_spec() as update:
            update.add_field("a", TruncateTransform(width), "a_trunc")
        formatkit.append(table, pa.table({"a": [text]}, schema=schema))

    assert formatkit.scan(table).to_arrow().sort_by("a").to_pylist() == [{"a": "one"}, {"a": "two"}]
    assert len(formatkit.scan(table, "a = 'two'").tasks) == 1
    rows = formatkit.scan(table, select=("a", "_partition")).to_arrow().to_pylist()
    assert sorted(rows, key=repr) == [
        {"a": "one", "_partition": {"a_trunc_1000": "o", "a_trunc": None}},
        {"a": "two", "_partition": {"a_trunc_1000": None, "a_trunc": "tw"}},
    ]


def test_files_of_old_specs_are_pruned_by_their_own_spec(catalog: InMemoryCatalog) -> None:
    schema = columns(a=pa.int64(), b=pa.string())
    table = catalog.create_table("db.evolved", schema=schema)
    table.append(pa.table({"a": [1, 2], "b": ["x", None]}, schema=schema))
    with table.update_spec() as update:
        update.add_identity("b")
    table.append(pa.table({"a": [3, 4], "b": ["x", None]}, schema=schema))
    with table.update_spec() as update:
        update.remove_field("b")
        update.add_identity("a")
    table.append(pa.table({"a": [5, 6], "b": ["x", "y"]}, schema=schema))

    scan = formatkit.scan(table, "b = 'x'", select=("a", "_spec_id", "_partition"))
    assert sorted(scan.to_arrow().to_pylist(), key=repr) == [
        {"a": 1, "_spec_id": 0, "_partition": {"b": None, "a": None}},
        {"a": 3, "_spec_id": 1, "_partition": {"b": "x", "a": None}},
        {"a": 5, "_spec_id": 2, "_partition": {"b": None, "a": 5}},
    ]
    assert scan.explain().files_skipped["partition"] == 1
    assert formatkit.scan(table, "a = 6 or b is null").count() == 3
    part = formatkit.scan(table, "a = 5", select=("_partition.a", "a")).to_arrow().to_pylist()
    assert part == [{"_partition": {"a": 5}, "a": 5}]
    assert formatkit.scan(table, "_partition is null").count() == 0
    assert formatkit.scan(table, "_partition is not null and _spec_id != 1").count() == 4
    assert numbers(formatkit.scan(table, "_partition.b = 'x'"), "a") == [3]
    assert numbers(formatkit.scan(table, "_partition.a is null"), "a") == [1, 2, 3, 4]


def test_a_spec_whose_source_column_was_dropped_is_read(catalog: InMemoryCatalog) -> None:
    schema = columns(a=pa.int64(), b=pa.string())
    table = catalog.create_table("db.dropped", schema=schema)
    with table.update_spec() as update:
        update.add_identity("b")
    table.append(pa.table({"a": [1, 2], "b": ["x", "y"]}, schema=schema))
    with table.update_spec() as update:
        update.remove_field("b")
    with table.update_schema() as update_schema:
        update_schema.delete_column("b")
    assert formatkit.scan(table, "a = 1").to_arrow().to_pylist() == [{"a": 1}]
    found = formatkit.scan(table, "a = 2", select="_partition").to_arrow().to_pylist()
    assert found == [{"_partition": {"b": "y"}}]


@pytest.mark.parametrize(
    ("transform", "source", "bounds", "expected"),
    [
        (YearTransform(), DateType(), (50, 50), (18262, 18627)),
        (MonthTransform(), DateType(), (1, 2), (31, 89)),
        (HourTransform(), TimestampType(), (1, 1), (3_600_000_000, 7_199_999_999)),
        (DayTransform(), TimestampType(), (0, 0), (-DAY, DAY - 1)),
        (YearTransform(), DateType(), (9000, 9000), (None, None)),
        (TruncateTransform(2), StringType(), ("ab", "ab"), ("ab", "ac")),
        (TruncateTransform(2), StringType(), ("a", "a"), ("a", "a")),
        (TruncateTransform(1), BinaryType(), (b"\xff", b"\xff"), (b"\xff", None)),
        (BucketTransform(4), LongType(), (1, 1), (None, None)),
        (IdentityTransform(), LongType(), (None, None), (None, None)),
    ],
)
def test_partition_values_mean_ranges_of_their_source(
    transform: Transform[Any, Any], source: IcebergType, bounds: tuple[Any, Any], expected: tuple[Any, Any]
) -> None:
    assert source_range(transform, source, *bounds) == expected
