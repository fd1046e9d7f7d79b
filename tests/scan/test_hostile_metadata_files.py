"""Metadata files that are none, or contradict themselves: `load_table` and `scan` raise formatkit's errors only."""

from __future__ import annotations

import gzip
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType

import formatkit
from formatkit.errors import (
    CorruptFileError,
    FormatkitError,
    InvalidTableError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.tck.naive import File
from formatkit.tck.tables import make_table, write_parquet

REFUSALS = (CorruptFileError, InvalidTableError, SchemaResolutionError, UnsupportedError)
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "many", ListType(3, LongType())))


@pytest.fixture(params=[1, 2, 3])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(make(tmp_path, request.param).metadata_location.removeprefix("file://"))


def make(folder: Path, version: Any = 2) -> StaticTable:
    file = write_parquet(folder / "data.parquet", File(schema=SCHEMA, rows=[{1: 1, 2: None}]))
    return make_table(folder, [SCHEMA], [file], format_version=version)


def refused(path: Path, *errors: type[FormatkitError]) -> str:
    """Load and scan a table; what the error says."""
    with pytest.raises(
        errors or (CorruptFileError, InvalidTableError, SchemaResolutionError, UnsupportedError)
    ) as caught:
        formatkit.scan(formatkit.load_table(str(path)))
    assert path.name in str(caught.value)
    return str(caught.value)


TEXTS: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "half": lambda text: text[: len(text) // 2],
    "a list": lambda _: b"[]",
    "a number": lambda _: b"7",
    "null": lambda _: b"null",
    "no UTF-8": lambda text: text.replace(b"id", b"\xff\xfe"),
    "many brackets": lambda _: b"[" * 100_000,
    "many objects": lambda _: b'{"a":' * 100_000,
    "a number of 5,000 digits": lambda text: text.replace(b"1", b"9" * 5000, 1),
    "half of gzip": lambda text: gzip.compress(text)[:100],
    "damaged gzip": lambda text: gzip.compress(text)[:30] + b"\xff" * 40 + gzip.compress(text)[70:],
}


@pytest.mark.parametrize("change", TEXTS.values(), ids=TEXTS)
def test_what_is_no_metadata_file_is_said_so(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))
    assert "is not the metadata of an Iceberg table" in refused(path, CorruptFileError)


def test_a_small_file_that_is_large_once_decompressed_is_refused(path: Path) -> None:
    path.write_bytes(gzip.compress(b" " * 100_000_000 + path.read_bytes()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "once decompressed" in refused(path, CorruptFileError)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


def test_compressed_metadata_is_loaded(path: Path) -> None:
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert formatkit.scan(formatkit.load_table(str(path))).count() == 1


def test_a_byte_order_mark_does_no_harm(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert formatkit.scan(formatkit.load_table(str(path))).count() == 1


CHANGES: dict[str, dict[str, Any]] = {
    "no such schema": {"current-schema-id": 99},
    "no such spec": {"default-spec-id": 99},
    "no such sort order": {"default-sort-order-id": 99},
    "no such snapshot": {"current-snapshot-id": 99},
    "schemas that are none": {"schemas": ["x"]},
    "snapshots that are none": {"snapshots": [7]},
    "specs that are none": {"partition-specs": "x"},
    "a spec that is none": {"partition-specs": ["x"]},
    "refs that are none": {"refs": [1]},
    "a location that is none": {"location": 7},
    "no number": {"last-column-id": float("nan")},
    "a version that is none": {"format-version": [2]},
    "a later version": {"format-version": 9},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_contradicts_itself_is_refused(path: Path, change: dict[str, Any]) -> None:
    document = json.loads(path.read_text()) | change
    path.write_text(json.dumps(document))
    refused(path)


def test_ids_that_mean_two_things_are_refused(path: Path) -> None:
    document = json.loads(path.read_text())
    for key in ("schemas", "partition-specs", "snapshots"):
        path.write_text(json.dumps(document | {key: document[key] * 2}))
        assert "there are several" in refused(path, CorruptFileError)


@pytest.mark.parametrize("transform", ["bucket[0]", "bucket[99999999999999]", "truncate[0]", "day", "hour", "bucket[4"])
def test_transforms_that_are_none_of_the_column_are_refused(path: Path, transform: str) -> None:
    document = json.loads(path.read_text())
    field = {"name": "p", "source-id": 1, "field-id": 1000, "transform": transform}
    document["partition-specs"] = [{"spec-id": 0, "fields": [field]}]
    path.write_text(json.dumps(document))
    refused(path)


def test_a_list_is_no_column_to_partition_by(path: Path) -> None:
    document = json.loads(path.read_text())
    field = {"name": "p", "source-id": 2, "field-id": 1000, "transform": "identity"}
    document["partition-specs"] = [{"spec-id": 0, "fields": [field]}]
    path.write_text(json.dumps(document))
    refused(path)


@pytest.mark.parametrize("kind", ["decimal(99, 2)", "decimal(5, 9)", "fixed[99999999999]"])
def test_types_that_no_value_has_are_refused(path: Path, kind: str) -> None:
    path.write_text(path.read_text().replace('"long"', json.dumps(kind), 1))
    with pytest.raises(FormatkitError):
        formatkit.scan(formatkit.load_table(str(path))).to_arrow()


@pytest.mark.parametrize("mapping", ["{", "[1]", '[{"names": 7}]', "null", '[{"field-id": [], "names": []}]'])
def test_a_name_mapping_that_is_none_is_refused(path: Path, mapping: str) -> None:
    document = json.loads(path.read_text())
    document["properties"] = {"schema.name-mapping.default": mapping}
    path.write_text(json.dumps(document))
    refused(path)


# Tables that a catalog has parsed already.


@pytest.mark.parametrize("transform", [BucketTransform(0), TruncateTransform(0), BucketTransform(-3)], ids=str)
def test_a_table_of_a_catalog_with_such_a_transform_is_refused(tmp_path: Path, transform: Any) -> None:
    table = make(tmp_path)
    table.metadata.partition_specs[:] = [PartitionSpec(PartitionField(1, 1000, transform, "p"), spec_id=0)]
    with pytest.raises(InvalidTableError, match="must be positive"):
        formatkit.scan(table)


def test_a_table_of_a_catalog_without_its_schema_is_refused(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.metadata.schemas.clear()
    with pytest.raises(InvalidTableError, match="contradicts itself"):
        formatkit.scan(table)


def test_a_table_without_its_current_snapshot_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.metadata.snapshots.clear()
    with pytest.raises(InvalidTableError, match="is not among the snapshots"):
        formatkit.scan(table)


def test_a_partition_that_does_not_fit_its_spec_is_named(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "p"), spec_id=0)
    file = write_parquet(tmp_path / "data.parquet", File(schema=SCHEMA, rows=[{1: 7, 2: None}], partition={1000: 7}))
    table = make_table(tmp_path, [SCHEMA], [file], specs=[spec])
    changed = Schema(NestedField(1, "id", StringType()), schema_id=table.metadata.current_schema_id)
    table.metadata.schemas[:] = [changed]
    with pytest.raises(InvalidTableError, match=r"data.parquet has a partition .* spec 0: 7 is not a value .* string"):
        formatkit.scan(table)
