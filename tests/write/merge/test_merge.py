"""What a merge does with each kind of clause, and what it refuses."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DoubleType, IntegerType, LongType, NestedField, StringType, StructType, UUIDType

import formatkit
from formatkit import Delete, Insert, MergeResult, Update
from formatkit.errors import (
    AmbiguousColumnError,
    ColumnNotFoundError,
    ConfigurationError,
    FormatkitError,
    InvalidDataError,
    InvalidPredicateError,
    MissingRequiredFieldError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.write.merge import operation
from formatkit.write.operations import Mode
from support.filters import LessThan
from support.modelled_table import new_table
from support.operated_tables import BY_PART, delete_by_equality, filled_table, upgrade
from support.written_tables import ALL_FORMATS, files_on_disk

MERGE: Mode = "merge-on-read"
COPY: Mode = "copy-on-write"
WAYS: list[tuple[int, Mode]] = [(1, COPY), (2, MERGE), (2, COPY), (3, MERGE), (3, COPY)]
STOCK = Schema(
    NestedField(1, "sku", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "count", IntegerType()),
    NestedField(4, "since", DateType()),
    identifier_field_ids=[1],
)
DAY = date(2026, 1, 31)


def stock(directory: Path, version: int = 2, **options: Any) -> Any:
    table = new_table(directory, STOCK, version=version, **options)
    rows = [(1, "nail", 10, DAY), (2, "nut", None, None), (3, "bolt", 30, DAY), (4, None, 40, None)]
    formatkit.append(table, stock_rows(*rows[:3]))
    formatkit.append(table, stock_rows(*rows[3:]))
    return table


def stock_rows(*rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    kinds = {"sku": pa.int64(), "name": pa.string(), "count": pa.int32(), "since": pa.date32()}
    return pa.table({name: pa.array(values, kind) for (name, kind), values in zip(kinds.items(), columns, strict=True)})


def table_rows(table: Any, **options: Any) -> list[tuple[Any, ...]]:
    """All rows by their first column."""
    read: pa.Table = formatkit.scan(table, **options).to_arrow()
    return sorted(zip(*(column.to_pylist() for column in read.columns), strict=True), key=lambda row: row[0])


def counts(result: MergeResult) -> tuple[int, int, int]:
    return result.rows_updated, result.rows_deleted, result.rows_inserted


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_by_default_rows_are_updated_and_inserted(tmp_path: Path, version: int, mode: Mode) -> None:
    table = stock(tmp_path, version)
    source = stock_rows((2, "nut", 5, DAY), (4, None, 40, None), (9, "new", 1, DAY))
    assert counts(formatkit.merge(table, source, mode=mode)) == (1, 0, 1)
    assert table_rows(table) == [
        (1, "nail", 10, DAY),
        (2, "nut", 5, DAY),
        (3, "bolt", 30, DAY),
        (4, None, 40, None),
        (9, "new", 1, DAY),
    ]
    assert len(table.snapshots()) == 3


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize(("version", "mode"), [(2, MERGE), (3, MERGE), (3, COPY)])
def test_rows_of_files_of_each_format_are_merged(tmp_path: Path, file_format: str, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART, file_format=file_format)
    source = pa.table({"id": [1, 2, 77], "part": ["x", "y", "z"]})
    result = formatkit.merge(
        model.table,
        source,
        matched=[Delete("target.id = 2"), Update()],
        not_matched_by_source=Delete("target.id > 10"),
        mode=mode,
        file_format=file_format,
    )
    assert counts(result) == (1, 10, 1)
    kept = [(row[1], row[2]) for row in model.rows if row[1] not in (1, 2) and row[1] <= 10]
    assert table_rows(model.table, select=("id", "part")) == sorted([*kept, (1, "x"), (77, "z")])


def test_columns_that_the_source_lacks_stay_and_take_their_default_in_new_rows(tmp_path: Path) -> None:
    table = stock(tmp_path)
    formatkit.merge(table, pa.table({"sku": [1, 7], "extra": ["is", "ignored"], "count": pa.array([5, 6], pa.int32())}))
    assert table_rows(table, where="sku in (1, 7)") == [(1, "nail", 5, DAY), (7, None, 6, None)]


def test_key_columns_of_other_names_are_compared_and_inserted(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = pa.table({"article": pa.array([1, 8], pa.int32()), "name": ["screw", "hook"]})
    assert counts(formatkit.merge(table, source, on={"sku": "article"})) == (1, 0, 1)
    assert table_rows(table, where="sku in (1, 8)") == [(1, "screw", 10, DAY), (8, "hook", None, None)]


def test_values_are_columns_literals_in_text_or_python_values(tmp_path: Path) -> None:
    table = stock(tmp_path)
    values = {"name": "'source.name'", "count": "source.n", "since": "'2020-02-29'"}
    source = pa.table({"sku": [1, 6], "n": pa.array([3, 4], pa.int8())})
    formatkit.merge(table, source, matched=Update(values), not_matched=Insert({"sku": "source.sku", "since": DAY}))
    assert table_rows(table, where="sku in (1, 6)") == [
        (1, "source.name", 3, date(2020, 2, 29)),
        (6, None, None, DAY),
    ]


def test_the_first_clause_whose_condition_is_true_applies(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = pa.table({"sku": [1, 2, 3], "op": ["delete", "update", None], "count": pa.array([0, 1, 2], pa.int32())})
    clauses = [Delete("source.op = 'delete'"), Update({"name": "'first'"}, "source.op is not null"), Update()]
    assert counts(formatkit.merge(table, source, matched=clauses)) == (2, 1, 0)
    assert table_rows(table) == [(2, "first", None, None), (3, "bolt", 2, DAY), (4, None, 40, None)]


def test_a_row_for_which_no_clause_applies_stays(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = stock_rows((1, "x", 1, DAY), (9, "y", 1, DAY))
    before, files = table_rows(table), files_on_disk(table)
    result = formatkit.merge(
        table, source, matched=Update(where="source.count > target.count"), not_matched=Insert(where="source.count > 1")
    )
    assert result == MergeResult(rows_updated=0, rows_deleted=0, rows_inserted=0, snapshot=None)
    assert table_rows(table) == before
    assert files_on_disk(table) == files


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_rows_that_the_source_lacks_are_changed_or_deleted(tmp_path: Path, mode: Mode) -> None:
    table = stock(tmp_path)
    lone = [Delete("target.count = 40"), Update({"count": 0})]
    result = formatkit.merge(
        table, stock_rows((1, "nail", 10, DAY)), matched=None, not_matched=None, not_matched_by_source=lone, mode=mode
    )
    assert counts(result) == (2, 1, 0)
    assert table_rows(table) == [(1, "nail", 10, DAY), (2, "nut", 0, None), (3, "bolt", 0, DAY)]


def test_an_empty_source_deletes_everything_that_it_lacks(tmp_path: Path) -> None:
    table = stock(tmp_path)
    assert counts(formatkit.merge(table, stock_rows(), not_matched_by_source="delete")) == (0, 4, 0)
    assert table_rows(table) == []


def test_null_matches_nothing(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = pa.table({"name": [None, "nut"], "sku": [11, 12]})
    assert counts(formatkit.merge(table, source, on="name", matched="delete")) == (0, 1, 1)
    assert table_rows(table, select=("sku", "name"), where="name is null") == [(4, None), (11, None)]


def test_all_rows_of_the_table_with_a_key_are_updated(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = pa.table({"since": [DAY], "count": pa.array([1], pa.int32())})
    assert counts(formatkit.merge(table, source, on="since", not_matched=None)) == (2, 0, 0)
    assert table_rows(table, select=("sku", "count")) == [(1, 1), (2, None), (3, 1), (4, 40)]


def test_two_source_rows_that_change_one_row_are_refused(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = stock_rows((3, "a", 1, DAY), (1, "b", 2, DAY), (1, "c", 3, DAY))
    before, files = table_rows(table), files_on_disk(table)
    with pytest.raises(InvalidDataError, match="sku = 1"):
        formatkit.merge(table, source)
    assert (table_rows(table), files_on_disk(table)) == (before, files)
    assert counts(formatkit.merge(table, source, matched=Update(where="source.count != 2"))) == (2, 0, 0)
    assert table_rows(table, where="sku = 1") == [(1, "c", 3, DAY)]


def test_two_source_rows_may_delete_one_row_if_nothing_else_could_happen(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = stock_rows((1, "b", 2, DAY), (1, "c", 3, DAY))
    with pytest.raises(InvalidDataError, match="sku = 1"):
        formatkit.merge(table, source, matched=Delete("source.count > 0"))
    assert counts(formatkit.merge(table, source, matched="delete")) == (0, 1, 0)


def test_source_rows_with_one_key_that_the_table_lacks_are_all_inserted(tmp_path: Path) -> None:
    table = stock(tmp_path)
    assert counts(formatkit.merge(table, stock_rows((9, "a", 1, DAY), (9, "b", 1, DAY)))) == (0, 0, 2)


def test_many_source_rows_for_one_key_are_looked_at_in_portions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "_MAX_PAIRS", 3)
    table = stock(tmp_path)
    source = stock_rows(*((1 + i % 3, "x", i, DAY) for i in range(12)))
    clauses = Update(where="source.count >= 9")
    assert counts(formatkit.merge(table, source, matched=clauses)) == (3, 0, 0)
    assert table_rows(table, select=("sku", "count")) == [(1, 9), (2, 10), (3, 11), (4, 40)]


@pytest.mark.parametrize(("version", "mode"), [(2, MERGE), (2, COPY), (3, MERGE), (3, COPY)])
def test_rows_that_were_deleted_are_inserted_anew(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version)
    model.delete(LessThan("id", 3), MERGE)
    delete_by_equality(model, [4, 14])
    source = pa.table({"id": list(range(20)), "part": ["new"] * 20})
    assert counts(formatkit.merge(model.table, source, mode=mode)) == (15, 0, 5)
    assert table_rows(model.table, select=("id", "part")) == [(i, "new") for i in range(20)]


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_rows_from_before_an_upgrade_keep_their_ids_once_they_have_them(tmp_path: Path, mode: Mode) -> None:
    model = filled_table(tmp_path, 2)
    upgrade(model)
    formatkit.merge(model.table, pa.table({"id": [1, 40], "part": ["new", "new"]}), mode=mode)
    first = dict(table_rows(model.table, select=("id", "_row_id")))
    assert len(set(first.values())) == 21
    formatkit.merge(model.table, pa.table({"id": [1, 2], "part": ["newer", "newer"]}), mode=mode)
    assert dict(table_rows(model.table, select=("id", "_row_id"))) == first


def test_only_columns_that_are_compared_are_read_to_delete(tmp_path: Path) -> None:
    table = stock(tmp_path)
    clauses = Delete("source.count = target.count")
    assert counts(formatkit.merge(table, stock_rows((1, None, 10, None)), matched=clauses, not_matched=None)) == (
        0,
        1,
        0,
    )
    assert len(table_rows(table)) == 3


def test_a_branch_is_changed_and_the_main_branch_is_not(tmp_path: Path) -> None:
    table = stock(tmp_path)
    properties = {"who": "me"}
    result = formatkit.merge(table, stock_rows((9, "x", 1, DAY)), branch="b", snapshot_properties=properties)
    assert result.snapshot is not None
    assert result.snapshot.summary is not None
    assert result.snapshot.summary.additional_properties["who"] == "me"
    assert formatkit.scan(table).count() == 4
    assert formatkit.scan(table, snapshot_id=result.snapshot.snapshot_id).count() == 5


def test_names_may_be_given_in_any_case(tmp_path: Path) -> None:
    table = stock(tmp_path)
    source = pa.table({"SKU": [1], "Name": ["x"]})
    with pytest.raises(ColumnNotFoundError):
        formatkit.merge(table, source, on="SKU")
    update = Update({"NAME": "SOURCE.name"}, "Target.COUNT = 10")
    assert counts(formatkit.merge(table, source, on="SKU", matched=update, case_sensitive=False)) == (1, 0, 0)
    assert counts(formatkit.merge(table, source, on="SKU", case_sensitive=False)) == (0, 0, 0)


def test_keys_and_columns_may_be_inside_of_structs(tmp_path: Path) -> None:
    inner = StructType(NestedField(2, "id", UUIDType()), NestedField(3, "x", DoubleType()))
    table = new_table(tmp_path, Schema(NestedField(1, "s", inner), NestedField(4, "y", DoubleType())))
    kind = pa.struct([("id", pa.binary(16)), ("x", pa.float64())])
    rows = [{"id": bytes([i]) * 16, "x": float(i)} for i in range(3)]
    formatkit.append(table, pa.table({"s": pa.array([*rows, None], kind), "y": [1.0, 2.0, 3.0, 4.0]}))
    source = pa.table({"s": pa.array([*rows[:2], None], kind), "z": [0.5, 1.5, 2.5]})
    update = Update({"y": "source.s.x"}, "source.z > target.s.x and source.s.x = target.s.x")
    result = formatkit.merge(table, source, on="s.id", matched=update, not_matched=None)
    assert counts(result) == (2, 0, 0)
    assert table_rows(table, select="y") == [(0.0,), (1.0,), (3.0,), (4.0,)]


def test_version_1_has_no_merge_on_read(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="copy-on-write"):
        formatkit.merge(stock(tmp_path, 1), stock_rows((1, "x", 1, DAY)))


WRONG: dict[str, tuple[dict[str, Any], type[FormatkitError], str]] = {
    "mode": ({"mode": "merge"}, ConfigurationError, "mode"),
    "no clause": ({"matched": None, "not_matched": None}, ConfigurationError, "without any clause"),
    "unknown clause": ({"matched": "upsert"}, ConfigurationError, "matched takes Update"),
    "clause out of place": ({"matched": Insert()}, ConfigurationError, "matched takes Update"),
    "delete what is not there": ({"not_matched": Delete()}, ConfigurationError, "not_matched takes Insert"),
    "clause that never applies": ({"matched": ["delete", "update"]}, ConfigurationError, "never apply"),
    "key that the source lacks": ({"on": {"sku": "nothing"}}, ColumnNotFoundError, "nothing"),
    "key that the table lacks": ({"on": "extra"}, ColumnNotFoundError, "extra"),
    "no key": ({"on": []}, ConfigurationError, "on="),
    "key of another type": ({"on": {"name": "sku"}}, SchemaResolutionError, "name"),
    "target in not_matched": ({"not_matched": Insert(where="target.sku = 1")}, ColumnNotFoundError, "target.sku"),
    "source in not_matched_by_source": (
        {"not_matched_by_source": Delete("source.sku = 1")},
        ColumnNotFoundError,
        "source.sku",
    ),
    "update from nothing": ({"not_matched_by_source": "update"}, ConfigurationError, "no source row"),
    "column without a side": ({"matched": Delete("sku = 1")}, ColumnNotFoundError, "sku"),
    "unknown column": ({"matched": Update({"nothing": 1})}, ColumnNotFoundError, "nothing"),
    "text without quotes": ({"matched": Update({"name": "two words"})}, InvalidPredicateError, "'text'"),
    "text that looks like a column": ({"matched": Update({"name": "done"})}, ColumnNotFoundError, "done"),
    "literal of another type": ({"matched": Update({"count": "'x'"})}, ConfigurationError, "count"),
    "literal that does not fit": ({"matched": Update({"count": "1.5"})}, ConfigurationError, "count"),
    "value of another type": ({"matched": Update({"since": 1.5})}, ConfigurationError, "since"),
    "column of another type": ({"matched": Update({"name": "source.sku"})}, SchemaResolutionError, "name"),
    "whole row": ({"matched": Update({"name": "source"})}, ConfigurationError, "source"),
    "nothing set": ({"matched": Update({})}, ConfigurationError, "empty"),
    "required column missing": (
        {"not_matched": Insert({"name": "source.name"})},
        MissingRequiredFieldError,
        "sku",
    ),
    "required column null": ({"matched": Update({"sku": None})}, InvalidDataError, "sku"),
    "no filter": ({"matched": Delete("source.sku >")}, InvalidPredicateError, "source.sku"),
    "types without an order between them": (
        {"matched": Delete("source.name > target.count")},
        InvalidPredicateError,
        "target.count",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_and_nothing_is_written(tmp_path: Path, case: str) -> None:
    arguments, error, words = WRONG[case]
    table = stock(tmp_path)
    files = files_on_disk(table)
    source = stock_rows((1, "x", 1, DAY), (9, "y", 1, DAY)).append_column("extra", pa.array([1, 2]))
    with pytest.raises(error, match=words):
        formatkit.merge(table, source, **arguments)
    assert files_on_disk(table) == files
    assert len(table.snapshots()) == 2


def test_names_that_fit_several_columns_are_refused(tmp_path: Path) -> None:
    source = pa.table({"sku": [1], "name": ["x"], "NAME": ["y"]})
    with pytest.raises(AmbiguousColumnError):
        formatkit.merge(stock(tmp_path), source, case_sensitive=False)


def test_floats_are_no_keys(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    with pytest.raises(ConfigurationError, match="double"):
        formatkit.merge(model.table, pa.table({"value": [1.0]}), on="value")


def test_a_source_without_any_batch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no batch"):
        formatkit.merge(stock(tmp_path), [])


def test_rows_that_are_removed_from_a_partition_may_come_back_in_another(tmp_path: Path) -> None:
    model = filled_table(tmp_path, partitions=BY_PART)
    result = formatkit.merge(model.table, pa.table({"id": [1, 2], "part": ["a", None]}))
    assert counts(result) == (1, 0, 0)
    assert table_rows(model.table, select=("id", "part"), where="id = 1") == [(1, "a")]


UPSERT = """
    when matched then update set name = s.name, count = s.count, since = s.since
    when not matched then insert values (s.sku, s.name, s.count, s.since)
