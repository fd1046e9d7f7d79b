"""Files without ids: name mappings, the caller's word, or an error; never a guess."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

import formatkit
from formatkit.errors import MissingFieldIdsError
from support.checks import RealTable, file_of

ID = NestedField(1, "id", LongType())
A = NestedField(2, "a", IntegerType())
B = NestedField(3, "b", StringType())


def mapping(*fields: Any) -> dict[str, str]:
    return {"schema.name-mapping.default": json.dumps(fields)}


def test_a_mapping_decides_which_column_is_which(tmp_path: Path) -> None:
    """Ids that differ from positions, aliases, names that moved, columns that nobody maps."""
    stored = Schema(B, NestedField(9, "ignored", IntegerType()), A, ID)
    table = Schema(ID, NestedField(2, "renamed", IntegerType()), NestedField(3, "a", StringType()))
    rows = [("x", 100, 1, 0), (None, 200, None, 1), ("y", 300, 3, 2)]
    names = mapping(
        {"field-id": 1, "names": ["other", "id"]},
        {"field-id": 2, "names": ["a"]},
        {"field-id": 3, "names": ["b"]},
        {"names": ["ignored"]},
    )
    lived = RealTable(tmp_path, [table], [file_of(stored, *rows)], parquet={"ids": False}, properties=names)
    for where in (None, "renamed = 1", "a = 'y'", "renamed is null", "a != 'x'"):
        lived.check(where)


def test_columns_outside_of_the_mapping_are_never_numbered(tmp_path: Path) -> None:
    stored = Schema(A, ID)
    table = Schema(ID, A)
    lived = RealTable(
        tmp_path,
        [table],
        [file_of(stored, (5, 1), (6, 2))],
        parquet={"ids": False},
        properties=mapping({"field-id": 1, "names": ["id"]}),
    )
    answer = formatkit.scan(lived.table).to_arrow()
    assert answer.to_pylist() == [{"id": 1, "a": None}, {"id": 2, "a": None}]


def test_a_mapping_reaches_into_structs_lists_and_maps(tmp_path: Path) -> None:
    leaf = NestedField(20, "leaf", IntegerType())
    schema = Schema(
        ID,
        NestedField(2, "s", StructType(leaf)),
        NestedField(3, "l", ListType(4, StructType(NestedField(21, "leaf", IntegerType())), element_required=False)),
        NestedField(
            5,
            "m",
            MapType(6, StringType(), 7, StructType(NestedField(22, "leaf", IntegerType())), value_required=False),
        ),
    )
    names = mapping(
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 20, "names": ["leaf"]}]},
        {
            "field-id": 3,
            "names": ["l"],
            "fields": [
                {"field-id": 4, "names": ["element"], "fields": [{"field-id": 21, "names": ["leaf"]}]},
            ],
        },
        {
            "field-id": 5,
            "names": ["m"],
            "fields": [
                {"field-id": 6, "names": ["key"]},
                {"field-id": 7, "names": ["value"], "fields": [{"field-id": 22, "names": ["leaf"]}]},
            ],
        },
    )
    rows = [
        (0, {20: 1}, [{21: 2}, None], [("k", {22: 3})]),
        (1, None, None, None),
        (2, {20: None}, [], [("k", None)]),
    ]
    lived = RealTable(tmp_path, [schema], [file_of(schema, *rows)], parquet={"ids": False}, properties=names)
    lived.check()
    lived.check("s.leaf = 1")


def test_without_ids_and_mapping_the_error_names_the_file_and_the_ways_out(tmp_path: Path) -> None:
    schema = Schema(ID, A)
    lived = RealTable(tmp_path, [schema], [file_of(schema, (0, 1))], parquet={"ids": False})
    with pytest.raises(MissingFieldIdsError) as caught:
        formatkit.scan(lived.table).to_arrow()
    for word in ("0.parquet", "by-name", "by-position"):
        assert word in str(caught.value)


@pytest.mark.parametrize("missing_ids", ["by-name", "by-position"])
def test_the_caller_may_say_how_columns_are_told(missing_ids: Any, tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(4, "s", StructType(NestedField(5, "x", IntegerType()))), A)
    rows = [(0, {5: 1}, 10), (1, None, 20)]
    lived = RealTable(tmp_path, [schema], [file_of(schema, *rows)], parquet={"ids": False})
    lived.check("a > 10 or s.x = 1", missing_ids=missing_ids)


def test_columns_named_like_metadata_are_data(tmp_path: Path) -> None:
    schema = Schema(
        ID,
        NestedField(2, "pos", IntegerType()),
        NestedField(3, "file_path", StringType()),
        NestedField(4, "row", StructType(NestedField(5, "_pos", IntegerType()))),
    )
    rows = [(0, 7, "a", {5: 8}), (1, None, None, None)]
    lived = RealTable(tmp_path, [schema], [file_of(schema, *rows)])
    lived.check("pos = 7")
    lived.check("row._pos = 8", select=("*", "_pos"))


@pytest.mark.parametrize("name", ["a b", "1st", "a/b", "💧", "A", "", "a" * 300], ids=str)
def test_any_name_can_be_read_and_selected(name: str, tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, name, IntegerType()), NestedField(3, "other", IntegerType()))
    RealTable(tmp_path, [schema], [file_of(schema, (0, 1, 2), (1, None, 3))]).check(select=(name, "id"))


def test_a_dot_in_a_name_is_a_letter_like_any_other(tmp_path: Path) -> None:
    schema = Schema(ID, NestedField(2, "a.b", IntegerType()))
    lived = RealTable(tmp_path, [schema], [file_of(schema, (0, 1), (1, None))])
    assert formatkit.scan(lived.table, select="a.b").to_arrow().to_pylist() == [{"a.b": 1}, {"a.b": None}]
