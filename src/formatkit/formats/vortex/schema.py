"""The columns of Vortex files: in Arrow's terms, and as an Iceberg schema.

Vortex keeps names, types and nullability, and drops everything else that a schema says. Ids, and types that Vortex
lacks, are in the Iceberg schema that the file's seal holds. What is stored in place of them:

    timestamp, all four   64-bit integers: Vortex fails for moments after 9999-12-30, which tables use for "never".
                          With the property ``write.vortex.native-timestamps`` Vortex's own type, for its other readers
    fixed(n)              binary
    geometry, geography   binary
    variant               a struct of the binaries metadata and value
    unknown               nothing; inside lists and maps Vortex's null type
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    FixedType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

from formatkit.batches.arrow.file_schema import file_schema
from formatkit.batches.arrow.types import ArrowType, arrow_schema, arrow_type
from formatkit.contract.schema_json import schema_from_json
from formatkit.contract.seal import Seal
from formatkit.errors import SchemaResolutionError, UnsupportedError
from formatkit.formats.vortex.failures import corrupt

__all__ = ["METADATA", "SCHEMA", "Columns", "columns_of", "encoded_schema", "is_encoded", "logical_type"]

SCHEMA, METADATA = "iceberg.schema", "metadata"
"""The facts in a seal: the Iceberg schema as JSON, and the key-value pairs of the file."""

_STORED_OTHERWISE = (FixedType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What a file holds.

    Attributes:
        arrow: The columns as they are decoded: without views, list elements by the name that Iceberg gives them.
        schema: The same as Iceberg's schema.
        unreadable: Why a column cannot be read, by its id.
        metadata: The key-value pairs of the file.
    """

    arrow: pa.Schema
    schema: Schema
    unreadable: Mapping[int, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)


def columns_of(dtype: Any, seal: Seal | None, location: str) -> Columns:
    """The columns of a file, given Vortex's type of its rows."""
    if not hasattr(dtype, "names") or dtype.is_nullable():
        message = f"{location}: holds values of type {dtype}, not rows: only Vortex files of structs can be read"
        raise UnsupportedError(message, location=location)
    arrow = pa.schema([_rebuilt(found, _without_views) for found in dtype.to_arrow_schema()])
    if seal is None:
        foreign = file_schema(arrow, location)
        return Columns(arrow=arrow, schema=foreign.schema, unreadable=foreign.unreadable)
    try:
        schema = schema_from_json(seal.facts[SCHEMA])
        metadata = dict(seal.facts[METADATA])
    except (KeyError, TypeError, ValueError, SchemaResolutionError) as error:
        raise corrupt(location, f"the schema in its seal cannot be read: {error}") from error
    if not any(encoded_schema(schema, native_timestamps=native).equals(arrow) for native in (False, True)):
        raise corrupt(location, "the schema in its seal is not that of its columns")
    return Columns(arrow=arrow, schema=schema, metadata=metadata)


def encoded_schema(schema: Schema, *, native_timestamps: bool) -> pa.Schema:
    """The Arrow schema that is handed to Vortex for batches of `schema`."""
    leaf = _with_native_timestamps if native_timestamps else _with_integer_timestamps
    return pa.schema([_rebuilt(found, leaf) for found in arrow_schema(schema)])


def is_encoded(found: ArrowType, kind: IcebergType) -> bool:
    """Whether a leaf has one of the forms in which files store its type."""
    canonical = arrow_type(kind)
    return bool(found in (_with_native_timestamps(canonical), _with_integer_timestamps(canonical)))


def logical_type(found: ArrowType, kind: IcebergType) -> ArrowType:
    """What a decoded column has to be cast to; nothing is cast but what has another form in the file."""
    match kind:
        case StructType(fields=fields):
            children = [found.field(i) for i in range(found.num_fields)]
            pairs = zip(children, fields, strict=True)
            return pa.struct([child.with_type(logical_type(child.type, field.field_type)) for child, field in pairs])
        case ListType(element_type=element) if pa.types.is_list(found):
            return pa.list_(found.value_field.with_type(logical_type(found.value_type, element)))
        case MapType(key_type=key, value_type=value):
            key_field = found.key_field.with_type(logical_type(found.key_type, key))
            return pa.map_(key_field, found.item_field.with_type(logical_type(found.item_type, value)))
    return arrow_type(kind) if isinstance(kind, _STORED_OTHERWISE) and is_encoded(found, kind) else found


def _with_native_timestamps(found: ArrowType) -> ArrowType:
    return pa.binary() if pa.types.is_fixed_size_binary(found) else found


def _with_integer_timestamps(found: ArrowType) -> ArrowType:
    return pa.int64() if pa.types.is_timestamp(found) else _with_native_timestamps(found)


def _without_views(found: ArrowType) -> ArrowType:
    # Small forms cost Vortex nothing; views would have to be copied afterwards.
    if pa.types.is_string_view(found):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(found) else found


def _rebuilt(field: Any, of_leaf: Callable[[ArrowType], ArrowType]) -> Any:
    """The field with other leaves, list elements by the name that Iceberg gives them."""
    found = field.type
    if pa.types.is_struct(found):
        return field.with_type(pa.struct([_rebuilt(found.field(i), of_leaf) for i in range(found.num_fields)]))
    if pa.types.is_list(found):
        return field.with_type(pa.list_(_rebuilt(found.value_field, of_leaf).with_name("element")))
    if pa.types.is_map(found):
        return field.with_type(pa.map_(_rebuilt(found.key_field, of_leaf), _rebuilt(found.item_field, of_leaf)))
    return field.with_type(of_leaf(found))