"""
CONDITIONS = """
    when matched and s.name = 'gone' then delete
    when matched and s.count > t.count then update set count = s.count
    when matched then update set name = 'other'
    when not matched and s.since is not null then insert (sku, count) values (s.sku, 0)
"""
LONE = """
    when not matched by source and t.sku = 2 then update set count = null
    when not matched by source then delete
"""
STATEMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "upsert": ({}, UPSERT),
    "conditions": (
        {
            "matched": [
                Delete("source.name = 'gone'"),
                Update({"count": "source.count"}, "source.count > target.count"),
                Update({"name": "'other'"}),
            ],
            "not_matched": Insert({"sku": "source.sku", "count": 0}, "source.since is not null"),
        },
        CONDITIONS,
    ),
    "mirror": ({"not_matched_by_source": [Update({"count": None}, "target.sku = 2"), Delete()]}, UPSERT + LONE),
    "delete": ({"matched": "delete", "not_matched": None}, "when matched then delete"),
}


@pytest.mark.parametrize("mode", [MERGE, COPY])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_table_holds_what_duckdb_makes_of_the_same_statement(tmp_path: Path, statement: str, mode: Mode) -> None:
    arguments, clauses = STATEMENTS[statement]
    table = stock(tmp_path)
    source = stock_rows(
        (1, "gone", 5, DAY), (3, "bolt", 31, None), (4, "x", 4, DAY), (7, "new", 1, None), (8, None, 1, DAY)
    )
    with duckdb.connect() as connection:
        before = formatkit.scan(table).to_arrow()
        connection.register("before", before)
        connection.register("s", source)
        connection.execute("create table t as select * from before")
        connection.execute(f"merge into t using s on t.sku = s.sku {clauses}")
        expected = connection.execute("select * from t order by sku").fetchall()
    formatkit.merge(table, source, mode=mode, **arguments)
    assert table_rows(table) == expected
