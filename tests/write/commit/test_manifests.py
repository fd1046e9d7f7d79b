"""Entries of manifests: nothing that a writer said is lost, however often a manifest is rewritten."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from formatkit.errors import CorruptFileError
from formatkit.scan.manifests import read_manifest_list, read_manifests
from formatkit.write.commit import Change, commit
from support.commits import (
    append,
    change,
    data_file,
    equality_deletes,
    live_files,
    metadata_files,
    new_table,
    raw_entries,
    raw_header,
    raw_list,
)
from support.iceberg_tables import local_path

IDENTIFIER = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
VALUES: list[tuple[PrimitiveType, Any]] = [
    (BooleanType(), True),
    (IntegerType(), -7),
    (LongType(), 1 << 40),
    (FloatType(), 1.5),
    (DoubleType(), -0.25),
    (DecimalType(20, 3), Decimal("-12.345")),
    (DateType(), 19_000),
    (TimeType(), 3_600_000_000),
    (TimestampType(), -1),
    (TimestamptzType(), 1_700_000_000_000_000),
    (StringType(), "käse"),
    (UUIDType(), IDENTIFIER),
    (FixedType(3), b"abc"),
    (BinaryType(), b"\x00\xff"),
]
FACTS: dict[str, Any] = {
    "column_sizes": {1: 10},
    "value_counts": {1: 3},
    "null_value_counts": {1: 1},
    "nan_value_counts": {1: 0},
    "lower_bounds": {1: b"\x01"},
    "upper_bounds": {1: b"\x02"},
    "key_metadata": b"key",
    "split_offsets": [4, 40],
    "sort_order_id": 1,
}


def facts_of(file: dict[str, Any]) -> dict[str, Any]:
    """The facts of an entry as fastavro reads it; maps are lists of pairs there."""
    found = {}
    for name in FACTS:
        value = file[name]
        pairs = isinstance(value, list) and value and isinstance(value[0], dict)
        found[name] = {each["key"]: each["value"] for each in value} if pairs else value
    return found


def partitioned(type_: PrimitiveType, transform: Any = None) -> tuple[Schema, PartitionSpec]:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "p", type_, required=False))
    return schema, PartitionSpec(PartitionField(2, 1000, transform or IdentityTransform(), "part"))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_everything_that_is_known_of_a_file_survives_rewrites(catalog: SqlCatalog, version: int) -> None:
    table = new_table(catalog, version)
    files = [data_file(table, name, 3, **FACTS) for name in ("a", "b", "c")]
    append(table, *files)
    for gone in files[:2]:
        snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    for entry in raw_entries(snapshot):
        assert facts_of(entry["data_file"]) == FACTS
    assert live_files(table) == ["c"]


def test_what_is_known_of_delete_files_survives_rewrites(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    facts = {**FACTS, "equality_ids": [1, 2]}
    del facts["equality_ids"]
    append(table, data_file(table, "a"))
    first, second = equality_deletes(table, "d", 3, **facts), equality_deletes(table, "e", 3, **facts)
    change(table, Operation.DELETE, added_deletes=(first, second))
    snapshot = change(table, Operation.REPLACE, removed_deletes=frozenset({(first.file_path, None)}))
    kept = [each for each in raw_entries(snapshot) if each["status"] == 0]
    assert [each["data_file"]["file_path"] for each in kept] == [second.file_path]
    assert facts_of(kept[0]["data_file"]) == FACTS
    assert kept[0]["data_file"]["equality_ids"] == [1]
    assert kept[0]["sequence_number"] == 2


@pytest.mark.parametrize("file_format", ["VORTEX", "LANCE", "ARROW"])
def test_formats_outside_pyicebergs_list_survive_rewrites(catalog: SqlCatalog, file_format: str) -> None:
    table = new_table(catalog)
    gone = data_file(table, "a", file_format=file_format)
    append(table, gone, data_file(table, "b", file_format=file_format))
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert {each["data_file"]["file_format"] for each in raw_entries(snapshot)} == {file_format}
    manifests = read_manifest_list(snapshot.manifest_list, table.io)
    assert [each.file_format for each in read_manifests(manifests, table.io, metrics=True)] == [file_format.lower()]


def partitions(snapshot: Snapshot, table: Any) -> list[tuple[ManifestEntryStatus, Any]]:
    return [
        (entry.status, entry.data_file.partition[0])
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    ]


@pytest.mark.parametrize(("type_", "value"), VALUES, ids=[str(type_) for type_, _ in VALUES])
def test_partition_values_of_every_type_survive_rewrites(catalog: SqlCatalog, type_: PrimitiveType, value: Any) -> None:
    schema, spec = partitioned(type_)
    table = new_table(catalog, schema=schema, spec=spec)
    gone, null = data_file(table, "a", partition=(value,)), data_file(table, "b", partition=(None,))
    snapshot = append(table, gone, null)
    [line] = raw_list(snapshot)
    [summary] = line["partitions"]
    assert summary["contains_null"] is True
    assert summary["lower_bound"] == summary["upper_bound"] == to_bytes(type_, value)
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert partitions(snapshot, table) == [(ManifestEntryStatus.DELETED, value), (ManifestEntryStatus.EXISTING, None)]
    snapshot = change(table, Operation.OVERWRITE, added=(gone,), removed=frozenset({null.file_path}))
    assert partitions(snapshot, table)[0] == (ManifestEntryStatus.ADDED, value)


def test_not_a_number_is_no_bound_of_partitions(catalog: SqlCatalog) -> None:
    schema, spec = partitioned(DoubleType())
    table = new_table(catalog, schema=schema, spec=spec)
    files = (data_file(table, "a", partition=(float("nan"),)), data_file(table, "b", partition=(2.0,)))
    [line] = raw_list(append(table, *files))
    two = to_bytes(DoubleType(), 2.0)
    assert line["partitions"] == [
        {"contains_null": False, "contains_nan": True, "lower_bound": two, "upper_bound": two}
    ]


def test_partitions_of_nanoseconds_are_stored_in_version_3(catalog: SqlCatalog) -> None:
    schema, spec = partitioned(TimestampNanoType())
    table = new_table(catalog, 3, schema=schema, spec=spec)
    snapshot = append(table, data_file(table, "a", partition=(1_700_000_000_123_456_789,)))
    [entry] = raw_entries(snapshot)
    assert entry["data_file"]["partition"] == {"part": 1_700_000_000_123_456_789}


def test_files_of_several_specs_get_manifests_of_their_own(catalog: SqlCatalog) -> None:
    schema, spec = partitioned(StringType())
    table = new_table(catalog, schema=schema, spec=spec)
    with table.update_spec() as update:
        update.remove_field("part")
        update.add_field("p", BucketTransform(4), "bucket")
    old = data_file(table, "old", partition=("x",), spec_id=0)
    fields = len(table.spec().fields)
    new = data_file(table, "new", partition=(None,) * (fields - 1) + (3,))
    snapshot = append(table, old, new)
    assert {line["partition_spec_id"] for line in raw_list(snapshot)} == {0, table.spec().spec_id}
    headers = [raw_header(line["manifest_path"]) for line in raw_list(snapshot)]
    assert {header["partition-spec-id"] for header in headers} == {"0", str(table.spec().spec_id)}
    assert live_files(table) == ["new", "old"]


def test_manifests_of_dropped_partition_columns_can_be_rewritten(catalog: SqlCatalog) -> None:
    schema, spec = partitioned(DateType())
    table = new_table(catalog, schema=schema, spec=spec)
    day = (date(2026, 11, 16) - date(1970, 1, 1)).days
    gone, kept = data_file(table, "a", partition=(day,)), data_file(table, "b", partition=(day,))
    append(table, gone, kept)
    with table.update_spec() as update:
        update.remove_field("part")
    with table.update_schema(allow_incompatible_changes=True) as evolution:
        evolution.delete_column("p")
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert partitions(snapshot, table) == [(ManifestEntryStatus.DELETED, day), (ManifestEntryStatus.EXISTING, day)]


def test_many_files_fill_several_manifests(catalog: SqlCatalog) -> None:
    table = new_table(catalog, properties={"commit.manifest.target-size-bytes": "4000"})
    names = [f"{number:04}" for number in range(1_000)]
    snapshot = append(table, *(data_file(table, name) for name in names))
    assert len(raw_list(snapshot)) > 1
    assert live_files(table) == names


@pytest.mark.parametrize(
    ("codec", "stored"),
    [
        ("gzip", b"\x0edeflate"),
        ("uncompressed", b"\x08null"),
        ("zstd", b"\x12zstandard"),
        ("snappy", b"\x0edeflate"),
    ],
)
def test_metadata_is_compressed_as_the_table_says(catalog: SqlCatalog, codec: str, stored: bytes) -> None:
    table = new_table(catalog, properties={"write.avro.compression-codec": codec})
    snapshot = append(table, data_file(table, "a"))
    [manifest] = snapshot.manifests(table.io)
    for location in (snapshot.manifest_list, manifest.manifest_path):
        assert local_path(location).read_bytes()[:10_000].count(b"\x14avro.codec" + stored) == 1
    assert live_files(table) == ["a"]


def test_manifests_say_of_which_schema_and_spec_they_are(catalog: SqlCatalog) -> None:
    schema, spec = partitioned(StringType())
    table = new_table(catalog, schema=schema, spec=spec)
    header = raw_header(raw_list(append(table, data_file(table, "a", partition=("x",))))[0]["manifest_path"])
    assert Schema.model_validate_json(header["schema"]) == table.schema()
    assert header["partition-spec"] == '[{"source-id":2,"field-id":1000,"transform":"identity","name":"part"}]'


def test_old_files_of_data_of_version_1_are_zero_years_old_after_the_upgrade(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 1)
    gone = data_file(table, "a")
    append(table, gone, data_file(table, "b"))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    snapshot = change(table, Operation.OVERWRITE, added=(data_file(table, "c"),), removed=frozenset({gone.file_path}))
    ages = {each["data_file"]["file_path"][-1]: each["sequence_number"] for each in raw_entries(snapshot)}
    assert ages == {"a": 0, "b": 0, "c": None}


COUNTS = [f"{status}_{what}_count" for what in ("files", "rows") for status in ("added", "existing", "deleted")]


def test_counts_that_lists_of_version_1_lack_are_made_up_for(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 1)
    gone = data_file(table, "a", 2)
    append(table, gone, data_file(table, "b", 3))
    snapshot = change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    path = local_path(snapshot.manifest_list)
    with path.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, lines = reader.writer_schema, [line for line in reader if isinstance(line, dict)]
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, [line | dict.fromkeys(COUNTS) for line in lines])
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    old = raw_list(append(table, data_file(table, "c")))[1]
    assert [old[name] for name in COUNTS] == [0, 1, 1, 0, 3, 2]
    assert live_files(table) == ["b", "c"]


def test_a_damaged_manifest_is_reported_before_anything_is_changed(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    gone = data_file(table, "a")
    [line] = raw_list(append(table, gone))
    path = local_path(line["manifest_path"])
    path.write_bytes(path.read_bytes()[:-1])
    before = metadata_files(table)
    with pytest.raises(CorruptFileError, match="cut off or replaced"):
        change(table, Operation.DELETE, removed=frozenset({gone.file_path}))
    assert metadata_files(table) == before


def test_a_file_of_sixteen_fields_is_taken_as_well(catalog: SqlCatalog) -> None:
    table = new_table(catalog, 3)
    short = DataFile(*(data_file(table, "a")[position] for position in range(16)))
    short.spec_id = 0
    assert [each["data_file"]["first_row_id"] for each in raw_entries(append(table, short))] == [None]


def test_a_change_without_files_makes_an_empty_snapshot(catalog: SqlCatalog) -> None:
    table = new_table(catalog)
    snapshot = commit(table, Change(operation=Operation.APPEND))
    assert raw_list(snapshot) == []
    assert live_files(table) == []
