"""Filters where pruning, literals or the environment could get in the way of the answer."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThan, In, LessThan, Not, NotIn, Or
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

import formatkit
from support.checks import RealTable, file_of

ID = NestedField(1, "id", LongType(), required=True)


def column(iceberg_type: IcebergType) -> Schema:
    return Schema(ID, NestedField(2, "x", iceberg_type))


def ask(operator: Any, value: Any) -> BooleanExpression:
    expression: BooleanExpression = operator("x", value)
    return expression


@pytest.mark.parametrize("size", [1, 200, 201, 10_000])
@pytest.mark.parametrize("operator", [In, NotIn])
def test_sets_of_any_size_are_tested(operator: Any, size: int, tmp_path: Path) -> None:
    schema = column(LongType())
    rows = [(number, None if number % 5 == 0 else number * 3) for number in range(60)]
    RealTable(tmp_path, [schema], [file_of(schema, *rows)]).check(ask(operator, set(range(3, 3 + size))))


def test_deeply_nested_logic_is_followed(tmp_path: Path) -> None:
    schema = column(IntegerType())
    table = RealTable(tmp_path, [schema], [file_of(schema, *((n, None if n % 4 == 0 else n) for n in range(30)))])
    predicate: BooleanExpression = ask(LessThan, 20)
    for number in range(12):
        predicate = Not(Or(And(predicate, Not(ask(EqualTo, number))), ask(GreaterThan, 40 + number)))
        table.check(predicate)


@pytest.mark.parametrize("iceberg_type", [TimestampNanoType(), TimestamptzNanoType()], ids=str)
@pytest.mark.parametrize("operator", [EqualTo, GreaterThan, LessThan])
def test_nanoseconds_are_compared_as_nanoseconds(iceberg_type: IcebergType, operator: Any, tmp_path: Path) -> None:
    schema = column(iceberg_type)
    moment = 1_600_000_000_000_000_000
    zone = "+00:00" if isinstance(iceberg_type, TimestamptzNanoType) else ""
    rows = [(number, moment + nanos) for number, nanos in enumerate((-1, 0, 1, 999, 1000, 1001))]
    table = RealTable(tmp_path, [schema], [file_of(schema, *rows, (9, None))], format_version=3)
    for fraction in ("", ".000000001", ".000001", ".000000999"):
        table.check(ask(operator, f"2020-09-13T12:26:40{fraction}{zone}"))


@pytest.mark.parametrize("places", ["first", "last"])
def test_leaves_are_found_between_structs_lists_and_maps(places: str, tmp_path: Path) -> None:
    leaf = NestedField(2, "x", IntegerType())
    inner = NestedField(3, "s", StructType(NestedField(4, "a", StringType()), NestedField(5, "y", DoubleType())))
    others = [
        NestedField(6, "l", ListType(7, StructType(NestedField(8, "z", IntegerType())), element_required=False)),
        NestedField(9, "m", MapType(10, StringType(), 11, IntegerType(), value_required=False)),
    ]
    order = [leaf, inner, *others] if places == "first" else [*others, inner, leaf]
    values: dict[int, list[Any]] = {
        2: [1, None, 3, 4],
        3: [{4: "a", 5: 1.5}, None, {4: None, 5: None}, {4: "b", 5: float("nan")}],
        6: [[{8: 1}, None], None, [], [{8: 2}]],
        9: [[("k", 1)], [], None, [("k", None), ("l", 2)]],
    }
    schema = Schema(ID, *order)
    file = file_of(schema, *((n, *(values[field.field_id][n] for field in order)) for n in range(4)))
    table = RealTable(tmp_path, [schema], [file], parquet={"row_group_size": 2})
    for where in (
        "x = 3",
        "x != 3",
        "s.y > 1.0",
        "s.y is not nan",
        "s.a = 'b'",
        "s is null",
        "l is null",
        "m is not null",
    ):
        table.check(where)
        table.check(where, select=("l", "id"))
        table.check(where, select=("s.a",))


@pytest.mark.parametrize(
    ("iceberg_type", "value", "literal"),
    [
        (DateType(), date(1969, 12, 31), "1969-12-31"),
        (TimestampType(), datetime(1969, 12, 31, 23, 59, 59, 999_999), "1969-12-31T23:59:59.999999"),
        (TimestamptzType(), datetime(2021, 3, 28, 1, 30), "2021-03-28T03:30:00+02:00"),
        (TimestampType(), datetime(9999, 12, 31, 23, 59, 59, 999_999), "9999-12-31T23:59:59.999999"),
        (TimestampType(), datetime(1, 1, 1), "0001-01-01T00:00:00"),
    ],
    ids=str,
)
def test_moments_are_found_whatever_their_spelling(
    iceberg_type: IcebergType, value: Any, literal: str, tmp_path: Path
) -> None:
    schema = column(iceberg_type)
    another = date(1970, 1, 2) if isinstance(iceberg_type, DateType) else datetime(1970, 1, 2)
    table = RealTable(tmp_path, [schema], [file_of(schema, (0, value), (1, None), (2, another))])
    for operator in (EqualTo, GreaterThan, LessThan):
        table.check(ask(operator, literal))


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata"])
def test_the_time_zone_of_the_machine_changes_nothing(zone: str, tmp_path: Path) -> None:
    schema = Schema(
        ID,
        NestedField(2, "t", TimestampType()),
        NestedField(3, "z", TimestamptzType()),
        NestedField(4, "d", DateType()),
    )
    moments = [datetime(2021, 3, 14, 10) + timedelta(hours=hours) for hours in range(-48, 48, 7)]
    rows = [(n, moment, moment, moment.date()) for n, moment in enumerate(moments)]
    table = RealTable(tmp_path, [schema], [file_of(schema, *rows)])
    where = "t >= '2021-03-14T02:30:00' and z < '2021-03-15T00:00:00+00:00' and d = '2021-03-14'"
    expected = [row[1] for row in table.truth(where)[1]]
    assert 0 < len(expected) < len(rows)
    script = f"""
