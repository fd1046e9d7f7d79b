"""The types that Avro has no word for, from the Iceberg schema that writers keep in the header."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import index_by_id
from pyiceberg.types import GeographyType, GeometryType, IcebergType

from formatkit.contract.schema_json import schema_from_json
from formatkit.errors import SchemaResolutionError

__all__ = ["stored_types"]

_KEY = "iceberg.schema"


def stored_types(metadata: Mapping[str, bytes]) -> Mapping[int, IcebergType]:
    """The geometry and geography columns by id; none if there is no such schema or it is not understood."""
    try:
        fields = index_by_id(schema_from_json(metadata[_KEY]))
    except (KeyError, SchemaResolutionError, ValidationError):
        return {}
    kinds = {field_id: field.field_type for field_id, field in fields.items()}
    return {field_id: kind for field_id, kind in kinds.items() if isinstance(kind, GeometryType | GeographyType)}
