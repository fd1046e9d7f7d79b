"""Tables with the types and defaults of version 3 that pyiceberg cannot load."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IntegerType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from formatkit import load_table, scan
from formatkit.cli.app import run
from formatkit.contract import Variant, VariantType, schema_from_json
from formatkit.errors import (
    CorruptFileError,
    FileMissingError,
    InvalidPredicateError,
    SchemaResolutionError,
    UnsupportedError,
)
from formatkit.formats.parquet.plugin import ParquetFormat
from formatkit.tck.naive import File
from formatkit.tck.rows import from_arrow
from formatkit.tck.tables import make_table, write_with

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
SCHEMA = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "s", StructType(NestedField(4, "v", VariantType()), NestedField(5, "n", StringType()))),
)
NEW_SCHEMA = Schema(
    *SCHEMA.fields,
    NestedField(6, "u", UnknownType()),
    NestedField(7, "later", VariantType()),
    NestedField(8, "place", GeometryType("srid:4326")),
    NestedField(9, "world", GeographyType("srid:4326", "karney")),
    schema_id=1,
)
ROWS: list[dict[int, Any]] = [
    {1: 1, 2: Variant.of({"a": [1, None]}), 3: {4: Variant.of("x"), 5: "one"}},
    {1: 2, 2: Variant.of(None), 3: {4: None, 5: None}},
    {1: 3, 2: None, 3: None},
]
NEW_PARTS = {6: None, 7: None, 8: None, 9: None}
PARQUET: Any = ParquetFormat()
V3: Any = {"format_version": 3}


@pytest.fixture
def table(tmp_path: Path) -> StaticTable:
    file = write_with(PARQUET, tmp_path / "data.parquet", File(schema=SCHEMA, rows=ROWS))
    return make_table(tmp_path, [SCHEMA, NEW_SCHEMA], [file], **V3)


def metadata_path(table: StaticTable) -> Path:
    return Path(table.metadata_location.removeprefix("file://"))


def test_pyiceberg_cannot_load_the_table(table: StaticTable) -> None:
    with pytest.raises(ValidationError):
        StaticTable.from_metadata(table.metadata_location)


def test_a_table_with_variants_is_scanned(table: StaticTable) -> None:
    loaded = load_table(table.metadata_location)
    assert loaded.schema() == NEW_SCHEMA
    found = scan(loaded)
    assert from_arrow(NEW_SCHEMA, found.to_arrow()) == [row | NEW_PARTS for row in ROWS]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("v is null", [3]),
        ("v is not null", [1, 2]),
        ("s.v is null", [2, 3]),
        ("later is null and id > 1", [2, 3]),
        ("later is not null", []),
        ("u is null", [1, 2, 3]),
        ("place is null", [1, 2, 3]),
        ("not (v is null)", [1, 2]),
    ],
)
def test_rows_are_found_by_null_tests(table: StaticTable, where: str, ids: list[int]) -> None:
    assert scan(table, where, select=["id"]).to_arrow().column("id").to_pylist() == ids


@pytest.mark.parametrize("where", ["v = 1", "s.v != 'a'", "v in (1, 2)", "place = 'POINT (1 2)'", "v is nan"])
def test_other_filters_are_refused(table: StaticTable, where: str) -> None:
    with pytest.raises(InvalidPredicateError, match="only `is null` and `is not null`"):
        scan(table, where).to_arrow()


def test_a_variant_can_only_be_selected_whole(table: StaticTable) -> None:
    assert scan(table, select=["s.v"]).to_arrow().num_rows == 3
    with pytest.raises(LookupError):
        scan(table, select=["v.metadata"])


def test_a_part_of_the_struct_next_to_a_variant_is_read_alone(table: StaticTable) -> None:
    found = scan(table, select=["s.n"]).to_arrow()
    assert found.to_pylist() == [{"s": {"n": "one"}}, {"s": {"n": None}}, {"s": None}]


def test_the_command_prints_variants_as_the_values_that_they_hold(
    table: StaticTable, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["scan", str(metadata_path(table)), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["id"], line["v"], line["s"]) for line in lines] == [
        (1, {"a": [1, None]}, {"v": "x", "n": "one"}), (2, None, {"v": None, "n": None}), (3, None, None),
    ]  # fmt: skip


MOMENT = "2021-02-03T04:05:06.123456789"
NANOSECONDS = 1612325106123456789


def with_default(kind: str, default: Any) -> Schema:
    added = {"id": 9, "name": "t", "required": False, "type": kind, "initial-default": default}
    node = {"id": 1, "name": "id", "required": False, "type": "int"}
    return schema_from_json({"type": "struct", "schema-id": 1, "fields": [node, added]})


@pytest.mark.parametrize(
    ("kind", "default", "where"),
    [
        (TimestampNanoType(), MOMENT, f"t = '{MOMENT}'"),
        (TimestamptzNanoType(), f"{MOMENT}+00:00", f"t = '{MOMENT}+00:00'"),
    ],
    ids=str,
)
def test_defaults_in_nanoseconds_are_read_and_filtered(tmp_path: Path, kind: Any, default: str, where: str) -> None:
    old = Schema(NestedField(1, "id", IntegerType()))
    new = with_default(str(kind), default)
    both = Schema(NestedField(1, "id", IntegerType()), NestedField(9, "t", kind))
    new_rows: list[dict[int, Any]] = [{1: 3, 9: None}, {1: 4, 9: NANOSECONDS + 1}]
    files = [
        write_with(PARQUET, tmp_path / "old.parquet", File(schema=old, rows=[{1: 1}, {1: 2}])),
        write_with(PARQUET, tmp_path / "new.parquet", File(schema=both, rows=new_rows)),
    ]
    table = make_table(tmp_path, [old, new], files, **V3)
    expected = [{1: 1, 9: NANOSECONDS}, {1: 2, 9: NANOSECONDS}, *new_rows]
    assert from_arrow(new, scan(table).to_arrow()) == expected
    assert from_arrow(new, scan(table, where).to_arrow()) == expected[:2]
    assert scan(table, "t is null").to_arrow().column("id").to_pylist() == [3]


def test_metadata_may_be_compressed(table: StaticTable, tmp_path: Path) -> None:
    packed = tmp_path / "v1.gz.metadata.json"
    packed.write_bytes(gzip.compress(metadata_path(table).read_bytes()))
    assert load_table(str(packed)).schema() == NEW_SCHEMA


def test_statistics_of_unknown_kinds_are_no_obstacle(table: StaticTable, tmp_path: Path) -> None:
    document = json.loads(metadata_path(table).read_text())
    common = {"snapshot-id": 1, "sequence-number": 1, "fields": [1]}
    file = {"snapshot-id": 1, "statistics-path": "s", "file-size-in-bytes": 9, "file-footer-size-in-bytes": 5}
    for kind in ("apache-datasketches-theta-v1", "ndv"):
        document.setdefault("statistics", []).append(file | {"blob-metadata": [common | {"type": kind}]})
    path = tmp_path / "with-statistics.metadata.json"
    path.write_text(json.dumps(document))
    loaded = load_table(str(path))
    assert scan(loaded).count() == scan(table).count()
    assert [each.blob_metadata[0].type for each in loaded.metadata.statistics] == ["apache-datasketches-theta-v1"]


def test_what_pyiceberg_can_load_is_loaded_alike(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", IntegerType(), initial_default=3), NestedField(2, "g", GeometryType()))
    for version in (1, 2, 3):
        table = make_table(tmp_path, [schema], [], format_version=version)
        theirs = StaticTable.from_metadata(table.metadata_location)
        assert load_table(table.metadata_location).metadata == theirs.metadata


def test_a_partition_made_from_a_variant_is_refused(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
    table = make_table(tmp_path, [NEW_SCHEMA], [], specs=[spec], **V3)
    path = metadata_path(table)
    document = json.loads(path.read_text())
    document["partition-specs"][0]["fields"][0]["source-id"] = 2
    path.write_text(json.dumps(document))
    with pytest.raises(SchemaResolutionError, match="made from a variant"):
        load_table(str(path))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", CorruptFileError),
        (b"{}", CorruptFileError),
        (b"[]", CorruptFileError),
        (b"\x1f\x8bnothing", CorruptFileError),
        (b'{"format-version": 9, "schemas": []}', UnsupportedError),
        (b'{"format-version": 1, "snapshots": [{"snapshot-id": 1, "manifests": ["m.avro"]}]}', UnsupportedError),
        (b'{"format-version": 3, "schemas": [{"fields": [{"id": 1}]}]}', SchemaResolutionError),
        (b'{"format-version": 3, "schemas": []}', CorruptFileError),
    ],
)
def test_what_is_no_metadata_is_refused_and_named(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    path = tmp_path / "v1.metadata.json"
    path.write_bytes(content)
    with pytest.raises(error, match=r"v1\.metadata\.json"):
        load_table(str(path))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError, match=r"none\.metadata\.json"):
        load_table(str(tmp_path / "none.metadata.json"))
