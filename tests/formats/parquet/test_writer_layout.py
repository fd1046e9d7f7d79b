"""What a written Parquet file looks like from outside: types, ids, names, footer."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.batches.arrow.types import arrow_schema
from formatkit.errors import UnsupportedError
from support.parquet_reading import open_bytes
from support.parquet_writing import data_pages, metadata_of, write_bytes, written

LAYOUTS: list[tuple[IcebergType, str, str]] = [
    (BooleanType(), "BOOLEAN", "None"),
    (IntegerType(), "INT32", "None"),
    (LongType(), "INT64", "None"),
    (FloatType(), "FLOAT", "None"),
    (DoubleType(), "DOUBLE", "None"),
    (DecimalType(1, 0), "INT32", "Decimal(precision=1, scale=0)"),
    (DecimalType(9, 2), "INT32", "Decimal(precision=9, scale=2)"),
    (DecimalType(10, 2), "INT64", "Decimal(precision=10, scale=2)"),
    (DecimalType(18, 2), "INT64", "Decimal(precision=18, scale=2)"),
    (DecimalType(19, 2), "FIXED_LEN_BYTE_ARRAY(9)", "Decimal(precision=19, scale=2)"),
    (DecimalType(38, 2), "FIXED_LEN_BYTE_ARRAY(16)", "Decimal(precision=38, scale=2)"),
    (DateType(), "INT32", "Date"),
    (TimeType(), "INT64", "Time(isAdjustedToUTC=false, timeUnit=microseconds)"),
    (TimestampType(), "INT64", "Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"),
    (TimestamptzType(), "INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"),
    (TimestampNanoType(), "INT64", "Timestamp(isAdjustedToUTC=false, timeUnit=nanoseconds"),
    (TimestamptzNanoType(), "INT64", "Timestamp(isAdjustedToUTC=true, timeUnit=nanoseconds"),
    (StringType(), "BYTE_ARRAY", "String"),
    (BinaryType(), "BYTE_ARRAY", "None"),
    (FixedType(5), "FIXED_LEN_BYTE_ARRAY(5)", "None"),
    (UUIDType(), "FIXED_LEN_BYTE_ARRAY(16)", "UUID"),
    (GeometryType(), "BYTE_ARRAY", "Geometry(crs=)"),
    (GeometryType("EPSG:3857"), "BYTE_ARRAY", "Geometry(crs=EPSG:3857)"),
    (GeographyType(), "BYTE_ARRAY", "Geography(crs=, algorithm=spherical)"),
    (GeographyType("OGC:CRS84", "karney"), "BYTE_ARRAY", "Geography(crs=, algorithm=karney)"),
    (GeographyType("EPSG:4326", "vincenty"), "BYTE_ARRAY", "Geography(crs=EPSG:4326, algorithm=vincenty)"),
]

NESTED = Schema(
    NestedField(7, "id", LongType(), required=True),
    NestedField(
        2,
        "people",
        ListType(9, StructType(NestedField(4, "name", StringType(), required=True)), element_required=True),
        required=False,
    ),
    NestedField(
        3,
        "scores",
        MapType(
            11,
            StringType(),
            12,
            ListType(13, StructType(NestedField(14, "x", IntegerType(), required=False)), element_required=False),
            value_required=False,
        ),
        required=True,
    ),
    NestedField(20, "place", StructType(NestedField(21, "lat", DoubleType(), required=False)), required=False),
)


def one_row(schema: Schema, row: dict[str, Any]) -> pa.RecordBatch:
    """A batch of the given values, nulls where none is given."""
    fields = arrow_schema(schema)
    columns = [pa.array([row[f.name]], f.type) if row.get(f.name) is not None else pa.nulls(1, f.type) for f in fields]
    return pa.RecordBatch.from_arrays(columns, names=fields.names)


def key_values(data: bytes) -> dict[bytes, bytes]:
    return metadata_of(data).metadata or {}


def parquet_schema(data: bytes) -> pq.ParquetSchema:
    return pq.ParquetFile(io.BytesIO(data)).schema


@pytest.mark.parametrize(("kind", "physical", "logical"), LAYOUTS, ids=str)
def test_each_type_has_the_layout_of_the_spec(kind: IcebergType, physical: str, logical: str) -> None:
    schema = Schema(NestedField(1, "a", kind, required=False))
    column = parquet_schema(written(schema, [one_row(schema, {})])[0]).column(0)
    length = f"({column.length})" if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else ""
    assert column.physical_type + length == physical
    assert str(column.logical_type).startswith(logical)


@pytest.mark.parametrize(
    "kind", [kind for kind, _, _ in LAYOUTS if not isinstance(kind, GeometryType | GeographyType)], ids=str
)
def test_each_type_is_found_again_by_the_reader(kind: IcebergType) -> None:
    schema = Schema(
        NestedField(5, "a", kind, required=False),
        NestedField(6, "l", ListType(7, kind, element_required=True), required=False),
    )
    data = written(schema, [one_row(schema, {})])[0]
    assert open_bytes(data).schema.as_struct() == schema.as_struct()


def test_ids_are_stored_at_every_level_and_nowhere_else() -> None:
    row = {"id": 1, "scores": [("k", [{"x": 1}])]}
    text = str(parquet_schema(written(NESTED, [one_row(NESTED, row)])[0]))
    lines = [line.strip() for line in text.splitlines() if "field_id" in line]
    assert [line.replace("field_id=", "").rstrip(";{ ") for line in lines] == [
        "required group -1 schema",
        "required int64 7 id",
        "optional group 2 people (List)",
        "repeated group -1 list",
        "required group 9 element",
        "required binary 4 name (String)",
        "required group 3 scores (Map)",
        "repeated group -1 key_value",
        "required binary 11 key (String)",
        "optional group 12 value (List)",
        "repeated group -1 list",
        "optional group 13 element",
        "optional int32 14 x",
        "optional group 20 place",
        "optional double 21 lat",
    ]


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("plain", "plain"),
        ("a.b", "a_x2Eb"),
        ("a b", "a_x20b"),
        ("1st", "_1st"),
        ("a/b", "a_x2Fb"),
        ("größe", "größe"),
        ("_x", "_x"),
        ("😀", "_xD83D_xDE00"),
        ("½", "_xBD"),
        ("a1", "a1"),
        ("-", "_x2D"),
    ],
)
def test_names_are_spelled_as_java_spells_them(name: str, stored: str) -> None:
    schema = Schema(NestedField(1, name, IntegerType(), required=False))
    data = write_bytes(schema, pa.array([1], pa.int32()))
    assert parquet_schema(data).column(0).name == stored
    assert json.loads(key_values(data)[b"iceberg.schema"])["fields"][0]["name"] == name


def test_names_that_are_spelled_alike_stay_apart() -> None:
    schema = Schema(
        NestedField(1, "a_x20b", IntegerType(), required=False),
        NestedField(2, "a b", IntegerType(), required=False),
        NestedField(3, "A_x20b", IntegerType(), required=False),
    )
    data = write_bytes(schema, *(pa.array([i], pa.int32()) for i in range(3)))
    assert pq.read_table(io.BytesIO(data)).to_pydict() == {"a_x20b": [0], "a_x20b_": [1], "A_x20b": [2]}


UNKNOWN = NestedField(90, "nothing", UnknownType(), required=False)


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("nested", [False, True])
def test_unknown_columns_are_not_stored_and_neighbours_stay(position: int, nested: bool) -> None:
    fields = [NestedField(1, "a", IntegerType(), required=False), NestedField(2, "b", StringType(), required=False)]
    columns: list[Any] = [pa.array([1, None], pa.int32()), pa.array(["x", "y"])]
    fields.insert(position, UNKNOWN)
    columns.insert(position, pa.nulls(2))
    schema = Schema(*fields)
    expected: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
    if nested:
        schema = Schema(NestedField(10, "s", StructType(*fields), required=False))
        names = [field.name for field in fields]
        columns = [pa.StructArray.from_arrays(columns, names, mask=pa.array([False, True]))]
        expected = [{"s": {"a": 1, "b": "x"}}, {"s": None}]
    assert pq.read_table(io.BytesIO(write_bytes(schema, *columns))).to_pylist() == expected


@pytest.mark.parametrize(
    ("kind", "complaint"),
    [
        (UnknownType(), "the schema has no column"),
        (StructType(UNKNOWN), "struct 'a' has no column"),
        (ListType(2, UnknownType(), element_required=False), "the elements of 'a'"),
        (MapType(2, StringType(), 3, UnknownType(), value_required=False), "the values of 'a'"),
    ],
)
def test_what_cannot_be_stored_is_refused(kind: IcebergType, complaint: str) -> None:
    with pytest.raises(UnsupportedError, match=complaint):
        written(Schema(NestedField(1, "a", kind, required=False)), [])


def test_the_footer_holds_the_schema_and_the_callers_pairs_and_no_arrow_schema() -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), required=False, doc="a number"), schema_id=7)
    data = write_bytes(
        schema, pa.array([1], pa.int32()), metadata={"owner": "tests", "größe": "ü", "iceberg.schema": "not this"}
    )
    metadata = key_values(data)
    assert set(metadata) == {b"owner", "größe".encode(), b"iceberg.schema"}
    assert metadata["größe".encode()] == "ü".encode()
    assert Schema.model_validate_json(metadata[b"iceberg.schema"]) == schema


def test_every_chunk_has_a_page_index_and_every_page_a_checksum() -> None:
    schema = Schema(
        NestedField(1, "a", IntegerType(), required=False), NestedField(2, "b", StringType(), required=False)
    )
    data = write_bytes(schema, pa.array(range(100), pa.int32()), pa.array([str(i) for i in range(100)]))
    group = metadata_of(data).row_group(0)
    for i in range(2):
        assert group.column(i).has_offset_index
        assert group.column(i).has_column_index
        assert all(4 in page for page in data_pages(data, group.column(i)))


def test_the_result_describes_the_file() -> None:
    rows = 1000
    batch = pa.RecordBatch.from_pylist(
        [{"id": i, "people": [{"name": str(i)}], "scores": [], "place": None} for i in range(rows)]
    )
    schema = Schema(*NESTED.fields[:2], NESTED.fields[3])
    batch = batch.select([0, 1, 3])
    batch = pa.RecordBatch.from_arrays(
        [batch[0], batch[1], pa.nulls(rows, pa.struct([("lat", pa.float64())]))], ["a", "b", "c"]
    )
    data, result = written(schema, [batch], properties={"write.parquet.row-group-limit": "400"})
    footer = metadata_of(data)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [400, 400, 200]
    assert (result.location, result.size_bytes, result.row_count) == ("<memory>", len(data), rows)
    assert result.column_sizes == {
        field_id: sum(group.column(i).total_compressed_size for group in groups)
        for i, field_id in enumerate([7, 4, 21])
    }
    starts = [min(filter(None, (c.dictionary_page_offset, c.data_page_offset))) for c in (g.column(0) for g in groups)]
    assert result.split_offsets == tuple(starts)
    assert list(starts) == sorted(set(starts))
    assert starts[-1] < len(data)
    assert open_bytes(data).split_offsets == result.split_offsets