import formatkit
from pyiceberg.table import StaticTable
table = StaticTable.from_metadata({table.table.metadata_location!r})
print(formatkit.scan(table, where={where!r}, select="id").to_arrow()["id"].to_pylist())
"""
    environment = os.environ | {"TZ": zone}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(expected)


@pytest.mark.parametrize(
    "parquet",
    [
        {"write_statistics": False, "write_page_index": False},
        {"write_statistics": ["id"]},
        {"write_page_index": False},
        {"use_dictionary": False},
        {"use_dictionary": ["x"], "dictionary_pagesize_limit": 16},
        {"data_page_version": "2.0", "data_page_size": 128},
        {"compression": "zstd"},
    ],
    ids=str,
)
def test_the_layout_of_the_file_changes_no_answer(parquet: dict[str, Any], tmp_path: Path) -> None:
    schema = column(StringType())
    rows = [(n, None if n % 6 == 0 else f"value {n % 5}") for n in range(50)]
    table = RealTable(tmp_path, [schema], [file_of(schema, *rows)], parquet={"row_group_size": 20} | parquet)
    for where in ("x = 'value 3'", "x != 'value 3'", "x like 'value%'", "x not like 'value 3%'", "x > 'value 2'"):
        table.check(where)


def test_a_column_may_be_filtered_that_is_not_selected_and_bears_the_name_of_another(tmp_path: Path) -> None:
    old = Schema(ID, NestedField(2, "a", IntegerType()), NestedField(3, "b", IntegerType()))
    new = Schema(ID, NestedField(2, "b", IntegerType()), NestedField(3, "a", IntegerType()), schema_id=1)
    table = RealTable(tmp_path, [old, new], [file_of(old, (0, 1, 2), (1, 2, 1), (2, None, 1), (3, 1, None))])
    for where in ("a = 1", "b = 1", "a != 1 and b = 1", "a is null or b is null"):
        for select in (("a",), ("b",), ("b", "a"), ("id",)):
            table.check(where, select=select)


def test_names_may_be_spelled_in_any_case_if_that_is_asked_for(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "Mixed", IntegerType()))
    table = RealTable(tmp_path, [schema], [file_of(schema, (0, 1), (1, 2))])
    answer = formatkit.scan(table.table, where="MIXED = 2", select=("mixed", "ID"), case_sensitive=False).to_arrow()
    assert answer.to_pylist() == [{"Mixed": 2, "id": 1}]
