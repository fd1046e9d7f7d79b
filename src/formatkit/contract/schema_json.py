"""Iceberg schemas as JSON, with every type and default of the spec. pyiceberg lacks some of them.

It has no variant, reads no geometry as the spec spells it, and no defaults of timestamps in nanoseconds, lists, maps
and structs. Schemas that it can read are read here into equal objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from pyiceberg.conversions import to_json
from pyiceberg.schema import Schema
from pyiceberg.types import (
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
    UUIDType,
)

from formatkit.contract.fields import MAX_SCHEMA_DEPTH, too_deep
from formatkit.contract.values import internal_value
from formatkit.contract.variant import VariantType
from formatkit.errors import SchemaResolutionError, UnsupportedError

__all__ = ["check_json_depth", "schema_from_json", "schema_to_json"]

_GEOMETRY = re.compile(r"""geometry(?:\s*\(\s*['"]?([^'"]+?)['"]?\s*\))?""", re.IGNORECASE)
_GEOGRAPHY = re.compile(
    r"""geography(?:\s*\(\s*['"]?([^'",]+?)['"]?\s*(?:,\s*['"]?([^'",]+?)['"]?\s*)?\))?""", re.IGNORECASE
)
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_WITHOUT_DEFAULT = (VariantType, UnknownType, GeometryType, GeographyType)
_NANOS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def schema_from_json(source: str | bytes | Mapping[str, Any]) -> Schema:
    """Read a schema, given as text or as what JSON makes of it.

    Raises:
        SchemaResolutionError: It is not the JSON of a schema, or has a type that Iceberg lacks.
        UnsupportedError: It has too many levels.
    """
    try:
        document = source if isinstance(source, Mapping) else json.loads(source)
        check_json_depth(document)
        return Schema(
            *(_read_field(field) for field in document["fields"]),
            schema_id=document.get("schema-id", 0),
            identifier_field_ids=document.get("identifier-field-ids") or [],
        )
    except (SchemaResolutionError, UnsupportedError):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        message = f"the JSON of an Iceberg schema cannot be read: {type(error).__name__}: {error}"
        raise SchemaResolutionError(message) from error


def check_json_depth(schema: Any) -> None:
    """Refuse a schema with too many levels before anything follows them; what is no schema is not looked into."""
    levels, nodes = -1, [schema]
    while nodes:
        levels += 1
        if levels > MAX_SCHEMA_DEPTH:
            raise too_deep()
        nodes = [inner for node in nodes if isinstance(node, Mapping) for inner in _inner_types(node)]


def _inner_types(node: Mapping[str, Any]) -> list[Any]:
    fields = node.get("fields")
    of_fields = [each.get("type") for each in fields if isinstance(each, Mapping)] if isinstance(fields, list) else []
    return [*of_fields, *(node[name] for name in ("element", "key", "value") if name in node)]


def schema_to_json(schema: Schema) -> str:
    """Write a schema as the spec spells it."""
    document: dict[str, Any] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        document["identifier-field-ids"] = schema.identifier_field_ids
    return json.dumps(document | {"fields": [_written_field(field) for field in schema.fields]})


def _read_field(node: Mapping[str, Any]) -> NestedField:
    kind = _read_type(node["type"])
    field = NestedField(node["id"], node["name"], kind, required=node["required"], doc=node.get("doc"))
    defaults = {
        attribute: _read_default(field, node[key])
        for attribute, key in (("initial_default", "initial-default"), ("write_default", "write-default"))
        if node.get(key) is not None
    }
    # Copied, because the model itself would refuse what it cannot read from JSON.
    return field.model_copy(update=defaults) if defaults else field


def _read_type(node: Any) -> IcebergType:
    if isinstance(node, str):
        return _read_primitive(node)
    match node["type"]:
        case "struct":
            return StructType(*(_read_field(field) for field in node["fields"]))
        case "list":
            return ListType(node["element-id"], _read_type(node["element"]), element_required=node["element-required"])
        case "map":
            key, value = _read_type(node["key"]), _read_type(node["value"])
            return MapType(node["key-id"], key, node["value-id"], value, value_required=node["value-required"])
    raise SchemaResolutionError(f"Iceberg has no type {node['type']!r}")


def _read_primitive(text: str) -> IcebergType:
    if text == "variant":
        return VariantType()
    if match := _GEOMETRY.fullmatch(text):
        return GeometryType(*filter(None, match.groups()))
    if match := _GEOGRAPHY.fullmatch(text):
        return GeographyType(*filter(None, match.groups()))
    try:
        return NestedField(0, "", text).field_type
    except ValueError:
        raise SchemaResolutionError(f"Iceberg has no type {text!r}") from None


def _read_default(field: NestedField, value: Any) -> Any:
    if isinstance(field.field_type, _WITHOUT_DEFAULT):
        raise SchemaResolutionError(f"field {field.name!r} is {field.field_type}, whose default can only be null")
    default = _read_value(field.field_type, value)
    internal_value(field.field_type, default)
    return default


def _read_value(kind: IcebergType, value: Any) -> Any:
    """The value, which is hashable, because fields with defaults are."""
    if value is None:
        return None
    match kind:
        case StructType():
            return tuple(_read_member(field, value) for field in kind.fields)
        case ListType():
            return tuple(_read_value(kind.element_type, element) for element in value)
        case MapType():
            keys = [_read_value(kind.key_type, key) for key in value["keys"]]
            return tuple(zip(keys, (_read_value(kind.value_type, item) for item in value["values"]), strict=True))
        case TimestampNanoType() | TimestamptzNanoType():
            return _nanoseconds(value) if isinstance(value, str) else value
    return NestedField(0, "", kind, initial_default=value).initial_default


def _read_member(field: NestedField, struct: Mapping[str, Any]) -> Any:
    key = str(field.field_id)
    return _read_value(field.field_type, struct[key]) if key in struct else field.initial_default


def _nanoseconds(text: str) -> int:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise SchemaResolutionError(f"{text!r} is not a timestamp as Iceberg writes it")
    seconds, fraction, zone = match.groups()
    moment = datetime.fromisoformat(seconds + (zone or "+00:00"))
    return (moment - _EPOCH) // timedelta(seconds=1) * _NANOS + int((fraction or "").ljust(9, "0"))


def _written_field(field: NestedField) -> dict[str, Any]:
    node = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": _written_type(field.field_type),
    }
    if field.doc is not None:
        node["doc"] = field.doc
    for key, default in (("initial-default", field.initial_default), ("write-default", field.write_default)):
        if default is not None:
            node[key] = _written_value(field.field_type, default)
    return node


def _written_type(kind: IcebergType) -> Any:
    match kind:
        case StructType():
            return {"type": "struct", "fields": [_written_field(field) for field in kind.fields]}
        case ListType():
            element = _written_type(kind.element_type)
            required = kind.element_required
            return {"type": "list", "element-id": kind.element_id, "element": element, "element-required": required}
        case MapType():
            return {
                "type": "map",
                "key-id": kind.key_id,
                "key": _written_type(kind.key_type),
                "value-id": kind.value_id,
                "value": _written_type(kind.value_type),
                "value-required": kind.value_required,
            }
        case GeometryType():
            return "geometry" if kind == GeometryType() else f"geometry({kind.crs})"
        case GeographyType():
            return "geography" if kind == GeographyType() else f"geography({kind.crs}, {kind.algorithm})"
    return str(kind)


def _written_value(kind: IcebergType, value: Any) -> Any:
    if value is None:
        return None
    match kind:
        case StructType():
            members = zip(kind.fields, internal_value(kind, value), strict=True)
            return {str(field.field_id): _written_value(field.field_type, member) for field, member in members}
        case ListType():
            return [_written_value(kind.element_type, element) for element in value]
        case MapType():
            pairs = internal_value(kind, value)
            return {
                "keys": [_written_value(kind.key_type, key) for key, _ in pairs],
                "values": [_written_value(kind.value_type, item) for _, item in pairs],
            }
        case TimestampNanoType() | TimestamptzNanoType():
            return _written_nanoseconds(internal_value(kind, value), zoned=isinstance(kind, TimestamptzNanoType))
        case UUIDType():
            return str(UUID(bytes=internal_value(kind, value)))
        case PrimitiveType():
            return to_json(kind, value)
    raise SchemaResolutionError(f"{value!r} cannot be written as the default of {kind}")


def _written_nanoseconds(nanos: int, *, zoned: bool) -> str:
    seconds, fraction = divmod(nanos, _NANOS)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    return f"{moment}.{fraction:09d}{'+00:00' if zoned else ''}"
