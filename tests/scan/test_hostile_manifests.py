"""Manifest lists and manifests that lie: the error names the file that lists, and the file that is listed."""

from __future__ import annotations

import json
import resource
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import formatkit
from formatkit.errors import CorruptFileError, FormatkitError, InvalidTableError, UnsupportedError
from formatkit.write.commit.records import ManifestReader
from support.mutations.avro import AvroFile, varint

Change = Callable[[dict[str, Any]], None]
Wanted = tuple[type[FormatkitError], str]


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    catalog.create_namespace("ns")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    made = catalog.create_table("ns.t", rows.schema)
    formatkit.append(made, rows)
    formatkit.delete(made, "id = 2")
    yield made.refresh()
    catalog.close()


def listed(table: Table) -> Path:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return Path(snapshot.manifest_list.removeprefix("file://"))


def manifest(table: Table, *, deletes: bool = False) -> Path:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    [found] = [each for each in snapshot.manifests(table.io) if int(each.content) == deletes]
    return Path(found.manifest_path.removeprefix("file://"))


def rewrite(path: Path, change: Change, change_schema: Change = lambda schema: None) -> None:
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        records: Any = list(reader)
        schema: Any = json.loads(reader.metadata["avro.schema"])
    for record in records:
        change(record)
    change_schema(schema)
    content = BytesIO()
    fastavro.writer(content, schema, records)
    path.write_bytes(content.getvalue())


def read_all(table: Table) -> None:
    """Everything that reads metadata: planning with and without metrics, and what a commit reads."""
    formatkit.scan(table)
    formatkit.scan(table, "id > 1 and name = 'c'")
    reader = ManifestReader(table.metadata, table.io)
    for each in reader.manifests(table.current_snapshot()):
        list(reader.entries(each))


def in_file(name: str, value: Any) -> Change:
    return lambda entry: entry["data_file"].update({name: value})


ENTRIES: dict[str, tuple[Change, Wanted]] = {
    "a negative count": (in_file("record_count", -5), (InvalidTableError, "record_count -5")),
    "a negative size": (in_file("file_size_in_bytes", -1), (InvalidTableError, "file_size_in_bytes -1")),
    "an unknown content": (in_file("content", 7), (UnsupportedError, "content 7")),
    "deletes among data": (in_file("content", 1), (InvalidTableError, "calls one of data, 1")),
    "rows in Puffin": (in_file("file_format", "PUFFIN"), (InvalidTableError, "file_format 'PUFFIN'")),
    "no name": (in_file("file_path", ""), (InvalidTableError, "file_path ''")),
    "an unknown status": (lambda entry: entry.update(status=9), (InvalidTableError, "status 9")),
    "a negative sequence number": (
        lambda entry: entry.update(sequence_number=-4),
        (InvalidTableError, "sequence_number -4"),
    ),
}


@pytest.mark.parametrize(("change", "wanted"), ENTRIES.values(), ids=ENTRIES)
def test_an_entry_that_makes_no_sense_is_named(table: Table, change: Change, wanted: Wanted) -> None:
    path = manifest(table)
    rewrite(path, change)
    with pytest.raises(wanted[0], match=f"{path.name}: the entry of .*{wanted[1]}"):
        formatkit.scan(table)
    with pytest.raises(wanted[0], match=path.name):
        list(ManifestReader(table.metadata, table.io).entries(_first(table)))


def _first(table: Table) -> Any:
    return ManifestReader(table.metadata, table.io).manifests(table.current_snapshot())[0]


LINES: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown spec": ({"partition_spec_id": 77}, "is of the partition spec 77; the table has 0"),
    "an unknown content": ({"content": 5}, "content 5"),
    "a negative length": ({"manifest_length": -3}, "manifest_length -3"),
    "a negative count": ({"added_files_count": -3}, "added_files_count -3"),
    "no name": ({"manifest_path": ""}, "manifest_path ''"),
}


@pytest.mark.parametrize(("facts", "message"), LINES.values(), ids=LINES)
def test_a_line_that_makes_no_sense_is_named(table: Table, facts: dict[str, Any], message: str) -> None:
    rewrite(listed(table), lambda line: line.update(facts))
    with pytest.raises(InvalidTableError, match=message):
        formatkit.scan(table)
    with pytest.raises(InvalidTableError, match=message):
        read_all(table)


def test_a_length_that_no_file_has_is_not_believed(table: Table) -> None:
    rewrite(listed(table), lambda line: line.update(manifest_length=2**62))
    assert formatkit.scan(table).count() == 2


def without(name: str) -> Change:
    def change(struct: dict[str, Any]) -> None:
        struct["fields"] = [each for each in struct["fields"] if each["name"] != name]

    return change


