"""The Avro schema that files store: types, names, ids and defaults as the specification and Java's writers say."""

from __future__ import annotations

import io
import json
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
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

from formatkit.contract.variant import VariantType
from formatkit.errors import ConfigurationError, UnsupportedError
from formatkit.formats.avro.write_schema import avro_schema, stored_schema
from support.avro_writing import encoded, payload, stored_rows, write_columns, written
from support.avro_writing import stored_schema as schema_of_file


def avro_fields(*fields: NestedField) -> list[dict[str, Any]]:
    avro = avro_schema(stored_schema(Schema(*fields)))
    assert (avro["type"], avro["name"]) == ("record", "table")
    fastavro.parse_schema(json.loads(json.dumps(avro)))
    return list(avro["fields"])


def long_of(logical: str, *, utc: bool) -> dict[str, Any]:
    return {"type": "long", "logicalType": logical, "adjust-to-utc": utc}


@pytest.mark.parametrize(
    ("kind", "avro"),
    [
        (BooleanType(), "boolean"),
        (IntegerType(), "int"),
        (LongType(), "long"),
        (FloatType(), "float"),
        (DoubleType(), "double"),
        (StringType(), "string"),
        (BinaryType(), "bytes"),
        (GeometryType(), "bytes"),
        (GeographyType(), "bytes"),
        (DateType(), {"type": "int", "logicalType": "date"}),
        (TimeType(), {"type": "long", "logicalType": "time-micros"}),
        (TimestampType(), long_of("timestamp-micros", utc=False)),
        (TimestamptzType(), long_of("timestamp-micros", utc=True)),
        (TimestampNanoType(), long_of("timestamp-nanos", utc=False)),
        (TimestamptzNanoType(), long_of("timestamp-nanos", utc=True)),
        (UUIDType(), {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}),
        (FixedType(7), {"type": "fixed", "name": "fixed_7", "size": 7}),
        (
            DecimalType(9, 2),
            {"type": "fixed", "name": "decimal_9_2", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        ),
    ],
    ids=str,
)
def test_flat_types_are_spelled_as_in_the_specification(kind: IcebergType, avro: Any) -> None:
    required, optional = avro_fields(NestedField(1, "a", kind, required=True), NestedField(2, "b", kind))
    again = avro["name"] if isinstance(avro, dict) and "name" in avro else avro
    assert required == {"name": "a", "type": avro, "field-id": 1}
    assert optional == {"name": "b", "type": ["null", again], "default": None, "field-id": 2}


def test_ids_are_stored_at_every_level() -> None:
    inner = StructType(NestedField(4, "x", IntegerType(), required=False))
    (field,) = avro_fields(NestedField(1, "a", ListType(2, ListType(3, inner, True), False), required=True))
    (x,) = field["type"]["items"][1]["items"]["fields"]
    assert field["type"]["element-id"] == 2
    assert field["type"]["items"][1]["element-id"] == 3
    assert field["type"]["items"][1]["items"]["name"] == "r3"
    assert x == {"name": "x", "type": ["null", "int"], "default": None, "field-id": 4}


def test_maps_with_text_keys_are_maps() -> None:
    (field,) = avro_fields(NestedField(1, "m", MapType(2, StringType(), 3, LongType(), value_required=False)))
    assert field["type"][1] == {"type": "map", "values": ["null", "long"], "key-id": 2, "value-id": 3}


def test_maps_with_other_keys_are_arrays_of_pairs() -> None:
    key = DecimalType(4, 0)
    (field,) = avro_fields(NestedField(1, "m", MapType(2, key, 3, key, value_required=False), required=True))
    assert (field["type"]["type"], field["type"]["logicalType"]) == ("array", "map")
    entry = field["type"]["items"]
    assert (entry["name"], [each["name"] for each in entry["fields"]]) == ("k2_v3", ["key", "value"])
    assert [each["field-id"] for each in entry["fields"]] == [2, 3]
    assert entry["fields"][1]["type"] == ["null", "decimal_4_0"]


def test_variants_are_marked_and_their_parts_have_no_ids() -> None:
    (field,) = avro_fields(NestedField(5, "v", VariantType(), required=False))
    parts = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
    assert field["type"] == ["null", {"type": "record", "name": "r5", "fields": parts, "logicalType": "variant"}]


def test_unknown_columns_are_left_out_unless_they_hold_a_place() -> None:
    fields = avro_fields(
        NestedField(1, "u", UnknownType(), required=False),
        NestedField(2, "l", ListType(3, UnknownType(), element_required=False), required=True),
        NestedField(4, "s", StructType(NestedField(5, "u", UnknownType(), required=False)), required=True),
    )
    assert [field["name"] for field in fields] == ["l", "s"]
    assert fields[0]["type"] == {"type": "array", "items": "null", "element-id": 3}
    assert fields[1]["type"]["fields"] == [{"name": "u", "type": "null", "default": None, "field-id": 5}]


def test_keys_of_no_known_type_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="keys of 'm'"):
        avro_fields(NestedField(1, "m", MapType(2, UnknownType(), 3, LongType()), required=False))


