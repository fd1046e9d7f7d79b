"""Each fault that can be planted in a table or a file is found, and told by its code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import Or
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

import formatkit
from formatkit.batches.arrow import ArrowBatch
from formatkit.contract import BatchStream, FormatFile, ReadOptions, ReadResult
from formatkit.errors import (
    InvalidDataError,
    SchemaResolutionError,
    StorageError,
    UnsupportedError,
)
from formatkit.registry import FormatRegistry, default_registry
from formatkit.validation import CODES, Report
from formatkit.write.commit import Change as Commit
from formatkit.write.commit import commit
from formatkit.write.deletes import write_position_deletes
from support.filters import EqualTo
from support.iceberg_tables import local_path
from support.lies import (
    Change,
    LyingFormat,
    change_entries,
    change_lines,
    long_bound,
    manifest_list,
    manifests,
    narrow_orc,
    narrow_parquet,
    rewrite_avro,
    set_bound,
)
from support.modelled_table import ModelledTable
from support.mutations.parquet_file import ParquetFile
from support.operated_tables import BY_PART, ID, VALUE, delete_by_equality, filled_table
from support.repository import ROOT
from support.written_tables import ALL_FORMATS, data_files, new_table

Plant = Callable[[Table], object]


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def edited(table: Table, change: Callable[[dict[str, Any]], object]) -> None:
    path = local_path(table.metadata_location)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def metadata(change: Callable[[dict[str, Any]], object]) -> Plant:
    return lambda table: edited(table, change)


def lines(change: Change) -> Plant:
    return lambda table: change_lines(table, change)


def entries(change: Change, content: int = 0) -> Plant:
    def only(entry: dict[str, Any]) -> None:
        if entry["data_file"]["content"] == content:
            change(entry)

    return lambda table: change_entries(table, only)


def file_field(name: str, value: Any, content: int = 0) -> Plant:
    def change(entry: dict[str, Any]) -> None:
        before = entry["data_file"][name]
        entry["data_file"][name] = value(before) if callable(value) else value

    return entries(change, content)


def count(name: str, field_id: int) -> Plant:
    def change(entry: dict[str, Any]) -> None:
        for pair in entry["data_file"][name]:
            if pair["key"] == field_id:
                pair["value"] += 1

    return entries(change)


def bounds(lower: bytes | None, upper: bytes | None, field_id: int = ID, content: int = 0) -> Plant:
    def change(entry: dict[str, Any]) -> None:
        for name, value in (("lower_bounds", lower), ("upper_bounds", upper)):
            if value is not None:
                set_bound(entry, name, field_id, value)

    return entries(change, content)


def one_file(table: Table) -> Path:
    return local_path(min(file.file_path for file in data_files(table.refresh()) if file.content == 0))


def twice(table: Table) -> None:
    rewrite_avro(manifests(table)[0], lambda _: None, times=2)
    change_entries(table, lambda _: None)


def statistics_file(document: dict[str, Any]) -> None:
    document["statistics"] = [
        {
            "snapshot-id": document["current-snapshot-id"],
            "statistics-path": f"{document['location']}/metadata/none.puffin",
            "file-size-in-bytes": 10,
            "file-footer-size-in-bytes": 5,
            "blob-metadata": [],
        }
    ]


def column_required(document: dict[str, Any]) -> None:
    for schema in document["schemas"]:
        for field in schema["fields"]:
            field["required"] = True


FAULTS: list[tuple[str, str, Plant]] = [
    # metadata.json
    (
        "a reference to no snapshot",
        "snapshot-unknown",
        metadata(lambda d: d["refs"].update(b={"snapshot-id": 42, "type": "branch"})),
    ),
    (
        "a current snapshot that is not there",
        "snapshot-unknown",
        metadata(lambda d: d.update({"current-snapshot-id": 42, "refs": {}})),
    ),
    (
        "a log of no snapshot",
        "snapshot-log",
        metadata(lambda d: d["snapshot-log"].append({"snapshot-id": 42, "timestamp-ms": 1})),
    ),
    ("a schema of a snapshot", "schema-unknown", metadata(lambda d: d["snapshots"][0].update({"schema-id": 77}))),
    ("the last column id", "last-id", metadata(lambda d: d.update({"last-column-id": 1}))),
    ("the last partition id", "last-id", metadata(lambda d: d.update({"last-partition-id": 1}))),
    ("the last sequence number", "last-id", metadata(lambda d: d.update({"last-sequence-number": 0}))),
    ("the current schema", "metadata-corrupt", metadata(lambda d: d.update({"current-schema-id": 99}))),
    ("the default spec", "metadata-corrupt", metadata(lambda d: d.update({"default-spec-id": 99}))),
    ("a snapshot twice", "metadata-corrupt", metadata(lambda d: d["snapshots"].append(d["snapshots"][0]))),
    ("no JSON", "metadata-corrupt", lambda table: local_path(table.metadata_location).write_text("{")),
    ("a statistics file", "statistics-file", metadata(statistics_file)),
    ("totals", "snapshot-summary", metadata(lambda d: d["snapshots"][-1]["summary"].update({"total-records": "999"}))),
    ("a required column with nulls", "required-null", metadata(column_required)),
    # Files that are gone or damaged
    (
        "an older metadata file",
        "metadata-log",
        metadata(lambda d: d["metadata-log"][0].update({"metadata-file": "file:///none.json"})),
    ),
    ("no data file", "file-missing", lambda table: one_file(table).unlink()),
    (
        "a longer data file",
        "file-length",
        lambda table: one_file(table).write_bytes(one_file(table).read_bytes() + b"x"),
    ),
    (
        "half a data file",
        "file-corrupt",
        lambda table: one_file(table).write_bytes(one_file(table).read_bytes()[:60]),
    ),
    ("no manifest", "file-missing", lambda table: manifests(table)[0].unlink()),
    ("a damaged manifest", "manifest-corrupt", lambda table: manifests(table)[0].write_bytes(b"Obj\x01")),
    ("no manifest list", "file-missing", lambda table: manifest_list(table).unlink()),
    (
        "a damaged manifest list",
        "manifest-corrupt",
        lambda table: manifest_list(table).write_bytes(b"Obj\x01"),
    ),
    # Manifest lists
    (
        "a manifest's length",
        "file-length",
        lines(lambda line: line.update(manifest_length=line["manifest_length"] + 1)),
    ),
    ("counted files", "manifest-counts", lines(lambda line: line.update(added_files_count=7))),
    ("counted deleted files", "manifest-counts", lines(lambda line: line.update(deleted_files_count=7))),
    ("counted rows", "manifest-counts", lines(lambda line: line.update(added_rows_count=7))),
    (
        "a summary's bound",
        "manifest-summary",
        lines(lambda line: [each.update(upper_bound=b"a", lower_bound=b"a") for each in line["partitions"]]),
    ),
    (
        "a summary's nulls",
        "manifest-summary",
        lines(lambda line: [each.update(contains_null=False) for each in line["partitions"]]),
    ),
    ("a manifest's sequence number", "sequence-number", lines(lambda line: line.update(sequence_number=999))),
    ("a manifest's least sequence number", "sequence-number", lines(lambda line: line.update(min_sequence_number=999))),
    ("a manifest's spec", "spec-unknown", lines(lambda line: line.update(partition_spec_id=9))),
    # Manifest entries of data files
    ("a record count", "row-count", file_field("record_count", lambda rows: rows + 1)),
    ("a file's length", "file-length", file_field("file_size_in_bytes", lambda size: size + 1)),
    ("a value count", "value-count", count("value_counts", ID)),
    ("a null count", "null-count", count("null_value_counts", ID)),
    ("a NaN count", "nan-count", count("nan_value_counts", VALUE)),
    ("an upper bound", "bounds-narrow", bounds(long_bound(0), long_bound(1))),
    ("a lower bound", "bounds-narrow", bounds(long_bound(11), long_bound(99))),
    ("bounds the wrong way round", "bounds-inverted", bounds(long_bound(99), long_bound(0))),
    ("a bound of another type", "bound-invalid", bounds(b"abc", None)),
    ("a partition value", "partition-value", entries(lambda entry: entry["data_file"]["partition"].update(part_0="z"))),
    ("a sort order", "sort-order-unknown", file_field("sort_order_id", 9)),
    ("split offsets", "split-offsets", file_field("split_offsets", [9, 5])),
    ("a file twice", "file-twice", twice),
    ("a file's sequence number", "sequence-number", entries(lambda entry: entry.update(sequence_number=999))),
    (
        "metrics of no column",
        "field-id-unknown",
        entries(lambda entry: entry["data_file"]["value_counts"].append({"key": 700, "value": 3})),
    ),
    ("a format that is not installed", "not-checked", file_field("file_format", "XYZ")),
    # Delete files
    ("a delete file's record count", "row-count", file_field("record_count", lambda rows: rows + 1, 1)),
    ("equality ids", "delete-key", file_field("equality_ids", [700], 2)),
    ("bounds of keys", "bounds-narrow", bounds(long_bound(90), long_bound(91), ID, 2)),
    ("bounds of paths", "bounds-narrow", bounds(b"file:///a", b"file:///b", 2147483546, 1)),
    (
        "a damaged delete file",
        "file-corrupt",
        lambda table: (
            [
                local_path(each.file_path).write_bytes(b"PAR1")
                for each in data_files(table.refresh())
                if each.content != 0
            ]
        ),
    ),
]


@pytest.fixture
def model(tmp_path: Path) -> ModelledTable:
    model = filled_table(tmp_path, 2, partitions=BY_PART)
    model.delete(Or(EqualTo("id", 3), EqualTo("id", 14)), "merge-on-read")
    delete_by_equality(model, [4, 15])
    assert formatkit.validate(model.table).findings == ()
    return model


@pytest.mark.parametrize(("code", "plant"), [each[1:] for each in FAULTS], ids=[each[0] for each in FAULTS])
def test_a_fault_of_a_table_is_found(model: ModelledTable, code: str, plant: Plant) -> None:
    location = model.table.metadata_location
    plant(model.table)
    report = formatkit.validate(location)
    assert code in codes(report)
    finding = next(each for each in report.findings if each.code == code)
    assert finding.severity == CODES[code].severity
    assert finding.location
    assert finding.said
    assert finding.found
    assert finding.advice
    assert report.ok == all(CODES[each].severity != "error" for each in codes(report))
    assert finding.location in str(report)


def test_every_code_is_planted_somewhere() -> None:
    planted = {code for _, code, _ in FAULTS} | ELSEWHERE
    assert set(CODES) - planted == set()
    assert planted - set(CODES) == set()


def test_one_fault_does_not_hide_another(model: ModelledTable) -> None:
    location = model.table.metadata_location
    lines(lambda line: line.update(added_rows_count=7))(model.table)
    one_file(model.table).write_bytes(b"PAR1")
    bounds(long_bound(90), long_bound(91), ID, 2)(model.table)
    assert {"manifest-counts", "file-corrupt", "file-length", "bounds-narrow"} <= codes(formatkit.validate(location))


def test_metadata_alone_finds_what_needs_no_rows(model: ModelledTable) -> None:
    location = model.table.metadata_location
    one_file(model.table).unlink()
    assert "file-missing" in codes(formatkit.validate(location, metadata_only=True))


# What needs a table or a file of another kind.
ELSEWHERE = {
    "positions",
    "reader-failed",
    "value-invalid",
    "schema-mismatch",
    "field-id-twice",
    "statistics-wrong",
    "statistics-dropped",
    "storage-failed",
    "partition-invalid",
    "sort-order",
    "row-id-range",
    "plan-failed",
    "delete-position",
    "delete-path",
    "delete-dangling",
    "deletion-vector",
    "column-unknown",
}


@pytest.fixture
def vectors(tmp_path: Path) -> Table:
    model = filled_table(tmp_path, 3)
    model.delete(EqualTo("id", 3), "merge-on-read")
    assert formatkit.validate(model.table).findings == ()
    return model.table


def numbered_twice(table: Table) -> None:
    lines(lambda line: line.update(first_row_id=0 if line["content"] == 0 else None))(table)


FAULTS_OF_VERSION_3: list[tuple[str, str, Plant]] = [
    ("a cardinality", "deletion-vector", file_field("record_count", 9, 1)),
    ("an offset", "deletion-vector", file_field("content_offset", 5, 1)),
    ("a size", "deletion-vector", file_field("content_size_in_bytes", 20, 1)),
    ("a data file that is not there", "delete-dangling", file_field("referenced_data_file", "file:///no.parquet", 1)),
    ("row ids twice", "row-id-range", numbered_twice),
    ("the next row id", "row-id-range", metadata(lambda document: document.update({"next-row-id": 3}))),
    ("no data file", "plan-failed", file_field("referenced_data_file", None, 1)),
]


@pytest.mark.parametrize(
    ("code", "plant"), [each[1:] for each in FAULTS_OF_VERSION_3], ids=[each[0] for each in FAULTS_OF_VERSION_3]
)
def test_a_fault_of_version_3_is_found(vectors: Table, code: str, plant: Plant) -> None:
    location = vectors.metadata_location
    plant(vectors)
    assert code in codes(formatkit.validate(location))


@pytest.mark.parametrize(
    ("position", "named", "code"),
    [(0, "file:///gone.parquet", "delete-dangling"), (10_000, None, "delete-position")],
)
def test_a_fault_of_position_deletes_is_found(tmp_path: Path, position: int, named: str | None, code: str) -> None:
    table = filled_table(tmp_path, 2).table
    data = data_files(table)[0].file_path
    location = f"{table.location()}/data/deletes.parquet"
    file = write_position_deletes(location, {named or data: [position]})
    assert file is not None
    base = table.current_snapshot()
    assert base is not None
    commit(table, Commit(operation=Operation.DELETE, added_deletes=(file,), base_snapshot_id=base.snapshot_id))
    report = formatkit.validate(table)
    assert codes(report) == {code}
    assert report.ok


def _with_reference(schema: dict[str, Any]) -> None:
    """Add the field that only manifests of version 3 have."""
    file = next(field for field in schema["fields"] if field["name"] == "data_file")
    field = {"name": "referenced_data_file", "type": ["null", "string"], "default": None, "field-id": 143}
    file["type"]["fields"].append(field)


def test_deletes_of_a_file_that_their_manifest_excludes_are_found(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 2)
    model.delete(EqualTo("id", 3), "merge-on-read")
    first, second = sorted(file.file_path for file in data_files(model.table) if file.content == 0)
    deletes = next(file for file in data_files(model.table) if file.content != 0)
    named = pq.read_table(local_path(deletes.file_path))["file_path"][0].as_py()
    wrong = first if named == second else second
    for path in manifests(model.table):
        rewrite_avro(path, lambda entry: entry["data_file"].update(referenced_data_file=wrong), _with_reference)
    assert "delete-path" in codes(formatkit.validate(model.table.metadata_location))


def test_rows_that_are_not_sorted_are_found(tmp_path: Path) -> None:
    with load_catalog("c", type="in-memory", warehouse=tmp_path.as_uri()) as catalog:
        catalog.create_namespace("db")
        order = SortOrder(SortField(1, transform=IdentityTransform()), order_id=1)
        table = new_table(catalog, NestedField(1, "id", LongType()), sort_order=order)
        formatkit.append(table, pa.table({"id": [3, 1, 2]}))
        path = one_file(table)
        pq.write_table(pq.read_table(path).take([2, 1, 0]), path)
        assert "sort-order" in codes(formatkit.validate(table))


def test_a_partition_value_of_another_type_is_found(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 2, partitions=BY_PART)
    location = model.table.metadata_location

    def longs(document: dict[str, Any]) -> None:
        for schema in document["schemas"]:
            schema["fields"][1]["type"] = "long"

    edited(model.table, longs)
    assert {"partition-invalid", "schema-mismatch"} <= codes(formatkit.validate(location))


def test_a_spec_of_no_column_is_found(tmp_path: Path) -> None:
    model = filled_table(tmp_path, 2)
    location = model.table.metadata_location

    def other(document: dict[str, Any]) -> None:
        document["sort-orders"].append(
            {
                "order-id": 5,
                "fields": [{"source-id": 99, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
            }
        )
        document["default-sort-order-id"] = 5

    edited(model.table, other)
    assert codes(formatkit.validate(location)) == {"column-unknown"}


ROWS = pa.table({"id": pa.array(range(20_000), pa.int64()), "s": [f"{i:06}" for i in range(20_000)]})


@pytest.mark.parametrize("where", ["statistics", "column_index", "bloom"])
def test_statistics_of_parquet_files_that_skip_rows_are_found(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(
        ROWS,
        path,
        row_group_size=10_000,
        data_page_size=16_000,
        write_batch_size=2_000,
        write_page_index=True,
        use_dictionary=False,
        bloom_filter_options={"id": True} if where == "bloom" else None,
    )
    assert formatkit.validate(path).findings == ()
    narrow_parquet(path, where)
    report = formatkit.validate(path)
    assert codes(report) == {"statistics-wrong"}
    assert not report.ok


@pytest.mark.parametrize("possible", [True, False])
def test_wrong_null_counts_of_parquet_files_are_found(tmp_path: Path, possible: bool) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, None, 3]}), path, write_page_index=False)
    file = ParquetFile(path.read_bytes())
    chunk = file.footer["row_groups"].value[0]["columns"].value[0]["meta_data"]
    chunk["statistics"]["null_count"].value = 0
    if possible:
        chunk.value.remove(chunk["size_statistics"])  # which count the nulls as well
    path.write_bytes(file.to_bytes())
    report = formatkit.validate(path)
    assert codes(report) == {"statistics-wrong" if possible else "statistics-dropped"}
    assert report.ok != possible


def test_statistics_of_orc_files_that_skip_rows_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    formatkit.write_file(path, ROWS)
    narrow_orc(path, 1, 10)
    assert codes(formatkit.validate(path)) == {"statistics-wrong"}


@pytest.mark.parametrize("file_format", ALL_FORMATS)
def test_a_reader_that_skips_wrongly_is_found(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / f"a.{file_format}"
    formatkit.write_file(path, ROWS.slice(0, 100))
    lying = LyingFormat(default_registry().plugin(file_format, pa.RecordBatch))
    assert codes(formatkit.validate(path, registry=with_format(lying))) == {"statistics-wrong"}


def test_text_that_is_not_utf_8_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    data = pa.array([b"good", b"\xff\xfe"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, data.buffers())
    pq.write_table(pa.table({"s": text}), path)
    assert codes(formatkit.validate(path)) == {"file-corrupt"}


def with_format(lying: LyingFormat) -> FormatRegistry:
    registry = FormatRegistry()
    registry.register_batch(ArrowBatch())
    registry.register(lying)
    return registry


def test_field_ids_that_are_used_twice_are_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    formatkit.write_file(path, ROWS)
    twice = Schema(NestedField(1, "id", LongType()), NestedField(1, "s", StringType()))
    lying = LyingFormat(default_registry().plugin("parquet", pa.RecordBatch), schema=twice)
    assert "field-id-twice" in codes(formatkit.validate(path, registry=with_format(lying)))


def shifted(file: FormatFile[pa.RecordBatch], options: ReadOptions) -> ReadResult[pa.RecordBatch]:
    """Count rows from one on."""
    result = file.read(options)
    last = len(options.projection.fields) - 1
    if last < 0 or options.projection.fields[last].name != "_pos":
        return result
    batches = (batch.set_column(last, "_pos", pc.add(batch.column(last), 1)) for batch in result.batches)
    return replace(result, batches=BatchStream(batches))


def failing(error: Exception) -> Callable[..., Any]:
    def read(_file: FormatFile[pa.RecordBatch], _options: ReadOptions) -> ReadResult[pa.RecordBatch]:
        raise error

    return read


@pytest.mark.parametrize(
    ("code", "read"),
    [
        ("positions", shifted),
        ("value-invalid", failing(InvalidDataError("no timestamp"))),
        ("storage-failed", failing(StorageError("the storage is gone"))),
        ("schema-mismatch", failing(SchemaResolutionError("no such column"))),
        ("not-checked", failing(UnsupportedError("a codec of the future"))),
        ("reader-failed", failing(IndexError("0 out of bounds"))),
    ],
)
def test_what_a_reader_says_is_a_finding(tmp_path: Path, code: str, read: Any) -> None:
    path = tmp_path / "a.avro"
    formatkit.write_file(path, ROWS)
    lying = LyingFormat(default_registry().plugin("avro", pa.RecordBatch), read)
    assert code in codes(formatkit.validate(path, registry=with_format(lying)))


def test_a_file_that_is_none_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    report = formatkit.validate(path)
    assert codes(report) == {"file-corrupt"}
    assert report.to_dict()["findings"][0]["location"] == str(path)


def test_columns_that_cannot_be_read_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1], "d": pa.array([3], pa.uint64())}), path)
    assert formatkit.validate(path).ok


def test_the_guide_lists_every_code() -> None:
    guide = (ROOT / "docs" / "validate.md").read_text()
    for name, code in CODES.items():
        assert f"| `{name}` | {code.severity} | {code.meaning} |" in guide