def in_data_file(change: Change) -> Change:
    return lambda schema: change(next(each["type"] for each in schema["fields"] if each["name"] == "data_file"))


@pytest.mark.parametrize("name", ["file_path", "file_format", "record_count", "file_size_in_bytes"])
def test_a_manifest_without_a_required_field_says_which(table: Table, name: str) -> None:
    rewrite(manifest(table), lambda entry: entry["data_file"].pop(name), in_data_file(without(name)))
    with pytest.raises(CorruptFileError, match=f"no field {name}"):
        formatkit.scan(table)


@pytest.mark.parametrize("name", ["status", "data_file"])
def test_so_does_one_whose_entries_are_no_entries(table: Table, name: str) -> None:
    rewrite(manifest(table), lambda entry: entry.pop(name), without(name))
    with pytest.raises(CorruptFileError, match="its records have no field"):
        formatkit.scan(table)


def test_a_field_of_another_type_is_named(table: Table) -> None:
    def as_text(struct: dict[str, Any]) -> None:
        next(each for each in struct["fields"] if each["name"] == "record_count")["type"] = "string"

    rewrite(manifest(table), in_file("record_count", "3"), in_data_file(as_text))
    with pytest.raises(CorruptFileError, match=r"record_count \(id 103\) must be an integer; it is string"):
        formatkit.scan(table)


def test_a_null_where_a_value_must_be_is_named(table: Table) -> None:
    def nullable(struct: dict[str, Any]) -> None:
        next(each for each in struct["fields"] if each["name"] == "file_path")["type"] = ["null", "string"]

    rewrite(manifest(table), in_file("file_path", None), in_data_file(nullable))
    with pytest.raises(CorruptFileError, match=r"a record has no file_path \(id 100\)"):
        formatkit.scan(table)


def test_hints_that_make_no_sense_are_not_used(table: Table) -> None:
    bounds = [{"key": 1, "value": b"\xff" * 3}, {"key": 2, "value": b"\xff\xfe"}, {"key": -9, "value": b""}]

    def change(entry: dict[str, Any]) -> None:
        hints = {"lower_bounds": bounds, "upper_bounds": bounds, "split_offsets": [9, -4, 2**62, 0]}
        entry["data_file"].update(hints)

    rewrite(manifest(table), change)
    assert formatkit.scan(table, "id >= 3 and name >= 'a'").to_arrow()["id"].to_pylist() == [3]
    assert formatkit.scan(table, threads=4).count() == 2


@pytest.mark.parametrize("facts", [{"content": 2, "equality_ids": []}, {"content": 2, "equality_ids": [999]}])
def test_equality_deletes_by_unknown_columns_are_typed_errors(table: Table, facts: dict[str, Any]) -> None:
    rewrite(manifest(table, deletes=True), lambda entry: entry["data_file"].update(facts))
    with pytest.raises(FormatkitError, match=r"equality_ids|999"):
        formatkit.scan(table).to_arrow()


def damaged(path: Path, change: Callable[[AvroFile], AvroFile], compress: Callable[[bytes], bytes] = bytes) -> None:
    path.write_bytes(change(AvroFile.parse(path.read_bytes())).to_bytes(compress))


@pytest.mark.parametrize("of", [listed, manifest])
def test_bytes_behind_the_last_record_are_noticed(table: Table, of: Callable[[Table], Path]) -> None:
    path = of(table)
    damaged(path, lambda file: replace(file, blocks=tuple((rows, data + b"\x00") for rows, data in file.blocks)))
    with pytest.raises(CorruptFileError, match="1 bytes follow its last row"):
        formatkit.scan(table)


@pytest.mark.parametrize("of", [listed, manifest])
def test_a_block_that_claims_more_records_is_noticed(table: Table, of: Callable[[Table], Path]) -> None:
    path = of(table)
    damaged(path, lambda file: replace(file, blocks=tuple((rows + 1, data) for rows, data in file.blocks)))
    with pytest.raises(CorruptFileError, match=path.name):
        formatkit.scan(table)


def deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


@pytest.mark.parametrize(("codec", "compress"), [("deflate", deflate), ("zstandard", zstandard.compress)])
@pytest.mark.parametrize("of", [listed, manifest])
def test_a_file_that_grows_beyond_measure_is_refused(
    table: Table, of: Callable[[Table], Path], codec: str, compress: Callable[[bytes], bytes]
) -> None:
    def bomb(file: AvroFile) -> AvroFile:
        [(rows, block)] = file.blocks
        copies = 30_000_000 // len(block)
        return AvroFile(file.metadata | {"avro.codec": codec.encode()}, file.sync, ((rows * copies, block * copies),))

    path = of(table)
    damaged(path, lambda file: replace(file, blocks=file.blocks[:1]))
    damaged(path, bomb, compress)
    assert path.stat().st_size < 200_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorruptFileError, match=r"longer than \d+ bytes once decompressed|more records than its"):
        formatkit.scan(table)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