@pytest.mark.parametrize(
    ("name", "avro_name"),
    [
        ("plain_1", "plain_1"),
        ("1st", "_1st"),
        ("a.b c", "a_x2Eb_x20c"),
        ("ü", "ü"),
        ("\U0001f600", "_xD83D_xDE00"),
        ("-", "_x2D"),
    ],
)
def test_names_are_made_legal_and_kept_beside(name: str, avro_name: str) -> None:
    (field,) = avro_fields(NestedField(1, name, LongType(), required=True))
    assert field["name"] == avro_name
    assert field.get("iceberg-field-name", avro_name) == name


def test_names_that_become_equal_are_told_apart() -> None:
    names = ["a b", "a_x20b", "a_x20b_"]
    fields = avro_fields(*(NestedField(i, name, LongType()) for i, name in enumerate(names)))
    assert [field["name"] for field in fields] == ["a_x20b", "a_x20b_", "a_x20b__"]
    assert [field.get("iceberg-field-name", field["name"]) for field in fields] == names


def test_comments_are_kept() -> None:
    (field,) = avro_fields(NestedField(1, "a", LongType(), required=True, doc="what it is"))
    assert field["doc"] == "what it is"


@pytest.mark.parametrize(
    ("kind", "default", "avro"),
    [
        (IntegerType(), 7, 7),
        (BooleanType(), False, False),
        (StringType(), "x", "x"),
        (DoubleType(), 0.5, 0.5),
        (DateType(), date(1970, 1, 3), 2),
        (BinaryType(), b"\x00\xff", "\u0000\u00ff"),
        (UUIDType(), UUID(int=65), "\0" * 15 + "A"),
        (DecimalType(4, 2), Decimal("-0.01"), "\u00ff\u00ff"),
        (DecimalType(38, 0), Decimal(10**37 + 1), (10**37 + 1).to_bytes(16, "big").decode("latin-1")),
    ],
    ids=str,
)
def test_defaults_are_spelled_in_avro_and_put_their_branch_first(kind: IcebergType, default: Any, avro: Any) -> None:
    required, optional = avro_fields(
        NestedField(1, "a", kind, required=True, initial_default=default),
        NestedField(2, "b", kind, required=False, initial_default=default),
    )
    assert required["default"] == optional["default"] == avro
    assert optional["type"][1] == "null"


def test_rows_of_a_column_with_a_default_use_its_branches() -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), required=False, initial_default=7))
    content = write_columns(schema, pa.array([1, None, 7], pa.int32()))
    assert payload(content) == encoded(schema_of_file(content), schema, [{1: 1}, {1: None}, {1: 7}])
    assert [row["a"] for row in stored_rows(content)] == [1, None, 7]


def test_the_header_holds_the_callers_pairs_and_the_iceberg_schema() -> None:
    schema = Schema(NestedField(1, "a b", LongType(), required=True), schema_id=3)
    batch = pa.record_batch({"a b": pa.array([1])})
    content, _ = written(schema, [batch], metadata={"who": "mé", "what": ""})
    metadata = fastavro.reader(io.BytesIO(content)).metadata
    assert (metadata["who"], metadata["what"], metadata["avro.codec"]) == ("mé", "", "deflate")
    assert Schema.model_validate_json(metadata["iceberg.schema"]) == schema
    assert json.loads(metadata["iceberg.schema"])["schema-id"] == 3


def test_keys_that_avro_reserves_are_refused() -> None:
    schema = Schema(NestedField(1, "a", LongType(), required=True))
    with pytest.raises(ConfigurationError, match=r"'avro\.codec' is reserved"):
        written(schema, [], metadata={"avro.codec": "null"})
