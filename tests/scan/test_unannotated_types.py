"""Types of version 3 that a writer stored without saying what they are: the table's type says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    GeographyType,
    GeometryType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

import formatkit
from formatkit.batches.arrow.types import arrow_schema
from formatkit.batches.arrow.variant import variants
from formatkit.contract import Variant, VariantType
from formatkit.errors import IllegalPromotionError, InvalidDataError

FORMATS = ("parquet", "orc", "avro", "arrow")
each_format = pytest.mark.parametrize("name", FORMATS)
PARTS = StructType(NestedField(11, "metadata", BinaryType()), NestedField(12, "value", BinaryType()))
STORED = Schema(NestedField(1, "n", LongType()), NestedField(2, "v", PARTS))
TABLE = Schema(NestedField(1, "n", LongType()), NestedField(2, "v", VariantType()))
VALUES: list[Any] = [Variant.of({"a": [1, "x"]}), None, Variant.of(None), Variant.of(5)]


def written(tmp_path: Path, name: str, schema: Schema, rows: list[dict[str, Any]]) -> str:
    path = tmp_path / f"file.{name}"
    formatkit.write_file(str(path), pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema=schema)
    return str(path)


def parts(value: Variant | None) -> dict[str, bytes] | None:
    return None if value is None else {"metadata": value.metadata, "value": value.value}


ROWS: list[dict[str, Any]] = [{"n": number, "v": parts(value)} for number, value in enumerate(VALUES)]


@each_format
def test_a_struct_of_metadata_and_value_is_a_variant(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name, STORED, ROWS)
    found = formatkit.read_file(path, schema=TABLE).to_arrow()
    assert found.schema == arrow_schema(TABLE)
    found.validate(full=True)
    assert variants(found["v"].combine_chunks()) == VALUES
    assert formatkit.read_file(path, "v is null", ("n",), TABLE).to_arrow()["n"].to_pylist() == [1]
    assert formatkit.read_file(path, "v is not null and n > 0", ("n",), TABLE).to_arrow()["n"].to_pylist() == [2, 3]
    assert formatkit.read_file(path).to_arrow().to_pylist() == ROWS


def test_polars_reads_it_too(tmp_path: Path) -> None:
    path = written(tmp_path, "parquet", STORED, ROWS)
    (frame,) = formatkit.read_file(path, schema=TABLE, batch_type=pl.DataFrame).to_batches()
    assert frame.to_dicts() == ROWS


@each_format
def test_it_is_found_inside_lists(name: str, tmp_path: Path) -> None:
    stored = Schema(NestedField(2, "l", ListType(3, PARTS, element_required=False)))
    table = Schema(NestedField(2, "l", ListType(3, VariantType(), element_required=False)))
    rows: list[dict[str, Any]] = [{"l": [parts(value) for value in VALUES]}, {"l": None}]
    path = written(tmp_path, name, stored, rows)
    assert formatkit.read_file(path, schema=table).to_arrow().to_pylist() == rows


@pytest.mark.parametrize("batch_type", [pa.RecordBatch, pl.DataFrame])
@pytest.mark.parametrize("missing", ["metadata", "value"])
def test_a_variant_without_one_of_its_parts_is_refused(batch_type: Any, missing: str, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        ROWS[0],
        {"n": 5, "v": {"metadata": b"\x01\x00\x00", "value": b"\x00"} | {missing: None}},
    ]
    path = written(tmp_path, "parquet", STORED, rows)
    with pytest.raises(InvalidDataError, match=f"variants? without {missing}"):
        list(formatkit.read_file(path, schema=TABLE, batch_type=batch_type).to_batches())


@pytest.mark.parametrize(
    "other",
    [
        StructType(NestedField(11, "metadata", BinaryType())),
        StructType(NestedField(11, "metadata", BinaryType()), NestedField(12, "value", StringType())),
        StructType(*PARTS.fields, NestedField(13, "typed_value", LongType())),
    ],
    ids=str,
)
def test_other_structs_are_no_variants(other: StructType, tmp_path: Path) -> None:
    path = written(tmp_path, "parquet", Schema(NestedField(2, "v", other)), [{"v": None}])
    with pytest.raises(IllegalPromotionError, match="'v'"):
        formatkit.read_file(path, schema=TABLE.select("v")).to_arrow()


@each_format
@pytest.mark.parametrize("kind", [GeometryType(), GeographyType()], ids=str)
def test_binary_is_read_as_geometry_and_geography(name: str, kind: Any, tmp_path: Path) -> None:
    stored = Schema(NestedField(1, "g", BinaryType()))
    table = Schema(NestedField(1, "g", kind))
    rows: list[dict[str, Any]] = [{"g": b"\x01\x01\x00\x00\x00" + bytes(16)}, {"g": None}]
    path = written(tmp_path, name, stored, rows)
    scan = formatkit.read_file(path, schema=table)
    assert scan.schema == table
    assert scan.to_arrow().to_pylist() == rows
    assert formatkit.read_file(path, "g is null", schema=table).count() == 1
    if name == "parquet":
        (frame,) = formatkit.read_file(path, schema=table, batch_type=pl.DataFrame).to_batches()
        assert frame.to_dicts() == rows
