"""Names and ids in Lance files.

Ids are field metadata at every level, under the key that Arrow's Parquet reader and pyiceberg use
(``PARQUET:field_id``). The whole Iceberg schema, docs and defaults included, is the file's metadata
``iceberg.schema``. Every Iceberg type has a type in Lance; columns of type unknown are not stored.

Lance takes neither names with dots nor empty ones. A dot is stored as ``_x2E``, as Java's writers do it elsewhere, and
an empty name as ``_``; ids find the columns.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from formatkit.batches.arrow.file_schema import without_unknown
from formatkit.errors import UnsupportedError

__all__ = ["ICEBERG_SCHEMA", "stored_schema"]

ICEBERG_SCHEMA = "iceberg.schema"


def stored_schema(schema: Schema) -> Schema:
    """What a file stores of `schema`, under which names; raises `UnsupportedError` if that is nothing."""
    stored = _renamed(without_unknown(schema).fields)
    if not stored:
        raise UnsupportedError("the schema has no column that Lance can store; it needs at least one of a known type")
    return Schema(*stored)


def _renamed(fields: Iterable[NestedField]) -> list[NestedField]:
    renamed: dict[str, NestedField] = {}
    for field in fields:
        name = field.name.replace(".", "_x2E") or "_"
        while name in renamed:
            name += "_"
        renamed[name] = field.model_copy(update={"name": name, "field_type": _type(field.field_type)})
    return list(renamed.values())


def _type(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(*_renamed(kind.fields))
        case ListType():
            return ListType(kind.element_id, _type(kind.element_type), kind.element_required)
        case MapType():
            key, value = _type(kind.key_type), _type(kind.value_type)
            return MapType(kind.key_id, key, kind.value_id, value, kind.value_required)
    return kind
