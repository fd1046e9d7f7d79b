"""Variants and geographies as the writer stores them: annotated as the specification asks, which pyarrow cannot do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from formatkit import read_file, write_file
from formatkit.batches.arrow.constants import column_of
from formatkit.contract import Encryption, Variant, VariantType
from formatkit.errors import InvalidDataError, UnsupportedError
from formatkit.formats.parquet.stored_schema import stored_elements
from formatkit.tck.rows import from_arrow, to_arrow
from support.parquet_writing import metadata_of, written

NULL = Variant.of(None)
DEEP = Variant.of({"b": [1, {"c": 2.5}], "a": "y" * 100})
SCHEMA = Schema(
    NestedField(1, "i", IntegerType()),
    NestedField(2, "v", VariantType()),
    NestedField(3, "l", ListType(4, VariantType(), element_required=True)),
    NestedField(
        5, "s", StructType(NestedField(6, "v", VariantType(), required=True), NestedField(7, "n", IntegerType()))
    ),
    NestedField(8, "m", MapType(9, StringType(), 10, VariantType(), value_required=False)),
)
ROWS: list[dict[int, Any]] = [
    {1: 1, 2: DEEP, 3: [DEEP, NULL], 5: {6: DEEP, 7: 1}, 8: [("k", DEEP), ("n", None), ("z", NULL)]},
    {1: 2, 2: NULL, 3: [], 5: {6: NULL, 7: None}, 8: []},
    {1: 3, 2: None, 3: None, 5: None, 8: None},
]


def stored(rows: list[dict[int, Any]] = ROWS, **options: Any) -> bytes:
    return written(SCHEMA, to_arrow(SCHEMA, rows).to_batches(), **options)[0]


def test_variants_come_back_byte_for_byte_at_every_level() -> None:
    scan = read_file(stored(), file_format="parquet")
    assert scan.schema == SCHEMA
    assert from_arrow(SCHEMA, scan.to_arrow()) == ROWS


def test_many_row_groups_come_back() -> None:
    rows = [{**ROWS[number % 3], 1: number} for number in range(3_000)]
    data = stored(rows, properties={"write.parquet.row-group-limit": "500"})
    assert metadata_of(data).num_row_groups == 6
    assert from_arrow(SCHEMA, read_file(data, file_format="parquet").to_arrow()) == rows
    found = read_file(data, "i = 1501 and v is not null", file_format="parquet")
    assert from_arrow(SCHEMA, found.to_arrow()) == [rows[1501]]


def test_groups_are_annotated_and_their_parts_have_no_ids() -> None:
    layout = str(pq.ParquetFile(io.BytesIO(stored())).schema)
    assert layout.count("(Variant(1))") == 4
    footer = stored()
    length = int.from_bytes(footer[-8:-4], "little")
    elements = stored_elements(footer[-8 - length : -8]).elements
    parts = [element for element in elements if element.name == "metadata"]
    assert len(parts) == 4
    assert all(part.field_id is None and part.repetition == 0 for part in parts)


def test_the_size_of_a_variant_is_that_of_both_its_parts() -> None:
    data, result = written(SCHEMA, to_arrow(SCHEMA, ROWS).to_batches())
    group = metadata_of(data).row_group(0)
    chunks = [group.column(number) for number in range(group.num_columns)]
    own = [chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in ("v.metadata", "v.value")]
    assert result.column_sizes is not None
    assert result.column_sizes[2] == sum(own)
    assert set(result.column_sizes) == {1, 2, 4, 6, 7, 9, 10}
    assert result.size_bytes == len(data)


def test_metrics_count_nulls_and_know_no_bounds(tmp_path: Path) -> None:
    file = write_file(tmp_path / "a.parquet", to_arrow(SCHEMA, ROWS), SCHEMA)
    assert file is not None
    metrics = file.metrics.columns[2]
    assert (metrics.value_count, metrics.null_count, metrics.lower, metrics.upper) == (3, 1, None, None)
    described = file.to_data_file()
    assert described.null_value_counts[2] == 1
    assert 2 not in described.lower_bounds


def test_duckdb_reads_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(stored())
    with duckdb.connect() as connection:
        rows = connection.execute("select v, l, m from read_parquet($1)", [str(tmp_path / "a.parquet")]).fetchall()
    deep = DEEP.to_python()
    assert rows == [(deep, [deep, None], {"k": deep, "n": None, "z": None}), (None, [], {}), (None, None, None)]


def test_bloom_filters_are_not_made_for_variants() -> None:
    properties = {"write.parquet.bloom-filter-enabled.column.v": "true"}
    assert metadata_of(stored(properties=properties)).num_row_groups == 1


def test_a_key_is_refused_because_the_footer_cannot_be_annotated() -> None:
    with pytest.raises(UnsupportedError, match="v"):
        stored(encryption=Encryption(key=b"0123456789abcdef"))


@pytest.mark.parametrize("nullable", [True, False])
def test_a_variant_without_its_value_is_refused(nullable: bool) -> None:
    fields = [pa.field("metadata", pa.binary(), nullable), pa.field("value", pa.binary(), nullable)]
    column = pa.StructArray.from_arrays([pa.array([b"\x01\x00\x00"]), pa.array([None], pa.binary())], fields=fields)
    schema = Schema(NestedField(1, "v", VariantType()))
    with pytest.raises(InvalidDataError, match="without value"):
        written(schema, [pa.RecordBatch.from_arrays([column], names=["v"])])


def test_a_null_in_a_required_variant_is_refused() -> None:
    schema = Schema(NestedField(1, "v", VariantType(), required=True))
    batch = pa.RecordBatch.from_arrays([column_of(VariantType(), [NULL, None])], names=["v"])
    with pytest.raises(InvalidDataError, match="row 1"):
        written(schema, [batch])


POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


@pytest.mark.parametrize(
    "kind",
    [
        GeometryType(),
        GeometryType("srid:3857"),
        GeographyType(),
        GeographyType("EPSG:4326", "karney"),
        GeographyType("OGC:CRS84", "thomas"),
    ],
    ids=str,
)
def test_geometries_come_back_with_their_system_and_edges(kind: Any, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "g", kind), NestedField(2, "l", ListType(3, kind, element_required=False)))
    columns = [column_of(kind, [POINT, None]), column_of(schema.find_type(2), [[POINT, None], None])]
    file = write_file(tmp_path / "g.parquet", pa.RecordBatch.from_arrays(columns, names=["g", "l"]), schema)
    assert file is not None
    assert file.metrics.columns[1].null_count == 1
    assert file.metrics.columns[1].lower is None
    scan = read_file(tmp_path / "g.parquet")
    assert scan.schema == schema
    assert scan.to_arrow().to_pylist() == [{"g": POINT, "l": [POINT, None]}, {"g": None, "l": None}]
    assert read_file(tmp_path / "g.parquet", "g is null").to_arrow().num_rows == 1
