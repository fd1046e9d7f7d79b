"""Deletes that Java wrote, of every kind, remove the same rows here as they do in Java."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, StructType

from formatkit.tck.naive import Row
from support.oracle.comparing import FORMATS, agree, read_here, same_rows
from support.oracle.java_table import JavaTable, equality
from support.oracle.servant import Servant
from support.oracle.specs import spec_of

every_format = pytest.mark.parametrize("file_format", FORMATS)
FILTERS = ("id > 3 and name = 'b'", "name is null or day is null")

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "place", StructType(NestedField(5, "code", IntegerType()))),
)
ROWS: list[Row] = [
    {1: number, 2: [None, "a", "b"][number % 3], 3: None if number == 5 else 18_000 + number // 2, 4: {5: number % 2}}
    for number in range(8)
]


def keys(*ids: int) -> Schema:
    """The columns of these ids alone, in this order."""
    return Schema(*(SCHEMA.find_field(field_id) for field_id in ids))


def left_after(table: JavaTable) -> set[int]:
    """The ids of the rows that are left for both sides, under filters and projections too."""
    rows = agree(table)
    for where in FILTERS:
        agree(table, where)
    agree(table, select=["place.code", "name"])
    return {row[1] for row in rows}


@every_format
def test_position_deletes(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    (first,) = table.append(ROWS[:4], file_format)
    (second,) = table.append(ROWS[4:], file_format)
    # One delete file for both, neither sorted nor free of duplicates, with a position that does not exist.
    table.row_delta(file_format, positions=[(second, 3), (first, 2), (second, 0), (first, 2), (first, 99)])
    assert left_after(table) == {0, 1, 3, 5, 6}
    table.row_delta(file_format, positions=[(first, 0)])
    assert left_after(table) == {1, 3, 5, 6}


@every_format
def test_equality_deletes_of_one_column_and_of_nulls(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    table.row_delta(file_format, equality=[equality(keys(2), [{2: "a"}], [2])])
    assert left_after(table) == {0, 2, 3, 5, 6}
    table.row_delta(file_format, equality=[equality(keys(2), [{2: None}], [2])])
    assert left_after(table) == {2, 5}


@every_format
def test_equality_deletes_of_several_columns(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    rows: list[Row] = [{3: 18_000, 2: "a"}, {3: None, 2: "b"}, {3: 18_003, 2: None}, {3: 18_003, 2: "b"}]
    table.row_delta(file_format, equality=[equality(keys(3, 2), rows, [3, 2])])
    assert left_after(table) == {0, 2, 3, 4, 7}


@every_format
def test_equality_deletes_of_a_column_in_a_struct_and_with_other_columns_beside_it(
    java: Servant, file_format: str, tmp_path: Path
) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    table.row_delta(file_format, equality=[equality(SCHEMA, ROWS[1::2], [5])])
    # This Java cannot read such tables without the struct.
    assert {row[1] for row in agree(table)} == {0, 2, 4, 6}
    for where in FILTERS:
        agree(table, where)


@every_format
def test_equality_deletes_spare_rows_of_their_own_and_of_later_commits(
    java: Servant, file_format: str, tmp_path: Path
) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS[:4], file_format)
    table.row_delta(
        file_format, rows=[ROWS[4]], equality=[equality(keys(1), [{1: number} for number in (1, 4, 6)], [1])]
    )
    table.append(ROWS[5:], file_format)
    assert left_after(table) == {0, 2, 3, 4, 5, 6, 7}


@every_format
def test_position_deletes_reach_rows_of_their_own_commit(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    (first,) = table.append(ROWS[:4], file_format)
    table.row_delta(
        file_format, rows=ROWS[4:], positions=[(first, 0)], equality=[equality(keys(1), [{1: 3}, {1: 7}], [1])]
    )
    assert left_after(table) == {1, 2, 4, 5, 6, 7}


@every_format
def test_equality_deletes_of_columns_that_changed_since(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    table.row_delta(file_format, equality=[equality(keys(1), [{1: 0}, {1: 1}, {1: 4}], [1])])
    promoted = Schema(
        NestedField(2, "id", StringType()),
        NestedField(1, "name", LongType(), required=True),
        NestedField(6, "extra", StringType()),
    )
    table.evolve(promoted)
    # An absent column is null in old rows, so that this would delete all of them if it were not for the name.
    table.row_delta(
        file_format, equality=[equality(Schema(promoted.fields[2], promoted.fields[0]), [{6: None, 2: "b"}], [6, 2])]
    )
    assert {row[1] for row in agree(table)} == {3, 6, 7}
    agree(table, "name > 2 and extra is null")
    agree(table, select=["extra"])


@every_format
def test_equality_deletes_of_a_column_that_was_dropped_since(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    table.append(ROWS, file_format)
    table.row_delta(file_format, equality=[equality(keys(3), [{3: 18_000}, {3: None}], [3])])
    before = [{1: row[1], 2: row[2]} for row in table.rows()]
    table.evolve(keys(1, 2))
    # This Java fails on such tables, so that the rows that it read before are the measure.
    same_rows(read_here(table.load()), before)


@every_format
def test_deletes_of_partitions_and_of_the_whole_table(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    (whole,) = table.append(ROWS, file_format)
    table.evolve(spec=spec_of([(2, "identity")], 1))
    nulls, letter_a, letter_b = table.append(ROWS, file_format)
    table.row_delta(
        file_format,
        positions=[(letter_b, 0), (whole, 7)],
        equality=[
            equality(keys(1), [{1: 0}, {1: 1}, {1: 2}], [1], partition_of=nulls),
            equality(keys(1), [{1: 4}], [1], partition_of=letter_a),
        ],
    )
    rows = agree(table)
    assert sorted(row[1] for row in rows) == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7]
    # Written under the unpartitioned spec: for all files.
    table.row_delta(file_format, equality=[equality(keys(1), [{1: 5}, {1: 6}], [1])])
    assert sorted(row[1] for row in agree(table)) == [0, 1, 1, 2, 3, 3, 4, 7]
    for where in FILTERS:
        agree(table, where)


@every_format
def test_deletion_vectors(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, version=3, spec=spec_of([(1, "truncate[4]")]))
    low, high = table.append(ROWS, file_format)
    # Both vectors are in one Puffin file.
    table.row_delta(file_format, vectors=[(low, 1), (high, 3)])
    assert left_after(table) == {0, 2, 3, 4, 5, 6}
    # Java merges the new positions with the old ones, and equality deletes come on top.
    table.row_delta(file_format, vectors=[(low, 3)], equality=[equality(keys(1), [{1: 0}, {1: 5}], [1], high)])
    assert left_after(table) == {0, 2, 4, 6}


@every_format
def test_deletion_vectors_replace_position_deletes(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA)
    (first,) = table.append(ROWS[:4], file_format)
    (second,) = table.append(ROWS[4:], file_format)
    table.row_delta(file_format, positions=[(first, 0), (second, 0)])
    table.evolve(version=3)
    assert left_after(table) == {1, 2, 3, 5, 6, 7}
    table.row_delta(file_format, vectors=[(first, 3)])
    assert left_after(table) == {1, 2, 5, 6, 7}


@every_format
def test_rewritten_and_overwritten_files(java: Servant, file_format: str, tmp_path: Path) -> None:
    table = JavaTable.create(java, tmp_path / "t", SCHEMA, spec=spec_of([(1, "truncate[4]")]))
    low, _ = table.append(ROWS, file_format)
    table.row_delta(file_format, positions=[(low, 0)], equality=[equality(keys(1), [{1: 3}, {1: 5}], [1], low)])
    # A rewrite keeps the old sequence number, so that later equality deletes still reach its rows.
    table.replace("rewrite", ROWS[:4], file_format, remove=[low])
    assert left_after(table) == {0, 1, 2, 4, 5, 6, 7}
    table.replace("rewrite-manifests")
    assert left_after(table) == {0, 1, 2, 4, 5, 6, 7}
    table.replace("overwrite", [{1: 9, 2: "n", 3: None, 4: {5: 1}}], file_format, where="id >= 4 and id < 8")
    assert left_after(table) == {0, 1, 2, 9}
    table.replace("delete", where="id < 4")
    assert left_after(table) == {9}
