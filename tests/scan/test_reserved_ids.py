"""Columns that a file stores under ids which Iceberg reserves: its own row lineage, or columns of another system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

import formatkit
from formatkit.contract.metadata_columns import DELETED, FILE, LAST_UPDATED, PARTITION_ID, POS, ROW_ID, SPEC_ID
from support.iceberg_tables import append_data_files, columns, data_file, local_path, new_catalog

FORMATS = ("parquet", "orc", "avro", "arrow", "vortex", "lance")
each_format = pytest.mark.parametrize("name", FORMATS)
PLAIN = Schema(NestedField(1, "n", LongType()))
LINEAGE = Schema(*PLAIN.fields, ROW_ID, LAST_UPDATED)
LINEAGE_ROWS: list[dict[str, Any]] = [
    {"n": 10, "_row_id": 7, "_last_updated_sequence_number": 2},
    {"n": 20, "_row_id": None, "_last_updated_sequence_number": None},
    {"n": 30, "_row_id": 5, "_last_updated_sequence_number": 3},
]
FOREIGN = Schema(
    NestedField(1073741823, "_KEY_id", IntegerType()),
    NestedField(FILE.field_id, "_SEQUENCE_NUMBER", LongType()),
    NestedField(POS.field_id, "_VALUE_KIND", IntegerType()),
    NestedField(DELETED.field_id, "_LEVEL", IntegerType()),
    NestedField(SPEC_ID.field_id, "_spec", StringType()),
    NestedField(PARTITION_ID, "_ROW", LongType()),
    NestedField(ROW_ID.field_id, "kind", StringType()),
    NestedField(1, "n", LongType()),
    NestedField(2, "s", StructType(NestedField(LAST_UPDATED.field_id, "deep", LongType()))),
)
FOREIGN_ROWS: list[dict[str, Any]] = [
    {
        "_KEY_id": number, "_SEQUENCE_NUMBER": 100 + number, "_VALUE_KIND": 0, "_LEVEL": None, "_spec": "x", "_ROW": 3,
        "kind": "insert", "n": 10 * number, "s": {"deep": 5},
    }
    for number in range(1, 4)
]  # fmt: skip


def written(tmp_path: Path, name: str, schema: Schema, rows: list[dict[str, Any]]) -> str:
    path = tmp_path / f"file.{name}"
    table = pa.Table.from_pylist(rows, schema=schema.as_arrow())
    formatkit.write_file(str(path), table, schema=schema)
    return str(path)


@each_format
def test_stored_row_lineage_comes_back(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, LINEAGE, LINEAGE_ROWS)
    assert formatkit.read_file(path).to_arrow().to_pylist() == LINEAGE_ROWS
    assert formatkit.read_file(path, select=("_row_id",)).to_arrow()["_row_id"].to_pylist() == [7, None, 5]
    assert formatkit.read_file(path, "_row_id = 5").to_arrow().to_pylist() == LINEAGE_ROWS[2:]
    assert formatkit.read_file(path, "_row_id != 5", ("n",)).to_arrow()["n"].to_pylist() == [10, 20]
    assert formatkit.read_file(path, "_last_updated_sequence_number is null", ("n",)).count() == 1
    with_schema = formatkit.read_file(path, schema=PLAIN, select=("n", "_row_id", "_last_updated_sequence_number"))
    assert with_schema.to_arrow().to_pylist() == LINEAGE_ROWS


@each_format
def test_a_file_without_stored_lineage_has_none(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, PLAIN, [{"n": 1}])
    found = formatkit.read_file(path, select=("n", "_row_id")).to_arrow()
    assert found.to_pylist() == [{"n": 1, "_row_id": None}]


@each_format
def test_columns_of_another_system_are_read(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, FOREIGN, FOREIGN_ROWS)
    assert formatkit.read_file(path).to_arrow().to_pylist() == FOREIGN_ROWS
    scan = formatkit.read_file(path, "_SEQUENCE_NUMBER > 101 and n < 30", ("_VALUE_KIND", "_pos", "_file", "kind"))
    assert scan.to_arrow().to_pylist() == [{"_VALUE_KIND": 0, "_pos": 1, "_file": path, "kind": "insert"}]
    assert formatkit.read_file(path, "s.deep = 5 and _LEVEL is null and _spec = 'x'").count() == 3


def test_polars_reads_them_too(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet", FOREIGN, FOREIGN_ROWS)
    (frame,) = formatkit.read_file(path, "n >= 20", batch_type=pl.DataFrame).to_batches()
    assert frame.to_dicts() == FOREIGN_ROWS[1:]


@pytest.mark.parametrize("name", ["parquet", "orc", "avro"])
def test_a_table_reads_such_files_by_their_other_ids(name: str, tmp_path: Path) -> None:
    table = new_catalog(tmp_path).create_table("db.t", columns(n=pa.int64()))
    location = f"{table.location()}/data/a.{name}"
    local_path(location).parent.mkdir(parents=True)
    path = written(tmp_path, name, FOREIGN, FOREIGN_ROWS)
    local_path(location).write_bytes(Path(path).read_bytes())
    append_data_files(table, data_file(table, location, 3, file_format=name.upper()))
    found = formatkit.scan(table, "n > 10", ("n", "_pos", "_file")).to_arrow()
    assert found.to_pylist() == [{"n": 10 * number, "_pos": number - 1, "_file": location} for number in (2, 3)]


def test_a_name_mapping_is_used_if_a_file_has_reserved_ids_only(tmp_path: Path) -> None:
    mapping = json.dumps([{"field-id": 1, "names": ["_SEQUENCE_NUMBER"]}])
    properties = {"schema.name-mapping.default": mapping}
    table = new_catalog(tmp_path).create_table("db.t", columns(n=pa.int64()), properties=properties)
    schema = Schema(FOREIGN.fields[1], FOREIGN.fields[2])
    location = f"{table.location()}/data/a.parquet"
    local_path(location).parent.mkdir(parents=True)
    path = written(tmp_path, "parquet", schema, [{"_SEQUENCE_NUMBER": 4, "_VALUE_KIND": 0}])
    local_path(location).write_bytes(Path(path).read_bytes())
    append_data_files(table, data_file(table, location, 1))
    assert formatkit.scan(table).to_arrow().to_pylist() == [{"n": 4}]