@pytest.mark.parametrize("item", ["null", {"type": "record", "name": "nothing", "fields": []}], ids=["null", "record"])
def test_elements_without_bytes_take_no_memory(table: Table, item: Any) -> None:
    def claim(file: AvroFile) -> AvroFile:
        schema = json.loads(file.metadata["avro.schema"])
        schema["fields"].append({"name": "many", "field-id": 99_999, "type": {"type": "array", "items": item}})
        blocks = tuple((1, block + varint(2**40) + b"\x00") for _, block in file.blocks)
        return AvroFile(file.metadata | {"avro.schema": json.dumps(schema).encode()}, file.sync, blocks)

    path = manifest(table)
    damaged(path, claim)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert formatkit.scan(table).count() == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def deep(levels: int) -> Any:
    kind: Any = "int"
    for number in range(levels):
        kind = {"type": "record", "name": f"r{number}", "fields": [{"name": "f", "type": kind}]}
    return kind


def chained(levels: int) -> list[dict[str, Any]]:
    """Fields of which each names the record of the one before, so that types are deep where JSON is not."""
    kinds: list[Any] = ["int"]
    for number in range(levels):
        inside = kinds[-1] if number == 0 else f"r{number - 1}"
        kinds.append({"type": "record", "name": f"r{number}", "fields": [{"name": "f", "type": inside}]})
    return [{"name": f"x{number}", "type": kind} for number, kind in enumerate(kinds)]


SCHEMAS: dict[str, tuple[Any, type[FormatkitError]]] = {
    "150 levels": ({"fields": [{"name": "a", "type": deep(150)}]}, UnsupportedError),
    "1,000 levels": ({"fields": [{"name": "a", "type": deep(1000)}]}, CorruptFileError),
    "1,000 levels by name": ({"fields": chained(1000)}, UnsupportedError),
    "itself": ({"fields": [{"name": "a", "field-id": 2, "type": "manifest_entry"}]}, CorruptFileError),
    "a type without a name": ({"fields": [{"name": "a", "type": {"type": "fixed", "size": 3}}]}, CorruptFileError),
    "a field without a type": ({"fields": [{"name": "a"}]}, CorruptFileError),
    "no fields": ({"fields": None}, CorruptFileError),
    "no record": ({"type": "int"}, UnsupportedError),
    "a size that is no number": (
        {"fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": "3"}}]},
        CorruptFileError,
    ),
}


def dumped(document: Any) -> bytes:
    """JSON of any depth: functions that call themselves, as the standard encoder does, give up at some level."""
    text = b""
    todo = [document]
    while todo:
        match todo.pop():
            case bytes(written):
                text += written
            case dict(fields):
                parts = [part for name, value in fields.items() for part in (b",", dumped(name) + b":", value)]
                todo += [b"}", *reversed(parts[1:]), b"{"]
            case list(elements):
                parts = [part for element in elements for part in (b",", element)]
                todo += [b"]", *reversed(parts[1:]), b"["]
            case plain:
                text += json.dumps(plain).encode()
    return text


@pytest.mark.parametrize(("change", "error"), SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("of", [listed, manifest])
def test_a_hostile_schema_is_refused(
    table: Table, of: Callable[[Table], Path], change: dict[str, Any], error: type[FormatkitError]
) -> None:
    text = dumped({"type": "record", "name": "manifest_entry", **change})
    path = of(table)
    damaged(path, lambda file: replace(file, metadata=file.metadata | {"avro.schema": text}))
    with pytest.raises(error, match=path.name):
        formatkit.scan(table)


def test_entries_are_found_by_ids_whatever_the_fields_are_called(table: Table) -> None:
    def rename(struct: dict[str, Any]) -> None:
        for each in struct["fields"]:
            each["name"] += "_renamed"

    def renamed(entry: dict[str, Any]) -> None:
        entry["data_file"] = {f"{name}_renamed": value for name, value in entry["data_file"].items()}

    rewrite(manifest(table), renamed, in_data_file(rename))
    assert formatkit.scan(table, "id > 1").count() == 1


def test_a_long_run_of_continued_bytes_is_no_header(table: Table) -> None:
    """Numbers of any length would be added up for ever."""
    path = manifest(table)
    path.write_bytes(b"Obj\x01" + b"\xff" * 3_000_000)
    with pytest.raises(CorruptFileError, match=path.name):
        formatkit.scan(table)
