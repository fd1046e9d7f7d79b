"""Row ids and sequence numbers: stored, inherited, or unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

import formatkit
from formatkit.contract.metadata_columns import LAST_UPDATED, ROW_ID
from formatkit.tck.rows import comparable, from_arrow
from support.checks import RealTable, file_of
from support.lived_tables import in_splits

ID = NestedField(1, "id", LongType(), required=True)
AFTER = NestedField(2, "after", IntegerType())
TABLE = Schema(ID, AFTER)
LINEAGE = ("_row_id", "_last_updated_sequence_number")


@pytest.mark.parametrize("first_row_id", [None, 0, 1000])
@pytest.mark.parametrize(
    "stored",
    [(), (ROW_ID,), (LAST_UPDATED,), (ROW_ID, LAST_UPDATED)],
    ids=["nothing stored", "row ids", "sequence numbers", "both"],
)
def test_stored_values_win_and_nulls_are_inherited(
    first_row_id: int | None, stored: tuple[NestedField, ...], tmp_path: Path
) -> None:
    schema = Schema(ID, *stored, AFTER)
    rows = [(n, *(None if n % 2 else 50 + n for _ in stored), n * 10) for n in range(10)]
    file = file_of(schema, *rows, first_row_id=first_row_id, sequence_number=4)
    table = RealTable(tmp_path, [TABLE], [file], format_version=3)
    for where in (None, "id > 4", "after = 30"):
        table.check(where, select=("*", *LINEAGE))
        table.check(where, select=LINEAGE)


def test_row_ids_do_not_depend_on_splits(tmp_path: Path) -> None:
    file = file_of(TABLE, *((n, n) for n in range(20)), first_row_id=100, sequence_number=2)
    table = RealTable(tmp_path, [TABLE], [file, replace(file, first_row_id=200, sequence_number=3)], format_version=3)
    select = ("id", *LINEAGE)
    output, expected = table.truth("id > 3", select)
    for size in (50, 333):
        scan = in_splits(formatkit.scan(table.table, where="id > 3", select=select), size)
        assert comparable(from_arrow(output, scan.to_arrow())) == comparable(expected)


@pytest.mark.parametrize("stored", [(), (ROW_ID,), (ROW_ID, LAST_UPDATED)], ids=["nothing", "row ids", "both"])
def test_lineage_can_be_filtered(stored: tuple[NestedField, ...], tmp_path: Path) -> None:
    schema = Schema(ID, *stored, AFTER)
    # Bounds in the manifest know the stored values, but not those that are inherited.
    rows = [(n, *(None if n % 2 else 50 + n for _ in stored), n) for n in range(20)]
    file = file_of(schema, *rows, first_row_id=100, sequence_number=2)
    table = RealTable(tmp_path, [TABLE], [file], format_version=3)
    for where in ("_row_id = 107", "_row_id < 105 and id > 2", "_last_updated_sequence_number != 2", "_pos in (1, 3)"):
        table.check(where)
