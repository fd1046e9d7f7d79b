"""Identity partitions: their values stand in for columns that files lack, and decide filters without losing rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo, GreaterThan, NotEqualTo
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import formatkit
from formatkit.tck.literals import internal
from formatkit.tck.naive import File
from support.checks import RealTable, file_of

ID = NestedField(1, "id", LongType(), required=True)
VALUES: list[tuple[IcebergType, list[Any]]] = [
    (IntegerType(), [0, -1, None]),
    (BooleanType(), [False, True, None]),
    (StringType(), ["", "a", None]),
    (BinaryType(), [b"", b"\x80", None]),
    (DateType(), [0, -1, None]),
    (DecimalType(9, 2), ["0.00", "-1.50", None]),
]


def partitioned_by(source: int, transform: Transform[Any, Any] | None = None, spec_id: int = 0) -> PartitionSpec:
    return PartitionSpec(PartitionField(source, 1000, transform or IdentityTransform(), "part"), spec_id=spec_id)


def hive_file(value: Any, count: int = 2) -> File:
    """A file that lacks the partition column."""
    return file_of(Schema(ID), *((n,) for n in range(count)), partition={1000: value}, constants={2: value})


@pytest.mark.parametrize(("iceberg_type", "values"), VALUES, ids=str)
@pytest.mark.parametrize("default", [False, True])
def test_a_column_that_files_lack_has_the_partitions_value_even_if_it_is_falsy_or_null(
    iceberg_type: IcebergType, values: list[Any], default: bool, tmp_path: Path
) -> None:
    first, second = (internal(value, iceberg_type) for value in values[:2])
    column = NestedField(2, "p", iceberg_type, initial_default=values[1] if default else None)
    table = RealTable(
        tmp_path,
        [Schema(ID, column)],
        [hive_file(internal(value, iceberg_type)) for value in values],
        specs=[partitioned_by(2)],
        format_version=3,
    )
    table.check()
    table.check("p is null")
    for operator in (EqualTo, NotEqualTo, GreaterThan):
        for value in (first, second):
            table.check(operator("p", value))  # type: ignore[call-arg, arg-type]


def test_a_required_column_may_come_from_the_partition(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType(), required=True))
    RealTable(tmp_path, [schema], [hive_file(0), hive_file(5)], specs=[partitioned_by(2)]).check("p < 5")


def test_a_stored_column_wins_unless_told_otherwise(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType()))
    file = file_of(schema, (0, 7), (1, 7), partition={1000: 5})
    table = RealTable(tmp_path, [schema], [file], specs=[partitioned_by(2)]).table
    assert formatkit.scan(table, select="p").to_arrow()["p"].to_pylist() == [7, 7]
    scan = formatkit.scan(table, select="p", prefer_partition_constants=True)
    assert scan.to_arrow()["p"].to_pylist() == [5, 5]


def test_a_source_inside_a_struct_is_filled_in(tmp_path: Path) -> None:
    inner = [NestedField(3, "p", IntegerType()), NestedField(4, "v", IntegerType())]
    schema = Schema(ID, NestedField(2, "s", StructType(*inner)))
    stored = Schema(ID, NestedField(2, "s", StructType(inner[1])))
    file = file_of(stored, (0, {4: 1}), (1, None), (2, {4: None}), partition={1000: 9}, constants={3: 9})
    table = RealTable(tmp_path, [schema], [file], specs=[partitioned_by(3)])
    table.check()


@pytest.mark.parametrize("transform", [BucketTransform(4), TruncateTransform(10)], ids=str)
def test_other_transforms_say_nothing_about_the_column(transform: Transform[Any, Any], tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType()))
    file = file_of(Schema(ID), (0,), (1,), partition={1000: 0})
    table = RealTable(tmp_path, [schema], [file], specs=[partitioned_by(2, transform)]).table
    assert formatkit.scan(table, select="p").to_arrow()["p"].to_pylist() == [None, None]


def test_null_partitions_are_filtered_under_or_and_not(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType()), NestedField(3, "v", IntegerType()))
    files = [
        file_of(schema, (0, p, 1), (1, p, 2), (2, p, None), partition={1000: p}, constants={2: p}) for p in (1, 7, None)
    ]
    table = RealTable(tmp_path, [schema], files, specs=[partitioned_by(2)])
    for where in (
        "p < 5 or v = 1",
        "p != 1 or v is null",
        "not (p < 5) and v != 1",
        "not (p < 5 and v = 1)",
        "p is null or p > 5",
        "p in (1, 2) or v not in (1, 2)",
    ):
        table.check(where)


def test_files_of_several_specs_are_filtered_alike(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType()), NestedField(3, "v", IntegerType()))
    specs = [partitioned_by(2), PartitionSpec(PartitionField(3, 1001, IdentityTransform(), "v"), spec_id=1)]
    files = [
        *(file_of(schema, (0, p, 1), (1, p, None), partition={1000: p}, spec_id=0) for p in (1, None)),
        *(file_of(schema, (0, 1, v), (1, None, v), partition={1001: v}, spec_id=1) for v in (1, 2, None)),
    ]
    table = RealTable(tmp_path, [schema], files, specs=specs)
    for where in ("p = 1", "v = 1", "p != 1", "v != 1", "p = 1 and v = 1", "p is null or v is null", "not (v > 1)"):
        table.check(where, select=("*", "_spec_id", "_pos"))
    partitions = formatkit.scan(table.table, select="_partition").to_arrow()["_partition"].to_pylist()
    assert partitions[::2] == [
        {"part": 1, "v": None},
        {"part": None, "v": None},
        {"part": None, "v": 1},
        {"part": None, "v": 2},
        {"part": None, "v": None},
    ]


def test_a_filter_on_a_partition_needs_no_column_in_the_output(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "p", IntegerType()))
    table = RealTable(tmp_path, [schema], [hive_file(0), hive_file(3), hive_file(None)], specs=[partitioned_by(2)])
    table.check("p = 3 or p is null", select=("id", "_pos"))
