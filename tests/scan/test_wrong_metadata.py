"""Tables with wrong lengths in their metadata, or with manifests of an unusual schema, as one of BigQuery's has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import CorruptFileError

ROWS = pa.table({"id": list(range(4000)), "name": [f"name {number}" for number in range(4000)]})

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(params=["parquet", "orc", "arrow"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    properties = {"write.parquet.row-group-limit": "500", "write.orc.stripe-size-bytes": "4096"}
    table = catalog.create_table("ns.t", ROWS.schema, properties={"format-version": "2", **properties})
    formatkit.append(table, ROWS, file_format=request.param)
    yield table
    catalog.close()


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def rewrite(path: Path, change: Change, times: int = 1) -> None:
    """Write an Avro file of metadata again, with its records changed, and some times over."""
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        records: Any = list(reader)
        schema = reader.writer_schema
        metadata = {name: text for name, text in reader.metadata.items() if not name.startswith("avro.")}
    for record in records:
        change(record)
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, records * times, metadata=metadata)


def manifest_list(table: Table) -> Path:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return path_of(snapshot.manifest_list)


def manifests(table: Table) -> list[Path]:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return [path_of(each.manifest_path) for each in snapshot.manifests(table.io)]


def change_sizes(table: Table, by: int) -> None:
    def change(entry: dict[str, Any]) -> None:
        entry["data_file"]["file_size_in_bytes"] += by

    for manifest in manifests(table):
        rewrite(manifest, change)


@pytest.mark.parametrize("by", [-1000, -1, 1, 100_000])
def test_a_file_of_another_length_than_metadata_says_is_read_whole(table: Table, by: int) -> None:
    change_sizes(table, by)
    scan = formatkit.scan(table)
    assert scan.to_arrow().sort_by("id") == ROWS
    assert formatkit.scan(table, "id >= 3990").count() == 10


@pytest.mark.parametrize("by", [-1000, 1000])
def test_parts_of_such_a_file_have_all_rows_together(table: Table, by: int) -> None:
    change_sizes(table, by)
    scan = formatkit.scan(table)
    reader, buckets = scan.bucket_reader(), scan.buckets(4)
    found = pa.Table.from_batches([batch for bucket in buckets for batch in reader.batches(bucket)])
    assert found.sort_by("id") == ROWS


def test_so_are_deletes(table: Table) -> None:
    formatkit.delete(table, "id = 7")
    change_sizes(table, 9)
    assert formatkit.scan(table).count() == 3999
    assert formatkit.scan(table, "id < 9").to_arrow()["id"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 8]


@pytest.mark.parametrize("by", [-1000, -1, 1, 100_000])
@pytest.mark.parametrize("delete_format", ["parquet", "orc", "avro", "arrow"])
def test_delete_files_of_another_length_are_read_whole(tmp_path: Path, delete_format: str, by: int) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    properties = {"format-version": "2", "write.delete.format.default": delete_format}
    table = catalog.create_table("ns.t", ROWS.schema, properties=properties)
    formatkit.append(table, ROWS)
    formatkit.delete(table, "id >= 100 and id < 2100")

    def change(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"]:
            entry["data_file"]["file_size_in_bytes"] += by

    for manifest in manifests(table):
        rewrite(manifest, change)
    task = formatkit.scan(table).tasks[0]
    assert [each.file_format for each in task.deletes] == [delete_format]
    assert formatkit.scan(table).count() == 2000
    found = formatkit.scan(table).to_arrow().sort_by("id")
    assert found["id"].to_pylist() == [*range(100), *range(2100, 4000)]
    catalog.close()


def test_a_file_that_lost_rows_is_not_taken_for_one_of_another_length(table: Table, tmp_path: Path) -> None:
    (task,) = {task.location: task for task in formatkit.scan(table).tasks}.values()
    other = tmp_path / f"other.{task.file_format}"
    formatkit.write_file(other, ROWS.slice(0, 3999), schema=table.schema())
    path_of(task.location).write_bytes(other.read_bytes())
    assert other.stat().st_size != task.size_bytes
    with pytest.raises(CorruptFileError):
        formatkit.scan(table).to_arrow()


@pytest.mark.parametrize("length", [0, 10, -1, 1_000_000], ids=["none", "few", "one less", "many"])
def test_a_manifest_of_another_length_than_its_list_says_is_read_whole(table: Table, length: int) -> None:
    def change(line: dict[str, Any]) -> None:
        line["manifest_length"] = length if length >= 0 else line["manifest_length"] + length

    rewrite(manifest_list(table), change)
    assert formatkit.scan(table).to_arrow().sort_by("id") == ROWS


def test_a_manifest_of_other_files_is_not_taken_for_one_of_another_length(table: Table) -> None:
    (manifest,) = manifests(table)
    rewrite(manifest, lambda record: None, times=2)
    with pytest.raises(CorruptFileError, match=r"2 live files, where .* 1 files: the manifest was cut off or replaced"):
        formatkit.scan(table)


def nullable(kind: Any) -> list[Any]:
    return ["null", {"type": kind} if isinstance(kind, str) else kind]


def bigquery_maps(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a manifest with maps as in one of BigQuery's: of entries, keys and values that may be null."""
    (data_file,) = (field for field in schema["fields"] if field["name"] == "data_file")
    for number, field in enumerate(data_file["type"]["fields"]):
        kind = field["type"][1] if isinstance(field["type"], list) else field["type"]
        if isinstance(kind, dict) and kind.get("logicalType") == "map":
            names = [(part["name"], part["type"]) for part in kind["items"]["fields"]]
            fields = [{"name": name, "type": nullable(part)} for name, part in names]
            entry = {"type": "record", "name": f"element{number}", "fields": fields}
            field["type"] = nullable({"type": "array", "logicalType": "map", "items": nullable(entry)})
    data_file["type"]["fields"] = [field for field in data_file["type"]["fields"] if field["name"] != "partition"]
    data_file["type"]["fields"].append(
        {"name": "partition", "field-id": 102, "type": nullable({"type": "record", "name": "partition", "fields": []})}
    )
    return schema


def test_maps_with_entries_that_may_be_null_are_read_and_used(table: Table) -> None:
    (manifest,) = manifests(table)
    with manifest.open("rb") as stream:
        reader = fastavro.reader(stream)
        records: Any = list(reader)
        schema: Any = reader.writer_schema
    for record in records:
        record["data_file"]["partition"] = None
    with manifest.open("wb") as stream:
        fastavro.writer(stream, bigquery_maps(schema), records)
    assert formatkit.scan(table).to_arrow().sort_by("id") == ROWS
    assert not formatkit.scan(table, "id > 4000").tasks
    formatkit.append(table, ROWS.slice(0, 1))
    formatkit.delete(table, "id = 0")
    assert formatkit.scan(table.refresh()).count() == 3999
