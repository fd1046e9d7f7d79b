"""Schemas of a thousand levels are refused with a typed error wherever they come in; those of some dozens are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import IcebergType, ListType, LongType, NestedField, StructType

import formatkit
from formatkit.contract import WriteOptions, schema_from_json
from formatkit.contract.fields import MAX_SCHEMA_DEPTH
from formatkit.errors import CorruptFileError, FormatkitError, InvalidTableError, UnsupportedError
from formatkit.tck.naive import File
from formatkit.tck.tables import make_table, write_parquet

FORMATS = ["parquet", "orc", "avro", "arrow"]
FLAT = Schema(NestedField(1, "id", LongType()))


def nested(levels: int, kind: str) -> Any:
    """An Arrow type; together with the column itself it has so many levels."""
    found: Any = pa.int32()
    for number in range(levels - 1):
        word = ("struct", "list", "map")[number % 3] if kind == "mixed" else kind
        match word:
            case "struct":
                found = pa.struct([("f", found)])
            case "list":
                found = pa.list_(found)
            case _:
                found = pa.map_(pa.string(), found)
    return found


def deep_table(levels: int, kind: str) -> pa.Table:
    return pa.table({"a": pa.nulls(2, nested(levels, kind)), "b": [1, 2]})


def type_json(levels: int) -> Any:
    kind: Any = "int"
    for number in range(levels - 1):
        field = {"id": number + 10, "name": "f", "type": kind, "required": False}
        kind = {"type": "struct", "fields": [field]}
    return kind


def iceberg_type(levels: int) -> IcebergType:
    kind: IcebergType = LongType()
    for number in range(levels - 1):
        kind = ListType(number + 10, kind) if number % 2 else StructType(NestedField(number + 10, "f", kind))
    return kind


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("kind", ["struct", "list", "mixed"])
def test_schemas_of_some_dozens_of_levels_are_written_and_read(tmp_path: Path, file_format: str, kind: str) -> None:
    path = tmp_path / f"deep.{file_format}"
    formatkit.write_file(path, deep_table(38, kind))
    assert formatkit.read_file(path).to_arrow().column("a").null_count == 2


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_so_are_those_of_as_many_levels_as_are_allowed(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"deep.{file_format}"
    formatkit.write_file(path, deep_table(MAX_SCHEMA_DEPTH, "mixed"))
    assert formatkit.read_file(path).to_arrow().column("a").null_count == 2


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("levels", [MAX_SCHEMA_DEPTH + 1, 250, 1000])
def test_deeper_ones_are_not_written(tmp_path: Path, file_format: str, levels: int) -> None:
    path = tmp_path / f"deep.{file_format}"
    for kind in ("struct", "list", "mixed"):
        with pytest.raises(UnsupportedError, match="levels"):
            formatkit.write_file(path, deep_table(levels, kind))
    assert not path.exists()


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_nor_are_those_that_readers_of_the_format_refuse(tmp_path: Path, file_format: str) -> None:
    for levels in (64, 65, 99, 100):
        path = tmp_path / f"{levels}.{file_format}"
        try:
            formatkit.write_file(path, deep_table(levels, "struct"))
        except UnsupportedError:
            assert levels > {"parquet": 99, "arrow": 64}[file_format]
        else:
            assert formatkit.read_file(path).to_arrow().num_rows == 2


def write_ipc(table: pa.Table, path: str) -> None:
    ipc.new_file(path, table.schema).close()


@pytest.mark.parametrize(
    ("file_format", "write"), [("parquet", pq.write_table), ("orc", orc.write_table), ("arrow", write_ipc)]
)
@pytest.mark.parametrize("kind", ["struct", "list", "mixed"])
def test_deep_files_of_others_are_refused(
    tmp_path: Path, file_format: str, write: Callable[[pa.Table, str], None], kind: str
) -> None:
    for levels in (101, 300, 1000):
        path = tmp_path / f"{levels}.{file_format}"
        write(deep_table(levels, kind), str(path))
        with pytest.raises((CorruptFileError, UnsupportedError), match=path.name):
            formatkit.read_file(path, select=["b"]).to_arrow()


@pytest.fixture
def table(tmp_path: Path) -> StaticTable:
    file = write_parquet(tmp_path / "data.parquet", File(schema=FLAT, rows=[{1: 1}]))
    return make_table(tmp_path, [FLAT], [file])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("levels", [MAX_SCHEMA_DEPTH + 1, 250, 700])
def test_a_metadata_file_with_a_deep_schema_is_refused(table: StaticTable, version: int, levels: int) -> None:
    path = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    document["format-version"] = version
    # The encoder of JSON gives up at fewer levels than its decoder.
    marked = json.dumps(document).replace('"long"', "DEEP")
    fields = [f'{{"id": {n + 10}, "name": "f", "required": false, "type": ' for n in range(levels - 1)]
    opened = "".join('{"type": "struct", "fields": [' + field for field in fields)
    path.write_text(marked.replace("DEEP", f'{opened}"int"{"}]}" * (levels - 1)}'))
    with pytest.raises(FormatkitError, match=r"levels|recursion"):
        formatkit.load_table(table.metadata_location)


def test_a_table_of_a_catalog_with_a_deep_schema_is_refused(table: StaticTable) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "deep", iceberg_type(150)))
    table.metadata.schemas[:] = [schema.model_copy(update={"schema_id": table.metadata.current_schema_id})]
    with pytest.raises(UnsupportedError, match="levels"):
        formatkit.scan(table)


def test_a_deep_name_mapping_is_refused(table: StaticTable) -> None:
    mapping = '[{"field-id": 1, "names": ["a"], "fields": ' * 900 + "[]" + "}]" * 900
    table.metadata.properties["schema.name-mapping.default"] = mapping
    with pytest.raises(InvalidTableError, match="contradicts itself"):
        formatkit.scan(table)


def test_the_json_of_a_schema_has_as_many_levels_as_are_allowed() -> None:
    def document(levels: int) -> dict[str, Any]:
        return {"fields": [{"id": 1, "name": "a", "required": False, "type": type_json(levels)}]}

    assert schema_from_json(document(MAX_SCHEMA_DEPTH)).fields[0].name == "a"
    for levels in (MAX_SCHEMA_DEPTH + 1, 1000, 100_000):
        with pytest.raises(UnsupportedError, match="levels"):
            schema_from_json(document(levels))


def test_writers_are_not_asked_to_write_deep_schemas() -> None:
    with pytest.raises(UnsupportedError, match="levels"):
        WriteOptions(schema=Schema(NestedField(1, "deep", iceberg_type(150))))
