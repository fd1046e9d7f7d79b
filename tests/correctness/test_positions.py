"""Splits, positions and batch sizes, together with filters that skip parts of a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType

import formatkit
from formatkit.tck.rows import comparable, from_arrow
from support.checks import RealTable, file_of
from support.lived_tables import in_splits
from support.thresholds import picking_pages

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "list", ListType(4, DoubleType(), element_required=False)),
)
ROWS = [(number, f"name {number % 7}" if number % 3 else None, [float(number)] * (number % 4)) for number in range(40)]
# Row groups of 10 rows; the filters skip the first, the last and some in the middle, and rows inside of them.
FILTERS = [None, "id >= 10", "id < 30", "id > 12 and id < 15", "name = 'name 3'", "id < 5 or id > 35", "id = 39"]


@pytest.fixture
def table(tmp_path: Path) -> RealTable:
    return RealTable(
        tmp_path, [SCHEMA], [file_of(SCHEMA, *ROWS), file_of(SCHEMA, *ROWS[:15])], parquet={"row_group_size": 10}
    )


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize("batch_rows", [1, 7, 9, 11, 1000])
def test_positions_are_those_of_the_file(table: RealTable, where: str | None, batch_rows: int) -> None:
    table.check(where, select=("_pos", "id", "_file"), batch_rows=batch_rows)
    with picking_pages():
        table.check(where, select=("_pos", "id", "list"), batch_rows=batch_rows)


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize("size", [64, 97, 500, 10**6])
def test_splits_of_any_size_give_every_row_once_and_in_order(table: RealTable, where: str | None, size: int) -> None:
    output, expected = table.truth(where, ("*", "_pos"))
    scan = in_splits(formatkit.scan(table.table, where=where, select=("*", "_pos")), size)
    assert comparable(from_arrow(output, scan.to_arrow())) == comparable(expected)


@pytest.mark.parametrize("where", FILTERS)
@pytest.mark.parametrize("select", [(), ("_pos",), ("_file", "_spec_id", "_deleted")])
def test_rows_without_data_columns_are_counted_rightly(
    table: RealTable, where: str | None, select: tuple[str, ...]
) -> None:
    _, expected = table.truth(where)
    scan = formatkit.scan(table.table, where=where, select=select)
    assert sum(batch.num_rows for batch in scan.to_batches()) == len(expected)
    assert scan.count() == len(expected)


@pytest.mark.parametrize("limit", [0, 1, 7, 39, 41, 1000])
@pytest.mark.parametrize("where", FILTERS)
def test_a_limit_takes_the_first_rows(table: RealTable, where: str | None, limit: int) -> None:
    output, expected = table.truth(where)
    answer = formatkit.scan(table.table, where=where, limit=limit, batch_rows=4).to_arrow()
    assert comparable(from_arrow(output, answer)) == comparable(expected[:limit])


def test_batches_stay_valid_when_reading_goes_on_and_ends(table: RealTable) -> None:
    output, expected = table.truth()
    with formatkit.scan(table.table, batch_rows=3).to_batches() as stream:
        batches = list(stream)
    assert comparable([row for batch in batches for row in from_arrow(output, batch)]) == comparable(expected)
