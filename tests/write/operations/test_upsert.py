"""Rows are updated by their keys, and those that are new are inserted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType

import formatkit
from formatkit.errors import ColumnNotFoundError, ConfigurationError, InvalidDataError, UnsupportedError
from formatkit.tck.rows import to_arrow
from formatkit.write.operations import Mode
from support.filters import LessThan
from support.modelled_table import ModelledTable, Row, new_table
from support.operated_tables import (
    BY_BUCKET,
    BY_PART,
    ID,
    LIST,
    PART,
    SCHEMA,
    VALUE,
    delete_by_equality,
    filled_table,
    some_rows,
)
from support.written_tables import ALL_FORMATS, files_on_disk

MERGE: Mode = "merge-on-read"
COPY: Mode = "copy-on-write"
WAYS: list[tuple[int, Mode]] = [(1, COPY), (2, MERGE), (2, COPY), (3, MERGE), (3, COPY)]


def by_id(row: Row) -> Any:
    return row[ID]


def changes() -> list[Row]:
    """Two rows that change, two that are the same, two that are new, one that moves to another partition."""
    one, two, same, also_same, moved = (some_rows(i, i + 1)[0] for i in (1, 13, 5, 12, 3))
    return [
        {**one, VALUE: 99.0},
        same,
        {**two, LIST: [1, 2, 3]},
        also_same,
        *some_rows(30, 32),
        {**moved, PART: "elsewhere"},
    ]


@pytest.mark.parametrize("file_format", ALL_FORMATS)
@pytest.mark.parametrize(("version", "mode"), [(2, MERGE), (3, MERGE), (3, COPY)])
def test_rows_are_updated_in_files_of_each_format(tmp_path: Path, file_format: str, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART, file_format=file_format)
    result = model.upsert(changes(), by_id, mode, file_format=file_format)
    assert (result.rows_updated, result.rows_inserted) == (3, 2)
    model.check(LessThan("id", 14))


@pytest.mark.parametrize(("version", "mode"), WAYS)
@pytest.mark.parametrize("partitions", [UNPARTITIONED_PARTITION_SPEC, BY_BUCKET])
def test_rows_are_updated_time_and_again(tmp_path: Path, version: int, mode: Mode, partitions: PartitionSpec) -> None:
    model = filled_table(tmp_path, version, partitions=partitions)
    for number in range(3):
        model.upsert([{**row, VALUE: float(number)} for row in some_rows(10, 25)], by_id, mode)
        model.check()


@pytest.mark.parametrize("mode", [MERGE, COPY])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_were_deleted_are_inserted_anew(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version)
    model.delete(LessThan("id", 3), MERGE)
    delete_by_equality(model, [4, 14])
    result = model.upsert(some_rows(0, 6), by_id, mode)
    assert (result.rows_updated, result.rows_inserted) == (0, 4)
    model.check()


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_rows_are_updated_after_the_schema_and_the_spec_evolved(tmp_path: Path, version: int, mode: Mode) -> None:
    model = filled_table(tmp_path, version, partitions=BY_PART)
    with model.table.update_schema() as schema:
        schema.add_column("added", LongType())
        schema.rename_column("id", "key")
    with model.table.update_spec() as update:
        update.add_field("key", BucketTransform(2), "bucket")
    model.evolved()
    model.upsert([{**row, 6: None if row[ID] % 2 else 1} for row in some_rows(5, 9)], by_id, mode)
    model.check()


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_nothing_is_committed_if_all_rows_are_there_already(tmp_path: Path, version: int, mode: Mode) -> None:
    table = filled_table(tmp_path, version).table
    before, files = table.metadata, files_on_disk(table)
    for rows in (some_rows(3, 15), []):
        result = formatkit.upsert(table, to_arrow(SCHEMA, rows), mode=mode)
        assert result == formatkit.UpsertResult(rows_updated=0, rows_inserted=0, snapshot=None)
    assert table.refresh().metadata == before
    assert files_on_disk(table) == files


def test_rows_are_inserted_into_an_empty_table(tmp_path: Path) -> None:
    model = ModelledTable(new_table(tmp_path, SCHEMA))
    model.upsert(some_rows(0, 5), by_id, MERGE)
    model.check()


def test_other_columns_can_be_the_key(tmp_path: Path) -> None:
    model = filled_table(tmp_path)
    key = {"join_columns": ["part", "id"]}
    rows = [{**row, PART: "a", VALUE: 1.0} for row in some_rows(0, 4)]
    result = model.upsert(rows, lambda row: (row[PART], row[ID]), MERGE, **key)
    assert (result.rows_updated, result.rows_inserted) == (2, 2)
    model.check()


def test_a_key_can_be_inside_of_a_struct(tmp_path: Path) -> None:
    inner = StructType(NestedField(2, "id", LongType(), required=True))
    schema = Schema(NestedField(1, "key", inner, required=True), NestedField(3, "name", StringType()))
    schema = Schema(*schema.fields, identifier_field_ids=[2])
    table = new_table(tmp_path, schema)
    formatkit.append(table, pa.table({"key": [{"id": 1}, {"id": 2}], "name": ["a", "b"]}, _nested(table)))
    result = formatkit.upsert(table, pa.table({"key": [{"id": 2}, {"id": 3}], "name": ["B", "C"]}, _nested(table)))
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    rows = formatkit.scan(table).to_arrow().sort_by("name").to_pylist()
    assert rows == [{"key": {"id": i}, "name": name} for i, name in [(2, "B"), (3, "C"), (1, "a")]]


def _nested(table: Any) -> pa.Schema:
    return formatkit.scan(table).arrow_schema


def test_the_data_must_have_one_row_for_each_key(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    files = files_on_disk(table)
    with pytest.raises(InvalidDataError, match="rows 0 and 1 of the data have the same key, id = 7"):
        formatkit.upsert(table, to_arrow(SCHEMA, some_rows(7, 8) * 2))
    with pytest.raises(InvalidDataError, match="row 2 of the data has no key: column 'part' is null"):
        formatkit.upsert(table, to_arrow(SCHEMA, some_rows(0, 3)), "part")
    assert files_on_disk(table) == files


@pytest.mark.parametrize("mode", [MERGE, COPY])
def test_the_table_must_have_one_row_for_each_key(tmp_path: Path, mode: Mode) -> None:
    model = filled_table(tmp_path)
    model.append(some_rows(4, 5))
    files = files_on_disk(model.table)
    with pytest.raises(InvalidDataError, match="several rows with the key of row 1 of the data"):
        formatkit.upsert(model.table, to_arrow(SCHEMA, [{**row, VALUE: 1.0} for row in some_rows(3, 5)]), mode=mode)
    assert files_on_disk(model.table) == files
    model.check()
    model.upsert([{**row, VALUE: 1.0} for row in some_rows(5, 8)], by_id, mode)
    model.check()


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    table = filled_table(tmp_path).table
    rows = to_arrow(SCHEMA, some_rows(0, 1))
    with pytest.raises(ColumnNotFoundError):
        formatkit.upsert(table, rows, ["nobody"])
    with pytest.raises(ConfigurationError, match="cannot identify a row"):
        formatkit.upsert(table, rows, ["value"])
    with pytest.raises(ConfigurationError, match="copy-on-write"):
        formatkit.upsert(table, rows, mode="both")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="join_columns"):
        formatkit.upsert(new_table(tmp_path / "other", Schema(NestedField(1, "a", LongType()))), rows)


def test_version_1_is_refused_with_advice(tmp_path: Path) -> None:
    table = filled_table(tmp_path, 1).table
    with pytest.raises(UnsupportedError, match="copy-on-write"):
        formatkit.upsert(table, to_arrow(SCHEMA, some_rows(0, 1)))


def test_many_keys_are_found_in_many_batches(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
    schema = Schema(*schema.fields, NestedField(2, "n", LongType()), identifier_field_ids=[1])
    table = new_table(tmp_path, schema)
    ids = pa.array(range(40_000), pa.int64())
    whole = pa.table({"id": ids, "n": ids}, formatkit.scan(table).arrow_schema)
    formatkit.append(table, whole)
    some = pa.table({"id": ids.take(ids[::2]), "n": ids[:20_000]}, whole.schema)
    result = formatkit.upsert(table, some)
    assert (result.rows_updated, result.rows_inserted) == (19_999, 0)
    read = formatkit.scan(table).to_arrow().sort_by("id")
    assert read["n"].to_pylist() == [i // 2 if i % 2 == 0 else i for i in range(40_000)]
