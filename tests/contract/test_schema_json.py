"""Schemas as JSON, with the types and defaults that pyiceberg cannot load."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
    UUIDType,
)

from formatkit.contract import VariantType, schema_from_json, schema_to_json
from formatkit.contract.values import absent_value
from formatkit.errors import SchemaResolutionError
from formatkit.tck.histories import schemas

EVERYTHING = Schema(
    NestedField(1, "v", VariantType(), required=True, doc="anything"),
    NestedField(2, "l", ListType(3, VariantType(), element_required=False)),
    NestedField(4, "m", MapType(5, StringType(), 6, VariantType(), value_required=True)),
    NestedField(7, "s", StructType(NestedField(8, "v", VariantType()), NestedField(9, "f", FixedType(4)))),
    NestedField(10, "u", UnknownType()),
    NestedField(11, "g", GeometryType("srid:4326")),
    NestedField(12, "h", GeographyType("EPSG:4326", "karney")),
    NestedField(13, "n", TimestamptzNanoType()),
    schema_id=3,
    identifier_field_ids=[],
)


def one_field(kind: Any, **attributes: Any) -> dict[str, Any]:
    field = {"id": 1, "name": "a", "required": False, "type": kind} | attributes
    return {"type": "struct", "schema-id": 0, "fields": [field]}


def test_every_type_comes_back() -> None:
    again = schema_from_json(schema_to_json(EVERYTHING))
    assert again == EVERYTHING
    assert again.schema_id == 3
    assert again.fields[0].doc == "anything"


@given(schemas())
def test_what_pyiceberg_writes_is_read_and_the_other_way_round(schema: Schema) -> None:
    assert schema_from_json(schema.model_dump_json()) == schema
    assert Schema.model_validate_json(schema_to_json(schema)) == schema


def test_identifiers_are_kept() -> None:
    schema = Schema(NestedField(1, "a", IntegerType(), required=True), identifier_field_ids=[1])
    assert schema_from_json(schema_to_json(schema)).identifier_field_ids == [1]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("geometry", GeometryType()),
        ("geometry(srid:4326)", GeometryType("srid:4326")),
        ("geometry( 'EPSG:3857' )", GeometryType("EPSG:3857")),
        ("Geometry(EPSG:3857)", GeometryType("EPSG:3857")),
        ("geography", GeographyType()),
        ("geography(srid:4326)", GeographyType("srid:4326")),
        ("geography(srid:4326, karney)", GeographyType("srid:4326", "karney")),
        ("geography('srid:4326', 'thomas')", GeographyType("srid:4326", "thomas")),
        ("variant", VariantType()),
        ("unknown", UnknownType()),
        ("decimal(9,2)", DecimalType(9, 2)),
        ("fixed[16]", FixedType(16)),
    ],
)
def test_types_are_read_in_every_spelling(text: str, kind: IcebergType) -> None:
    assert schema_from_json(one_field(text)).fields[0].field_type == kind


@pytest.mark.parametrize(
    ("kind", "stored", "default", "internal"),
    [
        ("timestamp_ns", "2021-02-03T04:05:06.123456789", 1612325106123456789, 1612325106123456789),
        ("timestamptz_ns", "1969-12-31T23:59:59.999999999+00:00", -1, -1),
        ("timestamp", "2021-02-03T04:05:06.123456", datetime(2021, 2, 3, 4, 5, 6, 123456), 1612325106123456),
        ("date", "1970-01-02", date(1970, 1, 2), 1),
        ("time", "01:00:00", time(1), 3_600_000_000),
        ("decimal(9, 2)", "1.20", Decimal("1.20"), Decimal("1.20")),
        ("uuid", "00000000-0000-0000-0000-000000000003", UUID(int=3), UUID(int=3).bytes),
        ("fixed[2]", "00ff", b"\x00\xff", b"\x00\xff"),
        ("binary", "00ff", b"\x00\xff", b"\x00\xff"),
        ("string", "a", "a", "a"),
        ("boolean", False, False, False),
        ({"type": "list", "element-id": 2, "element": "date", "element-required": False}, ["1970-01-02", None],
         (date(1970, 1, 2), None), [1, None]),
        ({"type": "map", "key-id": 2, "key": "string", "value-id": 3, "value": "uuid", "value-required": False},
         {"keys": ["a"], "values": ["00000000-0000-0000-0000-000000000003"]}, (("a", UUID(int=3)),),
         [("a", UUID(int=3).bytes)]),
        ({"type": "struct", "fields": [{"id": 2, "name": "x", "required": False, "type": "timestamp_ns",
                                        "initial-default": "1970-01-01T00:00:00.000000005"}]}, {}, (5,), (5,)),
    ],
    ids=str,
)  # fmt: skip
def test_defaults_of_every_type_are_read_and_written(kind: Any, stored: Any, default: Any, internal: Any) -> None:
    schema = schema_from_json(one_field(kind, **{"initial-default": stored, "write-default": stored}))
    field = schema.fields[0]
    assert field.initial_default == field.write_default == default
    assert absent_value(field, {}) == internal
    assert schema_from_json(schema_to_json(schema)) == schema
    for copied in (copy.deepcopy(schema), pickle.loads(pickle.dumps(schema))):
        assert copied.fields[0].initial_default == default


def test_nanoseconds_are_written_as_the_spec_spells_them() -> None:
    moments = {"timestamp_ns": "2021-02-03T04:05:06.000000789", "timestamptz_ns": "1969-12-31T23:59:59.999999999+00:00"}
    for kind, moment in moments.items():
        written = json.loads(schema_to_json(schema_from_json(one_field(kind, **{"initial-default": moment}))))
        assert written["fields"][0]["initial-default"] == moment


def test_a_date_that_was_promoted_keeps_its_default() -> None:
    field = NestedField(1, "a", TimestampNanoType()).model_copy(update={"initial_default": datetime(2021, 1, 1)})
    written = json.loads(schema_to_json(Schema(field)))
    assert written["fields"][0]["initial-default"] == "2021-01-01T00:00:00.000000000"


@pytest.mark.parametrize("kind", ["variant", "unknown", "geometry", "geography"])
def test_types_without_order_have_no_default(kind: str) -> None:
    with pytest.raises(SchemaResolutionError, match="can only be null"):
        schema_from_json(one_field(kind, **{"initial-default": "x"}))
    assert schema_from_json(one_field(kind, **{"initial-default": None})).fields[0].initial_default is None


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "{}",
        '{"fields": 5}',
        one_field("varchar"),
        one_field("variants"),
        one_field({"type": "set"}),
        one_field({"type": "list"}),
        one_field("int", **{"initial-default": "x"}),
        one_field("timestamp_ns", **{"initial-default": "yesterday"}),
        one_field("decimal(9, 2)", **{"initial-default": "many"}),
        one_field("int") | {"identifier-field-ids": [9]},
        {"fields": [{"id": 1}]},
    ],
    ids=str,
)
def test_what_is_no_schema_is_refused(document: Any) -> None:
    with pytest.raises(SchemaResolutionError):
        schema_from_json(document)


def test_the_type_variant_is_one_object_and_can_be_pickled() -> None:
    assert VariantType() is VariantType()
    assert VariantType() != UnknownType()
    assert str(VariantType()) == "variant"
    assert VariantType().minimum_format_version() == 3
    again = pickle.loads(pickle.dumps(EVERYTHING))
    assert again == EVERYTHING
    assert isinstance(again.find_type("v"), VariantType)


def test_other_types_are_still_those_of_pyiceberg() -> None:
    kinds = [TimeType(), TimestampType(), BinaryType(), UUIDType(), DateType(), IntegerType()]
    schema = Schema(*(NestedField(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)))
    assert schema_from_json(schema_to_json(schema)) == schema
