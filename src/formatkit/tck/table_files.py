"""Small files of tables, written down as rows, with the same fields at any level of nesting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, Transform
from pyiceberg.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)

from formatkit.tck.literals import internal
from formatkit.tck.naive import File, Row

__all__ = ["ID", "PARTITION", "PLACES", "file_of", "partitioned_by", "placed", "placed_file"]

ID = NestedField(1, "id", LongType(), required=True)
PLACES = ("top level", "struct", "list", "map")
PARTITION = 1000
"""The id of the one field of specs by `partitioned_by`."""

_HOLDER, _INSIDE, _VALUE = 50, 51, 52


def file_of(schema: Schema, *rows: Sequence[Any], **facts: Any) -> File:
    """A file with these rows. Leaves may be given as Python's own values; structs are given by field id."""
    return File(schema=schema, rows=[_row(schema, row) for row in rows], **facts)


def _row(schema: Schema, values: Sequence[Any]) -> Row:
    return {
        field.field_id: internal(value, field.field_type) if isinstance(field.field_type, PrimitiveType) else value
        for field, value in zip(schema.fields, values, strict=True)
    }


def placed(place: str, *fields: NestedField, version: int = 0) -> Schema:
    """The fields after `ID` at the top level, or in a column `x`: a struct, a list of structs, a map to structs."""
    if place == "top level":
        return Schema(ID, *fields, schema_id=version)
    struct = StructType(*fields)
    holders: dict[str, IcebergType] = {
        "struct": struct,
        "list": ListType(_INSIDE, struct, element_required=False),
        "map": MapType(_INSIDE, StringType(), _VALUE, struct, value_required=False),
    }
    return Schema(ID, NestedField(_HOLDER, "x", holders[place]), schema_id=version)


def placed_file(place: str, schema: Schema, structs: Sequence[Row | None], **facts: Any) -> File:
    """A file of a `placed` schema: the structs at their place, among null and empty lists and maps."""
    match place:
        case "top level":
            rows = [(number, *struct.values()) for number, struct in enumerate(filter(None, structs))]
        case "struct":
            rows = list(enumerate(structs))
        case "list":
            rows = [(0, None), (1, []), (2, list(structs)), (3, list(structs[:1]))]
        case _:
            rows = [(0, None), (1, []), (2, [(f"key {number}", struct) for number, struct in enumerate(structs)])]
    return file_of(schema, *rows, **facts)


def partitioned_by(source: int, transform: Transform[Any, Any] | None = None, *, spec_id: int = 0) -> PartitionSpec:
    """A spec with one field, an identity unless said otherwise."""
    return PartitionSpec(
        PartitionField(source, PARTITION + spec_id, transform or IdentityTransform(), f"part_{spec_id}"),
        spec_id=spec_id,
    )
