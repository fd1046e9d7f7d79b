"""The types that Avro has no word for, from the Iceberg schema that writers keep in the header."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pyiceberg.types import GeographyType, GeometryType, IcebergType

__all__ = ["stored_types"]

_KEY = "iceberg.schema"
_SPATIAL: TypeAdapter[GeometryType | GeographyType] = TypeAdapter(GeometryType | GeographyType)


def stored_types(metadata: Mapping[str, bytes]) -> Mapping[int, IcebergType]:
    """The geometry and geography columns by id; what is not there or not understood is left out."""
    try:
        schema = json.loads(metadata.get(_KEY, b"{}"))
    except (ValueError, RecursionError):
        return {}
    found = {}
    for field_id, text in _leaves(schema):
        try:
            found[field_id] = _SPATIAL.validate_python(text)
        except ValidationError:
            continue
    return found


def _leaves(kind: Any) -> Iterator[tuple[int, str]]:
    """The ids and spelled types of all fields of the two types, at any level."""
    match kind:
        case {"fields": [*fields]}:
            for each in fields:
                if isinstance(each, dict):
                    yield from _leaf(each.get("id"), each.get("type"))
        case {"element-id": field_id, "element": element}:
            yield from _leaf(field_id, element)
        case {"key-id": key_id, "key": key, "value-id": value_id, "value": value}:
            yield from _leaf(key_id, key)
            yield from _leaf(value_id, value)


def _leaf(field_id: Any, kind: Any) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str) and isinstance(field_id, int):
        if kind.startswith(("geometry", "geography")):
            yield field_id, kind
    else:
        yield from _leaves(kind)
